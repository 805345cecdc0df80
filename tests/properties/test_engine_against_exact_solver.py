"""Judge 3: on mid-size mixed cases, how often is the answer unknown, and what would have been true?

The seed is fresh in each run and printed; MUSTERTEST_SEED repeats one. `make prove` runs the long form.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from tests.properties import agreement
from tests.properties.exact import Truth, solve
from webhook.feasibility.check import faults
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, GroupDemand, LeafDemand, PodDemand, Requirement, TreeDemand
from webhook.feasibility.result import Feasible, Infeasible, Unknown
from webhook.inventory.snapshot import Node, Snapshot

WORDS = {Infeasible: "never", Feasible: "feasible", Unknown: "unknown"}
SHAPES = ((96, 8, 1000), (64, 4, 512), (48, 8, 256), (32, 0, 128), (128, 0, 512))


def cluster(rng: random.Random) -> Snapshot:
    """12 to 40 nodes of a few shapes in racks and zones."""
    shapes = rng.sample(SHAPES, rng.randint(1, 3))
    rack_count = rng.randint(2, 6)
    nodes = []
    for index in range(rng.randint(12, 40)):
        cpu, gpu, memory = rng.choice(shapes)
        rack = index % rack_count
        labels = {"rack": f"r{rack}", "zone": f"z{rack % 2}", "kubernetes.io/hostname": f"n{index}"}
        if rng.random() < 0.5:
            labels["disk"] = "nvme"
        allocatable = {"cpu": cpu, "nvidia.com/gpu": gpu, "memory": memory, "pods": 110}
        nodes.append(Node(name=f"n{index}", allocatable=allocatable, labels=labels))
    return Snapshot(version="1", nodes=tuple(nodes))


def role(rng: random.Random) -> PodDemand:
    request = {
        "cpu": rng.choice((3, 7, 15, 24, 31, 47)),
        "nvidia.com/gpu": rng.choice((0, 1, 2, 3, 4, 5, 8)),
        "memory": rng.choice((16, 60, 120, 250)),
    }
    return PodDemand(
        count=rng.randint(1, 20),
        request=tuple(sorted((name, amount) for name, amount in request.items() if amount)),
        selector=(Requirement("disk", "In", ("nvme",)),) if rng.random() < 0.15 else (),
    )


def leaf(rng: random.Random, key: str | None, role_count_max: int = 4) -> LeafDemand:
    pods = tuple(role(rng) for _ in range(rng.randint(1, role_count_max)))
    total = sum(pod.count or 0 for pod in pods)
    return LeafDemand(needed=max(1, rng.randint(total // 2, total)), pods=pods, topology_key=key)


def tree(rng: random.Random) -> TreeDemand:
    children: list[GroupDemand] = [leaf(rng, rng.choice((None, "rack")), 2) for _ in range(rng.randint(1, 4))]
    return TreeDemand(
        needed=rng.randint(1, len(children)), children=tuple(children), topology_key=rng.choice((None, "zone"))
    )


def scaled(rng: random.Random, root: GroupDemand, snapshot: Snapshot) -> GroupDemand:
    """Near the edge: as large as it just fits or just does not."""
    if isinstance(root, TreeDemand):
        return root
    while isinstance(evaluate(Demand(root=root), snapshot), Feasible) and root.needed < 200:
        more = tuple(replace(pod, count=(pod.count or 0) + rng.randint(1, 3)) for pod in root.pods)
        total = sum(pod.count or 0 for pod in more)
        root = replace(root, pods=more, needed=max(root.needed + 1, total - rng.randint(0, 3)))
    return root


@dataclass
class Table:
    """cases: (the engine's word, the truth) -> how many. reasons: why it was unknown."""

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


def run(seed: int, case_count: int) -> Table:
    rng = random.Random(seed)
    table = Table()
    for number in range(case_count):
        snapshot = cluster(rng)
        root: GroupDemand = tree(rng) if rng.random() < 0.4 else leaf(rng, rng.choice((None, "rack", "zone")))
        if rng.random() < 0.7:
            root = scaled(rng, root, snapshot)
        demand = Demand(root=root, name="train")
        answer = evaluate(demand, snapshot)
        truth = solve(demand, snapshot)
        table.cases[WORDS[type(answer)], truth.value] += 1
        if isinstance(answer, Unknown):
            table.reasons[", ".join(reason.text for reason in answer.reasons)] += 1
        case = f"seed {seed} case {number}: {demand}"
        assert not (isinstance(answer, Infeasible) and truth is Truth.YES), f"false never, {case}"
        assert not (isinstance(answer, Feasible) and truth is Truth.NO), f"false witness, {case}"
        if isinstance(answer, Feasible):
            assert faults(demand, answer.witness.placements, snapshot) == [], case
    return table


def report(seed: int, table: Table) -> float:
    """The share of unknown among the decidable cases."""
    cases = table.cases
    decided = sum(count for (_, truth), count in cases.items() if truth != Truth.UNDECIDED)
    unknown = sum(count for (word, truth), count in cases.items() if word == "unknown" and truth != Truth.UNDECIDED)
    print(f"\nJudge 3, seed {seed}: {dict(cases)}; unknown {unknown} of {decided} decidable: {dict(table.reasons)}")
    return unknown / max(1, decided)


def seed_of_this_run() -> int:
    return int(os.environ.get("MUSTERTEST_SEED") or random.SystemRandom().randrange(10**9))


def test_short_form() -> None:
    seed = seed_of_this_run()
    assert report(seed, run(seed, 60)) <= 0.10, "far from the goal of 1 %"


@pytest.mark.prove
def test_long_form() -> None:
    seed = seed_of_this_run()
    table = run(seed, 2000)
    assert report(seed, table) <= 0.03
    (agreement.DOCS / "judge-exact-solver.md").write_text(agreement.solver(table.cases, table.reasons, seed=seed))
