"""What can be wrong with a policy file, where, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.objects.fieldpath import ROOT, FieldPath
from webhook.objects.words import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault or one warning. line and column count from 1, as editors do; 0: the file as a whole."""

    file: str
    message: str
    line: int = 0
    column: int = 0
    field: FieldPath = ROOT

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class PolicyError(Exception):
    """A policy that cannot be used. `problems` holds every fault that was found, in the order of the files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def did_you_mean(word: str, known: Sequence[str] | frozenset[str]) -> str:
    """``; did you mean "x"?``, or what there is to choose from, or nothing where nothing is known."""
    if not known:
        return ""
    guess = nearest(word, known)
    if guess is not None:
        return f'; did you mean "{guess}"?'
    return f"; known: {listed(known)}"


LISTED_COUNT_MAX = 20


def listed(words: Iterable[str]) -> str:
    """Quoted and sorted, at most 20 of them."""
    ordered = sorted(words)
    text = ", ".join(f'"{word}"' for word in ordered[:LISTED_COUNT_MAX])
    rest = len(ordered) - LISTED_COUNT_MAX
    return f"{text} and {rest} more" if rest > 0 else text
