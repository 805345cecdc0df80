"""The inventory of a live cluster in a worker: what the agent published -> Snapshot, taken up by a thread of its own.

A request takes the newest snapshot that is ready and never makes one; where the agent has seen more since, no denial may
rest on it. The thread looks every second for another manifest
(webhook/cluster/published.py); it maps the files that are new and keeps the rest. Where the agent stopped watching, it
marks the snapshot as incomplete, which ends all capacity denials. The policy's part, pools and whether the inventory is
closed, is added here, so that a new policy counts at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from webhook.cluster.published import CHANGED, Manifest, mapped
from webhook.cluster.store import StoreReader
from webhook.inventory import device_table, device_use, node_table, usage
from webhook.inventory.build import STABLE_SECONDS_MIN, Content, Notes, finish
from webhook.inventory.device_use import NOTHING_KNOWN, DeviceUse, overlaid
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.profile import settings_of
from webhook.inventory.snapshot import HOLDS, ExtendedClass, Question, Snapshot, State
from webhook.inventory.tables import base, prepare_like, question_of
from webhook.inventory.tables import node_table as table_of
from webhook.inventory.usage import Usage
from webhook.policy.model import Cluster

LOOK_SECONDS = 1.0
# Of a core, at most, for what comes and goes all the time and only warnings read.
BESIDE_SHARE_MAX = 0.1
# Until there is a first snapshot.
FIRST_LOOK_SECONDS = 0.1
NO_AGENT = "the agent does not watch Node objects at the moment"
UNREADABLE = "the newest version of the inventory cannot be read"

T = TypeVar("T")
# Manifest, policy, and whether nothing lasting has changed for ten minutes.
_MadeOf = tuple[Manifest, Cluster, bool]

_log = structlog.get_logger("muster.inventory")


class LiveInventory:
    """`current()` for requests, `start()` once after the fork. cluster: the policy's profile as it is now."""

    def __init__(
        self,
        store: StoreReader,
        directory: Path,
        cluster: Callable[[], Cluster],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._directory, self._cluster, self._clock = store, directory, cluster, clock
        self._current: Snapshot | None = None
        self._made: Snapshot | None = None
        self._made_of: _MadeOf | None = None
        self._nodes: tuple[str, node_table.NodeTable] | None = None
        self._devices: tuple[str, DeviceInventory | None] = ("", None)
        self._usage: tuple[str, Usage | None] = ("", None)
        self._use: tuple[str, DeviceUse] = ("", NOTHING_KNOWN)
        self._overlaid: tuple[tuple[str, str], DeviceInventory | None] = (("", ""), None)
        self._beside_at = float("-inf")
        self._reported = ""
        self._taken: bytes | None = None

    def current(self) -> Snapshot | None:
        """The newest snapshot; None before the first. `kubectl label node ... && kubectl apply -f job.yaml` is faster than
        the next version: what the agent has said since the last look ends denials at once."""
        found = self._current
        if found is None or found.denial_hindrance() is not None or self._is_newest():
            return found
        return replace(found, complete=State(False, CHANGED))

    def _is_newest(self) -> bool:
        """Has the agent said nothing new but of what only warnings read?"""
        raw, taken = self._store.published(), self._taken
        if raw == taken:
            return True
        if raw is None or taken is None:
            return False
        newest, mine = (msgspec.json.decode(one, type=Manifest) for one in (raw, taken))
        return newest.core() == mine.core()

    def start(self) -> None:
        """Looks now and from then on, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="inventory", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(FIRST_LOOK_SECONDS if self._current is None else LOOK_SECONDS)

    def look(self) -> None:
        """One round. Never raises: a snapshot that nobody renews any more must not go on to deny."""
        raw = self._store.published()
        try:
            watched = self._watched(raw)
        except Exception as error:  # noqa: BLE001  a broken file or a bug of ours
            watched = State(False, UNREADABLE)
            if repr(error) != self._reported:
                self._reported = repr(error)
                _log.exception("the inventory cannot be taken up")
        if self._made is not None:
            self._current = self._made if watched.holds else replace(self._made, complete=watched)
        self._taken = raw  # after the snapshot: a request in between sees that there is something newer

    def _watched(self, raw: bytes | None) -> State:
        """Takes up what is new; whether the agent stands by what is here."""
        if raw is None:
            return State(False, NO_AGENT)
        manifest = msgspec.json.decode(raw, type=Manifest)
        watched = State(False, manifest.reason) if manifest.reason else HOLDS
        # What a broken watch last said is no better than what is here already.
        if (watched.holds or self._made is None) and not self._take(manifest):
            return State(False, UNREADABLE)
        return watched

    def _take(self, manifest: Manifest) -> bool:
        """Makes this the newest snapshot; False where that cannot be, until the next look."""
        cluster = self._cluster()
        is_stable = self._clock() - manifest.changed_at >= STABLE_SECONDS_MIN
        made_of = (manifest, cluster, is_stable)
        if made_of == self._made_of:
            return True
        made, is_beside = self._made, _is_beside(made_of, self._made_of)
        started = self._clock()
        if is_beside and started < self._beside_at:
            return True
        try:
            nodes, devices = self._mapped(manifest)
        except (OSError, ValueError, KeyError, msgspec.DecodeError):
            return False
        taken, used = self._taken_pods(manifest.pods), self._used(devices, manifest)
        if made is not None and is_beside:
            snapshot = _beside(made, taken, used)
        else:
            snapshot = self._snapshot(manifest, cluster, nodes, used, taken)
        if made is not None:
            prepare_like(snapshot, made)
        self._made, self._made_of = snapshot, made_of
        self._beside_at = self._clock() + (self._clock() - started) / BESIDE_SHARE_MAX
        return True

    def _snapshot(
        self,
        manifest: Manifest,
        cluster: Cluster,
        nodes: node_table.NodeTable,
        devices: DeviceInventory | None,
        taken: Usage | None,
    ) -> Snapshot:
        content = Content(
            version=manifest.version,
            nodes=nodes,
            notes=Notes(signs=manifest.signs, problems=list(manifest.problems)),
            mapped=[ExtendedClass(device_class=name, resource=resource) for name, resource in manifest.mapped],
            overheads=manifest.overheads,
            devices=devices,
            usage=taken,
        )
        snapshot = finish(content, settings_of(cluster, stable_seconds=self._clock() - manifest.changed_at))
        # What every request needs is made here, off its path.
        for question in (Question.NEVER, Question.READY):
            base(snapshot, question)
        return snapshot

    def _mapped(self, manifest: Manifest) -> tuple[node_table.NodeTable, DeviceInventory | None]:
        if self._nodes is None or self._nodes[0] != manifest.nodes:
            self._nodes = (manifest.nodes, node_table.unpacked(mapped(self._directory / manifest.nodes)))
        if self._devices[0] != manifest.devices:
            found = device_table.unpacked(mapped(self._directory / manifest.devices)) if manifest.devices else None
            self._devices = (manifest.devices, found)
        return self._nodes[1], self._devices[1]

    def _taken_pods(self, name: str) -> Usage | None:
        if self._usage[0] != name:
            self._usage = (name, self._read_beside(name, usage.unpacked))
        return self._usage[1]

    def _used(self, devices: DeviceInventory | None, manifest: Manifest) -> DeviceInventory | None:
        """The devices as they are used today."""
        if self._use[0] != manifest.use:
            found = self._read_beside(manifest.use, device_use.unpacked)
            self._use = (manifest.use, NOTHING_KNOWN if found is None else found)
        made_of = (manifest.devices, manifest.use)
        if self._overlaid[0] != made_of:
            self._overlaid = (made_of, None if devices is None else overlaid(devices, self._use[1]))
        return self._overlaid[1]

    def _read_beside(self, name: str, unpacked: Callable[[memoryview], T]) -> T | None:
        """What only warnings read: where it cannot be read it is not known, and denials rest on the rest."""
        try:
            return unpacked(mapped(self._directory / name)) if name else None
        except (OSError, ValueError, msgspec.DecodeError):
            _log.warning("inventory-side-unreadable", file=name, exc_info=True)
            return None


def _is_beside(new: _MadeOf, former: _MadeOf | None) -> bool:
    """Is all the same but for what only warnings read?"""
    return former is not None and (new[0].core(), *new[1:]) == (former[0].core(), *former[1:])


def _beside(made: Snapshot, taken: Usage | None, devices: DeviceInventory | None) -> Snapshot:
    """Only what is in use has changed, of nodes or devices: whatever does not read that stays."""
    before = made.devices
    has_new_rules = (
        isinstance(before, DeviceInventory) and devices is not None and devices.taint_rules != before.taint_rules
    )
    stay = {Question.NEVER} if has_new_rules else {Question.NEVER, Question.READY}
    prepared = {key: table for key, table in made.prepared.items() if question_of(key) in stay}
    return replace(made, nodes=table_of(made).with_usage(taken), devices=devices, prepared=prepared)
