"""The agent's inventory: what the watches say of Nodes, devices and classes -> published versions.

An update in which nothing has changed that capacity needs makes nothing. A change of one node reads that node and writes its
row of the table (webhook/inventory/node_table.py); a table is made anew only where nodes come and go. Devices are put
together anew when a slice, a class or a pool has changed, and are a file of their own, so that a node's label does not touch
them. Bursts make one version, and making versions takes at most a tenth of a core.

It remembers what makes the difference between "never" and "not today": since when labels, taints and devices are
unchanged (`closed: auto` wants ten minutes), the most of each resource that a node had lately, and nodes deleted lately.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from webhook.cluster.published import CHANGED, SIDES, Files, Manifest
from webhook.cluster.side_files import SideFiles, Source
from webhook.inventory import device_table, node_table
from webhook.inventory.build import NodeObject, Notes, gone, mapped_by, overhead_of, read_node
from webhook.inventory.devices import Reader, Slice, assemble
from webhook.inventory.marks import (
    GONE_SECONDS,
    Amounts,
    Former,
    Marks,
    lasting,
    raw_node,
    still,
)
from webhook.inventory.snapshot import Node
from webhook.objects import core

# Making a version of 5,120 nodes takes a tenth of a second: nodes that change all the time must not take a core.
BUILD_SHARE_MAX = 0.1
# A change waits so long for others.
CALM_SECONDS = 0.2
LOOK_SECONDS = 1.0
# A full disk does not get empty by trying.
FULL_SECONDS = 5.0
UNWRITTEN = "the agent cannot write the newest version of the inventory"
# Marks end after days: to look for those that did is not urgent.
OLD_SECONDS = 60.0
KINDS = ("Node", "DeviceClass", "RuntimeClass", "ResourceSlice")
# After so many changed rows a table holds enough values that no node has any more to be made anew.
_CHANGED_ROW_COUNT_MAX = 2000
# Equal devices share what they say; what devices said that are gone is forgotten where it is more than this times the rest.
_SHAPE_GROWTH_MAX = 2

MARKS = "marks"

_Stamp = int


class Board(Protocol):
    """Where the manifest goes: webhook.cluster.store.StoreWriter."""

    def publish(self, manifest: bytes) -> None: ...


@dataclass(slots=True)
class _NodeRow:
    """stamp: of all that is read; lasting: of what does not change in a closed cluster. written: what the node itself says of
    what it had."""

    stamp: _Stamp
    lasting: _Stamp
    node: Node
    written: Mapping[str, int]
    notes: Notes | None


@dataclass(slots=True)
class _SliceRow:
    """packed: the JSON, compressed, since a slice that goes is remembered as it was."""

    stamp: _Stamp
    read: Slice
    packed: bytes


class InventoryFeed:
    """A sink of the watchers, from several threads; `run` publishes, in one of its own."""

    def __init__(
        self,
        board: Board,
        files: Files,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        beside: Mapping[str, Source] | None = None,
    ) -> None:
        """beside: what only warnings read, by the field of the manifest."""
        self._beside = SideFiles(files, clock, beside or {})
        self._board, self._files, self._clock, self._wall = board, files, clock, wall
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self.has_published = threading.Event()
        # Why nothing is complete, by kind; the marks are one more thing to wait for.
        self._missing = {kind: f"the agent does not watch {kind} objects at the moment" for kind in KINDS}
        self._missing[MARKS] = "the high-water marks of nodes and devices are not loaded yet"
        self._nodes: dict[str, _NodeRow] = {}
        # Nodes of one kind offer the same.
        self._same: dict[frozenset[tuple[str, int]], Mapping[str, int]] = {}
        self._slices: dict[str, _SliceRow] = {}
        self._reader = Reader()
        self._classes: dict[str, tuple[_Stamp, dict[str, Any]]] = {}
        self._overheads: dict[str, tuple[_Stamp, core.ResourceList]] = {}
        self._unreadable: dict[tuple[str, str], str] = {}
        self._marks: dict[str, dict[str, Amounts]] = {}
        self._gone: dict[str, Former] = {}
        self._former_slices: dict[str, Former] = {}
        self._overflowed_at: float | None = None
        self._stored: Marks | None = None
        self._is_known = False
        self._changed_at, self._changed_wall = clock(), wall()
        self._old_at = clock()
        self._builder: node_table.TableBuilder | None = None
        self._rows: dict[str, int] = {}
        self._changed_rows: set[str] = set()
        self._changed_row_count = 0
        self._nodes_dirty = self._devices_dirty = self._dirty = True
        # Has something changed since the last version that "never" rests on?
        self._has_changed = False
        self._dirty_at = clock()
        self._manifest: Manifest | None = None
        self._build_seconds = 0.0
        self._built_at = float("-inf")

    # ---- what watchers say ------------------------------------------------------------------------------------------
    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:
        """A whole list: (namespace, name, raw JSON). From its end on the kind is watched."""
        names = set()
        for _, name, raw in objects:
            names.add(name)
            with self._lock:
                self._put(kind, name, raw)
        with self._lock:
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

    # ---- marks ----------------------------------------------------------------------------------------------------------
    def load(self, marks: Marks) -> None:
        """What was written down: by a former leader, or before this agent started."""
        with self._lock:
            if not self._is_known:
                self._stored = marks
            both = self._all_marks().merged(marks).without_old(self._wall())
            self._marks, self._former_slices, self._overflowed_at = both.nodes, both.slices, both.overflowed_at
            self._gone = {name: former for name, former in both.gone.items() if name not in self._nodes}
            for name in self._marks.keys() & self._nodes.keys():
                self._nodes[name].node = self._marked(name)
            self._missing.pop(MARKS, None)
            self._touch_nodes()
            self._devices_dirty = True
        self._wake.set()

    def cannot_load(self, reason: str) -> None:
        """Why the marks are still missing."""
        with self._lock:
            if MARKS in self._missing:
                self._missing[MARKS] = reason

    def marks(self) -> Marks | None:
        """What is to be written down; None before everything was seen once."""
        with self._lock:
            return self._all_marks().without_old(self._wall()) if self._is_known else None

    def _all_marks(self) -> Marks:
        return Marks(
            changed_at=self._changed_wall,
            fingerprint=self._fingerprint() if self._is_known else "",
            nodes={name: dict(amounts) for name, amounts in self._marks.items()},
            gone=dict(self._gone),
            slices=dict(self._former_slices),
            overflowed_at=self._overflowed_at,
        )

    def _fingerprint(self) -> str:
        """Of all that does not change in a closed cluster."""
        return _hex(sum(row.lasting for row in self._nodes.values()) + self._sum_beside_nodes())

    def _sum_beside_nodes(self) -> _Stamp:
        """Of slices and classes. A sum, so that no order matters."""
        of_classes = sum(stamp for rows in (self._classes, self._overheads) for stamp, _ in rows.values())
        return of_classes + sum(row.stamp for row in self._slices.values())

    def _know(self) -> None:
        """Everything has been seen once: where it is as it was written down, it is unchanged since then."""
        self._is_known = True
        stored, now = self._stored, self._wall()
        if stored is not None and stored.fingerprint == self._fingerprint() and stored.changed_at <= now:
            self._changed_at, self._changed_wall = self._clock() - (now - stored.changed_at), stored.changed_at
        self._stored = None

    def _remember(self, name: str, before: Node, after: Node) -> None:
        """A node has less of something than it had."""
        now = self._wall()
        for resource, amount in before.allocatable.items():
            if amount > after.allocatable.get(resource, 0):
                known = self._marks.setdefault(name, {})
                known[resource] = lasting((*still(known.get(resource, ()), now), (amount, now)))

    def _marked(self, name: str) -> Node:
        """The node with what it had."""
        row = self._nodes[name]
        highest = dict(row.written)
        for resource, seen in self._marks.get(name, {}).items():
            if seen:
                highest[resource] = max(seen[0][0], highest.get(resource, 0))
        has = row.node.allocatable
        return replace(row.node, potential={key: most for key, most in highest.items() if most > has.get(key, 0)})

    def _remember_slice(self, row: _SliceRow, left: Iterable[str] = ()) -> None:
        """Devices are gone. left: names of those that are still there."""
        if {device.name for device in row.read.devices} - set(left):
            raw = {
                "metadata": {"name": row.read.name},
                "spec": msgspec.json.decode(zlib.decompress(row.packed))["spec"],
            }
            self._former_slices[f"{row.read.name}/{row.stamp:x}"] = Former(self._wall(), raw)

    def _forget(self) -> None:
        """What counts no more."""
        now = self._wall()
        for name in [name for name, former in self._gone.items() if now - former.at >= GONE_SECONDS]:
            del self._gone[name]
            if name not in self._nodes:
                self._marks.pop(name, None)
            self._touch_nodes()
        if self._clock() - self._old_at < OLD_SECONDS:
            return
        self._old_at = self._clock()
        kept = self._all_marks().without_old(now)
        if kept.overflowed_at != self._overflowed_at:
            self._overflowed_at = kept.overflowed_at
            self._touch()
        if kept.nodes != self._marks:
            ended, self._marks = self._marks, kept.nodes
            for name in ended.keys() & self._nodes.keys():
                self._nodes[name].node = self._marked(name)
            self._touch_nodes()
        if len(kept.slices) != len(self._former_slices):
            self._former_slices = kept.slices
            self._touch(devices=True)

    # ---- publishing ---------------------------------------------------------------------------------------------------
    def run(self, stop: threading.Event, report: Callable[[str, dict[str, Any]], None]) -> None:
        """Until `stop` is set. A full disk is reported and tried again."""
        while not stop.is_set():
            try:
                self.step()
            except (OSError, sqlite3.Error) as error:
                report("inventory-publish-failed", {"reason": str(error)})
                stop.wait(FULL_SECONDS)
            if problem := self._beside.problem():
                report("inventory-publish-failed", {"reason": problem})
            self._wake.wait(CALM_SECONDS if self._dirty else LOOK_SECONDS)
            self._wake.clear()

    def step(self) -> None:
        """Publishes what is due. Raises OSError, sqlite3.Error where it cannot be written; what was published is not complete
        any more then."""
        with self._lock:
            try:
                self._step()
            except OSError:
                if self._manifest is not None:
                    self._publish(msgspec.structs.replace(self._manifest, reason=UNWRITTEN))
                raise
        self._publish_beside()

    def _step(self) -> None:
        now = self._clock()
        self._forget()
        reason = next(iter(self._missing.values()), "")
        if any(kind in self._missing for kind in KINDS):
            if self._manifest is not None and self._manifest.reason != reason:
                self._publish(msgspec.structs.replace(self._manifest, reason=reason))
            return
        if not reason and not self._is_known:
            self._know()
        has_news = self._manifest is None or self._manifest.reason != reason
        is_due = self._dirty and (
            now - self._dirty_at >= CALM_SECONDS and now - self._built_at >= self._build_seconds / BUILD_SHARE_MAX
        )
        if has_news or is_due:
            self._build(reason)
            self._built_at = self._clock()
            self._build_seconds = self._built_at - now

    def _publish_beside(self) -> None:
        """What only warnings read. No watch waits while it is made."""
        sides = self._beside.write_due() if self._manifest is not None else {}
        with self._lock:
            former = self._manifest
            if former is not None and sides:
                self._publish(msgspec.structs.replace(former, **sides))
                self._beside.done()
                self._keep(former)

    def _keep(self, former: Manifest | None) -> None:
        """Removes the files of versions before the former one, which a worker may be about to map."""
        named = ("nodes", "devices", *SIDES)
        self._files.keep({getattr(one, name) for one in (former, self._manifest) if one is not None for name in named})

    def _build(self, reason: str) -> None:
        old = self._manifest
        nodes, devices = (old.nodes, old.devices) if old is not None else ("", "")
        if self._nodes_dirty:
            nodes = self._files.write("nodes", node_table.packed(self._table()))
        if self._devices_dirty:
            has_any = self._slices or self._former_slices
            devices = self._files.write("devices", self._packed_devices()) if has_any else ""
        notes = Notes(problems=list(self._unreadable.values()))
        if self._overflowed_at is not None:
            notes.problems.append("more nodes and devices changed in the last days than the high-water marks hold")
        notes.problems += [
            f'node "{name}" was deleted and came back minutes ago, without all of its labels or with more taints'
            for name in self._gone
            if name in self._nodes
        ]
        for row in self._nodes.values():
            if row.notes is not None:
                notes.add(row.notes)
        self._publish(
            Manifest(
                nodes=nodes,
                devices=devices,
                **({} if old is None else old.sides()),
                reason=reason,
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
            ),
            is_whole=True,
        )
        self._has_changed = False
        self._nodes_dirty = self._devices_dirty = self._dirty = False
        self._keep(old)

    def _publish(self, manifest: Manifest, *, is_whole: bool = False) -> None:
        """is_whole: all that was seen is in it."""
        said = manifest
        if self._has_changed and not is_whole and not manifest.reason:
            said = msgspec.structs.replace(manifest, reason=CHANGED)
        self._board.publish(msgspec.json.encode(said))
        self._manifest = manifest
        self.has_published.set()

    def _table(self) -> node_table.NodeTable:
        if self._builder is None or self._changed_row_count > _CHANGED_ROW_COUNT_MAX:
            everyone = [row.node for row in self._nodes.values()]
            everyone += [self._gone_node(name) for name in self._gone if name not in self._nodes]
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

    def _gone_node(self, name: str) -> Node:
        return gone(read_node(msgspec.convert(self._gone[name].raw, NodeObject), Notes()))

    def _packed_devices(self) -> bytes:
        there = {device.id for row in self._slices.values() for device in row.read.devices if self._former_slices}
        former: list[Slice] = []
        for key, one in list(self._former_slices.items()):
            read = Reader().read_slice(one.raw)
            if all(device.id in there for device in read.devices):
                del self._former_slices[key]  # all of it is back
            else:
                former.append(read)
        found = assemble(
            (row.read for row in self._slices.values()),
            classes=(raw for _, raw in self._classes.values()),
            former=former,
        )
        if self._reader.shape_count > _SHAPE_GROWTH_MAX * (
            1000 + sum(len(row.read.devices) for row in self._slices.values())
        ):
            self._reader = Reader()
        return device_table.packed(found)

    def _version(self) -> str:
        """The same for every replica that sees the same."""
        total = sum(row.stamp for row in self._nodes.values()) + self._sum_beside_nodes()
        for name, amounts in self._marks.items():
            total += _stamp(repr((name, sorted((resource, seen[:1]) for resource, seen in amounts.items()))))
        total += sum(map(_stamp, (*self._gone, *self._former_slices)))
        return _hex(total)

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
        read = read_node(msgspec.json.decode(raw, type=NodeObject), notes)
        node = replace(
            read,
            labels={sys.intern(key): sys.intern(value) for key, value in read.labels.items()},
            allocatable=self._same.setdefault(frozenset(read.allocatable.items()), read.allocatable),
        )
        row = _NodeRow(stamp, _lasting(node), node, read.potential, notes if notes.signs or notes.problems else None)
        self._nodes[name] = row
        if old is not None:
            self._remember(name, old.node, node)
        elif name in self._gone:
            self._remember(name, replace(node, allocatable=self._gone_node(name).potential), node)
        if name in self._gone and _is_back(self._gone_node(name), node):
            del self._gone[name]
        if name in self._marks:
            row.node = self._marked(name)
        self._touch(lasting=old is None or old.lasting != row.lasting)
        self._nodes_dirty = True
        if old is None:
            self._builder = None
        elif self._builder is not None:
            self._changed_rows.add(name)

    def _put_slice(self, name: str, raw: bytes) -> None:
        stamp = _stamp(raw)
        old = self._slices.get(name)
        if old is not None and old.stamp == stamp:
            return
        read = self._reader.read_slice(msgspec.json.decode(raw))
        self._slices[name] = _SliceRow(stamp, read, zlib.compress(raw, 1))
        if old is not None:
            self._remember_slice(old, (device.name for device in read.devices if device.pool == old.read.pool))
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
        row = self._of(kind).pop(name, None)
        if row is None:
            return
        if kind == "Node":
            self._gone[name] = Former(self._wall(), raw_node(row.node))
            self._touch_nodes()
        elif kind == "ResourceSlice":
            self._remember_slice(row)
        self._touch(lasting=True, devices=kind in ("ResourceSlice", "DeviceClass"))

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
            self._changed_at, self._changed_wall = self._clock(), self._wall()
            self._say_changed()

    def _say_changed(self) -> None:
        """At once, before the version that holds it is made: what workers have is not all that there is."""
        if self._has_changed:
            return
        self._has_changed = True
        if self._manifest is not None and not self._manifest.reason:
            with contextlib.suppress(sqlite3.Error):  # a full volume ends the beats too, and denials with them
                self._publish(self._manifest)


_PUT = {"Node": "_put_node", "ResourceSlice": "_put_slice", "DeviceClass": "_put_class", "RuntimeClass": "_put_runtime"}


def _stamp(raw: bytes | str) -> _Stamp:
    data = raw.encode() if isinstance(raw, str) else raw
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _hex(total: int) -> str:
    return f"{total % 2**64:016x}"


def _is_back(former: Node, node: Node) -> bool:
    """Has a node that was deleted all that let Pods in? It registers first, and others label it and take its taints away."""
    return former.labels.items() <= node.labels.items() and set(node.taints) <= set(former.taints)


def _lasting(node: Node) -> _Stamp:
    """Of what does not change in a closed cluster: labels, lasting taints, devices. Readiness and cordons come and go."""
    return _stamp(repr((node.name, sorted(node.labels.items()), node.taints, sorted(node.allocatable.items()))))
