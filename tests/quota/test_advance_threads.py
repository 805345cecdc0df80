"""Real threads of three processes at one slow store that says no, says nothing and writes late.

The books are compared with what was granted inside every write that takes place. QUOTA_THREADS_SECONDS: how long.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from tests.quota.test_ledger import order
from webhook.quota.advance import Advances
from webhook.quota.book import Order
from webhook.quota.ledger import Granted, Ledger, in_thread
from webhook.quota.model import TierQuota
from webhook.quota.store import InMemoryStore, StoreError, Written
from webhook.quota.usage import Joining

SECONDS = float(os.environ.get("QUOTA_THREADS_SECONDS", "2"))
PROCESS_COUNT, THREAD_COUNT = 3, 6
NAMES = ("gold-team-a", "all")
HARD = 400


class Slow(InMemoryStore):
    """trouble: 0..1, how often a read or write goes wrong."""

    def __init__(self, trouble: float, raises: float) -> None:
        super().__init__([quota(NAMES[0], **{GPU: HARD}), quota(NAMES[1], namespaces=[], **{GPU: HARD + 50})])
        self.trouble, self.raises = trouble, raises
        self.granted: dict[str, int] = {}
        self.faults: list[str] = []
        self.write_count: Counter[Written] = Counter()
        self.random = random.Random(1)
        self.late: list[threading.Timer] = []
        self.late_ids: set[str] = set()

    def some(self, names: Iterable[str], deadline: float) -> list[TierQuota]:
        self._wait()
        if self.random.random() < self.trouble / 3:
            raise StoreError("no answer")
        return super().some(names, deadline)

    def write(self, quota: TierQuota, deadline: float) -> Written:
        self._wait()
        if self.random.random() < self.raises:
            raise RuntimeError("a bug")
        dice = self.random.random() / self.trouble if self.trouble else 9.0
        if dice < 0.3:
            return Written.CONFLICT
        if dice < 0.6:
            late = threading.Timer(self.random.random() / 20, lambda: self._checked(quota, deadline))
            late.start()
            self.late.append(late)
            self.late_ids |= quota.ids
            return Written.UNCLEAR
        result = self._checked(quota, deadline)
        return Written.UNCLEAR if 0.6 <= dice < 1 and result is Written.DONE else result

    def _wait(self) -> None:
        time.sleep(self.random.random() / 250)

    def _checked(self, quota: TierQuota, deadline: float) -> Written:
        # What is granted is in the books before it is: so this is taken first.
        granted = sum(self.granted.copy().values())
        result = super().write(quota, deadline)
        self.write_count[result] += 1
        if result is Written.DONE:
            in_use = quota.in_use(GPU)
            if in_use < granted:
                self.faults.append(f"{quota.name}: {granted} are granted, {in_use} are in the books")
            if in_use > quota.hard[GPU]:
                self.faults.append(f"{quota.name}: {in_use} of {quota.hard[GPU]}")
        return result


class World:
    def __init__(self, trouble: float, raises: float) -> None:
        self.store = Slow(trouble, raises)
        self.ledgers = [Ledger(self.store, advances=Advances(), aside=in_thread) for _ in range(PROCESS_COUNT)]
        self.stop = threading.Event()
        self.granted_count = 0
        self.errors: Counter[str] = Counter()

    def ask(self, ledger: Ledger, dice: random.Random) -> None:
        """One request after another; some are given back, as where another tier refuses."""
        while not self.stop.is_set():
            placed = self.order(dice)
            seconds = dice.choice((0.51, 0.6, 1.0, 5.0))
            try:
                outcome = ledger.charge("gold", placed, {}, time.monotonic() + seconds, commit=dice.random() > 0.05)
            except RuntimeError as error:
                self.errors[str(error)] += 1
                continue
            if isinstance(outcome, Granted) and dice.random() < 0.1:
                ledger.release("gold", [placed.id], time.monotonic() + 5)
            time.sleep(dice.random() / 100)

    def grant(self, ledger: Ledger, dice: random.Random) -> None:
        while not self.stop.is_set():
            for _ in range(dice.randint(1, 40)):
                placed = self.order(dice)
                try:
                    outcome = ledger.charge("gold", placed, {}, time.monotonic() + 3)
                except RuntimeError as error:
                    self.errors[str(error)] += 1
                    continue
                if isinstance(outcome, Granted):
                    self.store.granted[placed.id] = placed.amounts.get(GPU, 0)
                    self.granted_count += 1
            time.sleep(dice.random() / 5)

    def order(self, dice: random.Random) -> Order:
        kind = dice.random()
        if kind < 0.03:
            return order(detached=True)
        if kind < 0.05:
            joining = Joining(group_uid="g", group_name="g", min_count=2, pod_count=1, per_pod={GPU: 1})
            return order(0, joining=(joining,))
        return order(dice.choice((0, 1, 1, 1, 1, 2, 5)))

    def settle(self, dice: random.Random) -> None:
        """As a leader: some of what was granted ends, and is taken out; so is what nobody was granted, later."""
        seen: dict[str, float] = {}
        while not self.stop.is_set():
            time.sleep(0.02)
            # Now and then nothing ends, and the quotas fill up.
            share = 0.2 if time.monotonic() % 1.5 < 1 else 0.01
            ended = [item for item in list(self.store.granted) if dice.random() < share]
            for item in ended:
                del self.store.granted[item]
            self.lapse(seen, 2.0)

    def lapse(self, seen: dict[str, float], seconds: float) -> None:
        for stored in InMemoryStore.all(self.store, 0.0):
            now = time.monotonic()
            for item in stored.reservations:
                seen.setdefault(item.id, now)
            granted = self.store.granted.copy()
            kept = [item for item in stored.reservations
                    if item.is_advance or item.id in granted or now - seen[item.id] < seconds]  # fmt: skip
            if len(kept) < len(stored.reservations):
                InMemoryStore.write(self.store, replace(stored, reservations=tuple(kept)), 0.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("trouble", "raises"), [(0.0, 0.0), (0.3, 0.0), (0.2, 0.03)])
def test_many_threads_keep_the_books(trouble: float, raises: float) -> None:
    world = World(trouble, raises)
    before = threading.active_count()
    works = [
        (world.grant if number < THREAD_COUNT - 1 else world.ask, (ledger, random.Random(number)))
        for ledger in world.ledgers
        for number in range(THREAD_COUNT)
    ]
    threads = [threading.Thread(target=work, args=args) for work, args in works]
    threads.append(threading.Thread(target=world.settle, args=(random.Random(9),)))
    for thread in threads:
        thread.start()

    time.sleep(SECONDS)
    world.stop.set()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)
    world.store.trouble = world.store.raises = 0.0
    for late in world.store.late:
        late.join()

    # All of it is written down and given back, and no thread goes on.
    end = time.monotonic() + 10
    while time.monotonic() < end and (threading.active_count() > before or _advances(world)):
        time.sleep(0.05)
    assert world.granted_count > 0
    assert world.store.faults == []
    assert threading.active_count() <= before
    assert not _advances(world)
    assert not any(ledger._desk("gold").busy or ledger._desk("gold").queue for ledger in world.ledgers)
    for found in InMemoryStore.all(world.store, 0.0):
        assert {item for item, size in world.store.granted.items() if size} <= found.ids


def _advances(world: World) -> list[str]:
    """Those that no write took in which came later than anybody looked for it: these the leader takes out."""
    reservations = [item for stored in InMemoryStore.all(world.store, 0.0) for item in stored.reservations]
    return [item.id for item in reservations if item.is_advance and item.id not in world.store.late_ids]
