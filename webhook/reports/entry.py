"""One reviewed object: where it stands, and what Muster says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEntry:
    """lines: for each violation of the verdict, in its order, the line of its field (or of the nearest written one)."""

    file: str
    line: int
    kind: str
    api_version: str
    namespace: str
    name: str
    verdict: Verdict
    lines: Sequence[int] = ()
    rewritten: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file, or a part of one, that could not be read. line None: the file as a whole."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: cannot be read: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """entries: in the order of files and lines. undeclared_gates: feature gates that the policy says nothing of, so that
    faults which rest on them only warn; lowering_gates: those for want of which one of these faults does. passed_over:
    kind -> how many objects of kinds Muster does not judge."""

    entries: Sequence[ReviewEntry]
    passed_over: Mapping[str, int]
    unreadable: Sequence[Unreadable]
    policy: str
    undeclared_gates: Sequence[str] = ()
    lowering_gates: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """0 all admitted, 1 something denied, 2 something unreadable."""
        if self.unreadable:
            return 2
        return 0 if all(entry.verdict.allowed for entry in self.entries) else 1
