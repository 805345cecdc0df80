"""TierQuotas for a folder that stands for a cluster: one file that all workers of `muster serve` share.

Nothing is ever stored in a folder, so what is admitted lapses after a while by itself, as a reservation does in a cluster.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from webhook.quota.model import TierQuota, line_of, reservation_of
from webhook.quota.store import Written

RESERVATION_SECONDS = 90.0


class QuotaFile:
    """Implements webhook.quota.store.QuotaStore for several processes. The quotas as they were given are in memory; the file
    holds versions and reservations. Its absence is an empty book."""

    def __init__(self, path: Path, quotas: Iterable[TierQuota], clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._given = {quota.name: quota for quota in quotas}

    def all(self, deadline: float) -> list[TierQuota]:
        del deadline
        with self._locked() as books:
            return self._quotas(books)

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        wanted = set(names)
        return [quota for quota in self.all(deadline) if quota.name in wanted]

    def write(self, quota: TierQuota, deadline: float) -> Written:
        del deadline
        with self._locked() as books:
            stored = {item.name: item for item in self._quotas(books)}.get(quota.name)
            if stored is None:
                return Written.GONE
            if stored.resource_version != quota.resource_version:
                return Written.CONFLICT
            given = {item.id for item in self._given[quota.name].reservations}
            known = {item["id"]: item["at"] for item in books.get(quota.name, {}).get("rows", ())}
            rows = [
                {"id": item.id, "at": known.get(item.id, self._clock()), "line": line_of(item)}
                for item in quota.reservations
                if item.id not in given
            ]
            books[quota.name] = {"version": int(stored.resource_version) + 1, "rows": rows}
            self._path.write_bytes(msgspec.json.encode(books))
            return Written.DONE

    def _quotas(self, books: dict[str, Any]) -> list[TierQuota]:
        oldest = self._clock() - RESERVATION_SECONDS
        result = []
        for name, quota in self._given.items():
            book = books.get(name, {"version": 0, "rows": []})
            own = (*quota.reservations, *(reservation_of(row["line"]) for row in book["rows"] if row["at"] > oldest))
            result.append(replace(quota, resource_version=str(book["version"]), reservations=own))
        return result

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            data = self._path.read_bytes() if self._path.exists() else b""
            yield msgspec.json.decode(data) if data else {}
