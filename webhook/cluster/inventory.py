"""The inventory of a live cluster in a worker: the agent's store -> Snapshot, built by a thread of its own.

A request takes the newest snapshot that is ready and never builds one. The thread looks every second: where the version
of a kind went up, it decodes the rows that changed and builds anew; where the agent stopped watching, it marks the
snapshot as incomplete, which ends all capacity denials.

What a worker knows of the past lives as long as the worker: since when labels, taints and devices are unchanged
(`closed: auto` wants ten minutes), the most of each resource that a node had, and nodes deleted in the last minutes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from webhook.cluster.store import StoreReader
from webhook.inventory.build import GONE, HIGH_WATER, STABLE_SECONDS_MIN, build
from webhook.inventory.profile import settings_of
from webhook.inventory.snapshot import HOLDS, Question, Snapshot, State
from webhook.inventory.tables import base
from webhook.objects.quantity import Quantity, QuantityError
from webhook.policy.model import Cluster

LOOK_SECONDS = 1.0
# Building 5,120 nodes takes a third of a second: nodes that change all the time must not take a worker's whole core.
BUILD_SHARE_MAX = 0.1
# A node that was deleted is replaced within this time, or it is not.
GONE_SECONDS = 600.0
KINDS = ("Node", "ResourceSlice", "DeviceClass", "RuntimeClass")
_MUST = ("Node", "DeviceClass", "RuntimeClass")  # ResourceSlices may not be served at all
_API_VERSIONS = {"Node": "v1", "RuntimeClass": "node.k8s.io/v1"}

Raw = dict[str, Any]


@dataclass(slots=True)
class _Known:
    """A row. most: the most of each resource it had, where that is more than it has. Not kept decoded: 5,120 nodes as
    dicts take 50 MiB in every worker, and `build` wants them one after another."""

    raw: bytes
    most: dict[str, str] = field(default_factory=dict)


class LiveInventory:
    """`current()` for requests, `start()` once after the fork. cluster: the policy's profile as it is now."""

    def __init__(
        self, store: StoreReader, cluster: Callable[[], Cluster], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._cluster, self._clock = store, cluster, clock
        self._built: Snapshot | None = None
        self._current: Snapshot | None = None
        self._rows: dict[str, dict[str, _Known]] = {kind: {} for kind in KINDS}
        self._gone: dict[str, tuple[float, _Known]] = {}
        self._seen: tuple[object, ...] = ()
        self._changed_at = clock()
        self._build_seconds = 0.0
        self._built_at = float("-inf")

    def current(self) -> Snapshot | None:
        """The newest snapshot; None before the first."""
        return self._current

    def start(self) -> None:
        """Looks now and from then on, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="inventory", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """One round. Never raises for what the store or an object holds."""
        now = self._clock()
        for name in [name for name, (at, _) in self._gone.items() if now - at > GONE_SECONDS]:
            del self._gone[name]
        watched = self._watched()
        cluster = self._cluster()
        versions = tuple(self._store.version(kind) for kind in KINDS)
        due = now - self._built_at >= self._build_seconds / BUILD_SHARE_MAX
        if watched.holds and due and (versions, cluster, *self._remembered(now)) != self._seen:
            self._built = self._build(cluster, now)
            self._seen = (versions, cluster, *self._remembered(now))
            self._built_at = self._clock()
            self._build_seconds = self._built_at - now
        if self._built is not None:
            self._current = self._built if watched.holds else replace(self._built, complete=watched)

    def _remembered(self, now: float) -> tuple[object, ...]:
        """What a snapshot depends on beside the objects and the policy."""
        return now - self._changed_at >= STABLE_SECONDS_MIN, tuple(self._gone)

    def _watched(self) -> State:
        for kind in _MUST:
            if self._store.synced(kind) is not True:
                return State(False, f"the agent does not watch {kind} objects at the moment")
        return HOLDS

    def _build(self, cluster: Cluster, now: float) -> Snapshot:
        if self._read(now):
            self._changed_at = now
        snapshot = build(self._objects(), settings_of(cluster, stable_seconds=now - self._changed_at))
        # What every request needs is made here, off its path.
        for question in (Question.NEVER, Question.READY):
            base(snapshot, question)
        return snapshot

    # ---- rows -----------------------------------------------------------------------------------------------------
    def _read(self, now: float) -> bool:
        """Takes over what changed. Did something change that a closed inventory does not?"""
        changed = False
        for kind in KINDS:
            old = self._rows[kind]
            new: dict[str, _Known] = {}
            for name, raw in self._store.rows(kind):
                known = old.get(name)
                if known is None:
                    changed, known = True, _Known(raw)
                elif known.raw != raw:
                    before, after = _decoded(kind, known.raw), _decoded(kind, raw)
                    changed = changed or _lasting(before) != _lasting(after)
                    known = _Known(raw, _most(before, after, known.most))
                new[name] = known
            for name in old.keys() - new.keys():
                changed = True
                if kind == "Node":
                    self._gone[name] = (now, old[name])
            if kind == "Node":
                for name in new.keys() & self._gone.keys():
                    del self._gone[name]
            self._rows[kind] = new
        return changed

    def _objects(self) -> Iterator[Raw]:
        """All of it, decoded, with what a worker remembers."""
        for kind in KINDS:
            for known in self._rows[kind].values():
                obj = _decoded(kind, known.raw)
                yield _annotated(obj, HIGH_WATER, json.dumps(known.most)) if known.most else obj
        for _, known in self._gone.values():
            yield _annotated(_decoded("Node", known.raw), GONE, "true")


def _decoded(kind: str, raw: bytes) -> Raw:
    obj: Raw = msgspec.json.decode(raw)
    obj["kind"] = kind
    obj["apiVersion"] = _API_VERSIONS.get(kind, "resource.k8s.io/v1")
    return obj


def _most(before: Raw, after: Raw, most: dict[str, str]) -> dict[str, str]:
    """Of each resource the most that the node had, where that is more than it has now."""
    had, has = _allocatable(before), _allocatable(after)
    highest = dict(had)
    for name, text in most.items():
        if name not in highest or _is_more(text, highest[name]):
            highest[name] = text
    return {name: text for name, text in highest.items() if _is_more(text, has.get(name, "0"))}


def _allocatable(obj: Raw) -> dict[str, str]:
    return {name: str(text) for name, text in ((obj.get("status") or {}).get("allocatable") or {}).items()}


def _annotated(node: Raw, key: str, text: str) -> Raw:
    metadata = node["metadata"]
    annotations = {**(metadata.get("annotations") or {})}
    annotations.setdefault(key, text)  # an exported mark is the better one: it remembers longer
    return {**node, "metadata": {**metadata, "annotations": annotations}}


def _is_more(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) > Quantity.parse(other)
    except QuantityError:
        return False


def _lasting(obj: Raw) -> tuple[object, ...]:
    """What does not change in a closed cluster: labels, lasting taints, devices. Readiness and cordons come and go."""
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    if obj["kind"] != "Node":
        return (spec,)
    taints = [taint for taint in spec.get("taints") or () if not str(taint.get("key", "")).startswith("node.")]
    return (metadata.get("labels"), taints, (obj.get("status") or {}).get("allocatable"))
