"""What every rule says of itself, and the shape of a rule module.

A rule module `webhook/rules/was<NNN>_<name>.py` has a docstring (its page in docs/rules/), META and `check(facts)`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from webhook.facts.model import Facts
from webhook.verdict import Action, Finding, Unresolved


class Status(enum.StrEnum):
    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


ANY_KIND = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMeta:
    """id: permanent, ``WASnnn``. name: the fault in kebab case. summary: one line for tables.

    kinds: kinds of objects the rule runs for ("*": all). operations: CREATE, UPDATE, DELETE. subresources: "" is the
    object itself. gate: the one feature gate the rule depends on: declared off, it does not run; not known, it warns
    at most. default_action: None means off unless a policy turns it on. also_checked_by_apiserver: the API server
    refuses it first, so it shows in `review` only.
    """

    id: str
    name: str
    summary: str
    kinds: frozenset[str]
    operations: frozenset[str] = frozenset({"CREATE", "UPDATE"})
    subresources: frozenset[str] = frozenset({""})
    default_action: Action | None = Action.DENY
    gate: str | None = None
    status: Status = Status.STABLE
    since: str = "0.1.0"
    replaced_by: str | None = None
    also_checked_by_apiserver: bool = False
    review_only: bool = False

    @property
    def reason(self) -> str:
        return self.name.replace("-", " ")


class Rule(Protocol):
    """A rule module. `check` does no I/O, reads no clock, and never raises for a tenant's mistake."""

    META: RuleMeta

    def check(self, facts: Facts, /) -> Iterable[Finding | Unresolved]: ...
