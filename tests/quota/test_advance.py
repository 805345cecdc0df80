"""What a busy process reserves before it is asked: webhook/quota/advance.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from tests.quota.test_ledger import Troubled, once, order
from tests.quota.test_recount import Leader
from webhook.quota.advance import (
    AHEAD,
    BUSY_ORDER_COUNT,
    BUSY_SECONDS,
    FREE_PARTS,
    SPAN_SECONDS,
    WRITE_SECONDS,
    Advances,
)
from webhook.quota.book import Order
from webhook.quota.census import Node
from webhook.quota.ledger import KNOWN_SECONDS, Granted, Ledger, Outcome, Refused
from webhook.quota.model import Reservation
from webhook.quota.recount import RESERVATION_SECONDS, Looked, Seen
from webhook.quota.usage import LARGEST_GANG, Charge, Joining

HARD = 1000


class Process:
    """One process of Muster, with its own clock, at a store it shares with others."""

    def __init__(self, store: Troubled, *, is_ending: bool = False) -> None:
        self.time = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.store, self.is_ending = store, is_ending
        self.ledger = Ledger(
            store,
            advances=Advances(lambda: self.time),
            later=self._later,
            clock=lambda: self.time,
            sleep=self.wait,
            jitter=lambda: 0.5,
        )

    def _later(self, seconds: float, work: Callable[[], None]) -> bool:
        if not self.is_ending:
            self.due.append((self.time + seconds, work))
        return not self.is_ending

    def wait(self, seconds: float) -> None:
        self.time += seconds

    def run_due(self) -> None:
        """Time for what was to be done later."""
        self.wait(WRITE_SECONDS)
        due, self.due = self.due, []
        for _, work in due:
            work()

    def charge(self, placed: Order | None = None, *, commit: bool = True) -> Outcome:
        return self.ledger.charge("gold", placed or order(), {}, self.time + 5, commit=commit)

    def burst(self, count: int) -> None:
        for _ in range(count):
            assert isinstance(self.charge(), Granted)

    def free_writes(self, count: int = 1) -> int:
        """How many of so many charges wrote nothing."""
        free = 0
        for _ in range(count):
            before = self.store.write_count
            assert isinstance(self.charge(), Granted)
            free += self.store.write_count == before
        return free


def advances(store: Troubled, name: str = "gold-team-a") -> list[Reservation]:
    return [item for item in store.some([name], 0.0)[0].reservations if item.is_advance]


def test_a_burst_is_charged_with_few_writes_and_ends_in_the_books(store: Troubled) -> None:
    process = Process(store)

    process.burst(100)

    assert store.write_count < 20
    process.run_due()
    process.wait(BUSY_SECONDS)
    process.run_due()
    assert advances(store) == []
    assert len(store.some(["gold-team-a"], 0.0)[0].reservations) == store.reserved("gold-team-a") == 100


def test_the_next_advance_comes_before_this_one_is_used_up(store: Troubled) -> None:
    process = Process(store)
    process.burst(BUSY_ORDER_COUNT)
    process.due.clear()
    while not process.due:
        assert process.free_writes() == 1
    assert store.reserved("gold-team-a") > 0
    ((at, work),) = process.due

    assert at == process.time
    before = store.write_count
    work()
    assert store.write_count == before + 1
    assert process.free_writes(BUSY_ORDER_COUNT * AHEAD) == BUSY_ORDER_COUNT * AHEAD


def test_few_orders_are_written_one_by_one(store: Troubled) -> None:
    process = Process(store)
    for _ in range(10):
        process.wait(BUSY_SECONDS)
        process.burst(1)

    assert store.write_count == 10
    assert advances(store) == []


def test_the_books_are_never_below_what_was_granted_and_never_above_the_limit(store: Troubled) -> None:
    process = Process(store)
    granted = 0
    while isinstance(process.charge(), Granted):
        granted += 1
        found = store.some(["gold-team-a"], 0.0)[0]
        assert granted <= found.in_use(GPU) <= HARD
        assert sum(item.amounts[GPU] for item in advances(store)) <= HARD // FREE_PARTS
    assert granted == HARD


def test_near_the_limit_every_order_is_written() -> None:
    store = Troubled(quota(**{GPU: FREE_PARTS}))
    process = Process(store)

    assert process.free_writes(FREE_PARTS) == 0
    assert isinstance(process.charge(), Refused)


def test_what_is_left_is_given_back_also_after_a_conflict(store: Troubled) -> None:
    """The write that gives it back comes second once: it is tried again, though nothing is left to charge."""
    process = Process(store)
    process.burst(10)
    process.run_due()
    assert advances(store)
    process.wait(BUSY_SECONDS)
    store.trouble = once("conflict")

    process.run_due()

    assert advances(store) == []
    assert store.reserved("gold-team-a") == 10


@pytest.mark.parametrize("word", ["conflict", "lost request", "lost answer"])
def test_a_write_that_goes_wrong_loses_no_order(store: Troubled, word: str) -> None:
    process = Process(store)
    process.burst(10)
    store.trouble = once(word)

    for _ in range(4):
        process.run_due()
        process.wait(BUSY_SECONDS / 2)

    assert store.reserved("gold-team-a") == 10
    assert advances(store) == []


def test_what_the_leader_has_taken_out_is_not_looked_for_for_ever(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    process.run_due()
    stored = store.some(["gold-team-a"], 0.0)[0]
    store.put(replace(stored, reservations=tuple(item for item in stored.reservations if not item.is_advance)))
    process.wait(BUSY_SECONDS)
    store.trouble = once("conflict")

    for _ in range(3):
        process.run_due()

    assert process.due == []


def test_a_process_that_ends_gives_it_back_at_once(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    process.is_ending = True

    process.run_due()

    assert advances(store) == []
    assert store.reserved("gold-team-a") == 10
    assert process.free_writes(10) == 0


def test_it_is_not_used_for_long(store: Troubled) -> None:
    """The leader takes it out after 90 s: what is charged from it must be stored long before."""
    process = Process(store)
    process.burst(10)
    assert process.free_writes() == 1
    process.wait(SPAN_SECONDS)

    assert process.free_writes() == 0


def test_another_limit_ends_it(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    assert process.free_writes() == 1
    stored = store.some(["gold-team-a"], 0.0)[0]
    store.put(replace(stored, hard={GPU: 11}, generation=stored.generation + 1))
    process.wait(KNOWN_SECONDS)

    assert isinstance(process.charge(), Refused)


def test_a_quota_made_anew_is_not_charged_from_the_old_one(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    store.put(replace(quota(**{GPU: HARD}), uid="another"))
    process.wait(KNOWN_SECONDS)

    assert process.free_writes() == 0
    process.run_due()
    assert store.reserved("gold-team-a") == 1


def test_a_quota_of_another_tier_by_now_is_left_alone(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    stored = store.some(["gold-team-a"], 0.0)[0]
    store.put(replace(stored, tier="silver", generation=stored.generation + 1))
    process.wait(KNOWN_SECONDS)

    process.run_due()

    assert process.charge() == Granted()
    assert process.ledger._advances is not None
    assert process.ledger._advances.names("gold") == []


def test_a_status_that_cannot_be_read_is_not_written_over(store: Troubled) -> None:
    """The leader counts it anew, after a reservation's time."""
    process = Process(store)
    process.burst(10)
    store.put(replace(store.some(["gold-team-a"], 0.0)[0], reservations=(), damage="garbage"))
    before = store.write_count

    process.run_due()

    assert store.write_count == before


def test_a_namespace_cannot_fill_the_books_in_advance(store: Troubled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.quota.advance.NAMESPACE_RESERVATION_COUNT_MAX", 20)
    process = Process(store)

    assert process.free_writes(25) >= 10
    assert process.free_writes(10) == 0


def test_all_quotas_that_apply_or_none(store: Troubled) -> None:
    """The second one has no room for an advance, so every order waits for both."""
    store.put(quota("all", namespaces=[], **{GPU: 10}))
    process = Process(store)

    assert process.free_writes(10) == 0
    assert isinstance(process.charge(), Refused)
    process.wait(BUSY_SECONDS)
    process.run_due()
    assert store.reserved("gold-team-a") == store.reserved("all") == 10


def test_what_does_not_fit_into_it_goes_the_long_way(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    before = store.write_count

    assert isinstance(process.charge(order(HARD // 2)), Granted)
    assert store.write_count == before + 1
    assert isinstance(process.charge(order(HARD // 2)), Refused)


def test_bare_gangs_detached_children_and_dry_runs_go_the_long_way(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    joining = Joining(group_uid="g", group_name="g", min_count=2, pod_count=1, per_pod={GPU: 1})

    for placed in (order(joining=(joining,)), order(detached=True)):
        before = store.write_count
        assert isinstance(process.charge(placed), Granted)
        assert store.write_count == before + 1
    before = store.write_count
    assert isinstance(process.charge(commit=False), Granted)
    assert store.write_count == before


def test_the_largest_gang_is_looked_at() -> None:
    store = Troubled(quota(**{GPU: HARD, LARGEST_GANG: 4}))
    process = Process(store)
    process.burst(10)

    assert isinstance(process.charge(order(amounts={GPU: 1, LARGEST_GANG: 4})), Granted)
    assert isinstance(process.charge(order(amounts={GPU: 1, LARGEST_GANG: 5})), Refused)


def test_an_order_that_is_given_back_is_not_written(store: Troubled) -> None:
    """Another tier of the same request has refused."""
    process = Process(store)
    process.burst(10)
    placed = order()
    before = store.write_count
    assert isinstance(process.charge(placed), Granted)

    process.ledger.release("gold", [placed.id], process.time + 5)

    assert store.write_count == before
    process.wait(BUSY_SECONDS)
    process.run_due()
    assert store.reserved("gold-team-a") == 10


# ---- the leader -------------------------------------------------------------------------------------------------
def test_what_a_killed_process_charged_is_covered_until_it_is_counted(store: Troubled) -> None:
    """Its Jobs are stored, no reservation names them, and the leader's watch is behind."""
    process, leader = Process(store), Leader(store)
    leader.looked = Looked(Seen.ABSENT)
    process.burst(10)
    written = {item.uid for item in store.some(["gold-team-a"], 0.0)[0].reservations}
    unwritten = [order(generation=1) for _ in range(5)]
    assert all(isinstance(process.charge(placed), Granted) for placed in unwritten)
    assert not written & {placed.uid for placed in unwritten}

    for _ in range(4):
        leader.count()
        leader.now += RESERVATION_SECONDS
    assert leader.count().in_use(GPU) >= 5
    assert leader.relisted

    leader.census.replace_kind("Job", [job(placed.uid) for placed in unwritten], leader.now)
    found = leader.count()
    assert (found.used[GPU], found.reservations) == (5, ())


def test_what_is_counted_before_it_is_written_down_is_no_drift(store: Troubled) -> None:
    process, leader = Process(store), Leader(store)
    process.burst(10)
    placed = order(generation=1)
    assert isinstance(process.charge(placed), Granted)

    leader.live(placed.uid, 1)

    assert leader.count().used[GPU] == 1
    assert leader.drifts == []
    leader.live("nobody charged it", HARD)
    leader.count()
    assert len(leader.drifts) == 1


def job(uid: str) -> Node:
    charge = Charge(tier="gold", amounts={GPU: 1})
    return Node(uid=uid, kind="Job", namespace="team-a", name=uid, generation=1, charges=(charge,))
