"""One leader among the replicas, by a coordination.k8s.io/v1 Lease, as client-go's leader election does it.

The kubernetes client's own elector compares its wall clock with the holder's. Here, as in client-go, a candidate waits until
the Lease has not changed for its whole duration by the candidate's own monotonic clock, so clocks a minute apart do no harm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import urllib3

from webhook.cluster.connection import Connection, ReadState

DURATION_SECONDS = 6
"""Short, against client-go's 15: while nobody counts, whoever meets a reserved place is told to try again. Two leaders at a time
do no harm to the books, which have a fence of their own."""
RENEW_SECONDS = 4.0
"""Without a renewal for so long the holder stops, before others may start."""
RETRY_SECONDS = 1.0
REQUEST_SECONDS_MAX = 2.0


class Lease:
    """`keep` runs in a thread of its own; `is_held` may be asked from any."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._identity, self._clock = connection, identity, clock
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed_at = float("-inf")

    def is_held(self) -> bool:
        return self._clock() - self._renewed_at < RENEW_SECONDS

    def keep(self, stop: threading.Event) -> None:
        """Tries for the Lease, and renews it, until `stop`; then gives it up, so that the next one need not wait."""
        while not stop.is_set():
            self.try_once()
            stop.wait(RETRY_SECONDS)
        if self.is_held():
            self._renewed_at = float("-inf")
            self._write(self._read(), "")

    def try_once(self) -> bool:
        """One attempt to get or renew it."""
        started = self._clock()
        lease = self._read()
        if lease is not None and not self._may_take(lease):
            return False
        if self._write(lease, self._identity):
            self._renewed_at = started
            return True
        return False

    def _read(self) -> dict[str, Any] | None:
        """None: there is no such Lease. An empty one where it cannot be read, which nobody may take."""
        read = self._connection.get(self._path, REQUEST_SECONDS_MAX)
        if read.state is ReadState.NOT_FOUND:
            return None
        lease: dict[str, Any] = msgspec.json.decode(read.body) if read.state is ReadState.OK else {}
        return lease

    def _may_take(self, lease: dict[str, Any]) -> bool:
        if not lease:
            return False
        version = str(lease["metadata"].get("resourceVersion"))
        if version != self._seen[0]:
            self._seen = (version, self._clock())
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        return holder in ("", self._identity) or self._clock() - self._seen[1] > DURATION_SECONDS

    def _write(self, lease: dict[str, Any] | None, holder: str) -> bool:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now}
        body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        try:
            if lease is None:
                body |= {"metadata": {"name": self._name}, "spec": {**spec, "acquireTime": now}}
                status, _ = self._connection.send("POST", self._collection, body, REQUEST_SECONDS_MAX)
                return status == 201
            if not lease:
                return False
            old = lease.get("spec") or {}
            if old.get("holderIdentity") == holder:
                spec["acquireTime"] = old.get("acquireTime") or now
            else:
                spec["acquireTime"] = now
            metadata = {"name": self._name, "resourceVersion": lease["metadata"]["resourceVersion"]}
            status, _ = self._connection.send(
                "PUT", self._path, {**body, "metadata": metadata, "spec": spec}, REQUEST_SECONDS_MAX
            )
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return status == 200
