"""Advances: places that a busy process reserves before anybody asks, so that not every charge waits for a write.

The ledger's round of one read and one write costs the API server about 4 ms, whoever waits for it included. In a burst a
process therefore writes one more reservation beside the ones it was asked for, its advance, and charges the next orders from
it at once. What it charged so is written down, order by order, within `WRITE_SECONDS`, in the same write that makes the next
advance or gives the rest back. Nothing else changes: an advance is a reservation in the books like any other.

Why the books stay right (`used + reserved` is never below what lives plus what may still be stored):

- Orders are only charged from an advance that is surely written, and no more of them than it holds.
- A write takes the advance out, puts the orders in and keeps what is left of it, in one compare-and-swap. Orders that come
  while it is on its way fit into the old advance and into the new one.
- An advance is charged from for `SPAN_SECONDS` after the write that made it. A process that dies leaves it behind; what it
  charged from it is stored a minute later or never, and the leader takes the advance out after 90 s and this span, once it
  has lists that are newer than that (webhook/quota/recount.py).
- It is never more than the n-th part of what is free (`FREE_PARTS`): near the limit every order is written before it is answered,
  and a refusal that rests on somebody's advance is 429, as with all reservations.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from webhook.quota import book
from webhook.quota.book import Order
from webhook.quota.model import (
    ADVANCE_KIND,
    NAMESPACE_RESERVATION_COUNT_MAX,
    RESERVATION_COUNT_MAX,
    Reservation,
    TierQuota,
)
from webhook.quota.store import Written
from webhook.quota.usage import LARGEST_GANG, Amounts, add, largest

WRITE_SECONDS = 0.4
"""After so long, what was charged from an advance is written down."""

SPAN_SECONDS = 5.0
"""How long after its write an advance is charged from: with the 60 s that the API server may take to store an object well
below the 90 s after which the leader takes it out."""

FREE_PARTS = 8
"""At most this part of what is free is an advance."""

BUSY_SECONDS = 1.0
BUSY_ORDER_COUNT = 4
"""So many orders in that time make it worth while."""

AHEAD = 8
"""An advance is so many times what was asked for in that time: a burst that has just begun grows."""

NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class _Advance:
    """In one quota. left: may still be charged, until `until`. size: what it was when it was written. unwritten: what was
    charged and is not surely in the books yet, by the order's id. cancelled: orders that were given back, which a write must
    take out or leave out. stands: there may be one in the books. demand: (when, what) of the last orders, of one
    that is tried again several times."""

    quota: TierQuota
    left: Amounts = field(default_factory=dict)
    until: float = float("-inf")
    size: Mapping[str, int] = field(default_factory=dict)
    unwritten: dict[str, Reservation] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    stands: bool = False
    demand: deque[tuple[float, Reservation]] = field(default_factory=deque)


@dataclass(slots=True)
class Page:
    """What one write puts into the books of a quota: ids of orders, and the advance that is to stand after it. held: what
    it is a page of; one that was dropped meanwhile has no use for it, nor has the next one of that name."""

    held: _Advance
    ids: frozenset[str]
    gone: frozenset[str]
    kept: Amounts
    made: Amounts = field(default_factory=dict)
    written_at: float = float("-inf")


class Advances:
    """Of one process. Thread-safe, no I/O."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        free_parts: int = FREE_PARTS,
        busy_order_count: int = BUSY_ORDER_COUNT,
    ) -> None:
        self._clock, self._free_parts, self._busy_order_count = clock, free_parts, busy_order_count
        self._lock = threading.Lock()
        self._is_closed = False
        self._held: dict[str, _Advance] = {}
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count()

    # -- requests -----------------------------------------------------------------------------------------------------
    def take(self, quotas: Iterable[TierQuota], order: Order) -> tuple[TierQuota, ...] | None:
        """The quotas that it costs something in, each charged with the order; None where one of them has no advance that is
        large enough, or is not as it was. quotas: all that apply, as they were read lately."""
        if order.joining or order.detached:
            return None
        with self._lock:
            now = self._clock()
            found: list[tuple[_Advance, Reservation]] = []
            for quota in quotas:
                gang = order.amounts.get(LARGEST_GANG, 0)
                if gang > quota.hard.get(LARGEST_GANG, gang):
                    return None
                entry = book.entry(quota, order)
                if not entry.amounts and quota.is_counted:
                    continue  # it limits other names
                held = self._held.get(quota.name)
                if held is None or now >= held.until or not _is_same(held.quota, quota):
                    return None
                if any(held.left.get(name, 0) < amount for name, amount in entry.amounts.items()):
                    return None
                waiting, new = held.quota.waiting, len(held.unwritten)
                if (
                    waiting[order.namespace] + new >= NAMESPACE_RESERVATION_COUNT_MAX
                    or waiting.total() + new >= RESERVATION_COUNT_MAX
                ):
                    return None
                found.append((held, entry))
            for held, entry in found:
                add(held.left, {name: -amount for name, amount in entry.amounts.items()})
                held.unwritten[entry.id] = entry
                held.demand.append((now, entry))
            return tuple(held.quota for held, _ in found) or None

    def is_low(self, quotas: Iterable[TierQuota]) -> bool:
        """Is less than a quarter left of one of these advances?"""
        with self._lock:
            found = [held for quota in quotas if (held := self._held.get(quota.name)) is not None]
            return any(4 * held.left.get(name, 0) < amount for held in found for name, amount in held.size.items())

    def cancel(self, tier: str, ids: Iterable[str]) -> set[str]:
        """Of these orders, those that were charged from an advance: the next write takes them out, also where one has
        written them down meanwhile."""
        with self._lock:
            found = [held for held in self._held.values() if held.quota.tier == tier]
            mine = {item for item in ids if any(item in held.unwritten for held in found)}
            for held in found:
                held.cancelled |= mine
            return mine

    # -- the ledger's round ---------------------------------------------------------------------------------------------
    def names(self, tier: str) -> list[str]:
        """Quotas of the tier in which something is to be written, or given back."""
        with self._lock:
            return [name for name, held in self._held.items() if held.quota.tier == tier and _is_open(held)]

    def write_down(
        self, books: Mapping[str, TierQuota], orders: Sequence[Order]
    ) -> tuple[dict[str, TierQuota], dict[str, Page]]:
        """(the quotas with what was charged and what is left of the advances, one page for each). orders: about to be
        checked; where room is short for them the advance shrinks at once."""
        after, pages = dict(books), {}
        with self._lock:
            for name, quota in books.items():
                held = self._held.get(name)
                if held is None:
                    continue
                if held.quota.uid != quota.uid or quota.damage:
                    del self._held[name]  # made anew under its name, or counted anew: nothing of this is in its books
                    continue
                for item_id in quota.ids & held.unwritten.keys():
                    del held.unwritten[item_id]  # by a write whose answer was lost
                held.cancelled &= quota.ids | held.unwritten.keys()
                gone = frozenset(held.cancelled)
                entries = [item for item in held.unwritten.values() if item.id not in gone]
                others = [item for item in quota.reservations if not self._is_mine(item) and item.id not in gone]
                if not entries and len(others) == len(quota.reservations) and not held.left:
                    held.stands = False
                    held.unwritten.clear()
                    held.cancelled.clear()
                    continue
                plain = quota.with_reservations([*others, *entries])
                kept = _least(held.left, self._wanted(held), self._room(plain, orders))
                held.left = dict(kept)
                pages[name] = Page(held, frozenset(held.unwritten), gone, kept)
                after[name] = self._with(plain, kept)
        return after, pages

    def renew(
        self,
        books: Mapping[str, TierQuota],
        orders: Mapping[str, Sequence[Order]],
        waiting: Mapping[str, Sequence[Order]],
        pages: dict[str, Page],
    ) -> dict[str, TierQuota]:
        """The quotas with new advances, where orders come in numbers. orders: that were put into each quota just now.
        waiting: that came since."""
        after = dict(books)
        with self._lock:
            now = self._clock()
            for name, quota in books.items():
                held = self._held.get(name)
                if held is None:
                    if not orders.get(name) or quota.damage:
                        continue
                    held = self._held[name] = _Advance(quota)
                for order in orders.get(name, ()):
                    held.demand.append((now, book.entry(quota, order)))
                page = pages.get(name)
                kept = page.kept if page is not None else {}
                next_ones = [book.entry(quota, order) for order in waiting.get(name, ())]
                size = largest(kept, _least(self._wanted(held, next_ones), self._room(quota, (), kept)))
                if not quota.is_counted or quota.waiting.total() >= RESERVATION_COUNT_MAX:
                    size = kept
                if size != kept:
                    others = (item for item in quota.reservations if not self._is_mine(item))
                    after[name] = self._with(quota.with_reservations(others), size)
                    page = pages.setdefault(name, Page(held, frozenset(), frozenset(), kept))
                if page is not None:
                    page.made, page.written_at = size, now
        return after

    def written(self, name: str, quota: TierQuota, page: Page, result: Written) -> None:
        """What became of a page. Only a write that surely took place counts: else all of it is written once more."""
        with self._lock:
            held = self._held.get(name)
            if held is None or held is not page.held:
                return
            if result is Written.GONE:
                del self._held[name]
            if result is Written.UNCLEAR:
                held.stands = held.stands or any(page.made.values())
            if result is not Written.DONE:
                return
            held.stands = any(page.made.values())
            for item in page.ids:
                held.unwritten.pop(item, None)
            held.cancelled -= page.gone
            for resource, amount in page.made.items():
                held.left[resource] = held.left.get(resource, 0) + amount - page.kept.get(resource, 0)
            held.quota, held.until, held.size = quota, page.written_at + SPAN_SECONDS, dict(held.left)

    def close(self) -> None:
        """From now on nothing is reserved in advance: this process ends."""
        with self._lock:
            self._is_closed = True

    def drop(self, names: Iterable[str]) -> None:
        """These quotas are gone, or about another tier: what stands in their books lapses."""
        with self._lock:
            for name in names:
                self._held.pop(name, None)

    def forget(self, names: Container[str]) -> None:
        """All quotas but these, where nothing is to be written: they are deleted."""
        with self._lock:
            for name in [name for name, held in self._held.items() if name not in names and not _is_open(held)]:
                del self._held[name]

    # -- helpers ----------------------------------------------------------------------------------------------------------
    def _wanted(self, held: _Advance, waiting: Sequence[Reservation] = ()) -> Amounts:
        """By what was asked for lately, and by who waits; nothing where that was little."""
        now = self._clock()
        while held.demand and now - held.demand[0][0] > BUSY_SECONDS:
            held.demand.popleft()
        total: Amounts = {}
        asked = {item.id: item.amounts for item in (*(item for _, item in held.demand), *waiting)}
        if len(asked) >= self._busy_order_count and not self._is_closed:
            for amounts in asked.values():
                add(total, amounts, AHEAD)
        return total

    def _room(self, quota: TierQuota, orders: Iterable[Order], mine: Mapping[str, int] = NOTHING) -> Amounts:
        """What an advance may take, beside orders that are about to be checked. mine: of what is in use, the one it replaces."""
        asked: Amounts = {}
        for order in orders:
            add(asked, order.amounts)
            for joining in order.joining:
                add(asked, joining.per_pod, max(joining.min_count, joining.pod_count))
                add(asked, joining.once)
        free = {
            name: hard - quota.in_use(name) + mine.get(name, 0) - asked.get(name, 0)
            for name, hard in quota.hard.items()
        }
        return {
            name: amount // self._free_parts
            for name, amount in free.items()
            if amount >= self._free_parts and name != LARGEST_GANG
        }

    def _is_mine(self, item: Reservation) -> bool:
        return item.is_advance and item.name == self._name

    def _with(self, quota: TierQuota, amounts: Mapping[str, int]) -> TierQuota:
        """Under a new id each time: the leader counts its age by that."""
        if not any(amounts.values()):
            return quota
        number = f"{self._name}-{next(self._numbers)}"
        advance = Reservation(
            id=number, uid=number, kind=ADVANCE_KIND, namespace="", name=self._name, amounts=dict(amounts)
        )
        return quota.adding(advance)


def _is_open(held: _Advance) -> bool:
    return bool(held.unwritten or held.cancelled) or held.stands


def _is_same(one: TierQuota, other: TierQuota) -> bool:
    return one.uid == other.uid and one.generation == other.generation and one.is_counted and other.is_counted


def _least(*amounts: Mapping[str, int]) -> Amounts:
    """Of names that all have."""
    first, *rest = amounts
    least = {name: min(amount, *(item.get(name, 0) for item in rest)) for name, amount in first.items()}
    return {name: amount for name, amount in least.items() if amount > 0}
