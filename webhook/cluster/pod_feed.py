"""What Pods take from nodes, for "not now": the Pods that are on a node and have not finished -> a usage per node and priority.

Everything else works without. While Pods are not listed or not watched, nothing is said of "not now".
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping

import msgspec

from webhook.inventory.usage import Counter, PodUse, packed

# Finished Pods take nothing, and those without a node are not there yet: the API server leaves both out, and tells of
# their going as a deletion.
SELECTOR = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
KIND = "Pod"


class PodFeed:
    """A sink of the watcher of Pods. Its objects are PodUse, encoded (webhook/cluster/inventory_kinds.py)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[tuple[str, str], PodUse] = {}
        self._amounts: dict[frozenset[tuple[str, int]], dict[str, int]] = {}
        self._counter = Counter()
        self._is_synced = False
        self._number = 0

    @property
    def number(self) -> int:
        """Goes up with every change of what it would publish; 0 while nothing is known."""
        return self._number if self._is_synced else 0

    def packed(self) -> bytes:
        """What all Pods take now."""
        with self._lock:
            return packed(self._counter.usage())

    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:  # noqa: ARG002
        """A whole list."""
        there = set()
        for namespace, name, raw in objects:
            there.add((namespace, name))
            with self._lock:
                self._put((namespace, name), raw)
        with self._lock:
            for key in self._pods.keys() - there:
                self._delete(key)
            self._is_synced = True
            self._number += 1

    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None:  # noqa: ARG002
        """A Pod is on a node, or has changed there."""
        with self._lock:
            self._put((namespace, name), raw)

    def delete(self, kind: str, namespace: str, name: str) -> None:  # noqa: ARG002
        """A Pod is gone or has finished."""
        with self._lock:
            self._delete((namespace, name))

    def unsynced(self, kind: str, reason: str) -> None:  # noqa: ARG002
        """The watch is broken."""
        with self._lock:
            self._is_synced = False

    not_served = unsynced

    def _put(self, key: tuple[str, str], raw: bytes) -> None:
        try:
            read = msgspec.json.decode(raw, type=PodUse)
        except msgspec.ValidationError:
            self._delete(key)  # unreadable: it counts for nothing, which only makes "now" look better
            return
        amounts = self._same(read.amounts)
        use = PodUse(sys.intern(read.node), read.priority, amounts, read.ports)
        if self._pods.get(key) == use:
            return
        self._delete(key)
        if use.node:
            self._pods[key] = use
            self._counter.add(use)
            self._number += 1

    def _same(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Thousands of Pods ask for the same."""
        return self._amounts.setdefault(frozenset(amounts.items()), dict(amounts))

    def _delete(self, key: tuple[str, str]) -> None:
        use = self._pods.pop(key, None)
        if use is not None:
            self._counter.remove(use)
            self._number += 1
