"""Words that all texts share: numbers with their nouns, and what somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Of two words with this ratio three letters of four are the same ("h20O" and "h200"); below it the guess is mostly
# another word ("cpu" for "gpu", "MUSTER_BIND" for "MUSTER_FOO") and costs who follows it more than no guess.
NEAR_RATIO_MIN = 0.75


def plural(count: int, noun: str) -> str:
    """``1 Pod``, ``3 Pods``, ``0 CronJobs``; for nouns whose plural only takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def taint_text(key: str, value: str, effect: str) -> str:
    """A taint of a node or a device as kubectl prints it: ``dedicated=infer:NoSchedule``, ``maintenance:NoSchedule``."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, whatever the case of the letters; None where none is near enough to be
    a slip of the pen. A word is never its own neighbour."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(set(known) - {word}, reverse=True)}
    close = difflib.get_close_matches(word.casefold(), sorted(by_folded), n=1, cutoff=NEAR_RATIO_MIN)
    return by_folded[close[0]] if close else None
