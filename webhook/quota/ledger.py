"""The ledger: charges an order in every quota that applies to it, or in none. Compare-and-swap, never a lock.

How one charge goes, after kube-apiserver's ResourceQuota plugin (apiserver v0.37.2 plugin/resourcequota/controller.go):

1. Read the quotas that apply as they are now.
2. Check all that apply. A refusal is final within the request; nothing is written for it.
3. Write each that changed, if nobody wrote since 1. Whoever is in all of its quotas now is granted.
4. The others go back to 1 after a random pause, with what they have already written standing in the books under their id,
   until half a second before the request ends. Then: try again (429), which is also what every undecided path says.

An order refused in a later round takes what it holds out of the other quotas in the same write. What stays behind (a lost
answer, a crash at any line) is a reservation of an object that will never live: the leader takes it out after 90 s.

Requests of this process that wait for the same tier are served together, by whichever of their threads comes first: one
read and one write for all of them (3 processes x 16 writers on one object: 49 charges/s one by one, 2,142 together). In a
burst most need neither: they are charged from what the process has reserved in advance (webhook/quota/advance.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from webhook.quota import book
from webhook.quota.advance import WRITE_SECONDS, Advances, Page
from webhook.quota.book import Order, Shortfall
from webhook.quota.model import (
    DETACHED_COUNT_MAX,
    GROUP_COUNT_MAX,
    NAMESPACE_RESERVATION_COUNT_MAX,
    RESERVATION_COUNT_MAX,
    TierQuota,
)
from webhook.quota.store import QuotaStore, StoreError, Written

MARGIN_SECONDS = 0.5
"""Kept back of the request's time, for the answer's way to the API server."""

KNOWN_SECONDS = 1.0
"""How old the word "no quota applies" may be. A new quota is not counted any sooner."""

REFRESH_SECONDS = 0.5
"""Older, it is asked for again, beside the requests: a list waits for the API server's watch cache, 130 to 240 ms at the p99."""
PAUSE_SECONDS_MAX = 0.05
GATHER_SECONDS = 0.06
"""After a conflict, for a second, new rounds wait once to twice so long before they read, and those that lost do not: whoever
wrote lets the others in, and more orders go together. Measured in turns of one run, against everybody waiting 0 to 60 ms:
106 against 74 Jobs/s, 0.20 against 0.27 rounds a Job, p99 0.86 against 1.4 s, on cores that others used, too."""
CONTENDED_SECONDS = 1.0
# One round may not take a whole request's time where a store is silent: there is time for a second try.
ROUND_SECONDS_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Granted:
    """In the books of every quota that applies, if any does (for a dry run: would be)."""

    quotas: tuple[TierQuota, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """shortfalls: what does not fit. may_change: only because of reservations whose objects nobody has seen stored yet."""

    shortfalls: tuple[Shortfall, ...]

    @property
    def may_change(self) -> bool:
        return all(found.reserved_only for found in self.shortfalls)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Neither: the request has to be sent again. reason: in words, without a final stop."""

    reason: str


Outcome = Granted | Refused | Undecided


class Reporter(Protocol):
    """Told of what happens, for metrics. Must not raise."""

    def round(self, order_count: int) -> None: ...

    def conflict(self) -> None: ...

    def retry(self, order_count: int) -> None: ...

    def charged(self, outcome: str, seconds: float) -> None:
        """outcome: "granted", "refused" or "undecided"."""
        ...


class Silent:
    """A Reporter that keeps it to itself."""

    def round(self, order_count: int) -> None:
        pass

    def conflict(self) -> None:
        pass

    def retry(self, order_count: int) -> None:
        pass

    def charged(self, outcome: str, seconds: float) -> None:
        pass


def in_thread(work: Callable[[], None]) -> None:
    """For `Ledger.aside`."""
    try:
        threading.Thread(target=work, name="quota-list", daemon=True).start()
    except RuntimeError:
        work()  # no more threads are to be had


def in_time(seconds: float, work: Callable[[], None]) -> bool:
    """For `Ledger.later`. Not a daemon: a process that ends by itself first writes down what it has charged. False once it
    is ending, or where no more threads are to be had."""
    if not threading.main_thread().is_alive():
        return False
    try:
        threading.Timer(seconds, work).start()
    except RuntimeError:
        return False
    return True


class Ledger:
    """Thread-safe. is_live: a leader counts what is stored, so reservations settle. aside: runs what no request should wait
    for; as it is, at once. advances: None where nothing is reserved before it is asked for. later: runs something after so
    many seconds, or says that it will not. clock, sleep and jitter (0..1) are given by tests."""

    def __init__(
        self,
        store: QuotaStore,
        *,
        is_live: bool = False,
        reporter: Reporter | None = None,
        aside: Callable[[Callable[[], None]], None] = lambda work: work(),
        advances: Advances | None = None,
        later: Callable[[float, Callable[[], None]], bool] = in_time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.is_live = is_live
        self._store = store
        self._reporter = reporter or Silent()
        self._aside, self._later, self._advances = aside, later, advances
        self._clock, self._sleep, self._jitter = clock, sleep, jitter
        self._lock = threading.Lock()
        self._desks: dict[str, _Desk] = {}
        self._known: tuple[TierQuota, ...] | None = None
        self._known_at = 0.0
        self._reading = threading.Lock()

    def known(self, deadline: float) -> tuple[TierQuota, ...] | None:
        """The quotas there are, at most `KNOWN_SECONDS` old: whether there is one for a tier at all. None where they cannot
        be read now. An older word is no word: a quota may have been made and counted since, and seen live, in an API server
        that stalled for seconds, 44 Jobs went past it."""
        age = self._age()
        if age < KNOWN_SECONDS:
            if age >= REFRESH_SECONDS and self._reading.acquire(blocking=False):
                self._aside(self._refresh)
            return self._known
        # Nobody has a word that is good enough: one thread reads, the others wait for it, as long as they can.
        if not self._reading.acquire(timeout=max(0.0, deadline - MARGIN_SECONDS - self._clock())):
            return None
        try:
            if self._age() >= KNOWN_SECONDS:
                self._read(min(deadline, self._clock() + ROUND_SECONDS_MAX))
        except StoreError:
            return None
        finally:
            self._reading.release()
        return self._known if self._age() < KNOWN_SECONDS else None

    def _refresh(self) -> None:
        """By whoever holds the lock, perhaps in another thread than the one that took it."""
        try:
            self._read(self._clock() + ROUND_SECONDS_MAX)
        except StoreError:
            pass  # whoever needs it next finds the old word too old, and says so
        finally:
            self._reading.release()

    def _age(self) -> float:
        return float("inf") if self._known is None else self._clock() - self._known_at

    def not_ready(self) -> list[str]:
        """Reasons why charges cannot be decided: the quotas cannot be read, or their counts are not rebuilt."""
        quotas = self.known(self._clock() + 1.0)
        if quotas is None:
            return ["the TierQuotas cannot be read"]
        return [f'TierQuota "{quota.name}" is not counted yet' for quota in quotas if not quota.is_counted]

    def charge(
        self, tier: str, order: Order, labels: Mapping[str, str], deadline: float, *, commit: bool = True
    ) -> Outcome:
        """All quotas of the tier that select the order's namespace, or none. commit False: check only."""
        started = self._clock()
        waiter = _Waiter(order=order, labels=labels, end=deadline - MARGIN_SECONDS, commit=commit)
        if not self._is_paid_in_advance(tier, waiter, deadline):
            desk = self._desk(tier)
            try:
                self._wait(tier, desk, waiter)
            finally:
                self._write_later(tier, desk)
        outcome = waiter.outcome
        if waiter.abandoned and not isinstance(outcome, Undecided):
            outcome = Undecided("there was no time left to write the quota")
        if waiter.is_open and waiter.holds:
            self.release(tier, [order.id], deadline)
        self._reporter.charged(type(outcome).__name__.lower(), self._clock() - started)
        return outcome

    def release(self, tier: str, ids: Iterable[str], deadline: float) -> None:
        """Best effort: takes reservations out again, where one of several tiers refused. What stays lapses."""
        wanted = set(ids)
        if self._advances is not None:
            wanted -= self._advances.cancel(tier, wanted)
        for _ in range(3 if wanted else 0):
            try:
                names = [quota.name for quota in self.known(deadline) or () if quota.tier == tier]
                quotas = self._store.some(names, deadline)
            except StoreError:
                return
            changed = [(quota, book.release(quota, wanted)) for quota in quotas]
            todo = [new for old, new in changed if len(new.reservations) != len(old.reservations)]
            if all(self._store.write(quota, deadline) in (Written.DONE, Written.GONE) for quota in todo):
                return

    # -- in advance -------------------------------------------------------------------------------------------------
    def _is_paid_in_advance(self, tier: str, waiter: _Waiter, deadline: float) -> bool:
        if self._advances is None or not waiter.commit or waiter.holds or not waiter.asks:
            return False
        quotas = [quota for quota in self.known(deadline) or () if quota.tier == tier and waiter.is_under(quota)]
        paid = self._advances.take(quotas, waiter.order) if quotas else None
        if paid is None:
            return False
        # holds: where its thread has given up just now, what was charged is taken back.
        waiter.outcome, waiter.is_open, waiter.holds = Granted(paid), False, True
        if self._advances.is_low(paid):
            self._write_soon(tier, self._desk(tier))
        return True

    def _write_later(self, tier: str, desk: _Desk) -> None:
        """What was charged from an advance is written down soon, and what is left of it given back; at once where this
        process ends."""
        with desk.condition:
            if self._advances is None or desk.is_due or not self._advances.names(tier):
                return
            desk.is_due = self._later(WRITE_SECONDS, lambda: self._write_down(tier, desk))
        if not desk.is_due:
            self._advances.close()
            self._wait(tier, desk, self._nobody())

    def _write_soon(self, tier: str, desk: _Desk) -> None:
        """Before the advance is used up, so that nobody waits for the next one."""
        with desk.condition:
            desk.is_hurried = desk.is_hurried or self._later(0.0, lambda: self._write_now(tier, desk))

    def _write_now(self, tier: str, desk: _Desk) -> None:
        try:
            self._wait(tier, desk, self._nobody())
        finally:
            with desk.condition:
                desk.is_hurried = False

    def _write_down(self, tier: str, desk: _Desk) -> None:
        with desk.condition:
            desk.is_due = False
        try:
            self._wait(tier, desk, self._nobody())
        finally:
            self._write_later(tier, desk)

    def _nobody(self) -> _Waiter:
        """Asks for nothing but that the round takes place."""
        nothing = Order(id="", uid="", kind="", namespace="", name="", amounts={})
        return _Waiter(order=nothing, labels={}, end=self._clock() + ROUND_SECONDS_MAX, commit=True)

    def _desk(self, tier: str) -> _Desk:
        with self._lock:
            return self._desks.setdefault(tier, _Desk())

    # -- one thread serves ----------------------------------------------------------------------------------------
    def _wait(self, tier: str, desk: _Desk, waiter: _Waiter) -> None:
        """Returns when the waiter is decided or out of time. The first thread to come serves all that wait."""
        with desk.condition:
            desk.queue.append(waiter)
            while desk.busy and waiter.is_open:
                left = waiter.end - self._clock()
                if left <= 0:
                    # Whoever serves it now sees this under the same lock, and takes back what it may have written.
                    waiter.abandoned = True
                    return
                desk.condition.wait(left)
            if not waiter.is_open:
                return
            desk.busy = True
        try:
            while waiter.wants(self._clock()):
                self._serve(tier, desk)
        finally:
            with desk.condition:
                waiter.abandoned = waiter.is_open
                desk.busy = False
                desk.condition.notify_all()

    def _serve(self, tier: str, desk: _Desk) -> None:
        """One round for everybody who waits at the desk."""
        is_retry = any(waiter.round_count for waiter in desk.queue)
        is_burst = self._advances is not None and self._advances.names(tier)
        if self._clock() < desk.contended_until and not is_retry and not is_burst:
            self._sleep((1 + self._jitter()) * GATHER_SECONDS)
        now = self._clock()
        with desk.condition:
            batch = [waiter for waiter in desk.queue if waiter.wants(now)]
            desk.queue = []
        try:
            end = max((waiter.end for waiter in batch), default=now)
            # Those that came while somebody wrote may be paid for by now.
            todo = [waiter for waiter in batch if not self._is_paid_in_advance(tier, waiter, end)]
            if todo and self._round(tier, todo, min(end, now + ROUND_SECONDS_MAX)):
                desk.contended_until = self._clock() + CONTENDED_SECONDS
        except StoreError as error:
            for waiter in batch:
                waiter.outcome = Undecided(f"the quotas could not be read: {error}")
        finally:
            left = [waiter for waiter in batch if waiter.is_open]
            with desk.condition:
                orphans = [waiter.order.id for waiter in batch if waiter.abandoned and waiter.holds]
                desk.queue = left + desk.queue
                desk.condition.notify_all()
        if orphans:
            self.release(tier, orphans, self._clock() + ROUND_SECONDS_MAX)
        if left:
            self._reporter.retry(len(left))
            round_count = max(waiter.round_count for waiter in left)
            self._sleep(self._jitter() * min(PAUSE_SECONDS_MAX, 0.005 * 2**round_count))

    def _round(self, tier: str, batch: Sequence[_Waiter], deadline: float) -> bool:
        """True if somebody else wrote in between."""
        self._reporter.round(sum(waiter.asks for waiter in batch))
        names = self._names(tier, batch, deadline)
        before = {quota.name: quota for quota in self._store.some(names, deadline) if quota.tier == tier}
        books, pages = self._checked(tier, batch, before, set(names) - before.keys())
        written: dict[str, Written] = {}
        for name in sorted(books):
            if books[name] is not before[name]:
                written[name] = self._write(books[name], pages.get(name), deadline)
                if written[name] is Written.CONFLICT:
                    self._reporter.conflict()
        for waiter in batch:
            waiter.decide(written)
        return Written.CONFLICT in written.values()

    def _write(self, quota: TierQuota, page: Page | None, deadline: float) -> Written:
        result = Written.UNCLEAR  # also where it raises what nobody expects
        try:
            result = self._store.write(quota, deadline)
        finally:
            if self._advances is not None and page is not None:
                self._advances.written(quota.name, quota, page, result)
        return result

    def _checked(
        self, tier: str, batch: Sequence[_Waiter], before: Mapping[str, TierQuota], missing: Iterable[str]
    ) -> tuple[dict[str, TierQuota], dict[str, Page]]:
        """(the quotas with everybody who fits, what is written of advances)"""
        books = dict(before)
        pages: dict[str, Page] = {}
        # A dry run writes nothing.
        advances = self._advances if any(waiter.commit for waiter in batch) else None
        if advances is not None:
            advances.drop(missing)
            books, pages = advances.write_down(books, [waiter.order for waiter in batch if waiter.asks])
        for waiter in batch:
            waiter.round_count += 1
            waiter.check(books)
        if advances is not None:
            placed = {name: [waiter.order for waiter in batch if waiter.has_changed(name)] for name in books}
            books = advances.renew(books, placed, self._waiting(tier, books), pages)
        return books, pages

    def _waiting(self, tier: str, books: Mapping[str, TierQuota]) -> dict[str, list[Order]]:
        """Who came while this round was on its way, by quota."""
        desk = self._desk(tier)
        with desk.condition:
            waiters = [waiter for waiter in desk.queue if waiter.commit]
        return {name: [waiter.order for waiter in waiters if waiter.is_under(quota)] for name, quota in books.items()}

    def _names(self, tier: str, batch: Sequence[_Waiter], deadline: float) -> list[str]:
        """The quotas that may apply to somebody in the batch. Raises StoreError."""
        known = self.known(deadline)
        if known is None:
            raise StoreError("the list of TierQuotas did not come")
        names = {
            quota.name for quota in known if quota.tier == tier and any(waiter.is_under(quota) for waiter in batch)
        }
        if self._advances is not None:
            self._advances.forget({quota.name for quota in known})
            names.update(self._advances.names(tier))
        return sorted(names)

    def _read(self, deadline: float) -> tuple[TierQuota, ...]:
        """All quotas, remembered with the moment at which they were asked for."""
        asked_at = self._clock()
        quotas = tuple(self._store.all(deadline))
        self._known, self._known_at = quotas, asked_at
        return quotas


@dataclass(slots=True)
class _Desk:
    """Who waits for a tier. busy: a thread is serving. is_due: what was charged in advance is about to be written down;
    is_hurried: at once. contended_until: others have written lately."""

    condition: threading.Condition = field(default_factory=threading.Condition)
    queue: list[_Waiter] = field(default_factory=list)
    busy: bool = False
    is_due: bool = False
    is_hurried: bool = False
    contended_until: float = float("-inf")


@dataclass(slots=True, eq=False)
class _Waiter:
    """One order, open until it is decided; without an id, only what was charged in advance is written. Its outcome is
    "undecided" until a round decides it: a path that forgets to decide denies."""

    order: Order
    labels: Mapping[str, str]
    end: float
    commit: bool
    outcome: Outcome = Undecided("there was no time left to write the quota")
    is_open: bool = True
    abandoned: bool = False
    holds: bool = False
    round_count: int = 0
    _quotas: list[TierQuota] = field(default_factory=list)
    _shortfalls: list[Shortfall] = field(default_factory=list)
    _changed: set[str] = field(default_factory=set)
    _waiting_for: str = ""

    @property
    def asks(self) -> bool:
        """Is it for somebody, or only for the round (`Ledger._nobody`)?"""
        return bool(self.order.id)

    def is_under(self, quota: TierQuota) -> bool:
        """Does a quota of its tier apply to it?"""
        return self.asks and quota.selects(self.order.namespace, self.labels)

    def wants(self, now: float) -> bool:
        """Is there somebody to decide it for, and time to?"""
        return self.is_open and not self.abandoned and now < self.end

    def check(self, books: dict[str, TierQuota]) -> None:
        """Against all quotas that apply; puts the order into their working copies if all of them have room."""
        self._shortfalls, self._changed, self._waiting_for = [], set(), ""
        self._quotas = [quota for quota in books.values() if self.is_under(quota)]
        self._waiting_for = next((reason for quota in self._quotas if (reason := _closed(quota, self.order))), "")
        if self._waiting_for:
            return
        after: dict[str, TierQuota] = {}
        for quota in self._quotas:
            after[quota.name], missing = book.reserve(quota, self.order)
            self._shortfalls += missing
        if self._shortfalls:
            # Refused: what an earlier round wrote elsewhere is taken out with the next write of that quota.
            after = {quota.name: self._without(quota) for quota in self._quotas}
        elif not self.commit:
            return
        for quota in self._quotas:
            if after[quota.name] is not quota:
                books[quota.name] = after[quota.name]
                self._changed.add(quota.name)

    def has_changed(self, name: str) -> bool:
        """Was the order put into this quota's working copy just now?"""
        return name in self._changed and not self._shortfalls

    def decide(self, written: Mapping[str, Written]) -> None:
        """Granted once every change is written. A refusal stands if what it rests on does: a quota as it was read, or with
        others' orders that were written. holds: a reservation may stand in some quota already."""
        self.holds = self.holds or any(written[name] in (Written.DONE, Written.UNCLEAR) for name in self._changed)
        if not self.asks:
            self.is_open = Written.CONFLICT in written.values()
        elif self._waiting_for:
            self.outcome = Undecided(self._waiting_for)
        elif self._shortfalls:
            rests_on = {shortfall.quota.name for shortfall in self._shortfalls}
            if all(written.get(name, Written.DONE) is Written.DONE for name in rests_on):
                self.outcome, self.is_open = Refused(tuple(self._shortfalls)), False
        elif all(written[name] is Written.DONE for name in self._changed):
            self.outcome, self.is_open = Granted(tuple(self._quotas)), False
        else:
            self.outcome = Undecided("others were writing the same quota all the time")

    def _without(self, quota: TierQuota) -> TierQuota:
        if self.order.id in quota.ids:
            return book.release(quota, {self.order.id})
        return quota


def _closed(quota: TierQuota, order: Order) -> str:
    """Why the order cannot be charged to this quota now, or ""."""
    if quota.damage:
        return f'the status of TierQuota "{quota.name}" cannot be read and has to be counted anew: {quota.damage}'
    if not quota.is_counted:
        return f'TierQuota "{quota.name}" has not been counted yet'
    if quota.waiting.total() >= RESERVATION_COUNT_MAX:
        return f'TierQuota "{quota.name}" has {RESERVATION_COUNT_MAX} charges that nobody has confirmed'
    if quota.waiting[order.namespace] >= NAMESPACE_RESERVATION_COUNT_MAX:
        return (
            f'TierQuota "{quota.name}" has {NAMESPACE_RESERVATION_COUNT_MAX} charges of namespace "{order.namespace}" '
            "that nobody has confirmed"
        )
    if order.joining and len(quota.groups) >= GROUP_COUNT_MAX:
        known = {group.uid for group in quota.groups}
        if any(joining.group_uid not in known for joining in order.joining):
            return f'TierQuota "{quota.name}" counts {GROUP_COUNT_MAX} live PodGroups already that people made'
    if order.detached and quota.detached_count >= DETACHED_COUNT_MAX:
        return (
            f'TierQuota "{quota.name}" counts {DETACHED_COUNT_MAX} live objects already whose ownerReferences a person '
            "wrote, and takes no more of them until some are gone; without a controller in metadata.ownerReferences it would be "
            "one of its own"
        )
    return ""
