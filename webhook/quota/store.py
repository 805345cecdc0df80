"""Where TierQuotas are kept. One write is a compare-and-swap: it takes place only if nobody wrote since it was read.

`InMemoryStore` serves `muster review` and the tests; the live one is webhook/cluster/quota_store.py.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from webhook.quota.model import TierQuota


class StoreError(Exception):
    """The quotas cannot be read now; the words why."""


class Written(enum.StrEnum):
    """CONFLICT: somebody wrote in between, nothing happened. UNCLEAR: no answer; it may have happened or may still."""

    DONE = "done"
    CONFLICT = "conflict"
    GONE = "gone"
    UNCLEAR = "unclear"


class QuotaStore(Protocol):
    """Thread-safe. deadline: a time.monotonic() value after which the answer is of no use."""

    def all(self, deadline: float) -> list[TierQuota]:
        """As they are now, whatever a cache says. Empty where the cluster has no such kind. Raises StoreError."""
        ...

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        """Those of these names that exist, as they are now. Raises StoreError."""
        ...

    def write(self, quota: TierQuota, deadline: float) -> Written:
        """The status of `quota`, if its resource_version is still the stored one. Never raises."""
        ...


class InMemoryStore:
    """All in this process. Quotas that were never counted are taken as they are: nothing else lives in memory."""

    def __init__(self, quotas: Iterable[TierQuota] = ()) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._quotas: dict[str, TierQuota] = {}
        for quota in quotas:
            self.put(replace(quota, counted_scope=quota.scope))

    def put(self, quota: TierQuota) -> None:
        """Creates or replaces one, as an admin would."""
        with self._lock:
            self._version += 1
            self._quotas[quota.name] = replace(quota, resource_version=str(self._version))

    def remove(self, name: str) -> None:
        with self._lock:
            self._quotas.pop(name, None)

    def all(self, deadline: float) -> list[TierQuota]:
        del deadline
        with self._lock:
            return list(self._quotas.values())

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        del deadline
        with self._lock:
            return [self._quotas[name] for name in names if name in self._quotas]

    def write(self, quota: TierQuota, deadline: float) -> Written:
        del deadline
        with self._lock:
            stored = self._quotas.get(quota.name)
            if stored is None:
                return Written.GONE
            if stored.resource_version != quota.resource_version:
                return Written.CONFLICT
            self._version += 1
            self._quotas[quota.name] = replace(quota, resource_version=str(self._version))
            return Written.DONE
