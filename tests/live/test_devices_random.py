"""Judge 1 for devices: random stocks and claims, Muster's answer against the real kube-scheduler 1.37.2.

Each case is run with the largest gang that Muster calls feasible (it must be placed) and the smallest that it calls
impossible (it must not). Where Muster does not know, the scheduler's answer only has to lie within the bound. The seed
is printed; DEVICES_SEED repeats a run, DEVICES_CASES sets how many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.feasibility.devices.objects import (
    GPU,
    NIC,
    ROOT,
    claim,
    device,
    first_available,
    resource_slice,
    way,
)
from tests.live.test_devices import Run, Shape, Stock, Table, play
from webhook.feasibility.result import Feasible, Infeasible, Unknown

Json = dict[str, Any]
WORDS = {Infeasible: "never", Feasible: "feasible", Unknown: "unknown"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "judge-devices.md"
TEXT = """# Judge 1 for devices: the real kube-scheduler

`make prove` draws stocks of devices (GPUs and NICs as ResourceSlices, PCIe roots, shared counters, devices for several claims) and
claims (counts, allocationMode All, CEL selectors, matchAttribute, firstAvailable, adminAccess, claims shared by the whole group
or by half of its Pods), asks the engine, and lets kube-scheduler 1.37.2 try the largest gang that the engine calls feasible
and the smallest that it does not (tests/live/test_devices_random.py). *Never, placed* has to be 0. *Feasible, not placed* is
the scheduler's greed: it goes Pod by Pod and takes nothing back.

Last run: {date}, seed `{seed}`, {cases} cases.

| claims | engine, scheduler | gangs |
|---|---|---|
{rows}
"""
# Groups that do not fit are tried again for ever: with hundreds of them the scheduler is never idle.
BATCH = 20
PODS_MAX = 6
INDEX = f'device.attributes["{GPU}"].index'
SELECTORS = (f"{INDEX} < 2", f"{INDEX} > 0", f"has({INDEX})", f"!has({INDEX}) || {INDEX} != 1", 'device.driver != "x"')


def draw_stock(random_: random.Random) -> Stock:
    """The same devices on each node: GPUs and NICs, some without a root, some on a shared board."""
    slices: list[tuple[str, list[Json], Json]] = []
    for driver, most in ((GPU, 4), (NIC, 3)):
        board = driver == GPU and random_.random() < 0.3
        devices = []
        for i in range(random_.randint(0 if driver == NIC else 1, most)):
            root = random_.choice([None, "p0", "p0", "p1", "p1"])
            more: Json = {}
            if board and random_.random() < 0.7:
                counters = {"memory": {"value": str(random_.randint(1, 3))}}
                more["consumesCounters"] = [{"counterSet": "board", "counters": counters}]
            elif random_.random() < 0.1:
                more["allowMultipleAllocations"] = True
            devices.append(device(f"d{i}", {"index": i} | ({ROOT: root} if root else {}), **more))
        extra: Json = {"slices": 2} if board else {}
        slices.append((driver, devices, extra))
        if board:
            sets = [{"name": "board", "counters": {"memory": {"value": str(random_.randint(1, 5))}}}]
            slices.append((driver, [], {"slices": 2, "sharedCounters": sets}))

    def make(names: list[str], _: str) -> list[Json]:
        return [
            resource_slice(f"{name}-{i}", driver, devices, nodeName=name, **more)
            for name in names
            for i, (driver, devices, more) in enumerate(slices)
        ]

    return make


def draw_way(random_: random.Random, *, alone: bool) -> Json:
    count = random_.choice([1, 1, 1, 2, 3, None] if alone else [1, 1, 2])
    chosen = random_.sample(SELECTORS, random_.choice([0, 0, 1]))
    more: Json = {"adminAccess": True} if alone and random_.random() < 0.1 else {}
    return way(random_.choice([GPU, GPU, NIC]), count, *chosen, **more)


def draw_claim(random_: random.Random) -> Json:
    requests: list[Json] = []
    for i in range(random_.choice([1, 1, 2])):
        if random_.random() < 0.25:
            ways = {key: draw_way(random_, alone=False) for key in ("x", "y")}
            requests.append(first_available(f"r{i}", **ways))
        else:
            requests.append({"name": f"r{i}", "exactly": draw_way(random_, alone=True)})
    kind = random_.choice(["", "match", "match", "of", "distinct"])
    if kind == "match":
        return claim(*requests, match=ROOT)
    if kind == "of":
        return claim(*requests, match=ROOT, of=["r0"])
    return claim(*requests, distinct=ROOT) if kind == "distinct" else claim(*requests)


def draw(random_: random.Random, number: int, cluster: Cluster) -> Shape:
    """A shape whose `most` is Muster's own word."""
    own = {"g": draw_claim(random_)} | ({"h": draw_claim(random_)} if random_.random() < 0.2 else {})
    shared = {"s": draw_claim(random_)} if random_.random() < 0.25 else {}
    loners = bool(shared) and random_.random() < 0.5
    stock, node_count = draw_stock(random_), random_.randint(1, 2)

    def shape(most: int | None, unknown: tuple[str, ...] = ()) -> Shape:
        return Shape(
            f"random-{number}", stock, most, own, shared, node_count=node_count, unknown=unknown, loners=loners
        )

    for pod_count in range(1, PODS_MAX + 1):
        found = Run(cluster, shape(pod_count), pod_count, "asked").result()
        if isinstance(found, Infeasible):
            return shape(pod_count - 1)
        if not isinstance(found, Feasible):
            return shape(pod_count - 1, ("over",))
    return shape(None)


def test_the_scheduler_never_does_what_muster_calls_impossible(control_plane: Cluster) -> None:
    judge(control_plane, seed(), int(os.environ.get("DEVICES_CASES", "25")))


@pytest.mark.prove
@pytest.mark.timeout(5400)
def test_recorded(control_plane: Cluster) -> None:
    """The long form, with the table in docs/."""
    drawn, case_count = seed(), int(os.environ.get("DEVICES_CASES", "300"))
    counts = judge(control_plane, drawn, case_count)
    rows = [f"| {features} | {word} | {counts[features, word]} |" for features, word in sorted(counts)]
    today = datetime.now(UTC).date().isoformat()
    DOCUMENT.write_text(TEXT.format(date=today, seed=drawn, cases=case_count, rows="\n".join(rows)))


def seed() -> int:
    return int(os.environ.get("DEVICES_SEED", str(random.SystemRandom().randrange(2**32))))


def judge(cluster: Cluster, drawn: int, case_count: int) -> Counter[tuple[str, str]]:
    """(features, what both said) -> how many gangs."""
    print(f"DEVICES_SEED={drawn} DEVICES_CASES={case_count}")
    random_ = random.Random(drawn)
    shapes = [draw(random_, number, cluster) for number in range(case_count)]
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for begin in range(0, case_count, BATCH):
        for table in play(cluster, shapes[begin : begin + BATCH]):
            for label, run in table.runs.items():
                wrong += _judged(table, label, run, counts)
    print(dict(counts))
    assert wrong == [], f"DEVICES_SEED={drawn}"
    # Pod by Pod the scheduler takes the first devices that it finds, and may take what a later Pod needs.
    words = Counter(word for features, word in counts.elements() if "feasible" in word)
    assert words["feasible, not placed"] <= max(2, words.total() // 5), f"DEVICES_SEED={drawn}: too many for greed"
    return counts


def _judged(table: Table, label: str, run: Run, counts: Counter[tuple[str, str]]) -> list[str]:
    found, bound = run.result(), table.bound[label]
    placed = bound == run.pod_count
    features = (
        "claims of its own"
        if not run.shape.shared
        else "half share a claim"
        if run.shape.loners
        else "all share a claim"
    )
    counts[features, f"{WORDS[type(found)]}, {'placed' if placed else 'not placed'}"] += 1
    if isinstance(found, Infeasible) and placed:
        return [f"{label}: a false never: {bound} of {run.pod_count} bound: {run.shape.own} {run.shape.shared}"]
    if isinstance(found, Feasible) and not placed:
        print(f"{label}: feasible and not placed: {bound} of {run.pod_count}: {run.shape.own} {run.shape.shared}")
    return []
