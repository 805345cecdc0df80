"""The leader's recount: when it may count, what becomes of reservations, what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from webhook.policy.model import LabelSelector
from webhook.quota.book import Counted, Fate, Order, notable, recounted, reserve
from webhook.quota.census import LINGER_SECONDS, Census, Node
from webhook.quota.ledger import KNOWN_SECONDS
from webhook.quota.model import (
    DETACHED_COUNT_MAX,
    HOLDER_COUNT_MAX,
    RESERVATION_COUNT_MAX,
    UNKNOWN_GENERATION,
    Holder,
    OpenGroup,
    Reservation,
    TierQuota,
    from_raw,
    reservation_of,
    status_of,
    texts,
)
from webhook.quota.recount import NOTICE_SECONDS, RESERVATION_SECONDS, Looked, NoJournal, Recounter, Seen
from webhook.quota.store import InMemoryStore
from webhook.quota.usage import Charge, Joining


class Leader(NoJournal):
    """A recounter over a store and a census, with a clock that tests move."""

    def __init__(self, store: InMemoryStore, name: str = "one", *, listed: bool = True) -> None:
        self.now = 1000.0
        self.store = store
        self.census = Census(clock=lambda: self.now)
        if listed:
            self.census.replace_kind("Job", [], self.now)
        self.looked = Looked(Seen.UNKNOWN)
        self.relisted = 0
        self.drifts: list[Mapping[str, int]] = []
        self.damaged: list[TierQuota] = []
        self.lapsed_ones: list[Reservation] = []
        self.recounter = Recounter(
            store, self.census, identity=name, kinds=("Job",), look=lambda _: self.looked, relist=self.relist,
            journal=self, clock=lambda: self.now, on_damage=self.damaged.append,
        )  # fmt: skip

    def relist(self) -> None:
        self.relisted += 1

    def drift(self, quota: TierQuota, amounts: Mapping[str, int]) -> None:
        self.drifts.append(amounts)

    def lapsed(self, quota: TierQuota, reservations: Sequence[Reservation]) -> None:
        self.lapsed_ones += reservations

    def live(self, uid: str, gpus: int, generation: int = 1) -> None:
        charges = (Charge(tier="gold", amounts={GPU: gpus}),)
        self.census.put(Node(uid=uid, kind="Job", namespace="team-a", name=uid, generation=generation, charges=charges))

    def count(self) -> TierQuota:
        self.recounter.run_once()
        return self.store.all(0.0)[0]


def order(uid: str, gpus: int, generation: int = 1, **fields: object) -> Order:
    values: dict[str, object] = {"kind": "Job", "namespace": "team-a", "name": uid, "amounts": {GPU: gpus}}
    return Order(id=f"{uid}/{generation}", uid=uid, generation=generation, **{**values, **fields})  # type: ignore[arg-type]


def booked(*orders: Order) -> InMemoryStore:
    stored = quota(**{GPU: 100})
    for placed in orders:
        stored, missing = reserve(stored, placed)
        assert not missing
    return InMemoryStore([stored])


def test_a_new_quota_is_not_counted_before_every_worker_can_know_it() -> None:
    """Seen live: a worker that had just read "no quotas" admitted 19 Jobs uncharged into a quota counted in 0.1 s."""
    store = InMemoryStore()
    store.put(replace(quota(**{GPU: 16}), counted_scope=""))
    leader = Leader(store)

    assert not leader.count().is_counted
    leader.now += KNOWN_SECONDS
    assert not leader.count().is_counted
    leader.now += NOTICE_SECONDS - KNOWN_SECONDS
    assert leader.count().is_counted


def test_what_came_and_went_between_two_counts_is_neither_lapsed_nor_drift() -> None:
    """It lingers for half a second, and was paid for. Before, each such Job was an Event that told of objects "created while
    Muster did not answer"."""
    store = booked(order("a", 4), order("b", 2, detached=True))
    leader = Leader(store)
    for uid, gpus in (("a", 4), ("b", 2)):
        leader.live(uid, gpus)
        leader.census.remove(uid)

    counted = leader.count()

    assert (counted.used, counted.reservations) == ({GPU: 6}, ())
    assert [item.uid for item in leader.lapsed_ones] == ["b"]
    leader.now += LINGER_SECONDS
    assert leader.count().used == {GPU: 0}


def test_who_no_longer_leads_takes_nothing_back() -> None:
    """A leader that stood still for longer than its Lease, and finds its successor's name."""
    store = booked()
    leader = Leader(store)
    leader.recounter._leads = lambda: False
    store.put(replace(store.all(0.0)[0], counted_by="another"))

    assert not leader.recounter.run_once()

    assert store.all(0.0)[0].counted_by == "another"
    assert leader.relisted == 1


@pytest.mark.parametrize("hand", ["broken", "emptied"])
def test_lost_books_are_counted_anew_once_nothing_that_was_in_them_can_be_stored(hand: str) -> None:
    """kubectl edit --subresource=status. Seen: one such quota made the list of all unreadable, for the leader, too: 429 for
    every tier for ever."""
    store = booked(order("in-flight", 4))
    leader = Leader(store)
    leader.count()
    broken = replace(leader.count(), reservations=(), counted_scope="", damage="not a line" if hand == "broken" else "")

    store.put(broken)
    assert not leader.count().is_counted
    leader.now += RESERVATION_SECONDS - 1
    assert not leader.count().is_counted
    leader.now += 1
    leader.live("in-flight", 4)
    leader.count()

    mended = store.all(0.0)[0]
    assert (mended.is_counted, mended.damage, mended.used) == (True, "", {GPU: 4})
    assert [quota.name for quota in leader.damaged] == (["gold-team-a"] if hand == "broken" else [])


def test_nothing_is_counted_before_everything_is_listed() -> None:
    leader = Leader(booked(order("a", 4)), listed=False)

    assert leader.count().counted_by == ""


def test_a_new_leader_signs_and_counts_only_lists_that_began_after() -> None:
    store = booked(order("a", 4))
    first, second = Leader(store, "one"), Leader(store, "two")
    first.live("a", 4)
    assert first.count().used == {GPU: 4}

    assert second.count().counted_by == "two"
    assert second.relisted == 1
    assert second.count().used == {GPU: 4}  # its list is older than its signature: it may not know "a"
    second.now += 1
    second.census.replace_kind("Job", [], second.now)
    assert second.count().used == {GPU: 0}
    assert first.count().counted_by == "one"
    assert first.relisted == 1


@pytest.mark.parametrize(
    ("seen", "kept"),
    [(Seen.ABSENT, 0), (Seen.PAST, 0), (Seen.UNKNOWN, 1), (Seen.PRESENT, 1)],
)
def test_a_reservation_waits_its_time_and_then_for_a_live_read(seen: Seen, kept: int) -> None:
    """PRESENT and not in the census: stored, but not counted yet, so the reservation stays."""
    leader = Leader(booked(order("a", 4)))
    leader.looked = Looked(seen, 1)
    assert leader.count().reserved == {GPU: 4}
    leader.now += RESERVATION_SECONDS - 1
    assert leader.count().reserved == {GPU: 4}
    leader.now += 2

    assert len(leader.count().reservations) == kept


def test_growth_settles_with_its_generation_and_lapses_without() -> None:
    leader = Leader(booked(order("a", 4, 1), order("a", 2, 2)))
    leader.live("a", 4, 1)
    assert (leader.count().used, leader.count().reserved) == ({GPU: 4}, {GPU: 2})

    leader.live("a", 6, 2)
    assert (leader.count().used, leader.count().reserved) == ({GPU: 6}, {})


def test_growth_that_never_came_lapses_while_its_object_lives() -> None:
    leader = Leader(booked(order("a", 2, 5)))
    leader.live("a", 4, 4)
    leader.looked = Looked(Seen.PRESENT, 4)
    leader.count()
    leader.now += RESERVATION_SECONDS + 1

    assert (leader.count().used, leader.count().reservations) == ({GPU: 4}, ())


def test_growth_of_an_object_without_generation_waits_its_whole_time() -> None:
    leader = Leader(booked(order("a", 2, UNKNOWN_GENERATION)))
    leader.live("a", 4, 0)
    leader.looked = Looked(Seen.PRESENT, 0)
    assert leader.count().reserved == {GPU: 2}
    leader.now += RESERVATION_SECONDS + 1

    assert leader.count().reserved == {}


def test_a_detached_child_stays_in_the_books_as_long_as_it_lives() -> None:
    leader = Leader(booked(order("forged", 2, detached=True)))
    owned = Node(
        uid="forged", kind="Pod", namespace="team-a", name="forged", owner_uid="job", generation=1,
        charges=(Charge(tier="gold", amounts={GPU: 2}),),
    )  # fmt: skip
    leader.live("job", 4)
    leader.census.put(owned)

    assert leader.count().used == {GPU: 6}
    assert leader.count().used == {GPU: 6}
    assert leader.count().reserved == {}
    leader.census.remove("forged")
    assert leader.count().reservations == ()
    assert leader.count().used == {GPU: 4}


def test_what_was_never_charged_is_drift_and_said_once() -> None:
    leader = Leader(booked(order("a", 4)))
    leader.live("a", 4)
    leader.count()
    assert leader.drifts == []

    leader.live("smuggled", 3)
    leader.count()
    leader.count()

    assert leader.drifts == [{GPU: 3}]


def test_an_unchanged_count_writes_nothing() -> None:
    leader = Leader(booked())
    version = leader.count().resource_version

    assert leader.count().resource_version == version


def test_books_stay_small_enough_to_be_written() -> None:
    groups = [OpenGroup(uid=f"g{number}", open=1, per_pod={GPU: 1}) for number in range(100_000)]
    lines = [reservation(number) for number in range(RESERVATION_COUNT_MAX + DETACHED_COUNT_MAX)]
    stored = quota(**{GPU: 16}).with_reservations(lines)
    holders = [Holder(kind="Job", namespace=f"n{n}", name="x" * 63, amounts={GPU: n}) for n in range(10_000)]

    counted = recounted(stored, Counted(holders=holders, groups=groups), lambda _: Fate.KEEP, "me").quota

    assert len(json.dumps(status_of(counted))) < 1_200_000


def reservation(number: int) -> Reservation:
    uid = f"{number:08}-0000-0000-0000-000000000000"
    name = f"a-rather-long-name-of-a-job-in-a-cluster-{number}"
    return Reservation(
        id=f"{number:016}", uid=uid, kind="Job", namespace="a-team", name=name, amounts={GPU: 8, "cpu": 1}
    )


def test_each_namespace_sees_its_biggest_holder() -> None:
    """Of a hundred holders that are written, the first twenty namespaces had all, and everybody else read that all was in use
    by others."""
    holders = [
        Holder(kind="Job", namespace=f"team-{team:03}", name=f"j{number}", amounts={GPU: number})
        for team in range(80)
        for number in range(1, 9)
    ]

    written = notable(quota(**{GPU: 100}), holders)

    assert len(written) == HOLDER_COUNT_MAX
    assert {item.namespace for item in written if item.name == "j8"} == {item.namespace for item in holders}


def test_absurd_amounts_are_written_once() -> None:
    """A Pod that asks for 1e30 bytes, let in by a policy that only warns: what is written must be what is read, or the leader
    writes and says "drift" for ever."""
    store = booked(replace(member(0), amounts={}))
    stored = store.all(0.0)[0]
    store.put(replace(stored, hard={GPU: 100, "memory": 1, "cpu": 1}, reservations=()))
    store.put(replace(store.all(0.0)[0], counted_scope=store.all(0.0)[0].scope))
    leader = Leader(store)
    absurd = {GPU: 10**40, "memory": 10**40, "cpu": 10**40, "nvidia.com/a=b c,d;e": 1}
    joining = replace(member(0).joining[0], per_pod=absurd)
    leader.census.put(
        Node(
            uid="p",
            kind="Pod",
            namespace="team-a",
            name="p",
            charges=(Charge(tier="gold", amounts=absurd, joining=(joining,)),),
        )
    )
    group_lives(leader)
    leader.count()

    again = as_read(store.all(0.0)[0])
    assert again == store.all(0.0)[0]
    for _ in range(3):
        assert leader.count() == again
    assert len(leader.drifts) == 1


def as_read(stored: TierQuota) -> TierQuota:
    """After a way through the API server."""
    raw = {
        "metadata": {"name": stored.name, "resourceVersion": stored.resource_version},
        "spec": {"tier": stored.tier, "namespaces": list(stored.namespaces), "hard": texts(stored.hard)},
        "status": status_of(stored),
    }
    return from_raw(raw)


# ---- watches that are not in step --------------------------------------------------------------------------------
def member(number: int) -> Order:
    """A Pod of a bare gang of four, 2 GPUs each."""
    joining = Joining(group_uid="g", group_name="gang", min_count=4, pod_count=1, per_pod={GPU: 2}, once={"gangs": 1})
    return order(f"p{number}", 0, kind="Pod", amounts={}, joining=(joining,))


def lives(leader: Leader, number: int) -> None:
    charge = Charge(tier="gold", amounts={}, joining=member(number).joining)
    uid = f"p{number}"
    leader.census.put(Node(uid=uid, kind="Pod", namespace="team-a", name=uid, generation=1, charges=(charge,)))


def group_lives(leader: Leader) -> None:
    leader.census.put(Node(uid="g", kind="PodGroup", namespace="team-a", name="gang", min_count=4))


def in_books(store: InMemoryStore) -> int:
    return store.all(0.0)[0].in_use(GPU)


def test_the_places_of_a_gang_stay_reserved_until_its_group_is_seen() -> None:
    """The watch of PodGroups may be behind that of Pods, or broken. Before, the first Pod settled as a single one, and the
    other places were anybody's until the group came."""
    store = booked(member(0))
    leader = Leader(store)
    lives(leader, 0)

    leader.count()
    assert in_books(store) >= 8
    group_lives(leader)
    leader.count()
    assert store.all(0.0)[0].used == {GPU: 8}
    assert store.all(0.0)[0].reservations == ()


def test_a_group_that_is_gone_holds_no_places() -> None:
    store = booked(member(0))
    leader = Leader(store)
    group_lives(leader)
    leader.census.remove("g")
    lives(leader, 0)
    leader.now += LINGER_SECONDS

    assert leader.count().reservations == ()
    assert in_books(store) == 2


def test_a_job_stays_reserved_until_the_label_is_seen_that_makes_the_quota_apply() -> None:
    """A namespace that has just been labelled, and a watch of Namespaces that is behind: before, the Job settled and was
    counted nowhere."""
    selector = LabelSelector(match_labels={"team": "a"})
    stored = replace(quota(**{GPU: 100}), namespaces=(), selector=selector)
    stored, _ = reserve(replace(stored, counted_scope=stored.scope), order("a", 4))
    store = InMemoryStore([stored])
    leader = Leader(store)
    leader.live("a", 4)

    leader.count()
    assert in_books(store) == 4
    leader.census.set_labels("team-a", {"team": "a"})
    assert leader.count().used == {GPU: 4}
    assert store.all(0.0)[0].reservations == ()


@pytest.mark.parametrize("how", ["deleted", "never stored"])
def test_who_joins_a_gang_pays_for_it_where_all_that_had_paid_are_gone(how: str) -> None:
    """The first Pod paid for four; the second, on its way to be stored, took one of these places. Before, nothing held any
    place for it once the first was gone."""
    store = booked(member(0))
    leader = Leader(store)
    group_lives(leader)
    if how == "deleted":
        lives(leader, 0)
        assert leader.count().used == {GPU: 8}
    joined, missing = reserve(store.all(0.0)[0], member(1))
    assert not missing
    store.put(joined)

    leader.census.remove("p0")
    leader.count()

    assert in_books(store) == 8
    lives(leader, 1)
    assert leader.count().used == {GPU: 8}
    assert in_books(store) == 8
    assert store.all(0.0)[0].reservations == ()


def test_a_place_that_another_pod_is_counted_in_is_paid_by_who_had_taken_it() -> None:
    """p1 takes a place that p0 paid for; p4 finds none left, and pays. p4 is seen first, and fills the gang. Before, p1, on its way
    to be stored, was in nobody's books."""
    store = booked(*map(member, range(5)))
    assert in_books(store) == 10
    leader = Leader(store)
    group_lives(leader)
    for number in (0, 2, 3, 4):
        lives(leader, number)

    counted = leader.count()

    assert counted.used == {GPU: 8}
    assert [item.uid for item in counted.reservations] == ["p1"]
    assert in_books(store) == 10


def test_a_pod_that_took_a_place_stays_reserved_until_its_group_is_seen() -> None:
    """Else it is counted as a single one, and its place is taken by one more."""
    store = booked(member(0), member(1))
    leader = Leader(store)
    lives(leader, 1)

    leader.count()
    late, missing = reserve(store.all(0.0)[0], member(2))

    assert not missing
    assert late.reservations[-1].joins[0].slots == 1
    assert sum(join.slots for item in late.reservations for join in item.joins) == 3


def test_a_price_of_nothing_written_by_hand_is_no_trouble() -> None:
    store = booked()
    line = "i p1 Pod team-a p1 1 - join=g;0;0;nvidia.com/gpu=0;-"
    store.put(store.all(0.0)[0].with_reservations([reservation_of(line)]))

    assert len(Leader(store).count().reservations) == 1


def test_books_that_were_emptied_are_lost_to_the_next_term_of_the_same_process_too() -> None:
    """Another policy, or new lists, and it looked like a new quota."""
    store, had_books = booked(order("a", 4)), set[str]()
    first, second = Leader(store), Leader(store)
    first.recounter._had_books = second.recounter._had_books = had_books
    first.count()
    store.put(replace(store.all(0.0)[0], reservations=(), used={}, counted_scope="", counted_by=""))

    assert not second.count().is_counted
    second.now += RESERVATION_SECONDS - 1
    assert not second.count().is_counted
    second.now += 1
    assert second.count().is_counted
