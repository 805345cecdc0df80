"""The FactSource of a live cluster: the agent's store first, a live read for what it does not hold or must be fresh."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.cluster.connection import PAGE_OBJECT_COUNT, Connection, Read, ReadState
from webhook.cluster.store import StoreReader
from webhook.facts.source import NOT_SERVED, Absent, Answer, Found, Query, Unknown
from webhook.objects.kinds import BY_NAME, Kind

# A live list longer than this is not worth a request's time: the rule that asked is undecided, and says so.
LIST_OBJECT_COUNT_MAX = 4 * PAGE_OBJECT_COUNT
# One read may not use up the whole deadline.
READ_SECONDS_MAX = 2.0
# After a read that nobody answered, further reads fail at once for this long: a vanished API server must not make
# every request wait for every lookup.
BREAK_SECONDS = 1.0
# Of the store, that a process keeps.
ANSWER_COUNT_MAX = 1000


class ClusterSource:
    """Thread-safe. `store` is None where no agent runs: every lookup is then a live read."""

    def __init__(self, connection: Connection, store: StoreReader | None) -> None:
        self._connection = connection
        self._store = store
        self._broken_until = 0.0
        self._version_by_kind: dict[str, str] = {}
        self._answers: dict[Query, tuple[int, Found]] = {}

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        kind = BY_NAME.get(query.kind)
        if kind is None:
            return Unknown(f"{query.kind} is no kind that Muster reads")
        if not fresh and self._store is not None:
            cached = self._cached(query)
            if cached is not None:
                return cached
        return self._live_list(kind, query, deadline) if query.is_list else self._live_one(kind, query, deadline)

    def _cached(self, query: Query) -> Found | None:
        """What the store holds; absence is never taken from it (watches lag, and absence must be confirmed). An answer is
        read once as long as nothing of its kind changes: half of the time of judging a Job were such reads."""
        assert self._store is not None  # noqa: S101
        version = self._store.version(query.kind)
        if version is None:
            return None
        known = self._answers.get(query)
        if known is not None and known[0] == version:
            return known[1]
        answer = self._stored(self._store, query)
        if answer is not None:
            if len(self._answers) >= ANSWER_COUNT_MAX:
                self._answers.clear()
            self._answers[query] = (version, answer)
        return answer

    def _stored(self, store: StoreReader, query: Query) -> Found | None:
        if query.is_list:
            rows = store.all(query.kind, query.namespace)
            return None if rows is None else Found(tuple(msgspec.json.decode(row) for row in rows))
        row = store.get(query.kind, query.namespace, query.name)
        return None if row is None else Found(msgspec.json.decode(row))

    def _live_one(self, kind: Kind, query: Query, deadline: float) -> Answer:
        read = self._read(kind, lambda version: _path(kind, version, query), deadline)
        if read.state is ReadState.NOT_FOUND:
            return Absent()
        if read.state is not ReadState.OK:
            return Unknown(f"{query} could not be looked up: {read.reason}")
        value = _decoded(read)
        return Unknown(f"{query} is unreadable") if value is None else Found(value)

    def _live_list(self, kind: Kind, query: Query, deadline: float) -> Answer:
        objects: list[Mapping[str, Any]] = []
        token = ""
        while True:
            page = f"?limit={PAGE_OBJECT_COUNT}" + (f"&continue={quote(token)}" if token else "")
            read = self._read(kind, lambda version, page=page: _path(kind, version, query) + page, deadline)
            if read.state is not ReadState.OK:
                return Unknown(f"{query} could not be listed: {read.reason}")
            body = _decoded(read)
            if body is None:
                return Unknown(f"the list of {query} is unreadable")
            objects += body.get("items") or ()
            token = (body.get("metadata") or {}).get("continue") or ""
            if not token:
                return Found(tuple(objects))
            if len(objects) >= LIST_OBJECT_COUNT_MAX:
                return Unknown(f"{query}: more than {LIST_OBJECT_COUNT_MAX} objects, not all read")

    def _read(self, kind: Kind, path_of: Any, deadline: float) -> Read:
        """GET in the first version that is served; the one that answered is remembered."""
        known = self._version_by_kind.get(kind.kind)
        read = Read(ReadState.NOT_SERVED, reason=NOT_SERVED)
        for version in (known,) if known else kind.versions:
            now = time.monotonic()
            if now < self._broken_until:
                return Read(ReadState.FAILED, reason="the API server did not answer a moment ago")
            if now >= deadline:
                return Read(ReadState.FAILED, reason="no time left in this request")
            read = self._connection.get(path_of(version), min(READ_SECONDS_MAX, deadline - now))
            if read.state is ReadState.FAILED and "did not answer" in read.reason:
                self._broken_until = time.monotonic() + BREAK_SECONDS
            if read.state in (ReadState.OK, ReadState.NOT_FOUND):
                self._version_by_kind[kind.kind] = version
                break
            if read.state is ReadState.FAILED:
                break
            self._version_by_kind.pop(kind.kind, None)
        return read


def _decoded(read: Read) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(read.body)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


def _path(kind: Kind, version: str, query: Query) -> str:
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    namespace = f"/namespaces/{quote(query.namespace, safe='')}" if kind.namespaced else ""
    name = f"/{quote(query.name, safe='')}" if query.name else ""
    return f"{root}{namespace}/{kind.plural}{name}"


def list_path(kind: Kind, version: str) -> str:
    """All objects of a kind, in all namespaces."""
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    return f"{root}/{kind.plural}"
