"""Lists and watches of one kind into the census, each object priced as the ledger priced it when it was admitted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.cluster.connection import PAGE_OBJECT_COUNT, Connection, GoneError, ReadState, WatchError
from webhook.cluster.source import list_path
from webhook.objects.kinds import BY_NAME, Kind
from webhook.quota.census import Census, Node
from webhook.quota.pricer import COUNTED_KINDS, PriceError, Pricer

FED_KINDS = (*COUNTED_KINDS, "Namespace")

BUILT_IN_GROUPS = ("", "batch", "apps")

READ_SECONDS_MAX = 2.0
LIST_SECONDS_MAX = 30.0
WATCH_IDLE_SECONDS_MAX = 90.0
RETRY_SECONDS_MAX = 10.0

PRICE_TRIES = 4
"""Lists in a row that one object may spoil because it cannot be priced: a read that failed. After that it is the object, such as
one that names a claim which no API server can have, and everybody else is counted without waiting for it."""
UNPRICED_SECONDS = 10.0
"""So often it is tried again."""


def is_not_installed(connection: Connection, kind: Kind) -> bool:
    """Confirmed: a server that has just started may not serve a CRD yet, which must not look like "no objects"."""
    if kind.group in BUILT_IN_GROUPS:
        return False
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.plural}.{kind.group}"
    return connection.get(path, READ_SECONDS_MAX).state is ReadState.NOT_FOUND


# ---- lists and watches --------------------------------------------------------------------------------------------
class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Feed:
    """One kind. report(event, fields): for the log; must not raise."""

    def __init__(
        self,
        connection: Connection,
        census: Census,
        pricer: Pricer,
        kind_name: str,
        *,
        stop: threading.Event,
        report: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._connection, self._census, self._pricer, self._stop, self._report = (
            connection,
            census,
            pricer,
            stop,
            report,
        )
        self._unpriced: dict[str, dict[str, Any]] = {}
        self._priced_at = float("-inf")
        self._kind = BY_NAME[kind_name]
        self._version = self._kind.versions[0]

    def run(self) -> None:
        """Until `stop`. What the API server does is never an exception here; after each trouble a new list."""
        failures = price_failures = 0
        while not self._stop.is_set():
            try:
                version = self._list(is_strict=price_failures < PRICE_TRIES)
                failures = price_failures = 0
                if version is None:
                    self._stop.wait(LIST_SECONDS_MAX)  # the kind is not installed: look again now and then
                    continue
                self._watch(version)
            except GoneError:
                self._census.fall_behind(self._kind.kind)
                self._report("quota-watch-gone", {"kind": self._kind.kind})
            except (WatchError, PriceError, msgspec.DecodeError, msgspec.ValidationError, OSError) as error:
                self._census.fall_behind(self._kind.kind)
                failures += 1
                price_failures += isinstance(error, PriceError)
                self._report("quota-watch-failed", {"kind": self._kind.kind, "reason": str(error)})
                delay = min(RETRY_SECONDS_MAX, 0.1 * 2 ** min(failures, 7))
                self._stop.wait(delay * (0.5 + random.random() / 2))  # noqa: S311  jitter, no secret

    def _list(self, *, is_strict: bool) -> str | None:
        """The list's resourceVersion; None where the kind's CRD is not installed. Strict: an object that cannot be priced
        spoils it (PriceError)."""
        started = time.monotonic()
        nodes: list[Node] = []
        labels: dict[str, Mapping[str, str]] = {}
        unpriced: dict[str, dict[str, Any]] = {}
        token = ""
        while True:
            body = self._page(token)
            if body is None:
                self._census.replace_kind(self._kind.kind, (), started)
                return None
            for raw in body.get("items") or ():
                if self._kind.kind == "Namespace":
                    labels[raw["metadata"]["name"]] = raw["metadata"].get("labels") or {}
                    continue
                try:
                    node = self._pricer.node(self._kind, raw)
                except PriceError as error:
                    if is_strict:
                        raise
                    self._report("quota-price-failed", {"kind": self._kind.kind, "reason": str(error)})
                    node = error.node
                    unpriced[node.uid] = raw
                if node is not None:
                    nodes.append(node)
            token = body["metadata"].get("continue") or ""
            if not token:
                break
        for name, found in labels.items():
            self._census.set_labels(name, found)
        self._unpriced, self._priced_at = unpriced, time.monotonic()
        self._census.replace_kind(self._kind.kind, nodes, started)
        return str(body["metadata"]["resourceVersion"])

    def _page(self, token: str) -> dict[str, Any] | None:
        query = f"?limit={PAGE_OBJECT_COUNT}" + (f"&continue={quote(token)}" if token else "")
        for version in self._kind.versions:
            read = self._connection.get(list_path(self._kind, version) + query, LIST_SECONDS_MAX)
            if read.state is ReadState.OK:
                self._version = version
                body: dict[str, Any] = msgspec.json.decode(read.body)
                return body
            if read.state is not ReadState.NOT_SERVED:
                raise WatchError(read.reason)
        if self._kind.kind == "PodGroup":
            return None  # the gate is off: no bare gangs
        if is_not_installed(self._connection, self._kind):
            return None
        raise WatchError("the API server does not serve this resource")

    def _watch(self, resource_version: str) -> None:
        path = list_path(self._kind, self._version)
        while not self._stop.is_set():
            for line in self._connection.watch(path, resource_version, WATCH_IDLE_SECONDS_MAX):
                event = msgspec.json.decode(line, type=_Event)
                raw = msgspec.json.decode(event.object)
                if event.type == "ERROR":
                    if raw.get("code") == 410:
                        raise GoneError
                    raise WatchError(str(raw.get("message")))
                resource_version = (raw.get("metadata") or {}).get("resourceVersion") or resource_version
                if self._stop.is_set():
                    return
                self._apply(event.type, raw)
                self._price_again()

    def _apply(self, word: str, raw: dict[str, Any]) -> None:
        if word == "BOOKMARK":
            return
        metadata = raw["metadata"]
        if self._kind.kind == "Namespace":
            gone = word == "DELETED"
            self._census.set_labels(metadata["name"], None if gone else metadata.get("labels") or {})
        elif word == "DELETED":
            self._unpriced.pop(metadata["uid"], None)
            self._census.remove(metadata["uid"])
        else:
            self._put(raw)

    def _put(self, raw: dict[str, Any]) -> None:
        """An object that could not be priced before may fail once more, any other is a reason to list again."""
        uid = raw["metadata"]["uid"]
        try:
            node = self._pricer.node(self._kind, raw)
            self._unpriced.pop(uid, None)
        except PriceError as error:
            if uid not in self._unpriced:
                raise
            self._unpriced[uid] = raw
            node = error.node
        if node is not None:
            self._census.put(node)

    def _price_again(self) -> None:
        """Bookmarks come about once a minute, so this does, too."""
        if not self._unpriced or time.monotonic() - self._priced_at < UNPRICED_SECONDS:
            return
        self._priced_at = time.monotonic()
        for raw in list(self._unpriced.values()):
            self._put(raw)
