"""Any order of events over three replicas and two leaders keeps the books: a stateful model.

One Python thread; what runs "at the same time" runs inside a read or a write of the store: before it, another replica
charges, a leader counts, an admin edits, or the replica dies. The API server of the model keeps what admission promises:
it stores an admitted object within 60 s or never, and an update only of the generation that was judged.

Kept after every step:

- live objects and what is admitted and may still be stored never grow beyond a quota's hard limit;
- the books (used + reserved) are never below that;
- a dry run and a refusal leave no reservation.

Kept at the end, after the reservations' time: nothing is reserved, `used` is what lives.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from webhook.quota.advance import Advances
from webhook.quota.book import Order
from webhook.quota.census import Census, Node
from webhook.quota.ledger import Granted, Ledger, Outcome, Refused
from webhook.quota.model import Reservation, TierQuota
from webhook.quota.recount import NOTICE_SECONDS, Looked, Recounter, Seen
from webhook.quota.store import InMemoryStore, StoreError, Written
from webhook.quota.usage import Charge

RESOURCE = "nvidia.com/gpu"
REQUEST_SECONDS = 60.0
WEBHOOK_SECONDS = 30.0
"""After so long, nobody waits for a webhook's answer."""
STILL_SECONDS = 100.0
NAMESPACES = ("a", "b")
QUOTAS = {"team-a": ("a",), "everybody": ()}


class Crash(BaseException):
    """The replica is killed here."""


class BugError(Exception):
    """What nobody expects from a store."""


@dataclass(eq=False)
class Stored:
    """An object of the model's API server."""

    uid: str
    namespace: str
    size: int
    generation: int = 1

    def node(self) -> Node:
        charge = Charge(tier="gold", amounts={RESOURCE: self.size})
        return Node(
            uid=self.uid,
            kind="Job",
            namespace=self.namespace,
            name=self.uid,
            generation=self.generation,
            charges=(charge,),
        )


@dataclass(eq=False)
class Admitted:
    """A request that Muster let through and the API server has not stored yet. obj None: a creation."""

    uid: str
    namespace: str
    size: int
    more: int
    at: float
    generation: int = 1
    obj: Stored | None = None


class Store(InMemoryStore):
    """The store as one replica or leader sees it: its writes may be lost, and others act in between."""

    def __init__(self, world: Ledgers) -> None:
        super().__init__()
        self.world = world

    def all(self, deadline: float) -> list[TierQuota]:
        if self.world.next_word() == "unreadable":
            raise StoreError("no answer")
        return super().all(deadline)

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        if self.world.next_word() == "unreadable":
            raise StoreError("no answer")
        return super().some(names, deadline)

    def write(self, quota: TierQuota, deadline: float) -> Written:
        word = self.world.next_word()
        if word == "crash before":
            raise Crash
        if word == "request lost":
            return Written.UNCLEAR
        if word == "request late":
            self.world.late.append(quota)
            return Written.UNCLEAR
        if word == "bug before":
            raise BugError
        if word == "late arrives":
            self.world.late_arrives()
        if word == "stands still":
            self.world.stand_still()
        if word == "rival charges":
            self.world.charge_quietly(quota.namespaces[0] if quota.namespaces else "b", 1)
        if word == "own charge":
            self.world.charge_in_advance()
        if word == "leader counts":
            self.world.count_quietly()
        if word == "limit moves":
            self.world.move_limit(quota.name, 3)
        result = super().write(quota, deadline)
        if result is Written.DONE:
            self.world.books_hold(quota)
        if word == "crash after":
            raise Crash
        if word == "bug after":
            raise BugError
        if word == "stands still after":
            self.world.stand_still()
        return Written.UNCLEAR if word == "answer lost" else result


class Leader:
    """One process that counts, with a view of its own that lags behind."""

    def __init__(self, world: Ledgers, name: str) -> None:
        self.world = world
        self.census = Census(clock=world.now)
        self.events: deque[tuple[str, Stored | str]] = deque()
        self.recounter = Recounter(
            world.store,
            self.census,
            identity=name,
            kinds=("Job",),
            look=self.look,
            relist=self.relist,
            clock=world.now,
        )
        self.wants_list = False
        self.list_now()

    def relist(self) -> None:
        """Takes a while."""
        self.wants_list = True

    def list_now(self) -> None:
        """A list shows what is stored now and replaces the events that were on their way."""
        self.wants_list = False
        self.world.advance(0.001)
        self.events.clear()
        self.census.replace_kind("Job", [obj.node() for obj in self.world.live.values()], self.world.now())

    def look(self, reservation: Reservation) -> Looked:
        obj = self.world.live.get(reservation.uid)
        return Looked(Seen.ABSENT) if obj is None else Looked(Seen.PRESENT, obj.generation)

    def deliver(self, count: int) -> None:
        if self.wants_list:
            self.list_now()
            return
        for _ in range(min(count, len(self.events))):
            word, what = self.events.popleft()
            if word == "deleted":
                self.census.remove(str(what))
            elif isinstance(what, Stored):
                self.census.put(what.node())


class Ledgers(RuleBasedStateMachine):
    """The cluster: an API server, three replicas, one leader that works and perhaps one that should have stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.ids = itertools.count()
        self.live: dict[str, Stored] = {}
        self.pending: list[Admitted] = []
        self.trouble: deque[str] = deque()
        self.depth = 0
        self.store = Store(self)
        self.late: list[TierQuota] = []
        self.ending: set[int] = set()
        self.due: dict[int, list[Callable[[], None]]] = {}
        self.advances: dict[int, Advances] = {}
        self.asking = 0
        self.ledgers = [self.ledger(replica) for replica in range(3)]
        self.before: dict[str, int] = dict.fromkeys(QUOTAS, 0)
        self.leaders: list[Leader] = []

    def ledger(self, replica: int) -> Ledger:
        """A process that has just started: nothing waits to be written down."""
        due: list[Callable[[], None]] = []
        self.due[replica] = due

        self.ending.discard(replica)

        def later(seconds: float, work: Callable[[], None]) -> bool:
            if replica not in self.ending:
                due.append(work)
            return replica not in self.ending

        # Sooner and larger than in a cluster, so that short runs meet them often.
        self.advances[replica] = Advances(self.now, free_parts=2, busy_order_count=2)
        return Ledger(
            self.store,
            advances=self.advances[replica],
            later=later,
            clock=self.now,
            sleep=self.advance,
            jitter=lambda: 0.5,
        )

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds

    def next_word(self) -> str:
        return self.trouble.popleft() if self.trouble and self.depth == 1 else ""

    @initialize(
        team=st.integers(0, 12) | st.integers(20, 60),
        everybody=st.integers(0, 20) | st.integers(20, 80),
        sizes=st.lists(st.integers(1, 4), max_size=3),
    )
    def start(self, team: int, everybody: int, sizes: list[int]) -> None:
        """Some objects live already when the quotas are made."""
        for size in sizes:
            uid = f"uid-{next(self.ids)}"
            self.live[uid] = Stored(uid, "a", size)
        hard = {"team-a": team, "everybody": everybody}
        for name, namespaces in QUOTAS.items():
            self.store.put(TierQuota(name=name, tier="gold", hard={RESOURCE: hard[name]}, namespaces=namespaces))
        self.leaders = [Leader(self, "the first one")]
        assert not self.leaders[0].recounter.run_once()
        self.advance(NOTICE_SECONDS)
        assert self.leaders[0].recounter.run_once()
        self.another_leader()
        self.before = {quota.name: self.taken(quota) for quota in self.store.all(self.time)}

    # -- requests -------------------------------------------------------------------------------------------------
    words = st.lists(
        st.sampled_from(
            [
                "", "request lost", "answer lost", "unreadable", "rival charges", "own charge", "leader counts", "limit moves",
                "crash before", "crash after", "bug before", "bug after", "request late", "late arrives", "stands still",
                "stands still after",
            ]
        ),
        max_size=6,
    )  # fmt: skip

    @rule(
        replica=st.integers(0, 2),
        namespace=st.sampled_from(NAMESPACES),
        size=st.integers(0, 6),
        words=words,
    )
    def create(self, replica: int, namespace: str, size: int, words: list[str]) -> None:
        self.ask(replica, Admitted(f"uid-{next(self.ids)}", namespace, size, size, self.time), words)

    @rule(replica=st.integers(0, 2), namespace=st.sampled_from(NAMESPACES), size=st.integers(1, 4))
    def create_and_store(self, replica: int, namespace: str, size: int) -> None:
        if self.ask(replica, Admitted(f"uid-{next(self.ids)}", namespace, size, size, self.time), []):
            self.store_it(len(self.pending) - 1)

    @rule(replica=st.integers(0, 2), pick=st.integers(0, 9), more=st.integers(1, 4), words=words, counts=st.booleans())
    def grow(self, replica: int, pick: int, more: int, words: list[str], counts: bool) -> None:
        obj = self.pick(pick)
        if obj is not None:
            new = Admitted(obj.uid, obj.namespace, obj.size + more, more, self.time, obj.generation + 1, obj)
            self.ask(replica, new, words)
            if counts:
                self.leaders[-1].deliver(20)
                self.count_quietly()

    @rule(replica=st.integers(0, 2), namespace=st.sampled_from(NAMESPACES), size=st.integers(0, 6))
    def dry_run(self, replica: int, namespace: str, size: int) -> None:
        before = self.store.all(self.time)

        outcome = self.charge(replica, Admitted("dry", namespace, size, size, self.time), commit=False)

        assert self.store.all(self.time) == before
        if isinstance(outcome, Refused):
            assert all(item.in_use + item.asked > item.limit for item in outcome.shortfalls)

    @rule(
        replica=st.integers(0, 2),
        namespace=st.sampled_from(NAMESPACES),
        sizes=st.lists(st.integers(1, 3), min_size=2, max_size=8),
    )
    def burst(self, replica: int, namespace: str, sizes: list[int]) -> None:
        for size in sizes:
            self.ask(replica, Admitted(f"uid-{next(self.ids)}", namespace, size, size, self.time), [])

    @rule(replica=st.integers(0, 2), words=words)
    def write_down(self, replica: int, words: list[str]) -> None:
        """Time for what was charged from an advance."""
        self.trouble = deque(words)
        self.asking = replica
        self.depth += 1
        work, self.due[replica][:] = list(self.due[replica]), []
        try:
            for one in work:
                one()
        except Crash:
            self.ledgers[replica] = self.ledger(replica)
        except BugError:
            pass  # the thread dies: what it had to do must be done by another
        finally:
            self.depth -= 1
            self.trouble.clear()
        self.is_all_due(replica)

    def is_all_due(self, replica: int) -> None:
        """What is not written yet will be: somebody is on his way."""
        assert self.due[replica] or not self.advances[replica].names("gold")

    @rule(replica=st.integers(0, 2))
    def end(self, replica: int) -> None:
        """By itself: it gives back what it holds."""
        self.ending.add(replica)
        self.write_down(replica, [])
        held = [item for quota in self.store.all(self.time) for item in quota.reservations
                if item.is_advance and item.name == self.advances[replica]._name]  # fmt: skip
        assert not held
        self.ledgers[replica] = self.ledger(replica)

    @rule()
    def late_arrives(self) -> None:
        """A write whose answer was given up long ago takes place, if nobody wrote since."""
        if self.late:
            InMemoryStore.write(self.store, self.late.pop(), self.time)

    def stand_still(self) -> None:
        """The process, for minutes; the others go on."""
        for seconds in (0.0, STILL_SECONDS, 0.0):
            self.advance(seconds)
            for leader in self.leaders:
                leader.deliver(20)
            self.count_quietly()

    @rule(replica=st.integers(0, 2))
    def kill(self, replica: int) -> None:
        self.ledgers[replica] = self.ledger(replica)

    @rule(replica=st.integers(0, 2), namespace=st.sampled_from(NAMESPACES), size=st.integers(1, 4))
    def charge_and_give_back(self, replica: int, namespace: str, size: int) -> None:
        """Another tier of the same request refuses."""
        asked = Admitted(f"uid-{next(self.ids)}", namespace, size, size, self.time)
        order = self.order(asked)
        self.asking = replica
        outcome = self.ledgers[replica].charge("gold", order, {}, self.time + 5)
        if isinstance(outcome, Granted):
            self.ledgers[replica].release("gold", [order.id], self.time + 5)

    def ask(self, replica: int, asked: Admitted, words: list[str]) -> Admitted | None:
        """One admission call: granted, refused, undecided, or the replica dies on the way."""
        self.trouble = deque(words)
        # An unsure write may stand; only a charge without trouble must leave nothing behind.
        quiet = not words
        started = self.time
        try:
            outcome = self.charge(replica, asked)
        except Crash:
            self.ledgers[replica] = self.ledger(replica)
            return None
        except BugError:
            return None
        finally:
            self.trouble.clear()
            self.is_all_due(replica)
        if self.time - started > WEBHOOK_SECONDS:
            return None
        if isinstance(outcome, Granted):
            asked.at = self.time
            self.pending.append(asked)
            return asked
        if quiet:
            assert not any(item.uid == asked.uid and item.generation == asked.generation and not self._paid(asked)
                           for quota in self.store.all(self.time) for item in quota.reservations)  # fmt: skip
        return None

    def _paid(self, asked: Admitted) -> bool:
        """Was the same change granted before, by another call?"""
        return any(item.uid == asked.uid for item in self.pending) or asked.obj is not None

    def charge(self, replica: int, asked: Admitted, *, commit: bool = True) -> Outcome:
        order = self.order(asked)
        self.asking = replica
        self.depth += 1
        try:
            return self.ledgers[replica].charge("gold", order, {}, self.time + 5, commit=commit)
        finally:
            self.depth -= 1

    def order(self, asked: Admitted) -> Order:
        return Order(
            id=f"call-{next(self.ids)}",
            uid=asked.uid,
            kind="Job",
            namespace=asked.namespace,
            name=asked.uid,
            amounts={RESOURCE: asked.more},
            generation=asked.generation,
        )

    # -- what happens inside another's write ------------------------------------------------------------------------
    def charge_quietly(self, namespace: str, size: int) -> None:
        asked = Admitted(f"uid-{next(self.ids)}", namespace, size, size, self.time)
        rival = Ledger(self.store, clock=self.now, sleep=self.advance, jitter=lambda: 0.5)
        order = Order(
            id=f"call-{next(self.ids)}", uid=asked.uid, kind="Job", namespace=namespace, name=asked.uid,
            amounts={RESOURCE: size}, generation=1,
        )  # fmt: skip
        self.depth += 1
        try:
            outcome = rival.charge("gold", order, {}, self.time + 5)
        finally:
            self.depth -= 1
        if isinstance(outcome, Granted):
            self.pending.append(asked)

    def charge_in_advance(self) -> None:
        """Another thread of the replica that is writing right now, which finds an advance and does not wait."""
        asked = Admitted(f"uid-{next(self.ids)}", "a", 1, 1, self.time)
        quotas = [quota for quota in InMemoryStore.all(self.store, self.time) if quota.selects("a", {})]
        if self.advances[self.asking].take(quotas, self.order(asked)) is not None:
            self.pending.append(asked)

    def count_quietly(self) -> None:
        self.depth += 1
        try:
            for leader in self.leaders:
                leader.recounter.run_once()
        finally:
            self.depth -= 1

    def move_limit(self, name: str, hard: int) -> None:
        stored = next(item for item in self.store.all(self.time) if item.name == name)
        self.store.put(replace(stored, hard={RESOURCE: hard}))

    # -- the API server ---------------------------------------------------------------------------------------------
    @rule(number=st.integers(0, 9))
    def store_it(self, number: int) -> None:
        """Stored if the API server still waits, and nobody else changed the object since it was judged."""
        if not self.pending:
            return
        item = self.pending.pop(number % len(self.pending))
        if self.time - item.at > REQUEST_SECONDS:
            return
        if item.obj is None:
            self.live[item.uid] = Stored(item.uid, item.namespace, item.size)
        elif self.live.get(item.uid) is item.obj and item.obj.generation == item.generation - 1:
            self.live[item.uid] = Stored(item.uid, item.namespace, item.size, item.generation)
        else:
            return
        self.tell("put", self.live[item.uid])

    @rule(number=st.integers(0, 9))
    def fail_to_store(self, number: int) -> None:
        """AlreadyExists, a later plugin's no, a conflict."""
        if self.pending:
            self.pending.pop(number % len(self.pending))

    @rule(pick=st.integers(0, 9), by=st.integers(1, 4))
    def shrink(self, pick: int, by: int) -> None:
        obj = self.pick(pick)
        if obj is not None:
            self.live[obj.uid] = Stored(obj.uid, obj.namespace, max(0, obj.size - by), obj.generation + 1)
            self.tell("put", self.live[obj.uid])

    @rule(pick=st.integers(0, 9))
    def delete(self, pick: int) -> None:
        """Deleted, or finished: the same to the books."""
        obj = self.pick(pick)
        if obj is not None:
            del self.live[obj.uid]
            self.tell("deleted", obj.uid)

    def pick(self, number: int) -> Stored | None:
        names = sorted(self.live)
        return self.live[names[number % len(names)]] if names else None

    def tell(self, word: str, what: Stored | str) -> None:
        for leader in self.leaders:
            leader.events.append((word, what))

    # -- leaders, admins, time ----------------------------------------------------------------------------------------
    @rule(which=st.integers(0, 1), count=st.integers(1, 20))
    def deliver(self, which: int, count: int) -> None:
        self.leaders[which % len(self.leaders)].deliver(count)

    @rule(which=st.integers(0, 1), word=st.sampled_from(["", "", "", "request lost", "answer lost", "rival charges"]))
    def count(self, which: int, word: str) -> None:
        self.trouble = deque(["", word])
        self.depth += 1
        try:
            self.leaders[which % len(self.leaders)].recounter.run_once()
        finally:
            self.depth -= 1
            self.trouble.clear()

    @rule()
    def another_leader(self) -> None:
        """The former one does not know yet that it is not the leader any more."""
        self.leaders = [*self.leaders[-1:], Leader(self, f"leader-{next(self.ids)}")]

    @rule(seconds=st.sampled_from([0.6, 20.0, 20.0, 61.0, 95.0]))
    def wait(self, seconds: float) -> None:
        self.advance(seconds)
        self.pending = [item for item in self.pending if self.time - item.at <= REQUEST_SECONDS]

    @rule(name=st.sampled_from(sorted(QUOTAS)), hard=st.integers(0, 60))
    def edit_limit(self, name: str, hard: int) -> None:
        self.move_limit(name, hard)

    # -- what must hold -----------------------------------------------------------------------------------------------
    def taken(self, quota: TierQuota) -> int:
        """Live, and admitted with a request that may still be stored: at most one update of each object can be."""
        total = 0
        sizes = {obj.uid: (obj.namespace, obj.size) for obj in self.live.values()}
        for item in self.pending:
            if self.time - item.at > REQUEST_SECONDS:
                continue
            if item.obj is None:
                sizes[item.uid] = (item.namespace, item.size)
            elif self.live.get(item.uid) is item.obj:
                sizes[item.uid] = (item.namespace, max(sizes[item.uid][1], item.size))
        for namespace, size in sizes.values():
            if quota.selects(namespace, {}):
                total += size
        return total

    def books_hold(self, quota: TierQuota) -> None:
        taken, books = self.taken(quota), quota.in_use(RESOURCE)
        assert books >= taken, f"{quota.name}: {taken} are taken and {books} are in the books"

    @invariant()
    def never_more_than_there_is(self) -> None:
        if not self.leaders:
            return
        for quota in self.store.all(self.time):
            taken = self.taken(quota)
            self.books_hold(quota)
            # A limit that moves in the middle of a step may be lower than what it let in just before.
            limit = max(quota.hard[RESOURCE], self.before[quota.name], self._highest(quota))
            assert taken <= limit, f"{quota.name}: {taken} of {quota.hard[RESOURCE]}"
            # Where the limit is lowered, what was reserved in advance is charged for a second yet.
            self.before[quota.name] = taken + sum(
                item.amounts[RESOURCE] for item in quota.reservations if item.is_advance
            )

    def _highest(self, quota: TierQuota) -> int:
        previous = getattr(self, "hard_before", {})
        highest = max(quota.hard[RESOURCE], int(previous.get(quota.name, 0)))
        self.hard_before = {**previous, quota.name: quota.hard[RESOURCE]}
        return highest

    def comes_to_rest(self, replica: int) -> None:
        """Without requests, what was charged is written down and nothing is left to do."""
        for _ in range(4):
            self.advance(2.0)
            self.write_down(replica, [])
        assert not self.due[replica]

    def teardown(self) -> None:
        """Nothing leaks: after the reservations' time the books hold what lives, and nothing else."""
        if not self.leaders:
            return
        self.pending = []
        for replica in range(3):
            self.comes_to_rest(replica)
        leader = Leader(self, "the last one")
        for _ in range(6):
            self.advance(50.0)
            leader.deliver(1)
            leader.recounter.run_once()
        for quota in self.store.all(self.time):
            live = sum(obj.size for obj in self.live.values() if quota.selects(obj.namespace, {}))
            assert quota.reservations == ()
            assert quota.used == {RESOURCE: live}


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(max_examples=150, stateful_step_count=60)
