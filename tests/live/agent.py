"""The parts of a replica that have to do with the inventory, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.cluster.cluster import Cluster
from webhook.cluster.connection import Connection
from webhook.cluster.device_use_feed import DeviceUseFeed
from webhook.cluster.inventory import LiveInventory
from webhook.cluster.inventory_feed import InventoryFeed
from webhook.cluster.inventory_kinds import USE_KINDS
from webhook.cluster.marks_map import Keeper, MarksMap
from webhook.cluster.pod_feed import PodFeed
from webhook.cluster.published import Files
from webhook.cluster.store import STORE_FILE, StoreReader, StoreWriter
from webhook.cluster.watcher import Sink, late_threads, threads
from webhook.inventory.snapshot import Snapshot
from webhook.objects.kinds import BY_NAME, Kind
from webhook.policy.model import Cluster as Profile


class Agent:
    """What the agent does for the inventory, as the leader, and a worker that reads it; ends with the block."""

    def __init__(self, cluster: Cluster, folder: Path, namespace: str, kubeconfig: Path | None = None) -> None:
        """kubeconfig: of another user than the admin. The policy calls the inventory closed."""
        folder.mkdir()
        self._stop = threading.Event()
        self._store = StoreWriter(folder / STORE_FILE)
        self._store.beat()
        connection = Connection(kubeconfig or cluster.kubeconfig())
        pods, use = PodFeed(), DeviceUseFeed()
        self.feed = InventoryFeed(self._store, Files(folder), beside={"pods": pods, "use": use})
        late: list[tuple[Kind, Sink]] = [(BY_NAME["Pod"], pods), *((kind, use) for kind in USE_KINDS.values())]
        keeper = Keeper(MarksMap(connection, namespace), self.feed, lambda: True, self._say)
        self._threads = [
            *threads(connection, self._store, self._stop, self._say, inventory=self.feed),
            *late_threads(connection, late, self._stop, self._say, self.feed.has_published),
            threading.Thread(target=keeper.run, args=(self._stop,), daemon=True),
            threading.Thread(target=self.feed.run, args=(self._stop, self._say), daemon=True),
        ]
        self._worker = LiveInventory(StoreReader(folder / STORE_FILE), folder, lambda: Profile(inventory_closed=True))
        self.said: list[tuple[str, dict[str, Any]]] = []

    def _say(self, event: str, fields: dict[str, Any]) -> None:
        self.said.append((event, fields))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads[-2:]:
            thread.join(timeout=10)

    def snapshot(self) -> Snapshot | None:
        """The newest, if it is complete."""
        self._store.beat()
        self._worker.look()
        found = self._worker.current()
        return found if found is not None and found.complete.holds else None

    def reason(self) -> str:
        """Why the newest is not complete."""
        self.snapshot()
        found = self._worker.current()
        return "" if found is None else found.complete.reason

    def until(self, holds: Callable[[Snapshot], bool], what: str) -> Snapshot:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = self.snapshot()
            if found is not None and holds(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within 30 s: {what}; {self.said}")
