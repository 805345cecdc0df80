"""Semantic versions as github.com/blang/semver/v4 reads and orders them: what a device's version attribute is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?\Z")
_UINT64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Version:
    """text: as written, build metadata included. core: major, minor, patch. before: pre-release identifiers."""

    text: str
    core: tuple[int, int, int]
    before: tuple[int | str, ...] = ()

    @staticmethod
    def parse(text: str) -> Version | None:
        """semver.Parse; None where it fails."""
        return _parse(text)

    def compare(self, other: Version) -> int:
        """-1, 0 or 1 by precedence (semver 2.0.0, item 11); build metadata does not count."""
        if self.core != other.core:
            return -1 if self.core < other.core else 1
        if self.before == other.before:
            return 0
        if not self.before or not other.before:
            return 1 if not self.before else -1
        for left, right in zip(self.before, other.before, strict=False):
            if left != right:
                return _compare_identifiers(left, right)
        return -1 if len(self.before) < len(other.before) else 1


def _compare_identifiers(left: int | str, right: int | str) -> int:
    """Numbers come before words."""
    if isinstance(left, int) and isinstance(right, int):
        return -1 if left < right else 1
    if isinstance(left, str) and isinstance(right, str):
        return -1 if left < right else 1
    return -1 if isinstance(left, int) else 1


@lru_cache(maxsize=4096)
def _parse(text: str) -> Version | None:
    match = _VERSION.match(text) if len(text) <= 256 else None
    if match is None:
        return None
    core = (int(match[1]), int(match[2]), int(match[3]))
    before: list[int | str] = []
    for part in match[4].split(".") if match[4] else ():
        if not part or (part.isdigit() and len(part) > 1 and part[0] == "0"):
            return None
        before.append(int(part) if part.isdigit() else part)
    numbers = [*core, *(part for part in before if isinstance(part, int))]
    if max(numbers) > _UINT64_MAX or (match[5] and "" in match[5].split(".")):
        return None
    return Version(text, core, tuple(before))
