"""What only warnings read, published beside the inventory: each source a file of its own, now and then.

Pods and claims come and go all the time. A burst makes one version, every few seconds at most, and making versions takes at
most a tenth of a core. All that is due goes into one manifest: a worker maps the files of the newest two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from webhook.cluster.published import Files

SIDE_SECONDS = 2.0
SHARE_MAX = 0.1
RETRY_SECONDS = 5.0


class Source(Protocol):
    """number: goes up with every change of what it would publish; 0 while nothing is known."""

    @property
    def number(self) -> int: ...
    def packed(self) -> bytes: ...


class SideFiles:
    """sources: by the name of their field in the manifest."""

    def __init__(self, files: Files, clock: Callable[[], float], sources: Mapping[str, Source]) -> None:
        self._files, self._clock, self._sources = files, clock, sources
        self._published = dict.fromkeys(sources, 0)
        self._written: dict[str, int] = {}
        self._next_at = self._started_at = float("-inf")
        self._problem = ""

    def write_due(self) -> dict[str, str]:
        """The fields that change and their new files, "" where nothing is known any more; `done` says that they are named. Never
        raises: a full disk or a bug here must not keep the inventory from being published."""
        numbers = {name: source.number for name, source in self._sources.items()}
        changed = {name: number for name, number in numbers.items() if number != self._published[name]}
        self._started_at = self._clock()
        if not changed or (all(changed.values()) and self._started_at < self._next_at):
            return {}
        self._written = changed
        try:
            return {
                name: self._files.write(name, self._sources[name].packed()) if number else ""
                for name, number in changed.items()
            }
        except Exception as error:  # noqa: BLE001
            self._problem = f"{', '.join(changed)}: {error!r}"
            self._next_at = self._started_at + RETRY_SECONDS
            return {}

    def problem(self) -> str:
        """What went wrong since this was asked last."""
        found, self._problem = self._problem, ""
        return found

    def done(self) -> None:
        """What was written last is in the manifest."""
        self._published |= self._written
        now = self._clock()
        self._next_at = now + max(SIDE_SECONDS, (now - self._started_at) / SHARE_MAX)
