"""What Muster answers: Finding (a rule's word), Violation (with the policy's action), Verdict (all of it)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.objects.fieldpath import FieldPath


class Action(enum.StrEnum):
    """ValidatingAdmissionPolicy's words. Ordered: Audit < Warn < Deny."""

    AUDIT = "Audit"
    WARN = "Warn"
    DENY = "Deny"

    @property
    def severity(self) -> int:
        return _SEVERITY[self]

    def at_most(self, cap: Action) -> Action:
        return self if self.severity <= cap.severity else cap


_SEVERITY = {Action.AUDIT: 0, Action.WARN: 1, Action.DENY: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found, before policy says what it means.

    message: what, where, how many of how many, and why it matters in 1.37: one sentence, lower case, no full stop.
    fix: what to change, imperative, one sentence, lower case.
    at_most: the strongest action this finding can support; WARN where it is likely but not proven.
    excess: how far over the limit; an UPDATE whose excess does not grow is never denied.
    reason: overrides the rule's own noun phrase where one rule has several faults.
    rewrite: the whole object as it should be, where a rule can say so (a retired version); for `muster review`.
    """

    field: FieldPath
    message: str
    fix: str
    seen: Any = None
    limit: Any = None
    at_most: Action = Action.DENY
    excess: int | None = None
    reason: str | None = None
    rewrite: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A rule could not be decided: why, in words for the tenant. Admits, with a warning where `warn` is set."""

    reason: str
    field: FieldPath = FieldPath()  # noqa: RUF009  a frozen tuple
    warn: bool = False
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A Finding with its rule and the action that the policy gives it. The same fields in JSON (`as_dict`)."""

    rule: str
    action: Action
    field: str
    reason: str
    seen: Any
    limit: Any
    message: str
    fix: str
    excess: int | None = None
    rewrite: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "action": str(self.action),
            "field": self.field,
            "reason": self.reason,
            "seen": self.seen,
            "limit": self.limit,
            "message": self.message,
            "fix": self.fix,
        } | ({} if self.rewrite is None else {"rewrite": dict(self.rewrite)})

    def line(self) -> str:
        """One line for people: where, what, why, and the way out."""
        where = f"{self.field}: " if self.field else ""
        return where + self.text()

    def text(self) -> str:
        """`line` without the field, for answers that carry the field on its own (status.details.causes)."""
        return f"{self.message}. Fix: {self.fix} [{self.rule}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What a verdict rests on, so that it is never reused for something newer. policy_name: metadata.name, for texts."""

    policy: str = ""
    policy_name: str = ""
    inventory: str = ""
    quota: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeIntent:
    """What the quota ledger has to charge if nothing denies (shape: resource name -> amount). Issue 5 fills it."""

    tier: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one request. `code` is 200, 403 (a rule), 422 (unreadable shape) or 429 (try again).

    short_circuit: the name of the reason why no rule ran (webhook/admission/scope.py), or "".
    notes: warnings that are no rule's, for example an unknown version.
    """

    violations: Sequence[Violation] = ()
    unknowns: Sequence[Unresolved] = ()
    notes: Sequence[str] = ()
    patch: Sequence[Mapping[str, Any]] = ()
    patch_notes: Sequence[str] = ()
    charge: ChargeIntent | None = None
    versions: Versions = field(default_factory=Versions)
    short_circuit: str = ""
    code: int = 200
    retry_after_seconds: int | None = None

    @property
    def denials(self) -> list[Violation]:
        return [violation for violation in self.violations if violation.action is Action.DENY]

    @property
    def allowed(self) -> bool:
        return self.code == 200 and not self.denials

    @property
    def warnings(self) -> list[str]:
        """What the client sees beside the answer: violations that warn, patches made, notes, unknowns."""
        lines = [violation.line() for violation in self.violations if violation.action is Action.WARN]
        lines += list(self.patch_notes) + list(self.notes)
        lines += [_unknown_line(unknown) for unknown in self.unknowns if unknown.warn]
        return lines

    def as_dict(self) -> dict[str, Any]:
        return {
            "allowed": self.allowed,
            "violations": [violation.as_dict() for violation in self.violations],
            "unknowns": [
                {"rule": unknown.rule, "field": str(unknown.field), "reason": unknown.reason}
                for unknown in self.unknowns
            ],
            "notes": list(self.notes),
            "patch": [dict(operation) for operation in self.patch],
        }


def _unknown_line(unknown: Unresolved) -> str:
    where = f"{unknown.field}: " if unknown.field else ""
    tail = f" [{unknown.rule}]" if unknown.rule else ""
    return f"{where}not checked: {unknown.reason}{tail}"
