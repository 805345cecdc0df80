"""The ledger against a store that is slow, silent, contended or lies about having written."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from webhook.quota.book import Order
from webhook.quota.ledger import (
    KNOWN_SECONDS,
    MARGIN_SECONDS,
    REFRESH_SECONDS,
    Granted,
    Ledger,
    Outcome,
    Refused,
    Undecided,
)
from webhook.quota.model import (
    DETACHED_COUNT_MAX,
    GROUP_COUNT_MAX,
    NAMESPACE_RESERVATION_COUNT_MAX,
    RESERVATION_COUNT_MAX,
    OpenGroup,
    Reservation,
    TierQuota,
    from_raw,
)
from webhook.quota.store import InMemoryStore, StoreError, Written
from webhook.quota.usage import Joining

_IDS = itertools.count()


def order(gpus: int = 1, **fields: object) -> Order:
    number = next(_IDS)
    values: dict[str, object] = {"kind": "Job", "namespace": "team-a", "name": f"job-{number}", "amounts": {GPU: gpus}}
    return Order(id=f"id-{number}", uid=f"uid-{number}", **{**values, **fields})  # type: ignore[arg-type]


def charge(ledger: Ledger, placed: Order, *, seconds: float = 5.0, commit: bool = True) -> Outcome:
    return ledger.charge("gold", placed, {}, time.monotonic() + seconds, commit=commit)


class Troubled(InMemoryStore):
    """An in-memory store whose next writes and reads go as `trouble` says: one word for each write of a quota."""

    def __init__(self, *quotas: TierQuota) -> None:
        super().__init__(quotas)
        self.trouble: Callable[[TierQuota], str] = lambda _: ""
        self.write_count = 0
        self.readable = True

    def all(self, deadline: float) -> list[TierQuota]:
        if not self.readable:
            raise StoreError("the API server did not answer")
        return super().all(deadline)

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        if not self.readable:
            raise StoreError("the API server did not answer")
        return super().some(names, deadline)

    def write(self, quota: TierQuota, deadline: float) -> Written:
        self.write_count += 1
        word = self.trouble(quota)
        if word == "conflict":
            return Written.CONFLICT
        if word == "lost request":
            return Written.UNCLEAR
        result = super().write(quota, deadline)
        return Written.UNCLEAR if word == "lost answer" else result

    def reserved(self, name: str) -> int:
        return next(item for item in self.all(0.0) if item.name == name).reserved.get(GPU, 0)


def once(word: str, name: str = "") -> Callable[[TierQuota], str]:
    left = [word]
    return lambda item: left.pop() if left and name in ("", item.name) else ""


def test_it_fits_until_it_does_not() -> None:
    store = InMemoryStore([quota(**{GPU: 16})])
    ledger = Ledger(store)

    outcomes = [charge(ledger, order(8)) for _ in range(3)]

    assert [type(outcome) for outcome in outcomes] == [Granted, Granted, Refused]
    assert isinstance(outcomes[2], Refused)
    found = outcomes[2].shortfalls[0]
    assert (found.limit, found.in_use, found.asked, found.missing) == (16, 16, 8, 8)


def test_no_quota_of_the_tier_or_the_namespace_grants() -> None:
    ledger = Ledger(InMemoryStore([quota(namespaces=["team-b"], **{GPU: 1}), quota("s", tier="silver", **{GPU: 1})]))

    assert charge(ledger, order(8)) == Granted()


@pytest.mark.parametrize("word", ["conflict", "lost request", "lost answer"])
def test_a_write_that_goes_wrong_is_tried_again_and_paid_once(word: str) -> None:
    store = Troubled(quota(**{GPU: 16}))
    store.trouble = once(word)

    assert isinstance(charge(Ledger(store), order(8)), Granted)
    assert store.reserved("gold-team-a") == 8


def test_several_quotas_all_or_none() -> None:
    """The cluster's quota has no room: nothing is written to the team's."""
    store = Troubled(quota("team", **{GPU: 16}), quota("all", namespaces=[], **{GPU: 4}))

    refused = charge(Ledger(store), order(8))

    assert isinstance(refused, Refused)
    assert [found.quota.name for found in refused.shortfalls] == ["all"]
    assert store.write_count == 0


def test_what_was_written_before_a_late_refusal_is_taken_back() -> None:
    """ "all" is written by somebody else between the check and the write, and has no room any more."""
    store = Troubled(quota("a-team", **{GPU: 16}), quota("z-all", namespaces=[], **{GPU: 8}))

    def trouble(item: TierQuota) -> str:
        if item.name != "z-all":
            return ""
        store.trouble = lambda _: ""
        stored = next(found for found in store.all(0.0) if found.name == "z-all")
        store.put(replace(stored, used={GPU: 4}))
        return "conflict"

    store.trouble = trouble

    refused = charge(Ledger(store), order(8))

    assert isinstance(refused, Refused)
    assert store.reserved("a-team") == 0
    assert store.reserved("z-all") == 0


def test_undecided_takes_back_what_was_written() -> None:
    store = Troubled(quota("a-team", **{GPU: 16}), quota("z-all", namespaces=[], **{GPU: 16}))
    store.trouble = lambda item: "conflict" if item.name == "z-all" else ""

    outcome = charge(Ledger(store), order(8), seconds=0.8)

    assert isinstance(outcome, Undecided)
    assert store.reserved("a-team") == 0


def test_out_of_time_is_undecided_and_within_the_deadline() -> None:
    store = Troubled(quota(**{GPU: 16}))
    store.trouble = lambda _: "conflict"
    started = time.monotonic()

    outcome = charge(Ledger(store), order(8), seconds=1.0)

    assert outcome == Undecided("others were writing the same quota all the time")
    assert time.monotonic() - started < 1.0


def test_an_unreadable_store_is_undecided() -> None:
    store = Troubled(quota(**{GPU: 16}))
    store.readable = False

    outcome = charge(Ledger(store), order(8), seconds=0.7)

    assert outcome == Undecided("the quotas could not be read: the list of TierQuotas did not come")


def test_r48_counts_that_are_not_rebuilt_decide_nothing() -> None:
    store = InMemoryStore()
    store.put(replace(quota(**{GPU: 16}), counted_scope=""))
    ledger = Ledger(store)

    outcome = charge(ledger, order(8), seconds=0.7)

    assert outcome == Undecided('TierQuota "gold-team-a" has not been counted yet')
    assert ledger.not_ready() == ['TierQuota "gold-team-a" is not counted yet']


def test_a_quota_with_broken_books_stops_nobody_else() -> None:
    """Undecided for what it applies to, with the reason; another tier and another namespace go on."""
    broken = replace(quota(**{GPU: 16}), damage='"x" is no number')
    ledger = Ledger(InMemoryStore([broken, quota("silver", tier="silver", **{GPU: 16})]))

    undecided = charge(ledger, order(1), seconds=0.7)

    assert isinstance(undecided, Undecided)
    assert 'the status of TierQuota "gold-team-a" cannot be read' in undecided.reason
    assert isinstance(ledger.charge("silver", order(1), {}, time.monotonic() + 5), Granted)
    assert isinstance(charge(ledger, replace(order(1), namespace="team-b")), Granted)


def test_a_new_name_in_hard_closes_the_books_until_it_is_counted() -> None:
    stored = quota(**{GPU: 16})

    assert replace(stored, hard={GPU: 8}).is_counted
    assert not replace(stored, hard={GPU: 16, "pods": 4}).is_counted
    assert not replace(stored, namespaces=("team-b",)).is_counted


def lines(count: int, namespace: str, **fields: bool) -> list[Reservation]:
    numbers = [f"{namespace}-{number}" for number in range(count)]
    return [Reservation(id=n, uid=n, kind="Pod", namespace=namespace, name=n, **fields) for n in numbers]  # type: ignore[arg-type]


def test_who_fills_the_books_stops_himself() -> None:
    """A namespace that creates what is never stored, a thousand times: the others go on."""
    stored = replace(quota(**{GPU: 16}), namespaces=())
    stored = replace(stored, counted_scope=stored.scope)
    rows = lines(NAMESPACE_RESERVATION_COUNT_MAX, "team-b")
    ledger = Ledger(InMemoryStore([stored.with_reservations(rows)]))

    undecided = charge(ledger, order(1, namespace="team-b"), seconds=0.7)

    assert isinstance(undecided, Undecided)
    assert '1000 charges of namespace "team-b" that nobody has confirmed' in undecided.reason
    assert isinstance(charge(ledger, order(1, namespace="team-a")), Granted)


def test_children_that_people_wrote_do_not_fill_the_books() -> None:
    """Each is a line for as long as it lives. Before, 2000 Pods of a thousandth of a core with a forged owner stopped a tier
    in all namespaces for as long as they lived."""
    rows = lines(DETACHED_COUNT_MAX, "x", detached=True, settled=True)
    rows += lines(NAMESPACE_RESERVATION_COUNT_MAX, "x") + lines(RESERVATION_COUNT_MAX // 2 - 1, "y")
    ledger = Ledger(InMemoryStore([quota(**{GPU: 16}).with_reservations(rows)]))

    undecided = charge(ledger, order(1, detached=True), seconds=0.7)

    assert isinstance(undecided, Undecided)
    assert "500 live objects already whose ownerReferences a person wrote" in undecided.reason
    assert isinstance(charge(ledger, order(1)), Granted)
    assert isinstance(charge(ledger, order(1), seconds=0.7), Undecided)  # that was the last place of all


def test_more_bare_gangs_than_the_books_hold_are_not_let_in() -> None:
    """Each is a line as long as it has a member: tens of thousands, of one small Pod each, would be more than etcd takes."""
    groups = tuple(OpenGroup(uid=f"g{number}") for number in range(GROUP_COUNT_MAX))
    ledger = Ledger(InMemoryStore([replace(quota(**{GPU: 16}), groups=groups)]))

    def join(uid: str) -> Outcome:
        joining = Joining(group_uid=uid, group_name=uid, min_count=1, pod_count=1, per_pod={GPU: 1})
        return charge(ledger, order(0, joining=(joining,)), seconds=0.7)

    assert isinstance(join("another"), Undecided)
    assert isinstance(join("g7"), Granted)
    assert isinstance(charge(ledger, order(1)), Granted)


def test_full_books_are_undecided_not_refused() -> None:
    rows = lines(RESERVATION_COUNT_MAX // 2, "x") + lines(RESERVATION_COUNT_MAX // 2, "y")
    store = InMemoryStore([quota(**{GPU: 16}).with_reservations(rows)])

    assert isinstance(charge(Ledger(store), order(1), seconds=0.7), Undecided)


def test_r125_a_dry_run_checks_and_leaves_no_trace() -> None:
    store = Troubled(quota(**{GPU: 16}))
    ledger = Ledger(store)

    assert all(isinstance(charge(ledger, order(16), commit=False), Granted) for _ in range(50))
    assert isinstance(charge(ledger, order(17), commit=False), Refused)
    assert store.write_count == 0


def test_r49_nothing_is_asked_of_a_quota_that_is_over_its_limit() -> None:
    """Lowered below use: what asks for nothing passes, what asks for more reads 0 left, not a negative number."""
    ledger = Ledger(InMemoryStore([replace(quota(**{GPU: 16}), used={GPU: 24})]))

    assert isinstance(charge(ledger, order(0)), Granted)
    refused = charge(ledger, order(1))
    assert isinstance(refused, Refused)
    assert refused.shortfalls[0].missing == 1


def test_two_equal_orders_both_pay() -> None:
    store = Troubled(quota(**{GPU: 16}))
    ledger = Ledger(store)
    first = order(4)

    charge(ledger, first)
    charge(ledger, replace(first, id="another call", uid="another object"))

    assert store.reserved("gold-team-a") == 8


def test_r43_many_threads_of_several_replicas_never_take_more_than_there_is() -> None:
    """200 orders from 3 replicas into a quota for 50: exactly 50, each refusal true, and far fewer writes than orders."""
    store = Troubled(quota(**{GPU: 50}), quota("all", namespaces=[], **{GPU: 500}))
    ledgers = [Ledger(store) for _ in range(3)]
    start = threading.Barrier(48)

    def one(number: int) -> Outcome:
        if number < 48:
            start.wait()
        return charge(ledgers[number % 3], order(1), seconds=20)

    with ThreadPoolExecutor(48) as threads:
        outcomes = list(threads.map(one, range(200)))

    assert sum(isinstance(outcome, Granted) for outcome in outcomes) == 50
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 150
    assert (store.reserved("gold-team-a"), store.reserved("all")) == (50, 50)
    assert store.write_count < 150


def test_a_store_that_raises_something_else_is_our_bug_and_frees_the_desk() -> None:
    store = Troubled(quota(**{GPU: 16}))

    def bug(_: TierQuota) -> str:
        raise ZeroDivisionError

    store.trouble = bug
    ledger = Ledger(store)
    with pytest.raises(ZeroDivisionError):
        charge(ledger, order(1))
    store.trouble = lambda _: ""

    assert isinstance(charge(ledger, order(1)), Granted)


def test_no_quotas_is_a_word_of_one_second() -> None:
    """Older, it is no word: a quota may have been made and counted since."""
    store = Troubled()
    now = [0.0]
    ledger = Ledger(store, clock=lambda: now[0])
    assert ledger.known(10.0) == ()
    store.readable = False
    now[0] = KNOWN_SECONDS * 0.99
    assert ledger.known(10.0) == ()
    now[0] += 0.02

    assert ledger.known(10.0) is None
    assert ledger.not_ready() == ["the TierQuotas cannot be read"]


def test_books_survive_the_way_through_json() -> None:
    """What is written is what is read again, in every unit."""
    from webhook.quota.model import status_of

    store = InMemoryStore([quota(**{GPU: 16, "cpu": "2500m", "memory": "8Gi", "pods": 4})])
    charge(Ledger(store), order(8, amounts={GPU: 8, "cpu": 1500, "memory": 3 * 2**30, "pods": 2}))
    stored = store.all(0.0)[0]

    raw = {
        "metadata": {"name": stored.name, "resourceVersion": stored.resource_version},
        "spec": {
            "tier": "gold",
            "namespaces": ["team-a"],
            "hard": {GPU: 16, "cpu": "2500m", "memory": "8Gi", "pods": 4},
        },
        "status": status_of(stored),
    }

    assert raw["status"]["reserved"] == {GPU: "8", "cpu": "1500m", "memory": "3Gi", "pods": "2"}
    assert raw["status"]["summary"]["hard"] == f"cpu=2500m,memory=8Gi,{GPU}=16,pods=4"
    assert from_raw(raw) == stored


def test_a_word_that_is_good_enough_is_not_waited_for() -> None:
    """The list of quotas is read beside the requests; meanwhile the word before it counts, and one read is enough."""
    store, now, work = InMemoryStore(), [0.0], list[Callable[[], None]]()
    ledger = Ledger(store, clock=lambda: now[0], aside=work.append)
    assert ledger.known(10.0) == ()
    store.put(quota())

    now[0] = REFRESH_SECONDS
    assert ledger.known(10.0) == ledger.known(10.0) == ()
    (refresh,) = work
    refresh()

    assert [found.name for found in ledger.known(10.0) or ()] == [quota().name]
    assert len(work) == 1


def test_a_list_that_hangs_is_not_waited_for_beyond_the_request() -> None:
    """Another thread reads and gets no answer: there is no word, in time to say so."""
    asked, answer = threading.Event(), threading.Event()

    class Silent(InMemoryStore):
        def all(self, deadline: float) -> list[TierQuota]:
            asked.set()
            answer.wait(10)
            return super().all(deadline)

    ledger = Ledger(Silent())
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(ledger.known, time.monotonic() + 10)
        asked.wait(10)
        started = time.monotonic()

        assert ledger.known(started + MARGIN_SECONDS + 0.1) is None
        assert time.monotonic() - started < 5
        answer.set()
        assert reading.result() == ()
