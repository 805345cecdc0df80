"""What lives and what it counts: trees of owners, shrinking and stuck objects, bare gangs."""

from __future__ import annotations

import pytest

from tests.builders import GPU
from webhook.quota.book import Counted
from webhook.quota.census import BEHIND_SECONDS_MAX, LINGER_SECONDS, TERMINATING_SECONDS_MAX, Census, Node
from webhook.quota.usage import Charge, Joining


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def census(clock: Clock) -> Census:
    return Census(clock=clock)


def node(uid: str, gpus: int, kind: str = "Job", owner: str = "", **fields: object) -> Node:
    charges = (Charge(tier="gold", amounts={GPU: gpus}),) if gpus else ()
    values: dict[str, object] = {"namespace": "a", "name": uid, "owner_uid": owner, "charges": charges, "generation": 1}
    return Node(uid=uid, kind=kind, **{**values, **fields})  # type: ignore[arg-type]


def count(census: Census, detached: tuple[str, ...] = ()) -> Counted:
    return census.view().count("gold", lambda namespace: namespace == "a", frozenset(detached))


def used(census: Census, detached: tuple[str, ...] = ()) -> int:
    return sum(holder.amounts.get(GPU, 0) for holder in count(census, detached).holders)


def test_a_controller_counts_its_plan_or_its_pods_whichever_is_more(census: Census) -> None:
    census.put(node("job", 8))
    for number in range(3):
        census.put(node(f"p{number}", 2, "Pod", "job"))
    assert used(census) == 8
    for number in range(3, 6):
        census.put(node(f"p{number}", 2, "Pod", "job"))

    assert used(census) == 12
    assert [str(holder) for holder in count(census).holders] == ["job/job"]


def test_a_leader_pod_counts_beside_what_it_owns(census: Census) -> None:
    """LeaderWorkerSet -> StatefulSet -> leader Pod -> StatefulSet -> worker Pods."""
    census.put(node("lws", 8, "LeaderWorkerSet"))
    census.put(node("leaders", 1, "StatefulSet", "lws"))
    census.put(node("leader-0", 1, "Pod", "leaders"))
    census.put(node("workers", 7, "StatefulSet", "leader-0"))

    assert used(census) == 8


def test_a_detached_child_counts_apart(census: Census) -> None:
    census.put(node("job", 8))
    census.put(node("forged", 2, "Pod", "job"))

    assert used(census) == 8
    assert used(census, ("forged",)) == 10


def test_another_namespace_or_tier_is_not_counted(census: Census) -> None:
    census.put(node("there", 8, namespace="b"))
    census.put(node("silver", 0, charges=(Charge(tier="silver", amounts={GPU: 4}),)))

    assert used(census) == 0


def test_what_shrinks_or_goes_counts_a_moment_longer(census: Census, clock: Clock) -> None:
    census.put(node("job", 8))
    census.put(node("job", 2, generation=2))
    assert used(census) == 8
    clock.now += LINGER_SECONDS * 0.9
    census.put(node("job", 1, generation=3))
    clock.now += LINGER_SECONDS * 0.9
    assert used(census) == 8
    clock.now += LINGER_SECONDS
    assert used(census) == 1

    census.remove("job")
    assert census.view().is_gone("job")
    assert used(census) == 1
    clock.now += LINGER_SECONDS + 0.1
    assert used(census) == 0


def test_what_goes_counts_on_while_a_watch_is_broken(census: Census, clock: Clock) -> None:
    """The watch of Pods breaks, a Job is created, its Pods start, and it is deleted: its Pods run until their grace is over."""
    census.fall_behind("Pod")
    census.put(node("job", 8))
    clock.now += 10.0
    census.remove("job")
    clock.now += 10.0
    assert used(census) == 8

    census.replace_kind("Pod", [node(f"p{number}", 1, "Pod", "job") for number in range(3)], clock.now)
    clock.now += LINGER_SECONDS
    assert used(census) == 3

    # ...but not for ever: a kind that Muster may no longer watch keeps nothing in the books.
    census.fall_behind("Pod")
    census.put(node("b", 4))
    census.remove("b")
    clock.now += BEHIND_SECONDS_MAX
    used(census)
    clock.now += LINGER_SECONDS
    assert used(census) == 3


def test_orphans_are_tops(census: Census, clock: Clock) -> None:
    census.put(node("job", 8))
    census.put(node("p", 2, "Pod", "job"))
    census.remove("job")
    clock.now += LINGER_SECONDS + 0.1

    assert [str(holder) for holder in count(census).holders] == ["pod/p"]


def test_a_terminating_pod_counts_until_a_documented_age(census: Census, clock: Clock) -> None:
    census.put(node("p", 2, "Pod", is_deleting=True))
    clock.now += TERMINATING_SECONDS_MAX - 1
    census.put(node("p", 2, "Pod", is_deleting=True))
    assert used(census) == 2
    clock.now += 1.1
    assert used(census) == 0


def test_a_terminating_pod_counts_as_long_as_its_own_grace_lets_it_run(census: Census, clock: Clock) -> None:
    """terminationGracePeriodSeconds is the tenant's word: with a day of it, a deleted Pod kept its GPUs for a day and was
    counted for a quarter of an hour."""
    census.put(node("p", 2, "Pod", is_deleting=True, grace_seconds=86_400))
    clock.now += 86_400 + TERMINATING_SECONDS_MAX - 1
    assert used(census) == 2
    assert census.settles_at() == clock.now + 1
    clock.now += 1
    assert used(census) == 0


def test_a_bare_gang_counts_its_empty_places(census: Census) -> None:
    joining = Joining(
        group_uid="g", group_name="g", min_count=4, pod_count=1, per_pod={GPU: 2, "pods": 1}, once={"gangs": 1}
    )
    member = Charge(tier="gold", amounts={}, joining=(joining,))
    census.put(node("p0", 0, "Pod", charges=(member,)))
    assert used(census) == 2  # the group is not there (yet): its members count as they are

    census.put(node("g", 0, "PodGroup", min_count=4))
    assert used(census) == 8
    assert [(group.uid, group.open, group.per_pod[GPU]) for group in count(census).groups] == [("g", 3, 2)]
    census.put(node("p1", 0, "Pod", "g", charges=(member,)))  # so that it goes with its group
    assert (used(census), count(census).groups[0].open) == (8, 2)
    for number in range(2, 5):
        census.put(node(f"p{number}", 0, "Pod", charges=(member,)))
    assert used(census) == 10
    assert count(census).groups[0].open == 0


@pytest.mark.parametrize("is_member_first", [True, False])
def test_a_pod_whose_group_comes_or_goes_is_not_counted_twice(census: Census, is_member_first: bool) -> None:
    """Priced without its group it costs by itself what it cost as a member. Seen live: 64 GPUs in use by 4 Pods of 8."""
    joining = Joining(group_uid="g", group_name="g", min_count=1, pod_count=1, per_pod={GPU: 8})
    member = node("p0", 0, "Pod", charges=(Charge(tier="gold", amounts={}, joining=(joining,)),))
    for seen in (member, node("p0", 8, "Pod")) if is_member_first else (node("p0", 8, "Pod"), member):
        census.put(seen)

    assert used(census) == 8


def test_an_older_list_is_no_new_list(census: Census) -> None:
    """A kind that was never listed, or whose list began before, is not listed since."""
    census.replace_kind("Job", [], 50.0)

    assert census.listed_since(49.0, ["Job"])
    assert not census.listed_since(50.0, ["Job"])
    assert not census.listed_since(float("-inf"), ["Job", "Pod"])


def test_a_list_replaces_what_it_does_not_hold(census: Census, clock: Clock) -> None:
    census.put(node("a", 1))
    census.put(node("p", 1, "Pod"))
    census.replace_kind("Job", [node("b", 4)], 1.0)
    clock.now += LINGER_SECONDS + 0.1

    assert used(census) == 5
    assert census.view().is_gone("a")
