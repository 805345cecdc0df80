"""Bare gangs in any order of events, with a leader whose watches of Pods and of PodGroups are not in step: a stateful model.

Beside tests/properties/quota/test_ledger_model.py, which has whole objects: here a gang is charged whole at its first Pod, and
later Pods take places that others paid for, and that may be gone before they are stored.

Kept after every step: what lives and may still be stored is never above the limit and never above the books, where a gang with
a member takes its minCount at least. Kept at the end: nothing is reserved, and what is used is what lives.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from webhook.quota.book import Order
from webhook.quota.census import Census, Node
from webhook.quota.ledger import Granted, Ledger
from webhook.quota.model import Reservation, TierQuota
from webhook.quota.recount import NOTICE_SECONDS, Looked, Recounter, Seen
from webhook.quota.store import InMemoryStore
from webhook.quota.usage import Charge, Joining

RESOURCE = "nvidia.com/gpu"
REQUEST_SECONDS = 60.0


@dataclass(eq=False)
class Group:
    uid: str
    min_count: int
    price: int


@dataclass(eq=False)
class Pod:
    """at: when it was admitted."""

    uid: str
    group: Group
    at: float = 0.0

    def joining(self) -> Joining:
        return Joining(
            group_uid=self.group.uid,
            group_name=self.group.uid,
            min_count=self.group.min_count,
            pod_count=1,
            per_pod={RESOURCE: self.group.price},
        )


class Leader:
    """Follows each kind by a queue of its own."""

    def __init__(self, world: Gangs, name: str) -> None:
        self.world = world
        self.census = Census(clock=world.now)
        self.queues: dict[str, deque[Node | str]] = {"Pod": deque(), "PodGroup": deque()}
        self.wants_list = False
        self.recounter = Recounter(
            world.store, self.census, identity=name, kinds=("Pod", "PodGroup"), look=world.look, relist=self.relist,
            clock=world.now,
        )  # fmt: skip
        self.list_now()

    def relist(self) -> None:
        self.wants_list = True

    def list_now(self) -> None:
        self.wants_list = False
        self.world.time += 0.001
        for queue in self.queues.values():
            queue.clear()
        self.census.replace_kind("Pod", map(self.world.pod_node, self.world.pods.values()), self.world.time)
        self.census.replace_kind("PodGroup", map(self.world.group_node, self.world.groups.values()), self.world.time)

    def deliver(self, kind: str, count: int) -> None:
        if self.wants_list:
            self.list_now()
            return
        queue = self.queues[kind]
        for _ in range(min(count, len(queue))):
            event = queue.popleft()
            if isinstance(event, str):
                self.census.remove(event)
            else:
                self.census.put(event)


class Gangs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.ids = itertools.count()
        self.groups: dict[str, Group] = {}
        self.pods: dict[str, Pod] = {}
        self.pending: list[Pod] = []
        self.store = InMemoryStore()
        self.ledger = Ledger(self.store, clock=self.now, sleep=self.sleep, jitter=lambda: 0.5)
        self.leaders: list[Leader] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def look(self, reservation: Reservation) -> Looked:
        return Looked(Seen.PRESENT, 1) if reservation.uid in self.pods else Looked(Seen.ABSENT)

    def pod_node(self, pod: Pod) -> Node:
        """As the leader prices it: the group is read live, whether its own watch has shown it or not."""
        if pod.group.uid in self.groups:
            charge = Charge(tier="gold", amounts={}, joining=(pod.joining(),))
        else:
            charge = Charge(tier="gold", amounts={RESOURCE: pod.group.price})
        return Node(uid=pod.uid, kind="Pod", namespace="a", name=pod.uid, generation=1, charges=(charge,))

    def group_node(self, group: Group) -> Node:
        return Node(uid=group.uid, kind="PodGroup", namespace="a", name=group.uid, min_count=group.min_count)

    def tell(self, kind: str, event: Node | str) -> None:
        for leader in self.leaders:
            leader.queues[kind].append(event)

    @initialize(hard=st.integers(3, 20))
    def start(self, hard: int) -> None:
        self.store.put(TierQuota(name="q", tier="gold", hard={RESOURCE: hard}))
        self.leaders = [Leader(self, "first")]
        self.leaders[0].recounter.run_once()
        self.time += NOTICE_SECONDS
        assert self.leaders[0].recounter.run_once()
        for min_count, price in ((3, 1), (2, 2)):
            self.create_group(min_count, price)

    # -- what people and the API server do ----------------------------------------------------------------------------
    @rule(min_count=st.integers(1, 4), price=st.integers(1, 2))
    def create_group(self, min_count: int, price: int) -> None:
        if len(self.groups) < 3:
            group = Group(f"g{next(self.ids)}", min_count, price)
            self.groups[group.uid] = group
            self.tell("PodGroup", self.group_node(group))

    @rule(pick=st.integers(0, 9))
    def create_and_store(self, pick: int) -> None:
        self.create_pod(pick, stored=True)

    @rule(pick=st.integers(0, 9), stored=st.just(False))
    def create_pod(self, pick: int, stored: bool) -> None:
        if not self.groups:
            self.create_group(3, 1)
        pod = Pod(f"p{next(self.ids)}", list(self.groups.values())[pick % len(self.groups)])
        order = Order(
            id=f"call-{pod.uid}", uid=pod.uid, kind="Pod", namespace="a", name=pod.uid, amounts={}, generation=1,
            joining=(pod.joining(),),
        )  # fmt: skip
        if isinstance(self.ledger.charge("gold", order, {}, self.time + 5), Granted):
            pod.at = self.time
            self.pending.append(pod)
            if stored:
                self.store_pod(len(self.pending) - 1)

    @rule(number=st.integers(0, 9))
    def store_pod(self, number: int) -> None:
        if self.pending:
            pod = self.pending.pop(number % len(self.pending))
            if self.time - pod.at <= REQUEST_SECONDS:
                self.pods[pod.uid] = pod
                self.tell("Pod", self.pod_node(pod))

    @rule(number=st.integers(0, 9))
    def fail_to_store(self, number: int) -> None:
        if self.pending:
            self.pending.pop(number % len(self.pending))

    @rule(pick=st.integers(0, 9))
    def delete_pod(self, pick: int) -> None:
        if self.pods:
            uid = list(self.pods)[pick % len(self.pods)]
            del self.pods[uid]
            self.tell("Pod", uid)

    @rule(pick=st.integers(0, 9))
    def delete_group(self, pick: int) -> None:
        if self.groups:
            uid = list(self.groups)[pick % len(self.groups)]
            del self.groups[uid]
            self.tell("PodGroup", uid)

    # -- the leader -----------------------------------------------------------------------------------------------------
    @rule(kind=st.sampled_from(["Pod", "PodGroup"]), count=st.integers(1, 5))
    def deliver(self, kind: str, count: int) -> None:
        for leader in self.leaders:
            leader.deliver(kind, count)

    @rule(which=st.integers(0, 1))
    def count(self, which: int) -> None:
        self.leaders[which % len(self.leaders)].recounter.run_once()

    @rule()
    def another_leader(self) -> None:
        self.leaders = [*self.leaders[-1:], Leader(self, f"leader-{next(self.ids)}")]

    @rule(seconds=st.sampled_from([0.6, 20.0, 61.0, 95.0]))
    def wait(self, seconds: float) -> None:
        self.time += seconds
        if seconds > REQUEST_SECONDS:
            # A group that is not seen for a reservation's whole time is one that nobody made.
            self.deliver("PodGroup", 100)
        self.pending = [pod for pod in self.pending if self.time - pod.at <= REQUEST_SECONDS]

    # -- what must hold ---------------------------------------------------------------------------------------------------
    def taken(self) -> int:
        """A group that is there takes minCount places at least once it has a member that lives."""
        total = 0
        members: dict[str, list[Pod]] = {}
        for pod in (*self.pods.values(), *(pod for pod in self.pending if self.time - pod.at <= REQUEST_SECONDS)):
            members.setdefault(pod.group.uid, []).append(pod)
        for uid, pods in members.items():
            group = self.groups.get(uid)
            places = len(pods) if group is None else max(group.min_count, len(pods))
            total += places * pods[0].group.price
        return total

    @invariant()
    def never_more_than_there_is(self) -> None:
        if not self.leaders:
            return
        quota = self.store.all(self.time)[0]
        taken = self.taken()
        assert quota.in_use(RESOURCE) >= taken, f"{taken} are taken and {quota.in_use(RESOURCE)} are in the books"
        assert taken <= quota.hard[RESOURCE], f"{taken} of {quota.hard[RESOURCE]}"

    def teardown(self) -> None:
        if not self.leaders:
            return
        self.pending = []
        leader = Leader(self, "the last one")
        for _ in range(6):
            self.time += 50.0
            leader.deliver("Pod", 1)
            leader.recounter.run_once()
        quota = self.store.all(self.time)[0]
        assert quota.reservations == ()
        assert quota.used == {RESOURCE: self.taken()}


TestGangs = Gangs.TestCase
TestGangs.settings = settings(max_examples=150, stateful_step_count=60)
