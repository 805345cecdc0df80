"""Names in texts: short sorted lists."""

from __future__ import annotations

from collections.abc import Iterable

_LISTED_MAX = 10


def quoted(names: Iterable[str], nothing: str = "") -> str:
    """``"a", "b" and 3 more``: sorted, in double quotes, at most ten. nothing: what an empty list reads as."""
    ordered = sorted(set(names))
    if not ordered:
        return nothing
    text = ", ".join(f'"{name}"' for name in ordered[:_LISTED_MAX])
    more = len(ordered) - _LISTED_MAX
    return f"{text} and {more} more" if more > 0 else text
