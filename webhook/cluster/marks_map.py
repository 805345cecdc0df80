"""The ConfigMap of the high-water marks: every agent reads it before capacity is judged, the leader writes it."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import urllib3

from webhook.cluster.connection import Connection, ReadState
from webhook.inventory.marks import Marks, MarksError, decoded, encoded

CONFIG_MAP = "muster-high-water"
KEY = "marks.json.gz"
READ_SECONDS_MAX = 5.0
RETRY_SECONDS = 1.0
# A drop is written soon, and a node that flaps is no load.
WRITE_SECONDS = 2.0

Report = Callable[[str, dict[str, Any]], None]


class UnreadError(Exception):
    """The ConfigMap cannot be read; the message says why and what to do."""


class Holder(Protocol):
    """Who knows the marks: webhook.cluster.inventory_feed.InventoryFeed."""

    def load(self, marks: Marks) -> None: ...
    def marks(self) -> Marks | None: ...
    def cannot_load(self, reason: str) -> None: ...


class MarksMap:
    """Reads and writes. namespace: Muster's own."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{CONFIG_MAP}"
        self._title = f'ConfigMap "{namespace}/{CONFIG_MAP}"'

    def read(self) -> tuple[Marks, str | None]:
        """The marks and the resourceVersion; None where there is no such ConfigMap yet. Raises UnreadError."""
        read = self._connection.get(self._path, READ_SECONDS_MAX)
        if read.state is ReadState.NOT_FOUND:
            return Marks(), None
        if read.state is not ReadState.OK:
            raise UnreadError(f"{self._title}, which says what nodes had lately, cannot be read: {read.reason}")
        raw = msgspec.json.decode(read.body)
        version = str(raw["metadata"]["resourceVersion"])
        content = (raw.get("binaryData") or {}).get(KEY)
        if content is None:
            return Marks(), version
        try:
            return decoded(base64.b64decode(content)), version
        except (MarksError, ValueError) as error:
            raise UnreadError(
                f"{self._title} holds no high-water marks ({error}); take its binaryData out to start anew"
            ) from error

    def write(self, marks: Marks, version: str | None) -> bool:
        """False where somebody else wrote in between. Raises urllib3 HTTPError, OSError, UnreadError where it is refused."""
        content = base64.b64encode(encoded(marks, time.time())).decode()
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {KEY: content}}
        if version is None:
            body["metadata"] = {"name": CONFIG_MAP}
            status, _ = self._connection.send("POST", self._collection, body, READ_SECONDS_MAX)
        else:
            # A patch keeps the labels that Helm knows the object by; the resourceVersion makes it a compare-and-swap.
            body["metadata"] = {"resourceVersion": version}
            patch = "application/merge-patch+json"
            status, _ = self._connection.send("PATCH", self._path, body, READ_SECONDS_MAX, patch)
        if status not in (200, 201, 409):
            raise UnreadError(f"{self._title} cannot be written: the API server answered {status}")
        return status != 409


class Keeper:
    """`run` in one thread: loads the marks, then writes them while this replica leads."""

    def __init__(self, store: MarksMap, holder: Holder, leads: Callable[[], bool], report: Report) -> None:
        self._store, self._holder, self._leads, self._report = store, holder, leads, report
        self._written: Marks | None = None

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set."""
        while not stop.is_set() and not self.load():
            stop.wait(RETRY_SECONDS)
        while not stop.wait(WRITE_SECONDS):
            if self._leads():
                self.save()
            else:
                self._written = None

    def load(self) -> bool:
        """Hands over what is stored; False where it cannot be read."""
        try:
            marks, _ = self._store.read()
        except UnreadError as error:
            self._holder.cannot_load(str(error))
            self._report("high-water-failed", {"reason": str(error)})
            return False
        self._holder.load(marks)
        return True

    def save(self) -> None:
        """Writes what is new, together with what another leader wrote."""
        marks = self._holder.marks()
        if marks is None or marks == self._written:
            return
        try:
            stored, version = self._store.read()
            if self._written is None:  # newly the leader: the former one may have seen what this one has not
                self._holder.load(stored)
                marks = self._holder.marks() or marks
            if self._store.write(marks, version):
                self._written = marks
        except (UnreadError, urllib3.exceptions.HTTPError, OSError) as error:
            self._report("high-water-failed", {"reason": str(error)})
