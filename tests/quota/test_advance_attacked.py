"""Attacks on what is reserved in advance: nothing leaks, nothing runs for ever, nothing dies in silence."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from tests.quota.test_advance import HARD, Process, advances, job
from tests.quota.test_ledger import Troubled, once, order
from tests.quota.test_recount import Leader
from webhook.quota.advance import BUSY_ORDER_COUNT, BUSY_SECONDS, SPAN_SECONDS, Advances
from webhook.quota.book import Order
from webhook.quota.ledger import KNOWN_SECONDS, Granted, Refused, Undecided, _Waiter, in_thread, in_time
from webhook.quota.model import TierQuota
from webhook.quota.recount import RESERVATION_SECONDS
from webhook.quota.store import InMemoryStore, Written


def test_a_lost_answer_to_the_last_write_is_not_asked_about_for_ever(store: Troubled) -> None:
    """It took place: nothing is left to write, and the process read the quota every 0.4 s as long as it lived."""
    process = Process(store)
    process.burst(10)
    process.wait(BUSY_SECONDS)
    store.trouble = once("lost answer")

    for _ in range(3):
        process.run_due()

    assert (process.due, store.reserved("gold-team-a")) == ([], 10)


def test_what_was_given_back_and_has_lapsed_is_not_looked_for_for_ever(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    process.run_due()
    placed = order()
    assert isinstance(process.charge(placed), Granted)
    process.ledger.release("gold", [placed.id], process.time + 5)
    store.put(replace(store.some(["gold-team-a"], 0.0)[0], reservations=()))
    process.wait(BUSY_SECONDS)

    for _ in range(4):
        process.run_due()
        process.wait(BUSY_SECONDS)

    assert (process.due, store.reserved("gold-team-a")) == ([], 0)


@pytest.mark.parametrize("late", ["gold-team-a", "all"])
def test_an_order_given_back_is_out_of_both_quotas(store: Troubled, late: str) -> None:
    """It is given back while one quota has it in its books by now, and the other's write came second."""
    store.put(quota("all", namespaces=[], **{GPU: HARD}))
    process = Process(store)
    process.burst(10)
    placed = order()
    assert isinstance(process.charge(placed), Granted)
    process.wait(BUSY_SECONDS)
    words = [late]

    def trouble(found: TierQuota) -> str:
        if found.name not in words:
            return ""
        words.clear()
        process.ledger.release("gold", [placed.id], process.time + 5)
        return "conflict"

    store.trouble = trouble
    for _ in range(4):
        process.run_due()
        process.wait(BUSY_SECONDS)

    assert process.due == []
    assert store.reserved("gold-team-a") == store.reserved("all") == 10


def test_who_gave_up_while_the_advance_paid_gets_his_place_back(
    store: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread serves him; his own has just said "try again"."""
    process = Process(store)
    process.burst(10)
    waiter = _Waiter(order=order(), labels={}, end=process.time + 5, commit=True)
    take = Advances.take

    def slow(self: Advances, quotas: list[TierQuota], placed: Order) -> tuple[TierQuota, ...] | None:
        waiter.abandoned = True
        return take(self, quotas, placed)

    monkeypatch.setattr(Advances, "take", slow)
    desk = process.ledger._desk("gold")
    desk.queue.append(waiter)
    process.ledger._serve("gold", desk)
    process.wait(BUSY_SECONDS)
    process.run_due()

    assert store.reserved("gold-team-a") == 10


def test_what_is_to_be_written_down_survives_a_thread_that_fails(store: Troubled) -> None:
    process = Process(store)
    process.burst(10)
    process.charge()
    process.wait(BUSY_SECONDS)
    failures = [RuntimeError("a bug")]

    def trouble(_: TierQuota) -> str:
        if failures:
            raise failures.pop()
        return ""

    store.trouble = trouble
    with pytest.raises(RuntimeError, match="a bug"):
        process.run_due()
    process.run_due()

    assert (advances(store), store.reserved("gold-team-a")) == ([], 11)


def test_a_write_that_takes_place_and_raises_is_remembered(store: Troubled, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first advance of the process is in the books then."""
    process = Process(store)
    process.burst(BUSY_ORDER_COUNT - 1)
    write = Troubled.write

    def broken(self: Troubled, found: TierQuota, deadline: float) -> Written:
        write(self, found, deadline)
        monkeypatch.setattr(Troubled, "write", write)
        raise RuntimeError("a bug")

    monkeypatch.setattr(Troubled, "write", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        process.charge()
    assert advances(store)
    process.wait(BUSY_SECONDS)
    process.run_due()

    assert advances(store) == []


def test_all_namespaces_together_do_not_fill_the_books_in_advance(
    store: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.quota.advance.RESERVATION_COUNT_MAX", 20)
    process = Process(store)

    assert process.free_writes(25) >= 10
    assert process.free_writes(10) == 0


def test_a_status_that_somebody_emptied_ends_it_as_soon_as_it_is_known(store: Troubled) -> None:
    """Its generation stays. What is charged must be stored long before the leader counts anew."""
    process = Process(store)
    process.burst(10)
    store.put(replace(store.some(["gold-team-a"], 0.0)[0], reservations=(), used={}, counted_scope=""))
    process.wait(KNOWN_SECONDS)

    assert isinstance(process.charge(), Undecided)


def test_deleted_quotas_are_forgotten(store: Troubled) -> None:
    process = Process(store)
    for number in range(5):
        store.put(quota(f"for-an-hour-{number}", **{GPU: HARD}))
        process.wait(KNOWN_SECONDS)
        process.burst(10)
        process.wait(BUSY_SECONDS)
        process.run_due()
        store.remove(f"for-an-hour-{number}")
    process.wait(KNOWN_SECONDS)
    process.burst(1)

    assert process.ledger._advances is not None
    assert list(process.ledger._advances._held) == ["gold-team-a"]


def test_a_page_of_an_advance_that_was_dropped_is_not_put_on_the_next_one() -> None:
    """The quota changed its tier while its write was on its way, and another thread began anew."""
    book = quota(**{GPU: HARD})
    held = Advances(lambda: 100.0)
    orders = {book.name: [order() for _ in range(BUSY_ORDER_COUNT)]}
    pages = [held.write_down({book.name: book}, ())[1] for _ in range(2)]
    made = []
    for page in pages:
        made.append(held.renew({book.name: book}, orders, {}, page)[book.name])
        if len(made) == 1:
            held.drop([book.name])

    for written, page in zip(made, pages, strict=True):
        held.written(book.name, written, page[book.name], Written.DONE)

    assert held._held[book.name].left[GPU] == made[1].reserved[GPU]


@pytest.mark.parametrize("seconds", [RESERVATION_SECONDS, RESERVATION_SECONDS + SPAN_SECONDS - 1])
def test_an_advance_waits_longer_than_a_reservation(store: Troubled, seconds: float) -> None:
    """Its last order came that much later, and whoever sets MUSTER_RESERVATION_SECONDS knows only of the API server's."""
    process, leader = Process(store), Leader(store)
    process.burst(10)
    placed = order(generation=1)
    assert isinstance(process.charge(placed), Granted)
    written = [item.uid for item in store.some(["gold-team-a"], 0.0)[0].reservations]
    leader.count()

    leader.now += seconds
    leader.census.replace_kind("Job", [job(uid) for uid in written], leader.now + 0.1)
    leader.now += 0.5

    leader.count()
    assert advances(store)
    assert not leader.relisted


def test_where_no_thread_can_be_had_nothing_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's limit of processes. The lock of the list of quotas was held for ever then, and every request was 429."""

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    done: list[int] = []

    in_thread(lambda: done.append(1))
    assert not in_time(0.0, lambda: None)

    assert len(done) == 1


def test_a_quota_of_other_names_does_not_stand_in_the_way(store: Troubled) -> None:
    """Orders that ask for nothing of what it limits never touch it, so there is no advance in it either."""
    store.put(quota("processors", namespaces=[], cpu=8))
    process = Process(store)
    process.burst(10)

    assert process.free_writes() == 1
    assert isinstance(process.charge(order(amounts={GPU: 1, "cpu": 9000})), Refused)
    process.run_due()
    process.wait(BUSY_SECONDS)
    process.run_due()
    assert store.reserved("gold-team-a") == 11
    assert InMemoryStore.some(store, ["processors"], 0.0)[0].reservations == ()


def test_one_order_that_is_tried_again_and_again_is_no_burst(store: Troubled) -> None:
    process = Process(store)
    words = ["conflict"] * BUSY_ORDER_COUNT
    store.trouble = lambda _: words.pop() if words else ""

    process.burst(1)

    assert (words, advances(store)) == ([], [])
