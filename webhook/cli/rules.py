"""`muster rules`: what can be found, and the page behind an ID that stands in an answer, for people without the sources."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer

from webhook.cli.options import Output, PolicyNames
from webhook.cli.policies import policies_from
from webhook.objects.words import nearest, plural
from webhook.policy.load import LoadedPolicies
from webhook.policy.match import any_glob
from webhook.policy.model import Exemption, LabelSelector, NamespaceScope
from webhook.reports.pages import FAMILIES, Page, all_pages, text
from webhook.verdict import Action

_ACTIONS = frozenset(str(action) for action in Action)
_ID = re.compile(r"was\d{3,}")
_WORD = re.compile(r"[\w.]+")


def rules(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID|NAME|WORD",
            help="IDs or names: print these pages; other words: list the rules that have all of them in ID, name or "
            "summary; none: list all",
        ),
    ] = None,
    policy: PolicyNames = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="in this namespace (its labels are not known)")
    ] = "",
    output: Output = "text",
) -> None:
    """List the rules, find some, or print their pages. With a policy: what it makes of each, and what it exempts.

    Exit 2: no such rule, or a policy that cannot be used.
    """
    everything = all_pages()
    named = _named(words or [], everything)
    pages = named or _found(words or [], everything)
    loaded, policy_name = policies_from(policy or [])
    view = PolicyView(loaded, namespace, datetime.now(UTC).date()) if policy else None
    if output == "json":
        document = {"policy": policy_name if policy else None, "rules": [_entry(page, view) for page in pages]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif named:
        print("\n".join(text(page, _notes(page, view)) for page in pages), end="")
    else:
        print("\n".join(_table(pages, view)))
        if words:
            print(f"{len(pages)} of {plural(len(everything), 'rule')}")


# ---- which ones ---------------------------------------------------------------------------------------------------
def _named(words: Sequence[str], pages: Sequence[Page]) -> list[Page]:
    """The pages that have these IDs or names, in their order; none where one of the words is neither."""
    by_word = {page.id.casefold(): page for page in pages} | {page.name.casefold(): page for page in pages}
    folded = [word.casefold() for word in words]
    if lost := [word for word, key in zip(words, folded, strict=True) if key not in by_word and _ID.fullmatch(key)]:
        # Another ID is no likely meaning of a mistyped one: its neighbours are about something else.
        _stop(*(f'there is no rule "{word}"; `muster rules` lists all' for word in lost))
    return [by_word[word] for word in folded] if all(word in by_word for word in folded) else []


def _found(words: Sequence[str], pages: Sequence[Page]) -> list[Page]:
    """The rules in whose line each word stands, or begins a word ("toler"). Whatever the case."""
    lines = {page.id: f"{page.id} {page.name} {page.summary}".casefold() for page in pages}
    having = {word: {key for key, line in lines.items() if _has(line, word.casefold())} for word in words}
    known = {part for line in lines.values() for part in _WORD.findall(line)} | {page.name for page in pages}
    faults = []
    for word, ids in having.items():
        if not ids:
            guess = nearest(word, known)
            hint = f'did you mean "{guess}"?' if guess else "`muster rules` lists all"
            faults.append(f'no rule has "{word}" in its ID, name or summary; {hint}')
    found = [page for page in pages if all(page.id in ids for ids in having.values())]
    if not found and not faults:
        faults = [f"no rule has all of {', '.join(words)}; each alone is in some"]
    if faults:
        _stop(*faults)
    return found


def _has(line: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}", line) is not None


def _stop(*faults: str) -> None:
    print("\n".join(faults), file=sys.stderr)
    raise typer.Exit(2)


# ---- what a policy makes of them ----------------------------------------------------------------------------------
class PolicyView:
    """A policy as it acts in a namespace ("": where no override reaches), on one day."""

    def __init__(self, loaded: LoadedPolicies, namespace: str, today: date) -> None:
        self.name = loaded.policy.metadata.name
        self._effective = loaded.effective(namespace, {})
        self._today = today
        overrides = [] if namespace else loaded.policy.spec.overrides
        # Others change who may use what, not what a rule does.
        self.overrides = [one for one in overrides if one.rules or one.mutations or one.action_max]
        exemptions = loaded.policy.spec.exemptions
        self._exemptions = [one for one in exemptions if not namespace or _may_hold(one.scope, namespace)]

    def action(self, page: Page) -> str:
        """What becomes of the page's default: an action, off or on. A rule whose gate nobody declares warns at most."""
        is_gated_off = page.gate is not None and self._effective.gate(page.gate) is False
        if page.default == "opt-in":
            return "on" if self._effective.mutation_enabled(page.id) and not is_gated_off else "off"
        action = self._asked(page)
        if action is None or is_gated_off:
            return "off"
        return str(action.at_most(Action.WARN) if self._lacks_gate(page) else action)

    def why(self, page: Page) -> str:
        """What the page's gate does to its action; "" for nothing."""
        action = self._asked(page)
        if page.gate is not None and self._effective.gate(page.gate) is False:
            return f"the policy declares the gate {page.gate} off"
        if action is Action.DENY and self._lacks_gate(page):
            return f"{action} once the policy declares the gate {page.gate}"
        return ""

    def exemptions(self, page: Page) -> list[Exemption]:
        """Those that name the rule. Ended ones, too: who asks why it acts again wants to see them."""
        return [one for one in self._exemptions if page.id in one.rules]

    def exemption_text(self, one: Exemption) -> str:
        when = f"exempt until {one.expires}" if self._today < one.expires else f"exemption ended on {one.expires}"
        kinds = ", ".join(one.kinds) or "every kind"
        names = "" if one.objects == ("*",) else " named " + " or ".join(f'"{name}"' for name in one.objects)
        return f'{when}: {kinds}{names} in {_scope_text(one.scope)} ("{one.name}" of {one.owner})'

    def is_over(self, one: Exemption) -> bool:
        return one.expires <= self._today

    def _asked(self, page: Page) -> Action | None:
        """Whatever the gate is."""
        return self._effective.action(page.id, Action(page.default) if page.default in _ACTIONS else None)

    def _lacks_gate(self, page: Page) -> bool:
        return page.gate is not None and self._effective.gate(page.gate) is None


def _may_hold(scope: NamespaceScope, namespace: str) -> bool:
    return any_glob(scope.namespaces, namespace) or scope.namespace_selector is not None


def _scope_text(scope: NamespaceScope) -> str:
    noun = "namespace" if len(scope.namespaces) == 1 else "namespaces"
    names = f"{noun} {', '.join(scope.namespaces)}" if scope.namespaces else ""
    selector = scope.namespace_selector
    labels = f"namespaces with labels {_selector_text(selector)}" if selector is not None else ""
    return " and ".join(part for part in (names, labels) if part) or "no namespace"


def _selector_text(selector: LabelSelector) -> str:
    """As `kubectl get -l` takes it."""
    words = {"In": "in", "NotIn": "notin"}
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for one in selector.match_expressions:
        if one.operator in words:
            parts.append(f"{one.key} {words[one.operator]} ({','.join(one.values)})")
        else:
            parts.append(one.key if one.operator == "Exists" else f"!{one.key}")
    return ",".join(parts) or "of any kind"


# ---- output -------------------------------------------------------------------------------------------------------
def _table(pages: Sequence[Page], view: PolicyView | None) -> list[str]:
    """A line each, under a line for each hundred. Never cut: a summary is longer than a narrow terminal, and is read."""
    width = max(len(page.name) for page in pages)
    lines: list[str] = []
    family = ""
    for page in pages:
        if page.family != family:
            family = page.family
            lines += ["", f"{family}xx {FAMILIES[family]}"] if lines else [f"{family}xx {FAMILIES[family]}"]
        action = page.default if view is None else view.action(page)
        lines.append(f"  {page.id}  {page.name:<{width}}  {action:<6}  {page.summary}")
        if view is not None:
            lines += [f"          {view.exemption_text(one)}" for one in view.exemptions(page)]
    lines += ["", *_beside(pages, view)]
    return [*lines, "muster rules WAS101 prints the page of a rule: why, and what to change"]


def _beside(pages: Sequence[Page], view: PolicyView | None) -> Iterator[str]:
    """What the actions above do not say: how many rules would deny, if the policy said of their gates that they are on;
    and where overrides act."""
    if view is not None and view.overrides:
        places = ", ".join(f'"{one.name}" in {_scope_text(one.scope)}' for one in view.overrides)
        yield f"overrides change some of this (--namespace shows it): {places}"
    waiting = [page for page in pages if view is not None and view.action(page) == "Warn" and view.why(page)]
    if view is not None and waiting:
        gates = ", ".join(dict.fromkeys(str(page.gate) for page in waiting))
        yield (
            f'{plural(len(waiting), "rule")} above would deny, and only warn because policy "{view.name}" does not declare '
            f"cluster.featureGates {gates}"
        )


def _notes(page: Page, view: PolicyView | None) -> list[str]:
    """What the policy makes of a rule, below its facts."""
    if view is None:
        return []
    why = view.why(page)
    first = f'In policy "{view.name}": {view.action(page)}' + (f" ({why})" if why else "")
    return [first, *(f"  {view.exemption_text(one)}" for one in view.exemptions(page))]


def _entry(page: Page, view: PolicyView | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": page.id,
        "name": page.name,
        "summary": page.summary,
        "default": page.default,
        "action": page.default if view is None else view.action(page),
        "facts": dict(page.facts),
        "page": page.body,
    }
    if view is not None:
        entry["exemptions"] = [
            {**one.model_dump(mode="json", by_alias=True), "ended": view.is_over(one)} for one in view.exemptions(page)
        ]
    return entry
