"""The page of each ID that an answer of Muster may carry: of rules and mutations from their docstrings, and of the two
IDs that are no rule. `muster rules` prints them, docs/rules/ is made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook.mutations.catalogue import MUTATIONS
from webhook.mutations.meta import Mutation
from webhook.rules.catalogue import CATALOGUE
from webhook.rules.meta import ANY_KIND, Rule

FAMILIES: Mapping[str, str] = {
    "1": "Shape, minCount and barrier",
    "2": "References and claims",
    "3": "Namespaces, features, versions, ownership and writers",
    "4": "Tiers and quota",
    "5": "Topology and capacity",
    "9": "Mutations",
}

EVERY_KIND = "all that Muster reads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """default: Deny, Warn, Audit, off or opt-in. facts: what META says, as a small table. body: Markdown. gate: the feature
    gate without which it says nothing."""

    id: str
    name: str
    summary: str
    default: str
    facts: Mapping[str, str]
    body: str
    gate: str | None = None

    @property
    def title(self) -> str:
        return f"{self.id} {self.name}"

    @property
    def family(self) -> str:
        """A key of FAMILIES."""
        return self.id[3]


def all_pages() -> tuple[Page, ...]:
    """In the order of IDs."""
    pages = [*map(_of_rule, CATALOGUE), *map(_of_mutation, MUTATIONS), _UNREADABLE, _QUOTA]
    return tuple(sorted(pages, key=lambda page: page.id))


def markdown(page: Page) -> str:
    """As it stands in docs/rules/."""
    table = "\n".join(f"| {key} | {value} |" for key, value in page.facts.items())
    return f"# {page.title}\n\n{page.summary}\n\n| | |\n|---|---|\n{table}\n\n{page.body}\n"


def text(page: Page, notes: Sequence[str] = ()) -> str:
    """For a terminal: the same words, without a table that only a browser can show. notes: lines below the facts."""
    width = max(len(key) for key in page.facts)
    facts = "\n".join(f"{key + ':':<{width + 1}} {value}" for key, value in page.facts.items())
    said = "".join(f"\n{line}" for line in notes)
    return f"# {page.title}\n\n{page.summary}\n\n{facts}{said}\n\n{page.body}\n"


def _of_rule(rule: Rule) -> Page:
    meta = rule.META
    default = str(meta.default_action) if meta.default_action else "off"
    facts = {
        "Kinds": EVERY_KIND if ANY_KIND in meta.kinds else ", ".join(sorted(meta.kinds)),
        "Operations": ", ".join(sorted(meta.operations)),
        "Default action": default,
        "Feature gate": meta.gate or "none",
        "Status": f"{meta.status} since {meta.since}",
    }
    if meta.also_checked_by_apiserver:
        facts["API server"] = "refuses it too, before any webhook: seen in `muster review` only"
    if meta.review_only:
        facts["Where"] = "`muster review` only"
    return Page(
        id=meta.id,
        name=meta.name,
        summary=meta.summary,
        default=default,
        facts=facts,
        body=_body(rule.__doc__),
        gate=meta.gate,
    )


def _of_mutation(mutation: Mutation) -> Page:
    meta = mutation.META
    facts = {
        "Kinds": ", ".join(sorted(meta.kinds)),
        "Operations": "CREATE",
        "Default": f"off; `mutations: {{{meta.id}: true}}` turns it on",
        "Feature gate": meta.gate or "none",
    }
    body = _body(mutation.__doc__)
    return Page(
        id=meta.id, name=meta.name, summary=meta.summary, default="opt-in", facts=facts, body=body, gate=meta.gate
    )


def _body(docstring: str | None) -> str:
    """Without its first line, which is the title again."""
    _, _, body = inspect.cleandoc(docstring or "").partition("\n")
    return body.strip()


_UNREADABLE = Page(
    id="WAS100",
    name="unreadable-shape",
    summary="a field has a type that the API of this kind and version does not have",
    default="Deny",
    facts={
        "Kinds": EVERY_KIND,
        "Operations": "CREATE, DELETE, UPDATE",
        "Default action": "Deny (code 422); a policy can lower it by `actionMax` only",
        "Feature gate": "none",
        "Status": "stable since 0.1.0",
    },
    body="""## What it checks
Every field that Muster reads has the type that the API gives it: a number is a number, a list is a list.

## Why
No rule can judge what cannot be read. Of its own kinds the API server refuses such an object before any webhook, so this
is seen in `muster review`, and in a cluster with custom resources (JobSet, LeaderWorkerSet) whose schema lets it pass.
What a trusted controller makes, and what is stored like that already, is never refused.

## Fix
Write the field as the API reference of this version shows it. Text in quotes is text, also where it looks like a number.""",
)

_QUOTA = Page(
    id="WAS410",
    name="tier-quota-exceeded",
    summary="the TierQuota of the gang's tier has no room for all of it",
    default="Deny",
    facts={
        "Kinds": EVERY_KIND,
        "Operations": "CREATE, UPDATE",
        "Default action": "Deny",
        "Feature gate": "none",
        "Status": "stable since 0.1.0",
    },
    body="""## What it checks
What all Pods of the gang ask for, against what is left of each TierQuota that holds for its tier and namespace. An
update pays for what it adds.

## Why
ResourceQuota counts Pod by Pod, so two gangs can each get half of what they need and wait for each other for ever. A
TierQuota is charged for the whole gang before its first Pod exists, over all namespaces that it names, or not at all.

## Fields read
Everything that says how many Pods there will be and what each of them requests; `priorityClassName`, which makes the
tier; TierQuotas

## Fix
The message says how much is missing and what holds the rest. Ask for less, wait until something ends, or have the quota
raised. `kubectl get tierquotas` shows all of them. Code 429 says that the quota could not be asked in time: nothing is
wrong with the object then, send it again.""",
)
