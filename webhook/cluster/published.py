"""What the agent publishes for the workers: files that never change, and a manifest that names those in force.

A new version is a new file, complete before the manifest names it; the manifest is one row of the store, written in one
transaction (webhook/cluster/store.py). So no worker ever sees half a version, and it maps the file instead of reading it:
what several workers map is in memory once.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

PREFIX = "inventory-"
# The reason in a manifest from the moment that a change is seen until the version that holds it is there.
CHANGED = "nodes or devices changed a moment ago"


# Fields of the manifest that name files for warnings only: no denial reads them, and none waits for them.
SIDES = ("pods", "use")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """nodes, devices: names of files; devices "" where no ResourceSlice was ever seen. pods: what Pods take from nodes, "" where
    they are not watched; use: which devices are held or tainted by rules, "" where neither is watched. These two are no part
    of the version. reason: why the inventory is not
    complete; "" if it is. version: changes with the content. changed_at: when labels, taints or devices changed last, by the
    clock that all processes of a machine share. The rest is small."""

    nodes: str
    devices: str
    pods: str = ""
    use: str = ""
    reason: str
    version: str
    changed_at: float
    signs: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    mapped: tuple[tuple[str, str], ...] = ()
    overheads: dict[str, dict[str, str | int | float]] = {}

    def sides(self) -> dict[str, str]:
        """The files that only warnings read."""
        return {name: getattr(self, name) for name in SIDES}

    def core(self) -> Manifest:
        """Without those."""
        return msgspec.structs.replace(self, **dict.fromkeys(SIDES, ""))


class Files:
    """The agent's side of the folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self.keep(())  # a former agent's

    def write(self, what: str, data: bytes) -> str:
        """A new file; its name. Raises OSError."""
        self._number += 1
        name = f"{PREFIX}{what}-{os.getpid()}-{self._number}"
        unfinished = self._directory / f".{name}"
        try:
            unfinished.write_bytes(data)
            unfinished.rename(self._directory / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        return name

    def keep(self, names: Collection[str]) -> None:
        """Removes all others; who has one mapped keeps it until he lets it go."""
        for path in [*self._directory.glob(f"{PREFIX}*"), *self._directory.glob(f".{PREFIX}*")]:
            if path.name not in names:
                with contextlib.suppress(OSError):
                    path.unlink()


def mapped(path: Path) -> memoryview:
    """The file's content, shared with everyone who maps it. Raises OSError; an empty file is a ValueError."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
