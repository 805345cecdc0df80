"""Composition root of the agent: the one process of a replica that watches the API server.

`muster serve` starts it beside gunicorn. It lists and watches what rules need into the store that the workers read, and
publishes the inventory of nodes and devices.
Dead or missing it costs speed, not truth: workers then read live.
"""

from __future__ import annotations

import gc
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from webhook.cluster.connection import Connection
from webhook.cluster.device_use_feed import CLAIM, RULE, DeviceUseFeed
from webhook.cluster.inventory_feed import InventoryFeed
from webhook.cluster.inventory_kinds import USE_KINDS
from webhook.cluster.marks_map import Keeper, MarksMap
from webhook.cluster.pod_feed import KIND as POD
from webhook.cluster.pod_feed import PodFeed
from webhook.cluster.published import Files
from webhook.cluster.reconciler import Policies, Reconciler, Report
from webhook.cluster.side_files import Source
from webhook.cluster.store import STORE_FILE, StoreWriter
from webhook.cluster.watcher import Sink, late_threads, threads
from webhook.objects.kinds import BY_NAME, Kind
from webhook.quota.recount import Journal

BEAT_SECONDS = 1.0
LISTED_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What the leader's recount of TierQuotas needs beside a connection. namespace: Muster's own, where the Lease is."""

    policies: Callable[[], Policies]
    namespace: str
    reservation_seconds: float
    journal: Journal


def run(
    snapshot_directory: Path,
    kubeconfig: Path | None,
    stop: threading.Event | None = None,
    *,
    quotas: Quotas | None = None,
    inventory: bool = True,
    pods: bool = True,
    namespace: str = "muster-system",
) -> None:
    """inventory: watch nodes and devices too; pods: and Pods and the devices that claims hold, for "not now". namespace: Muster's own. Until SIGTERM, SIGINT or `stop`. Raises where the kubeconfig or the directory cannot be used at all."""
    stopping = stop or threading.Event()
    if stop is None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
    log = structlog.get_logger("muster.agent")

    def report(event: str, fields: dict[str, Any]) -> None:
        (log.warning if "failed" in event else log.info)(event, **fields)

    store = StoreWriter(snapshot_directory / STORE_FILE)
    connection = Connection(kubeconfig)
    taken, use = PodFeed(), DeviceUseFeed()
    late: dict[Kind, Sink] = {USE_KINDS[RULE]: use}
    if pods:
        late |= {BY_NAME[POD]: taken, USE_KINDS[CLAIM]: use}
    beside: dict[str, Source] = {"pods": taken, "use": use}
    feed = InventoryFeed(store, Files(snapshot_directory), beside=beside) if inventory else None
    running = list(threads(connection, store, stopping, report, inventory=feed))
    reconciler = _reconciler(connection, quotas, report)
    counting = None
    if reconciler is not None:
        counting = threading.Thread(target=reconciler.run, args=(stopping,), name="quotas", daemon=True)
        counting.start()
    if feed is not None:
        marks = MarksMap(connection, namespace)
        leads = reconciler.is_leader if reconciler is not None else bool
        running += late_threads(connection, late.items(), stopping, report, feed.has_published)
        keeper = Keeper(marks, feed, leads, report)
        running.append(threading.Thread(target=keeper.run, args=(stopping,), name="high-water", daemon=True))
        running.append(threading.Thread(target=feed.run, args=(stopping, report), name="inventory", daemon=True))
    for thread in running:
        thread.start()
    if stop is None:  # a process of its own
        _spare_the_collector(stopping, feed)
    while not stopping.wait(BEAT_SECONDS):
        _all_alive(running if counting is None else [*running, counting], stopping)
        try:
            store.beat()
        except sqlite3.Error as error:
            # No beat means that workers stop trusting the store, which is right for a full disk.
            report("beat-failed", {"reason": str(error)})
    if counting is not None:
        counting.join(timeout=10)  # gives the Lease up, so that the next leader need not wait
    store.close()


def _spare_the_collector(stop: threading.Event, feed: InventoryFeed | None) -> None:
    """The first lists make a million objects that live as long as the process, and the garbage collector would walk them
    over and over: measured, a third of the time until the inventory is there."""

    def wait() -> None:
        end = time.monotonic() + LISTED_SECONDS_MAX
        while feed is not None and not stop.is_set() and time.monotonic() < end and not feed.has_published.wait(0.5):
            pass
        gc.collect()
        gc.freeze()
        gc.enable()

    gc.disable()
    threading.Thread(target=wait, name="collector", daemon=True).start()


def _all_alive(running: Sequence[threading.Thread], stopping: threading.Event) -> None:
    """Raises where one has ended by itself, by a bug of ours: what it watched would stay as it is for ever, and workers would deny
    on it as long as this agent beats. Its successor lists everything anew."""
    for thread in running:
        if not thread.is_alive() and not stopping.is_set():
            raise RuntimeError(f'the thread "{thread.name}" has ended')


def _reconciler(connection: Connection, quotas: Quotas | None, report: Report) -> Reconciler | None:
    if quotas is None:
        return None
    return Reconciler(
        connection,
        quotas.policies,
        namespace=quotas.namespace,
        report=report,
        journal=quotas.journal,
        reservation_seconds=quotas.reservation_seconds,
    )
