"""The leader's side of tier quotas: while it holds the Lease, a census of what lives and a recount whenever it changes.

A term is one leadership: new watches, new lists, a new census. It ends with the Lease, with a new policy (every price may
be another), or when another leader has counted in between.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
import urllib3

from webhook.cluster.census_feed import FED_KINDS, Feed, is_not_installed
from webhook.cluster.connection import Connection, ReadState
from webhook.cluster.lease import Lease
from webhook.cluster.quota_store import ClusterQuotaStore
from webhook.cluster.source import ClusterSource
from webhook.facts.source import FactSource, Found, Query
from webhook.objects.kinds import BY_NAME
from webhook.policy.effective import EffectivePolicy
from webhook.quota.census import Census
from webhook.quota.model import API_VERSION, KIND, Reservation, TierQuota, amount_text
from webhook.quota.pricer import COUNTED_KINDS, Pricer
from webhook.quota.recount import RESERVATION_SECONDS, Journal, Looked, Recounter, Seen
from webhook.quota.store import StoreError

LEASE_NAME = "muster-tier-quotas"

CALM_SECONDS = 0.25
"""A change waits so long for others, so that a burst of a thousand Pods is not a thousand counts."""
POLL_SECONDS = 0.5
"""Without any change the books are looked at so often: a new quota, an edited limit, a reservation whose time is up."""
RETRY_SECONDS = 0.05
EVENT_SECONDS = 60.0
READ_SECONDS_MAX = 3.0
EVENTS_PATH = "/api/v1/namespaces/default/events"


class Policies(Protocol):
    """The loaded policy. A new version is another object."""

    @property
    def needs_labels(self) -> bool: ...

    @property
    def version(self) -> str: ...

    def effective(self, namespace: str, labels: Mapping[str, str]) -> EffectivePolicy: ...


Report = Callable[[str, dict[str, Any]], None]


class ThreadError(RuntimeError):
    """A thread has ended by itself, by a bug of ours. Without it the Lease would be held and nothing counted, or one kind
    would stay as it is for ever."""


class Reconciler:
    """`run` in one thread, until `stop`. Raises nothing for what the API server does; raises ThreadError."""

    def __init__(
        self,
        connection: Connection,
        policies: Callable[[], Policies],
        *,
        namespace: str,
        report: Report,
        journal: Journal | None = None,
        reservation_seconds: float = RESERVATION_SECONDS,
    ) -> None:
        self._connection, self._policies, self._report = connection, policies, report
        self._identity = f"muster-{uuid.uuid4()}"
        self._lease = Lease(connection, namespace, LEASE_NAME, self._identity)
        self._store = ClusterQuotaStore(connection)
        self._journal = EventJournal(connection, report, journal)
        self._reservation_seconds = reservation_seconds
        self._first_seen: dict[str, float] = {}
        self._had_books: set[str] = set()

    def is_leader(self) -> bool:
        """Of all replicas, for all that only one of them does."""
        return self._lease.is_held()

    def run(self, stop: threading.Event) -> None:
        keeper = threading.Thread(target=self._lease.keep, args=(stop,), name="lease", daemon=True)
        keeper.start()
        while not stop.wait(RETRY_SECONDS):
            _all_alive([keeper], stop)
            if self._lease.is_held():
                self._report("quota-leader", {"identity": self._identity})
                self._term(stop)
        keeper.join(timeout=10)

    def _term(self, stop: threading.Event) -> None:
        """One leadership, until it is over for one reason or another."""
        over = threading.Event()
        changed = threading.Event()
        census = Census(on_change=changed.set)
        source = ClusterSource(self._connection, None)
        policies = self._policies()
        version = policies.version
        pricer = Pricer(source, lambda namespace: _effective(policies, census, source, namespace), is_live=True)
        recounter = Recounter(
            self._store,
            census,
            # A name of the term's own: a count of an earlier term rests on another census.
            identity=f"{self._identity}/{uuid.uuid4().hex[:8]}",
            kinds=FED_KINDS,
            look=partial(look, self._connection),
            relist=over.set,
            journal=self._journal,
            reservation_seconds=self._reservation_seconds,
            on_damage=self._journal.damaged,
            first_seen=self._first_seen,
            had_books=self._had_books,
            leads=self._lease.is_held,
        )
        if not self._take_over(recounter, stop):
            return
        feeds = [Feed(self._connection, census, pricer, kind, stop=over, report=self._report) for kind in FED_KINDS]
        names = [f"quota-{kind}" for kind in FED_KINDS]
        threads = [
            threading.Thread(target=feed.run, name=name, daemon=True) for feed, name in zip(feeds, names, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            while not over.is_set() and not stop.is_set():
                if not self._lease.is_held() or self._policies().version != version:
                    break
                self._step(recounter, census, changed)
                _all_alive(threads, over)
        finally:
            over.set()

    def _take_over(self, recounter: Recounter, stop: threading.Event) -> bool:
        """Before anything is listed: the former leader's counts end here."""
        while not stop.is_set() and self._lease.is_held():
            try:
                if recounter.take_over():
                    return True
            except StoreError as error:
                self._report("quota-read-failed", {"reason": str(error)})
                stop.wait(POLL_SECONDS)
        return False

    def _step(self, recounter: Recounter, census: Census, changed: threading.Event) -> None:
        due = [moment for moment in (census.settles_at(), recounter.next_due()) if moment is not None]
        patience = min([POLL_SECONDS, *(max(0.0, moment - time.monotonic()) for moment in due)])
        if changed.wait(max(patience, RETRY_SECONDS)):
            time.sleep(CALM_SECONDS)
        changed.clear()
        try:
            if not recounter.run_once():
                changed.set()
                time.sleep(RETRY_SECONDS)
        except StoreError as error:
            self._report("quota-read-failed", {"reason": str(error)})
            time.sleep(POLL_SECONDS)


def look(connection: Connection, reservation: Reservation) -> Looked:
    """A live read of a reservation's object, by name; its uid decides. Of a kind that is not counted, or that the cluster no
    longer has, nothing can be in the count either."""
    if reservation.kind not in COUNTED_KINDS:
        return Looked(Seen.ABSENT)
    kind = BY_NAME[reservation.kind]
    for version in kind.versions:
        root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
        where = f"/namespaces/{quote(reservation.namespace, safe='')}/{kind.plural}/{quote(reservation.name, safe='')}"
        read = connection.get(root + where, READ_SECONDS_MAX)
        if read.state is ReadState.NOT_FOUND:
            return Looked(Seen.ABSENT)
        if read.state is ReadState.OK:
            return _looked(msgspec.json.decode(read.body), reservation)
        if read.state is ReadState.FAILED:
            return Looked(Seen.UNKNOWN)
    return Looked(Seen.ABSENT if is_not_installed(connection, kind) else Seen.UNKNOWN)


def _all_alive(threads: Sequence[threading.Thread], stopping: threading.Event) -> None:
    for thread in threads:
        if not thread.is_alive() and not stopping.is_set():
            raise ThreadError(f'the thread "{thread.name}" has ended')


def _looked(raw: Mapping[str, Any], reservation: Reservation) -> Looked:
    metadata = raw.get("metadata") or {}
    if metadata.get("uid") != reservation.uid:
        return Looked(Seen.ABSENT)
    if reservation.kind == "Pod" and (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Looked(Seen.PAST)
    return Looked(Seen.PRESENT, int(metadata.get("generation") or 0))


def _effective(policies: Policies, census: Census, source: FactSource, namespace: str) -> EffectivePolicy:
    labels: Mapping[str, str] = {}
    if policies.needs_labels:
        labels = census.labels(namespace)
        if not labels:
            answer = source.ask(Query("Namespace", "", namespace), fresh=False, deadline=time.monotonic() + 2.0)
            if isinstance(answer, Found) and isinstance(answer.value, Mapping):
                labels = (answer.value.get("metadata") or {}).get("labels") or {}
    return policies.effective(namespace, labels)


class EventJournal:
    """Says in an Event on the TierQuota, and in the log, what did not add up; metrics are `inner`'s."""

    def __init__(self, connection: Connection, report: Report, inner: Journal | None) -> None:
        self._connection, self._report, self._inner = connection, report, inner
        self._said_at: dict[str, float] = {}

    def lapsed(self, quota: TierQuota, reservations: Sequence[Reservation]) -> None:
        self._report("quota-reservations-lapsed", {"quota": quota.name, "count": len(reservations)})
        if self._inner is not None:
            self._inner.lapsed(quota, reservations)

    def drift(self, quota: TierQuota, amounts: Mapping[str, int]) -> None:
        """Always in the log and the metrics; as an Event once a minute at most, since a rolling update has many."""
        words = ", ".join(f"{amount_text(name, amounts[name])} {name}" for name in sorted(amounts))
        self._report("quota-drift-repaired", {"quota": quota.name, "amounts": words})
        now = time.monotonic()
        if now - self._said_at.get(quota.uid, float("-inf")) >= EVENT_SECONDS:
            self._said_at[quota.uid] = now
            self._event(
                quota,
                f"{words} live that were never charged, and are counted now: created while Muster did not answer or "
                "before the quota, or Pods beyond a plan, such as the surge of a rolling update",
            )
        if self._inner is not None:
            self._inner.drift(quota, amounts)

    def damaged(self, quota: TierQuota) -> None:
        self._report("quota-status-failed", {"quota": quota.name, "reason": quota.damage})
        self._event(
            quota,
            f"the status cannot be read ({quota.damage}); nothing is admitted on it until all that may have been reserved "
            "is stored or never will be, then it is counted anew",
            reason="StatusUnreadable",
        )

    def counted(self, quotas: Sequence[TierQuota]) -> None:
        if self._inner is not None:
            self._inner.counted(quotas)

    def _event(self, quota: TierQuota, message: str, reason: str = "DriftRepaired") -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{quota.name}.", "namespace": "default"},
            "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, "name": quota.name, "uid": quota.uid},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "muster"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._connection.send("POST", EVENTS_PATH, event, READ_SECONDS_MAX)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._report("quota-event-failed", {"quota": quota.name, "reason": type(error).__name__})
