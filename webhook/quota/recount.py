"""The leader's work on the books: count what lives, take settled and lapsed reservations out, say what did not add up.

One leader at a time counts, and a quota knows who: `counted_by`. A new leader first writes its name there, by
compare-and-swap, which makes every later write of the former leader fail; only lists that began after that may be counted
from. So no count ever rests on an older view than the count before it (docs/decisions/0006).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from webhook.quota.advance import SPAN_SECONDS
from webhook.quota.book import Counted, Fate, Recount, recounted
from webhook.quota.census import Census, View
from webhook.quota.ledger import KNOWN_SECONDS
from webhook.quota.model import Reservation, TierQuota
from webhook.quota.store import QuotaStore, Written

RESERVATION_SECONDS = 90.0
"""How long a reservation waits for its object, by the leader's own clock. kube-apiserver gives up a request after 60 s
(--request-timeout): what is not stored by then never will be."""

WRITE_SECONDS_MAX = 5.0

LIST_SECONDS = 0.4
"""How often the leader looks for new quotas."""

NOTICE_SECONDS = 2 * KNOWN_SECONDS
"""A new quota, or one with a new scope, is counted so long after it was seen. Until then it says "not counted", so that no
charge is decided on it while a worker may still think that there is none (ledger.KNOWN_SECONDS). Books that were lost, because
somebody broke or emptied the status by hand, wait a reservation's time instead: what was in them is stored by then or never."""


class Seen(enum.StrEnum):
    """A live read of a reservation's object."""

    ABSENT = "absent"  # no such object, or another one of that name
    PAST = "past"  # it is there and no longer counts: a finished Pod
    PRESENT = "present"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Looked:
    seen: Seen
    generation: int = 0


class Journal(Protocol):
    """Told what the recount found, for metrics and events. Must not raise."""

    def lapsed(self, quota: TierQuota, reservations: Sequence[Reservation]) -> None: ...

    def drift(self, quota: TierQuota, amounts: Mapping[str, int]) -> None: ...

    def counted(self, quotas: Sequence[TierQuota]) -> None: ...


class NoJournal:
    """A Journal that keeps nothing."""

    def lapsed(self, quota: TierQuota, reservations: Sequence[Reservation]) -> None:
        pass

    def drift(self, quota: TierQuota, amounts: Mapping[str, int]) -> None:
        pass

    def counted(self, quotas: Sequence[TierQuota]) -> None:
        pass


class Recounter:
    """Call `run_once` from one thread, whenever something changed and now and then. identity: unique to this process.

    look: a live read. relist: asks for new lists of every kind; they show in the census when they are there. kinds: those
    that must be listed before anything is counted. on_damage: told once of a quota whose status cannot be read. first_seen: when
    this process saw each reservation first, of former terms. had_books: quotas that it saw counted, of former terms. leads: is this still the leader? One that stood still for a while
    must not take the quotas back from its successor.
    """

    def __init__(
        self,
        store: QuotaStore,
        census: Census,
        *,
        identity: str,
        kinds: Sequence[str],
        look: Callable[[Reservation], Looked],
        relist: Callable[[], None],
        journal: Journal | None = None,
        clock: Callable[[], float] = time.monotonic,
        reservation_seconds: float = RESERVATION_SECONDS,
        on_damage: Callable[[TierQuota], None] = lambda _: None,
        first_seen: dict[str, float] | None = None,
        had_books: set[str] | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._census, self._identity = store, census, identity
        self._kinds, self._look, self._relist = tuple(kinds), look, relist
        self._journal = journal or NoJournal()
        self._clock, self._reservation_seconds = clock, reservation_seconds
        # The last order is charged from it so much later.
        self._advance_seconds = reservation_seconds + SPAN_SECONDS
        self._first_seen: dict[str, float] = {} if first_seen is None else first_seen
        self._outdated: frozenset[str] = frozenset()
        self._on_damage, self._leads = on_damage, leads
        self._noticed: dict[tuple[str, str], float] = {}
        self._had_books: set[str] = set() if had_books is None else had_books
        self._fenced_at = float("-inf")
        self._last: Sequence[TierQuota] = ()
        self._listed_at = float("-inf")

    def run_once(self) -> bool:
        """True if every quota's books are right now; False if somebody wrote in between or a list is missing: call again.
        Raises StoreError.

        The view is taken and counted before the quotas are read, so that little time passes between read and write. It may
        be older than what is read, since no other leader counts; but what becomes of reservations rests on it, too.
        """
        # Asked before the view is taken: a list that comes in between is not in the view.
        is_listed = self._census.listed_since(self._fenced_at, self._kinds)
        self._outdated = self._listed_since_due()
        view = self._census.view()
        for quota in self._last:
            self._count(view, quota)
        quotas = self._last = self._read()
        if not self._fence(quotas) or not is_listed:
            return False
        present = {item.id for quota in quotas for item in quota.reservations if not item.settled}
        now = self._clock()
        for gone in self._first_seen.keys() - present:
            del self._first_seen[gone]
        for item in present - self._first_seen.keys():
            self._first_seen[item] = now
        self._notice(quotas, now)
        results = [self._recount(view, quota) for quota in quotas if self._is_due(quota)]
        self._journal.counted([quota for quota, _ in results])
        return len(results) == len(quotas) and all(done for _, done in results)

    def _read(self) -> Sequence[TierQuota]:
        """By name, which is quick; which names there are is looked up now and then."""
        now = self._clock()
        if now - self._listed_at < LIST_SECONDS:
            return self._store.some([quota.name for quota in self._last], now + WRITE_SECONDS_MAX)
        quotas = self._store.all(now + WRITE_SECONDS_MAX)
        self._listed_at = now
        return quotas

    def take_over(self) -> bool:
        """True once every quota that another leader counted has this one's name. Lists must begin after that: call it first.
        Raises StoreError."""
        return all(
            quota.counted_by in ("", self._identity) or self._sign(quota)
            for quota in self._store.all(self._clock() + WRITE_SECONDS_MAX)
        )

    def _sign(self, quota: TierQuota) -> bool:
        mine = replace(quota, counted_by=self._identity)
        return self._store.write(mine, self._clock() + WRITE_SECONDS_MAX) is Written.DONE

    def next_due(self) -> float | None:
        """When, by the clock, a reservation's time is up; None if none waits."""
        return min((at + self._reservation_seconds for at in self._first_seen.values()), default=None)

    def _notice(self, quotas: Sequence[TierQuota], now: float) -> None:
        """Since when each quota has not been counted."""
        known, self._noticed = self._noticed, {}
        for quota in quotas:
            if quota.is_counted:
                continue
            key = (quota.uid or quota.name, quota.scope)
            if quota.damage and key not in known:
                self._on_damage(quota)
            self._noticed[key] = known.get(key, now)
        names = {quota.uid or quota.name: bool(quota.counted_scope) for quota in quotas}
        self._had_books.intersection_update(names)
        self._had_books.update(name for name, has_books in names.items() if has_books)

    def _is_due(self, quota: TierQuota) -> bool:
        name = quota.uid or quota.name
        at = self._noticed.get((name, quota.scope))
        are_lost = quota.damage or (name in self._had_books and not quota.counted_scope)
        return at is None or self._clock() - at >= (self._reservation_seconds if are_lost else NOTICE_SECONDS)

    def _fence(self, quotas: Sequence[TierQuota]) -> bool:
        """Takes over a quota that another leader counted; True if there is none."""
        for quota in quotas:
            if quota.counted_by in ("", self._identity):
                continue
            if not self._leads():
                self._relist()
            elif self._sign(quota):
                self._fenced_at = self._clock()
                self._relist()
            return False
        return True

    def _count(self, view: View, quota: TierQuota) -> Counted:
        detached = frozenset(item.uid for item in quota.reservations if item.detached)
        return view.count(quota.tier, lambda name: quota.selects(name, view.labels(name)), detached)

    def _recount(self, view: View, quota: TierQuota) -> tuple[TierQuota, bool]:
        counted = self._count(view, quota)
        groups = {group.uid for group in counted.groups}

        def is_counted(reservation: Reservation) -> bool:
            return quota.selects(reservation.namespace, view.labels(reservation.namespace)) and all(
                join.group in groups or view.is_gone(join.group) for join in reservation.joins
            )

        fates = {item.id: self._fate(view, item, is_counted) for item in quota.reservations}
        result = recounted(
            quota, counted, lambda reservation: fates[reservation.id], self._identity, min_count=view.min_count
        )
        if result.quota == quota:
            return quota, True
        if self._store.write(result.quota, self._clock() + WRITE_SECONDS_MAX) is not Written.DONE:
            return quota, False
        self._tell(result)
        return result.quota, True

    def _tell(self, result: Recount) -> None:
        if result.lapsed:
            self._journal.lapsed(result.quota, result.lapsed)
        if result.drift:
            self._journal.drift(result.quota, result.drift)

    def _listed_since_due(self) -> frozenset[str]:
        """Reservations whose time was up, as advances, before everything was listed."""
        return frozenset(
            item
            for item in self._first_seen
            if (at := self._advance_due_at(item)) <= self._clock() and self._census.listed_since(at, self._kinds)
        )

    def _advance_due_at(self, reservation_id: str) -> float:
        """When its time is up, if it is an advance."""
        return self._first_seen.get(reservation_id, self._clock()) + self._advance_seconds

    def _fate_of_advance(self, reservation: Reservation) -> Fate:
        """Its process takes it out. Where that died, what was charged from it has no reservation of its own: only a list says
        that all of it is counted, a watch may lag behind."""
        if reservation.id in self._outdated:
            return Fate.LAPSED
        if self._advance_due_at(reservation.id) <= self._clock():
            self._relist()
        return Fate.KEEP

    def _fate(self, view: View, reservation: Reservation, is_counted: Callable[[Reservation], bool]) -> Fate:
        """is_counted: is all that it paid for in the count? Watches of different kinds are not in step: its Pod may be seen
        before its PodGroup, and its Job before the label of its namespace that makes the quota apply."""
        if reservation.is_advance:
            return self._fate_of_advance(reservation)
        node = view.node(reservation.uid)
        if (
            node is not None
            and node.generation >= reservation.generation
            and (reservation.settled or not node.charges or is_counted(reservation))
        ):
            return Fate.SETTLED
        if node is None and view.is_gone(reservation.uid) and not reservation.detached:
            return Fate.SETTLED  # it was stored, and what is left of it for a moment was paid for
        if node is None and (reservation.settled or view.is_gone(reservation.uid)):
            return Fate.LAPSED
        if self._clock() - self._first_seen.get(reservation.id, self._clock()) < self._reservation_seconds:
            return Fate.KEEP
        looked = self._look(reservation)
        if looked.seen is Seen.ABSENT:
            return Fate.LAPSED
        if looked.seen is Seen.PAST or (
            looked.seen is Seen.PRESENT and node is not None and node.generation >= looked.generation
        ):
            return Fate.SETTLED  # what is stored is counted; the change that was paid for never came
        return Fate.KEEP
