"""TierQuotas of the live cluster: read by name, written by a PUT of the status with its resourceVersion.

Lists only find out which there are. kube-apiserver 1.37 answers a list from its watch cache once that has caught up with etcd,
for which it asks about every 100 ms: while other objects are written a list takes 60 to 80 ms, a GET 4 ms (measured).

The API server makes that PUT a compare-and-swap: 409 where anybody wrote since. An answer that does not come leaves open
whether the write took place, which the ledger finds out by reading again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import quote

import msgspec
import urllib3

from webhook.cluster.connection import PAGE_OBJECT_COUNT, Connection, ReadState
from webhook.quota.model import API_VERSION, KIND, QuotaError, TierQuota, from_raw, status_of
from webhook.quota.store import StoreError, Written

PATH = f"/apis/{API_VERSION}/tierquotas"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tierquotas.muster.dev"

REQUEST_SECONDS_MAX = 2.0
"""One read or write; the rest of a request's time is for another try."""


class ClusterQuotaStore:
    """Implements webhook.quota.store.QuotaStore. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen = False

    def all(self, deadline: float) -> list[TierQuota]:
        quotas: list[TierQuota] = []
        token = ""
        while True:
            page = f"?limit={PAGE_OBJECT_COUNT}" + (f"&continue={quote(token)}" if token else "")
            read = self._connection.get(PATH + page, _seconds(deadline))
            if read.state is ReadState.NOT_SERVED and not self._is_installed(deadline):
                return []
            if read.state is not ReadState.OK:
                raise StoreError(read.reason or "the list of TierQuotas was not found")
            try:
                body = msgspec.json.decode(read.body)
                quotas += [from_raw(raw) for raw in body["items"]]
                token = body["metadata"].get("continue") or ""
            except (QuotaError, msgspec.DecodeError, KeyError, TypeError) as error:
                raise StoreError(str(error)) from error
            if not token:
                self._seen = self._seen or bool(quotas)
                return quotas

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        quotas: list[TierQuota] = []
        for name in names:
            read = self._connection.get(f"{PATH}/{quote(name, safe='')}", _seconds(deadline))
            if read.state is ReadState.NOT_FOUND:
                continue
            if read.state is not ReadState.OK:
                raise StoreError(read.reason)
            try:
                quotas.append(from_raw(msgspec.json.decode(read.body)))
            except (QuotaError, msgspec.DecodeError) as error:
                raise StoreError(str(error)) from error
        return quotas

    def write(self, quota: TierQuota, deadline: float) -> Written:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": quota.name, "resourceVersion": quota.resource_version},
            "status": status_of(quota),
        }
        try:
            path = f"{PATH}/{quote(quota.name, safe='')}/status?fieldManager=muster"
            status, _ = self._connection.send("PUT", path, body, _seconds(deadline))
        except (urllib3.exceptions.HTTPError, OSError):
            return Written.UNCLEAR
        if status == 200:
            return Written.DONE
        if status == 409:
            return Written.CONFLICT
        return Written.GONE if status == 404 else Written.UNCLEAR

    def _is_installed(self, deadline: float) -> bool:
        """Not served may mean that the CRD is not there, or not yet, in a server that has just started."""
        read = self._connection.get(CRD_PATH, _seconds(deadline))
        return read.state is ReadState.OK or (read.state is ReadState.FAILED and self._seen)


def _seconds(deadline: float) -> float:
    return min(REQUEST_SECONDS_MAX, max(0.05, deadline - time.monotonic()))
