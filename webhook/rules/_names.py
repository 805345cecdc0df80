"""Names in texts: the nearest existing one, short sorted lists, numbers with their noun."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED_MAX = 10


def nearest(name: str, existing: Iterable[str]) -> str | None:
    """The existing name that is most like this one, None if nothing is near enough to be a slip of the pen."""
    matches = difflib.get_close_matches(name, sorted(set(existing) - {name}), n=1, cutoff=0.6)
    return matches[0] if matches else None


def quoted(names: Iterable[str], nothing: str = "") -> str:
    """``"a", "b" and 3 more``: sorted, in double quotes, at most ten. nothing: what an empty list reads as."""
    ordered = sorted(set(names))
    if not ordered:
        return nothing
    text = ", ".join(f'"{name}"' for name in ordered[:_LISTED_MAX])
    more = len(ordered) - _LISTED_MAX
    return f"{text} and {more} more" if more > 0 else text


def plural(count: int, noun: str) -> str:
    """``1 device``, ``8 devices``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
