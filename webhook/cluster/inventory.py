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
from collections.abc import Callable
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
    """A row as decoded. most: the most of each resource it had."""

    raw: bytes
    obj: Raw
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
        objects = [known.obj for kind in KINDS for known in self._rows[kind].values()]
        objects = [self._marked(one) if one["kind"] == "Node" else one for one in objects]
        objects += [_annotated(known.obj, GONE, "true") for _, known in self._gone.values()]
        snapshot = build(objects, settings_of(cluster, stable_seconds=now - self._changed_at))
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
                if known is None or known.raw != raw:
                    fresh = self._decoded(kind, raw, known)
                    changed = changed or known is None or _lasting(known.obj) != _lasting(fresh.obj)
                    known = fresh
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

    def _decoded(self, kind: str, raw: bytes, before: _Known | None) -> _Known:
        obj: Raw = msgspec.json.decode(raw)
        obj["kind"] = kind
        obj["apiVersion"] = _API_VERSIONS.get(kind, "resource.k8s.io/v1")
        most = dict(before.most) if before is not None else {}
        if kind == "Node":
            for name, text in ((obj.get("status") or {}).get("allocatable") or {}).items():
                if name not in most or _is_more(str(text), most[name]):
                    most[name] = str(text)
        return _Known(raw, obj, most)

    def _marked(self, node: Raw) -> Raw:
        """With the most it had, where that is more than it has."""
        known = self._rows["Node"][node["metadata"]["name"]]
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        more = {name: text for name, text in known.most.items() if _is_more(text, str(allocatable.get(name, "0")))}
        return _annotated(node, HIGH_WATER, json.dumps(more)) if more else node


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
