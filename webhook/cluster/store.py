"""What the agent has seen, for the workers to read: one SQLite file on a memory volume.

Why SQLite and not a snapshot file per version: a busy cluster changes thousands of PodGroups a minute, and rewriting
all of them for each change costs more than the change. In WAL mode a reader sees one consistent version while the
writer goes on, no reader ever sees half a write, and a lookup costs microseconds (docs/decisions/0004).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (kind TEXT, namespace TEXT, name TEXT, raw BLOB,
                                    PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kinds (kind TEXT PRIMARY KEY, synced INTEGER, reason TEXT, version INTEGER);
CREATE TABLE IF NOT EXISTS published (id INTEGER PRIMARY KEY CHECK (id = 1), manifest BLOB);
CREATE TABLE IF NOT EXISTS heartbeat (id INTEGER PRIMARY KEY CHECK (id = 1), monotonic REAL);
"""

STORE_FILE = "facts.sqlite"
"""Its name in the directory that the agent and the workers share."""

# The agent beats every second. After this long without, its word is too old even to admit on; workers read live.
HEARTBEAT_SECONDS_MAX = 15.0

VERSIONS_SECONDS = 0.001
"""How long a worker takes the kinds' versions for current: the questions of one request, asked one after the other. With 10 ms
a JobSet was warned of a missing Workload that had been made 8 ms before it (R23)."""


class StoreWriter:
    """The agent's side. One writer, called from several watch threads. Raises sqlite3.OperationalError on a full disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)  # a former agent's word is worth nothing
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # memory volume: nothing survives a crash anyway
        self._db.executescript(_SCHEMA)
        # Versions of one agent are never those of another.
        self._first_version = time.time_ns()

    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:
        """A whole list, in one transaction: (namespace, name, raw JSON). Marks the kind as synced."""
        wanted = {(namespace, name): raw for namespace, name, raw in objects}
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            rows = self._db.execute("SELECT namespace, name, raw FROM objects WHERE kind = ?", (kind,))
            if {(namespace, name): raw for namespace, name, raw in rows} != wanted:
                self._db.execute("DELETE FROM objects WHERE kind = ?", (kind,))
                self._db.executemany(
                    "INSERT INTO objects VALUES (?, ?, ?, ?)", ((kind, *key, raw) for key, raw in wanted.items())
                )
                self._changed(kind)
            self._mark(kind, synced=True, reason="")

    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None:
        """What is stored already, to the byte, is not written again: a node's heartbeat changes nothing here."""
        key = (kind, namespace, name)
        with self._lock:
            old = self._db.execute("SELECT raw FROM objects WHERE kind = ? AND namespace = ? AND name = ?", key)
            if old.fetchone() != (raw,):
                self._db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (*key, raw))
                self._changed(kind)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        with self._lock:
            self._db.execute(
                "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (kind, namespace, name)
            )
            self._changed(kind)

    def unsynced(self, kind: str, reason: str) -> None:
        """The watch is broken: the kind's objects are no longer to be trusted."""
        with self._lock:
            self._mark(kind, synced=False, reason=reason)

    def not_served(self, kind: str, reason: str) -> None:
        """The API server does not know the resource, today."""
        self.unsynced(kind, reason)

    def publish(self, manifest: bytes) -> None:
        """The inventory's newest version (webhook/cluster/published.py)."""
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO published VALUES (1, ?)", (manifest,))

    def _mark(self, kind: str, *, synced: bool, reason: str) -> None:
        self._db.execute(
            "INSERT INTO kinds VALUES (?, ?, ?, ?) ON CONFLICT (kind) DO UPDATE SET synced = excluded.synced,"
            " reason = excluded.reason",
            (kind, int(synced), reason, self._first_version),
        )

    def _changed(self, kind: str) -> None:
        """The version of a kind goes up with every change of its objects."""
        self._db.execute(
            "INSERT INTO kinds VALUES (?, 0, '', ?) ON CONFLICT (kind) DO UPDATE SET version = version + 1",
            (kind, self._first_version),
        )

    def beat(self) -> None:
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO heartbeat VALUES (1, ?)", (time.monotonic(),))

    def close(self) -> None:
        with self._lock:
            self._db.close()


class StoreReader:
    """A worker's side: one connection per thread. CLOCK_MONOTONIC is one clock for all processes of a machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._versions: tuple[float, Mapping[str, int]] = (float("-inf"), {})

    def version(self, kind: str) -> int | None:
        """Changes with every change of the kind's objects, and with another agent. None where the store cannot say."""
        read_at, versions = self._versions
        now = time.monotonic()
        if now - read_at > VERSIONS_SECONDS:
            rows = self._query(
                "SELECT kind, version FROM kinds, heartbeat WHERE synced = 1 AND monotonic > ?",
                (now - HEARTBEAT_SECONDS_MAX,),
            )
            versions = {str(name): int(version) for name, version in rows or ()}
            self._versions = (now, versions)
        return versions.get(kind)

    def get(self, kind: str, namespace: str, name: str) -> bytes | None:
        """The raw JSON, or None where the store does not (or must not) say."""
        rows = self._query(
            "SELECT raw FROM objects JOIN kinds USING (kind), heartbeat"
            " WHERE kind = ? AND namespace = ? AND name = ? AND synced = 1 AND monotonic > ?",
            (kind, namespace, name, time.monotonic() - HEARTBEAT_SECONDS_MAX),
        )
        return rows[0][0] if rows else None

    def all(self, kind: str, namespace: str) -> list[bytes] | None:
        """All raw objects of a kind in a namespace ("" for cluster-scoped kinds), None where the store cannot say."""
        if self.synced(kind) is not True:
            return None
        rows = self._query("SELECT raw FROM objects WHERE kind = ? AND namespace = ? ORDER BY name", (kind, namespace))
        return None if rows is None else [row[0] for row in rows]

    def synced(self, kind: str) -> bool | None:
        """True: listed and watched. False: not (yet). None: no agent at all."""
        rows = self._query(
            "SELECT (SELECT synced FROM kinds WHERE kind = ?) FROM heartbeat WHERE monotonic > ?",
            (kind, time.monotonic() - HEARTBEAT_SECONDS_MAX),
        )
        return bool(rows[0][0]) if rows else None

    def published(self) -> bytes | None:
        """The inventory's manifest; None where there is none, or no agent that stands by it."""
        rows = self._query(
            "SELECT manifest FROM published, heartbeat WHERE monotonic > ?",
            (time.monotonic() - HEARTBEAT_SECONDS_MAX,),
        )
        return rows[0][0] if rows else None

    def _query(self, sql: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]] | None:
        try:
            return list(self._connection().execute(sql, parameters))
        except sqlite3.Error:
            # No file yet, or the agent has just been replaced: the store has no word, and workers read live.
            self._local.__dict__.pop("db", None)
            return None

    def _connection(self) -> sqlite3.Connection:
        try:
            inode = os.stat(self._path).st_ino  # noqa: PTH116  asked for at each lookup: a Path is ten times dearer
        except OSError:
            inode = 0
        if getattr(self._local, "inode", None) != inode or "db" not in self._local.__dict__:
            self._local.db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None, timeout=0.2)
            self._local.inode = inode
        db: sqlite3.Connection = self._local.db
        return db
