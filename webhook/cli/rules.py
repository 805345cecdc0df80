"""`muster rules`: what can be found, and the page behind an ID that stands in an answer, for people without the sources."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from webhook.cli.options import Output, PolicyNames
from webhook.cli.policies import policies_from
from webhook.objects.words import nearest
from webhook.policy.effective import EffectivePolicy
from webhook.reports.pages import FAMILIES, Page, all_pages, text
from webhook.verdict import Action

_ACTIONS = frozenset(str(action) for action in Action)


def rules(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[WAS101|FAULT]...", help="print these pages; none: list all")
    ] = None,
    policy: PolicyNames = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="in this namespace (its labels are not known)")
    ] = "",
    output: Output = "text",
) -> None:
    """List the rules, or print the pages of some. With a policy: what it makes of each, not the default.

    Exit 2: no such rule, or a policy that cannot be used.
    """
    pages = _chosen(ids or [])
    loaded, policy_name = policies_from(policy or [])
    effective = loaded.effective(namespace, {}) if policy else None
    if output == "json":
        document = {"policy": policy_name if policy else None, "rules": [_entry(page, effective) for page in pages]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif ids:
        print("\n".join(text(page) for page in pages), end="")
    else:
        print("\n".join(_table(pages, effective)))


def _chosen(words: Sequence[str]) -> list[Page]:
    """The pages of these IDs or names of faults, whatever their case; all of them for none."""
    pages = all_pages()
    by_word = {page.id.casefold(): page for page in pages} | {page.name.casefold(): page for page in pages}
    unknown = [word for word in words if word.casefold() not in by_word]
    for word in unknown:
        # Another ID is no likely meaning of a mistyped one: its neighbours are about something else.
        guess = nearest(word, [page.name for page in pages])
        hint = f'did you mean "{guess}"?' if guess else "`muster rules` lists all"
        print(f'there is no rule "{word}"; {hint}', file=sys.stderr)
    if unknown:
        raise typer.Exit(2)
    return [by_word[word.casefold()] for word in words] if words else list(pages)


def _table(pages: Sequence[Page], policy: EffectivePolicy | None) -> list[str]:
    """A line each, under a line for each hundred. Never cut: a summary is longer than a narrow terminal, and is read."""
    width = max(len(page.name) for page in pages)
    lines: list[str] = []
    family = ""
    for page in pages:
        if page.family != family:
            family = page.family
            lines += ["", f"{family}xx {FAMILIES[family]}"] if lines else [f"{family}xx {FAMILIES[family]}"]
        lines.append(f"  {page.id}  {page.name:<{width}}  {_action(page, policy):<6}  {page.summary}")
    return [*lines, "", "muster rules WAS101 prints the page of a rule: why, and what to change"]


def _entry(page: Page, policy: EffectivePolicy | None) -> dict[str, Any]:
    return {
        "id": page.id,
        "name": page.name,
        "summary": page.summary,
        "default": page.default,
        "action": _action(page, policy),
        "facts": dict(page.facts),
        "page": page.body,
    }


def _action(page: Page, policy: EffectivePolicy | None) -> str:
    """What the policy makes of the page's default: an action, off or on."""
    if policy is None:
        return page.default
    if page.default == "opt-in":
        return "on" if policy.mutation_enabled(page.id) else "off"
    action = policy.action(page.id, Action(page.default) if page.default in _ACTIONS else None)
    return "off" if action is None else str(action)
