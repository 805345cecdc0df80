"""One kind, listed and watched into a sink (the store, the inventory) until told to stop. Lists again after 410 Gone and after errors."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from webhook.cluster.connection import PAGE_OBJECT_COUNT, Connection, GoneError, ReadState, WatchError
from webhook.cluster.inventory_kinds import INVENTORY_KINDS, kept
from webhook.cluster.pod_feed import KIND as POD
from webhook.cluster.pod_feed import SELECTOR
from webhook.cluster.source import list_path
from webhook.objects import core
from webhook.objects.kinds import BY_NAME, Kind

# The agent's kinds: few objects each, or needed for nearly every gang. Pods and Jobs are read live when needed.
WATCHED_KINDS = (
    "PriorityClass",
    "Namespace",
    "Workload",
    "PodGroup",
    "CompositePodGroup",
    "ResourceClaimTemplate",
    "DeviceClass",
    "ResourceQuota",
    "RuntimeClass",
)

# Of these, facts and the inventory both read.
SHARED_KINDS = frozenset({"DeviceClass", "RuntimeClass"})

RETRY_SECONDS_MAX = 30.0
# A server that is alive sends a bookmark about once a minute.
WATCH_IDLE_SECONDS_MAX = 90.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(core.Base, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(core.Base, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class ListError(Exception):
    """The words why, for the store and the log."""


class NotServedError(ListError):
    """The API server does not know the resource."""


class Sink(Protocol):
    """Where a watch's objects go; called from several threads. May raise sqlite3.Error and OSError for a full disk."""

    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None: ...
    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None: ...
    def delete(self, kind: str, namespace: str, name: str) -> None: ...
    def unsynced(self, kind: str, reason: str) -> None: ...
    def not_served(self, kind: str, reason: str) -> None: ...


class Both:
    """Two sinks."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:
        rows = list(objects)
        for sink in self._sinks:
            sink.replace_kind(kind, rows)

    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None:
        for sink in self._sinks:
            sink.put(kind, namespace, name, raw)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        for sink in self._sinks:
            sink.delete(kind, namespace, name)

    def unsynced(self, kind: str, reason: str) -> None:
        for sink in self._sinks:
            sink.unsynced(kind, reason)

    def not_served(self, kind: str, reason: str) -> None:
        for sink in self._sinks:
            sink.not_served(kind, reason)


class Watcher:
    """report(event, fields): told of lists, errors and their reasons; it must not raise."""

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        kind: Kind,
        stop: threading.Event,
        report: Callable[[str, dict[str, Any]], None],
        *,
        selector: str = "",
    ) -> None:
        """selector: a field selector; "" for all objects."""
        self._selector = f"&fieldSelector={quote(selector)}" if selector else ""
        self._connection, self._sink, self._stop, self._report = connection, sink, stop, report
        self._kind = kind
        self._version = self._kind.versions[0]
        self._resource_version, self._listed_count = "", 0

    def run(self) -> None:
        """Until `stop` is set. Never raises for what the API server does; a full disk ends the watch and is retried."""
        failures = 0
        while not self._stop.is_set():
            try:
                resource_version = self._list()
                failures = 0
                self._watch(resource_version)
            except GoneError:
                self._report("watch-gone", {"kind": self._kind.kind})
            except NotServedError as error:
                failures += 1
                self._fail(self._sink.not_served, str(error), failures)
            except (
                ListError,
                WatchError,
                msgspec.DecodeError,
                msgspec.ValidationError,
                OSError,
                sqlite3.Error,
            ) as error:
                failures += 1
                self._fail(self._sink.unsynced, str(error), failures)

    def _fail(self, tell: Callable[[str, str], None], reason: str, failures: int) -> None:
        self._report("watch-failed", {"kind": self._kind.kind, "reason": reason})
        with contextlib.suppress(sqlite3.Error):  # a full store: its heartbeat stops too, and workers read live
            tell(self._kind.kind, reason)
        delay = min(RETRY_SECONDS_MAX, 0.2 * 2 ** min(failures, 8))
        self._stop.wait(delay * (0.5 + random.random() / 2))  # noqa: S311  jitter, no secret

    def _list(self) -> str:
        self._listed_count, self._resource_version = 0, ""
        self._sink.replace_kind(self._kind.kind, self._rows())
        self._report("listed", {"kind": self._kind.kind, "object_count": self._listed_count})
        return self._resource_version

    def _rows(self) -> Iterator[tuple[str, str, bytes]]:
        """(namespace, name, what is kept), page by page: thousands of objects are never in memory at once. A list that
        does not come to its end is an error, or the rest would seem to be gone."""
        token = ""
        while True:
            if self._stop.is_set():
                raise ListError("the agent stops")
            page = self._page(token)
            for raw in page.items or ():
                self._listed_count += 1
                yield (*_key(raw), self._kept(raw))
            self._resource_version, token = page.metadata.resource_version, page.metadata.continue_
            if not token:
                return

    def _page(self, token: str) -> _Page:
        query = f"?limit={PAGE_OBJECT_COUNT}{self._selector}" + (f"&continue={quote(token)}" if token else "")
        for version in self._kind.versions:
            read = self._connection.get(list_path(self._kind, version) + query, 30.0)
            if read.state is ReadState.OK:
                self._version = version
                return msgspec.json.decode(read.body, type=_Page)
            if read.state is ReadState.FAILED:
                raise ListError(read.reason)
        raise NotServedError("the API server does not serve this resource")

    def _watch(self, resource_version: str) -> None:
        while not self._stop.is_set():
            path = list_path(self._kind, self._version)
            for line in self._connection.watch(path, resource_version, WATCH_IDLE_SECONDS_MAX, self._selector):
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    status = msgspec.json.decode(event.object)
                    if status.get("code") == 410:
                        raise GoneError
                    raise WatchError(str(status.get("message")))
                metadata = msgspec.json.decode(event.object, type=_Named).metadata
                resource_version = metadata.resourceVersion or resource_version
                self._apply(event, metadata)
                if self._stop.is_set():
                    return

    def _apply(self, event: _Event, metadata: _Metadata) -> None:
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED":
            self._sink.delete(self._kind.kind, metadata.namespace, metadata.name)
        else:
            self._sink.put(self._kind.kind, metadata.namespace, metadata.name, self._kept(event.object))

    def _kept(self, raw: msgspec.Raw) -> bytes:
        """The object without what no rule reads: managed fields, most of the status."""
        try:
            return msgspec.json.encode(kept(msgspec.json.decode(raw, type=self._kind.type)))
        except msgspec.ValidationError:
            return bytes(raw)  # unreadable for us: the rule that asks for it will say so


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815  the wire name


class _Named(msgspec.Struct):
    metadata: _Metadata


def _key(raw: msgspec.Raw) -> tuple[str, str]:
    metadata = msgspec.json.decode(raw, type=_Named).metadata
    return metadata.namespace, metadata.name


def threads(
    connection: Connection,
    facts: Sink,
    stop: threading.Event,
    report: Callable[[str, dict[str, Any]], None],
    *,
    inventory: Sink | None,
) -> Iterator[threading.Thread]:
    """One thread per watched kind, not started yet. inventory: None where nodes and devices are not watched."""
    sinks: list[tuple[Kind, Sink]] = [(BY_NAME[name], facts) for name in WATCHED_KINDS]
    if inventory is not None:
        # The long lists first: whoever waits for the inventory waits for them.
        sinks = [(kind, Both(facts, inventory) if kind.kind in SHARED_KINDS else facts) for kind, _ in sinks]
        sinks = [(kind, inventory) for kind in INVENTORY_KINDS] + sinks
    for kind, sink in sinks:
        watcher = Watcher(connection, sink, kind, stop, report)
        yield threading.Thread(target=watcher.run, name=f"watch-{kind.kind}", daemon=True)


def late_threads(
    connection: Connection,
    sinks: Iterable[tuple[Kind, Sink]],
    stop: threading.Event,
    report: Callable[[str, dict[str, Any]], None],
    after: threading.Event,
) -> Iterator[threading.Thread]:
    """One thread per kind that only warnings read, Pods above all, by far the longest list; not started yet. They list after
    what requests wait for."""
    for kind, sink in sinks:
        selector = SELECTOR if kind.kind == POD else ""
        watcher = Watcher(connection, sink, kind, stop, report, selector=selector)
        words = (watcher, partial(_say_broken, sink, kind.kind, report), stop, after)
        yield threading.Thread(target=_run_late, args=words, name=f"watch-{kind.kind}", daemon=True)


def _run_late(
    watcher: Watcher, say_broken: Callable[[str], None], stop: threading.Event, after: threading.Event
) -> None:
    """A bug of ours in a watch that only warnings read must not end the agent: denials rest on its other watches."""
    while not after.wait(1.0):
        if stop.is_set():
            return
    while not stop.is_set():
        try:
            watcher.run()
        except Exception as error:  # noqa: BLE001
            say_broken(repr(error))
            stop.wait(RETRY_SECONDS_MAX)


def _say_broken(sink: Sink, kind: str, report: Callable[[str, dict[str, Any]], None], reason: str) -> None:
    sink.unsynced(kind, reason)
    report("watch-failed", {"kind": kind, "reason": reason})
