"""The agent's inventory: what the watches say of Nodes, devices and classes -> published versions.

An update in which nothing has changed that capacity needs makes nothing. A change of one node reads that node and writes its
row of the table (webhook/inventory/node_table.py); a table is made anew only where nodes come and go. Devices are put
together anew when a slice, a class or a pool has changed, and are a file of their own, so that a node's label does not touch
them. Bursts make one version, and making versions takes at most a tenth of a core.

It remembers what makes the difference between "never" and "not today": since when labels, taints and devices are
unchanged (`closed: auto` wants ten minutes), the most of each resource that a node had lately, and nodes deleted lately.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from webhook.cluster.published import Files, Manifest
from webhook.inventory import device_table, node_table
from webhook.inventory.build import NodeObject, Notes, gone, mapped_by, overhead_of, read_node
from webhook.inventory.devices import Reader, Slice, assemble
from webhook.inventory.snapshot import Node
from webhook.objects import core

# Making a version of 5,120 nodes takes a tenth of a second: nodes that change all the time must not take a core.
BUILD_SHARE_MAX = 0.1
# A change waits so long for others.
CALM_SECONDS = 0.2
# A node that was deleted is replaced within this time, or it is not.
GONE_SECONDS = 600.0
LOOK_SECONDS = 1.0
KINDS = ("Node", "DeviceClass", "RuntimeClass", "ResourceSlice")
# After so many changed rows a table holds enough values that no node has any more to be made anew.
_CHANGED_ROW_COUNT_MAX = 2000
# Equal devices share what they say; what devices said that are gone is forgotten where it is more than this times the rest.
_SHAPE_GROWTH_MAX = 2

_Stamp = int


class Board(Protocol):
    """Where the manifest goes: webhook.cluster.store.StoreWriter."""

    def publish(self, manifest: bytes) -> None: ...


@dataclass(slots=True)
class _NodeRow:
    stamp: _Stamp
    node: Node
    notes: Notes | None


class InventoryFeed:
    """A sink of the watchers, from several threads; `run` publishes, in one of its own."""

    def __init__(self, board: Board, files: Files, clock: Callable[[], float] = time.monotonic) -> None:
        self._board, self._files, self._clock = board, files, clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._missing = {kind: f"the agent does not watch {kind} objects at the moment" for kind in KINDS}
        self._nodes: dict[str, _NodeRow] = {}
        self._gone: dict[str, tuple[float, _NodeRow]] = {}
        # Nodes of one kind offer the same.
        self._same: dict[frozenset[tuple[str, int]], Mapping[str, int]] = {}
        self._slices: dict[str, tuple[_Stamp, Slice]] = {}
        self._had_slices = False
        self._reader = Reader()
        self._classes: dict[str, tuple[_Stamp, dict[str, Any]]] = {}
        self._overheads: dict[str, tuple[_Stamp, core.ResourceList]] = {}
        self._unreadable: dict[tuple[str, str], str] = {}
        self._changed_at = clock()
        self._builder: node_table.TableBuilder | None = None
        self._rows: dict[str, int] = {}
        self._changed_rows: set[str] = set()
        self._changed_row_count = 0
        self._nodes_dirty = self._devices_dirty = self._dirty = True
        self._dirty_at = clock()
        self._manifest: Manifest | None = None
        self._build_seconds = 0.0
        self._built_at = float("-inf")

    # ---- what watchers say ------------------------------------------------------------------------------------------
    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:
        """A whole list: (namespace, name, raw JSON). From here on the kind is watched."""
        with self._lock:
            names = set()
            for _, name, raw in objects:
                names.add(name)
                self._put(kind, name, raw)
            for name in [name for name in self._of(kind) if name not in names]:
                self._delete(kind, name)
            self._missing.pop(kind, None)
        self._wake.set()

    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None:  # noqa: ARG002  all are cluster-scoped
        """One object, new or changed or as it was."""
        with self._lock:
            self._put(kind, name, raw)

    def delete(self, kind: str, namespace: str, name: str) -> None:  # noqa: ARG002
        """One object is gone."""
        with self._lock:
            self._delete(kind, name)

    def unsynced(self, kind: str, reason: str) -> None:  # noqa: ARG002  the log has it; tenants see no cause
        """The watch is broken: what workers have is not complete any more."""
        with self._lock:
            self._missing[kind] = f"the agent does not watch {kind} objects at the moment"
        self._wake.set()

    def not_served(self, kind: str, reason: str) -> None:
        """The API server does not know the resource: there are none of them. Devices need not exist."""
        if kind == "ResourceSlice":
            self.replace_kind(kind, ())
        else:
            self.unsynced(kind, reason)

    # ---- publishing ---------------------------------------------------------------------------------------------------
    def run(self, stop: threading.Event, report: Callable[[str, dict[str, Any]], None]) -> None:
        """Until `stop` is set. A full disk is reported and tried again."""
        while not stop.is_set():
            try:
                self.step()
            except (OSError, sqlite3.Error) as error:
                report("inventory-publish-failed", {"reason": str(error)})
            self._wake.wait(CALM_SECONDS if self._dirty else LOOK_SECONDS)
            self._wake.clear()

    def step(self) -> None:
        """Publishes what is due."""
        with self._lock:
            now = self._clock()
            for name in [name for name, (at, _) in self._gone.items() if now - at > GONE_SECONDS]:
                del self._gone[name]
                self._touch_nodes()
            reason = next(iter(self._missing.values()), "")
            if reason:
                if self._manifest is not None and self._manifest.reason != reason:
                    self._publish(msgspec.structs.replace(self._manifest, reason=reason))
                return
            is_back = self._manifest is None or self._manifest.reason
            is_due = self._dirty and (
                now - self._dirty_at >= CALM_SECONDS and now - self._built_at >= self._build_seconds / BUILD_SHARE_MAX
            )
            if is_back or is_due:
                self._build()
                self._built_at = self._clock()
                self._build_seconds = self._built_at - now

    def _build(self) -> None:
        old = self._manifest
        nodes, devices = (old.nodes, old.devices) if old is not None else ("", "")
        if self._nodes_dirty:
            nodes = self._files.write("nodes", node_table.packed(self._table()))
        if self._devices_dirty:
            devices = self._files.write("devices", self._packed_devices()) if self._had_slices else ""
        notes = Notes(problems=list(self._unreadable.values()))
        for row in self._nodes.values():
            if row.notes is not None:
                notes.add(row.notes)
        self._publish(
            Manifest(
                nodes=nodes,
                devices=devices,
                reason="",
                version=self._version(),
                changed_at=self._changed_at,
                signs=notes.signs,
                problems=tuple(notes.problems[:1]),
                mapped=tuple(
                    (one.device_class, one.resource)
                    for _, raw in self._classes.values()
                    for one in mapped_by(msgspec.convert(raw, core.DeviceClass))
                ),
                overheads={name: overhead for name, (_, overhead) in self._overheads.items()},
            )
        )
        self._nodes_dirty = self._devices_dirty = self._dirty = False
        self._files.keep(tuple(name for name in (nodes, devices, *_files_of(old)) if name))

    def _publish(self, manifest: Manifest) -> None:
        self._board.publish(msgspec.json.encode(manifest))
        self._manifest = manifest

    def _table(self) -> node_table.NodeTable:
        if self._builder is None or self._changed_row_count > _CHANGED_ROW_COUNT_MAX:
            everyone = [row.node for row in self._nodes.values()]
            everyone += [gone(row.node) for _, row in self._gone.values()]
            everyone.sort(key=lambda node: node.name)
            self._builder = node_table.TableBuilder(everyone)
            self._rows = {node.name: index for index, node in enumerate(everyone)}
            self._changed_row_count = 0
            self._same.clear()
        for name in self._changed_rows:
            self._builder.change(self._rows[name], self._nodes[name].node)
        self._changed_row_count += len(self._changed_rows)
        self._changed_rows.clear()
        return self._builder.table()

    def _packed_devices(self) -> bytes:
        if self._reader.shape_count > _SHAPE_GROWTH_MAX * (
            1000 + sum(len(s.devices) for _, s in self._slices.values())
        ):
            self._reader = Reader()
        found = assemble((one for _, one in self._slices.values()), classes=(raw for _, raw in self._classes.values()))
        return device_table.packed(found)

    def _version(self) -> str:
        """The same for every replica that sees the same: a sum, so that no order matters."""
        total = sum(row.stamp for row in self._nodes.values()) + sum(
            _stamp(row.node.name) for _, row in self._gone.values()
        )
        for rows in (self._slices, self._classes, self._overheads):
            total += sum(row[0] for row in rows.values())
        return f"{total % 2**64:016x}"

    # ---- rows -----------------------------------------------------------------------------------------------------------
    def _of(self, kind: str) -> dict[str, Any]:
        """The rows of a kind."""
        rows: dict[str, dict[str, Any]] = {
            "Node": self._nodes,
            "ResourceSlice": self._slices,
            "DeviceClass": self._classes,
            "RuntimeClass": self._overheads,
        }
        return rows[kind]

    def _put(self, kind: str, name: str, raw: bytes) -> None:
        try:
            getattr(self, _PUT[kind])(name, raw)
            self._unreadable.pop((kind, name), None)
        except (msgspec.ValidationError, TypeError, AttributeError) as error:
            if (kind, name) not in self._unreadable:
                self._touch(lasting=True)
            self._unreadable[kind, name] = f'{kind} "{name}" cannot be read: {error}'

    def _put_node(self, name: str, raw: bytes) -> None:
        old = self._nodes.get(name)
        stamp = _stamp(raw)
        if old is not None and old.stamp == stamp:
            return
        notes = Notes()
        node = read_node(msgspec.json.decode(raw, type=NodeObject), notes)
        before = old.node if old is not None else self._gone[name][1].node if name in self._gone else None
        node = replace(
            node,
            labels={sys.intern(key): sys.intern(value) for key, value in node.labels.items()},
            allocatable=self._same.setdefault(frozenset(node.allocatable.items()), node.allocatable),
            potential=node.potential if before is None else _most(before, node),
        )
        self._nodes[name] = _NodeRow(stamp, node, notes if notes.signs or notes.problems else None)
        self._gone.pop(name, None)
        self._touch(lasting=old is None or _lasting(old.node) != _lasting(node))
        self._nodes_dirty = True
        if old is None:
            self._builder = None
        elif self._builder is not None:
            self._changed_rows.add(name)

    def _put_slice(self, name: str, raw: bytes) -> None:
        stamp = _stamp(raw)
        if name in self._slices and self._slices[name][0] == stamp:
            return
        self._slices[name] = (stamp, self._reader.read_slice(msgspec.json.decode(raw)))
        self._had_slices = True
        self._touch(lasting=True, devices=True)

    def _put_class(self, name: str, raw: bytes) -> None:
        stamp = _stamp(raw)
        if name in self._classes and self._classes[name][0] == stamp:
            return
        found = msgspec.json.decode(raw)
        msgspec.convert(found, core.DeviceClass)
        self._classes[name] = (stamp, found)
        self._touch(lasting=True, devices=True)

    def _put_runtime(self, name: str, raw: bytes) -> None:
        stamp = _stamp(raw)
        if name in self._overheads and self._overheads[name][0] == stamp:
            return
        self._overheads[name] = (stamp, overhead_of(msgspec.json.decode(raw, type=core.RuntimeClass)))
        self._touch(lasting=True)

    def _delete(self, kind: str, name: str) -> None:
        self._unreadable.pop((kind, name), None)
        if kind == "Node":
            row = self._nodes.pop(name, None)
            if row is not None:
                self._gone[name] = (self._clock(), row)
                self._touch(lasting=True)
                self._touch_nodes()
            return
        if self._of(kind).pop(name, None) is not None:
            self._touch(lasting=True, devices=kind != "RuntimeClass")

    def _touch_nodes(self) -> None:
        """Another set of nodes: rows move."""
        self._builder = None
        self._changed_rows.clear()
        self._nodes_dirty = True
        self._touch()

    def _touch(self, *, lasting: bool = False, devices: bool = False) -> None:
        if not self._dirty:
            self._dirty_at = self._clock()
            self._wake.set()
        self._dirty = True
        self._devices_dirty = self._devices_dirty or devices
        if lasting:
            self._changed_at = self._clock()


_PUT = {"Node": "_put_node", "ResourceSlice": "_put_slice", "DeviceClass": "_put_class", "RuntimeClass": "_put_runtime"}


def _files_of(manifest: Manifest | None) -> tuple[str, ...]:
    """A worker may be about to open the former version's."""
    return () if manifest is None else (manifest.nodes, manifest.devices)


def _stamp(raw: bytes | str) -> _Stamp:
    data = raw.encode() if isinstance(raw, str) else raw
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _most(before: Node, after: Node) -> dict[str, int]:
    """Of each resource the most that the node had, or says that it had, where that is more than it has now."""
    highest = dict(after.potential)
    for had in (before.allocatable, before.potential):
        for name, amount in had.items():
            highest[name] = max(amount, highest.get(name, 0))
    return {name: amount for name, amount in highest.items() if amount > after.allocatable.get(name, 0)}


def _lasting(node: Node) -> tuple[object, ...]:
    """What does not change in a closed cluster: labels, lasting taints, devices. Readiness and cordons come and go."""
    return (node.labels, node.taints, node.allocatable)
