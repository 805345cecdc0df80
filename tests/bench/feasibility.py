"""Speed of the feasibility engine on clusters without devices, beside a naive numpy scan in the same run.

``python -m tests.bench.feasibility [--runs N]`` prints one row per shape: preparation of a fresh snapshot once, then
prepared decisions, explanation included. The naive scan does what a first version would: one comparison per node and
resource, and a bincount over the domains, with neither selectors nor taints nor an explanation. "p99 cpu" is the time
this thread was on a core: on a machine with other work, the wall clock's p99 is the length of somebody else's turn.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles

import numpy as np

from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, Requirement, Toleration, TreeDemand
from webhook.inventory.snapshot import Node, Question, Snapshot, Taint

GPU_POD = (("cpu", 8_000), ("memory", 2**34), ("nvidia.com/gpu", 8))
NODES_PER_RACK = 16


@dataclass(frozen=True)
class Shape:
    """One row: a cluster, a demand, what was promised for p50 and p99 in milliseconds (0: nothing)."""

    name: str
    snapshot: Snapshot
    demand: Demand
    p50_ms_max: float
    p99_ms_max: float
    answer: str


def node(index: int, rack_size: int = NODES_PER_RACK, **changes: object) -> Node:
    labels = {
        "kubernetes.io/hostname": f"n{index}",
        "rack": f"r{index // rack_size}",
        "block": f"b{index // (rack_size * 16)}",
        "zone": f"z{index // (rack_size * 80)}",
    }
    allocatable = {"cpu": 96_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8}
    return Node(name=f"n{index}", **({"labels": labels, "allocatable": allocatable} | changes))  # type: ignore[arg-type]


def uniform(node_count: int) -> Snapshot:
    return Snapshot(version="1", nodes=tuple(node(index) for index in range(node_count)))


def mixed_shapes(node_count: int, shape_count: int = 40) -> Snapshot:
    """Distinct sizes, random labels and taints: next to no two nodes are alike to a selector."""
    rng = random.Random(4)
    taints = [Taint("dedicated", f"team-{i}", "NoSchedule") for i in range(6)]
    nodes = []
    for index in range(node_count):
        shape = rng.randrange(shape_count)
        allocatable = {
            "cpu": 32_000 + 1_600 * shape,
            "memory": 2**37 + shape * 2**33,
            "pods": 110,
            "nvidia.com/gpu": rng.choice((0, 4, 8)),
        }
        labels = dict(node(index).labels)
        labels |= {f"label-{i}": f"v{rng.randrange(5)}" for i in range(4) if rng.random() < 0.8}
        some = tuple(sorted(rng.sample(taints, rng.choice((0, 0, 0, 1, 2)))))
        nodes.append(node(index, allocatable=allocatable, labels=labels, taints=some))
    return Snapshot(version="1", nodes=tuple(nodes))


def rack_gang(needed: int) -> Demand:
    pod = PodDemand(count=needed, request=GPU_POD)
    return Demand(name="train", root=LeafDemand(needed=needed, topology_key="rack", pods=(pod,)))


def picky_gang(needed: int) -> Demand:
    pod = PodDemand(
        count=needed,
        request=(("cpu", 40_000), ("memory", 2**36), ("nvidia.com/gpu", 4)),
        selector=(Requirement("label-0", "In", ("v1",)), Requirement("label-1", "In", ("v2",))),
        tolerations=(Toleration(key="dedicated", operator="Equal", value="team-1"),),
    )
    return Demand(name="train", root=LeafDemand(needed=needed, topology_key="rack", pods=(pod,)))


def roles(needed: int) -> Demand:
    """A gang of two roles, on nodes of many shapes."""
    server = PodDemand(count=2, request=(("cpu", 30_000), ("memory", 2**35)), role="server")
    worker = PodDemand(count=needed, request=(("cpu", 8_000), ("memory", 2**34), ("nvidia.com/gpu", 4)), role="worker")
    return Demand(name="train", root=LeafDemand(needed=needed + 2, topology_key="rack", pods=(server, worker)))


def composite(pods_per_leaf: int) -> Demand:
    """Four levels: zone > block > rack, 8 composites of 8 leaves under one root."""
    leaf = LeafDemand(
        needed=pods_per_leaf, topology_key="rack", pods=(PodDemand(count=pods_per_leaf, request=GPU_POD),)
    )
    inner = TreeDemand(needed=8, topology_key="block", children=(leaf,) * 8)
    middle = TreeDemand(needed=8, topology_key="zone", children=(inner,) * 8)
    return Demand(name="train", root=TreeDemand(needed=1, children=(middle,)))


def composite_sizes() -> Demand:
    """The same with leaves of two sizes, which have to be packed."""
    leaves = tuple(
        LeafDemand(needed=size, topology_key="rack", pods=(PodDemand(count=size, request=GPU_POD),))
        for size in (3, 5) * 4
    )
    inner = TreeDemand(needed=8, topology_key="block", children=leaves)
    return Demand(name="train", root=TreeDemand(needed=4, topology_key="zone", children=(inner,) * 4))


def shapes() -> list[Shape]:
    small, large, huge = uniform(5_120), uniform(20_480), uniform(102_400)
    many = mixed_shapes(5_120)
    return [
        Shape("5,120 nodes, 320 racks, gang of 17", small, rack_gang(17), 0.1, 0.5, "Infeasible"),
        Shape("5,120 nodes, 320 racks, gang of 16", small, rack_gang(16), 0.1, 0.5, "Feasible"),
        Shape("20,480 nodes, 1,280 racks, gang of 17", large, rack_gang(17), 0.2, 1.0, "Infeasible"),
        Shape("102,400 nodes, 6,400 racks, gang of 17", huge, rack_gang(17), 0, 0, "Infeasible"),
        Shape("5,120 nodes of 40 shapes, selectors, taints", many, picky_gang(9), 0, 2.0, "Infeasible"),
        Shape("5,120 nodes of 40 shapes, no selector", many, rack_gang(17), 0, 2.0, "Infeasible"),
        Shape("5,120 nodes of 40 shapes, two roles", many, roles(16), 0, 0, "Feasible"),
        Shape("4 levels, 8 x 8 leaves, fits", small, composite(4), 0, 10.0, "Feasible"),
        Shape("4 levels, 8 x 8 leaves, does not fit", small, composite(17), 0, 10.0, "Infeasible"),
        Shape("3 levels, 4 x 8 leaves of two sizes", small, composite_sizes(), 0, 0, "Feasible"),
    ]


def naive(snapshot: Snapshot, demand: Demand) -> Callable[[], bool]:
    """Prepared as well: matrices per node, domain codes. What is timed is the decision."""
    pods = demand.pods()[0]
    nodes = snapshot.nodes
    amounts = {name: np.array([n.allocatable.get(name, 0) for n in nodes]) for name, _ in pods.request}
    places = np.array([n.allocatable["pods"] for n in nodes])
    racks = sorted({n.labels["rack"] for n in nodes})
    code = {rack: index for index, rack in enumerate(racks)}
    domain = np.array([code[n.labels["rack"]] for n in nodes])
    needed = demand.root.needed

    def decide() -> bool:
        fit = places.copy()
        for name, amount in pods.request:
            np.minimum(fit, amounts[name] // amount, out=fit)
        return bool(np.bincount(domain, weights=fit, minlength=len(racks)).max() >= needed)

    return decide


def samples(work: Callable[[], object], runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each run: by the clock, and what this thread was on a core."""
    wall, cpu = [], []
    for _ in range(runs):
        cpu_begin, begin = time.thread_time(), time.perf_counter()
        work()
        wall.append((time.perf_counter() - begin) * 1e3)
        cpu.append((time.thread_time() - cpu_begin) * 1e3)
    return wall, cpu


def p50_p99(milliseconds: list[float]) -> tuple[float, float]:
    cuts = quantiles(milliseconds, n=100)
    return cuts[49], cuts[98]


def timed(work: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """p50, p99, and p99 of cpu time, in milliseconds."""
    samples(work, max(20, runs // 20))
    wall, cpu = samples(work, runs)
    return *p50_p99(wall), p50_p99(cpu)[1]


def print_table(rows: list[list[str]]) -> None:
    """The first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in [rows[0], ["-" * width for width in widths], *rows[1:]]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def measure(shape: Shape, runs: int) -> list[str]:
    begin = time.perf_counter()
    answer = evaluate(shape.demand, shape.snapshot, Question.NEVER)
    prepared_ms = (time.perf_counter() - begin) * 1e3
    assert type(answer).__name__ == shape.answer, (shape.name, answer)
    p50, p99, cpu = timed(lambda: evaluate(shape.demand, shape.snapshot), runs)
    is_leaf = isinstance(shape.demand.root, LeafDemand)
    naive_p50 = timed(naive(shape.snapshot, shape.demand), runs)[0] if is_leaf else None
    return [
        shape.name,
        shape.answer.lower(),
        f"{prepared_ms:.0f}",
        f"{p50:.3f}" + (f" (<= {shape.p50_ms_max})" if shape.p50_ms_max else ""),
        f"{p99:.3f}" + (f" (<= {shape.p99_ms_max})" if shape.p99_ms_max else ""),
        f"{cpu:.3f}",
        "" if naive_p50 is None else f"{naive_p50:.3f}",
        "" if naive_p50 is None else f"{naive_p50 / p50:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    head = [
        "cluster and gang",
        "answer",
        "first, ms",
        "p50, ms",
        "p99, ms",
        "p99 cpu, ms",
        "naive p50, ms",
        "naive / ours",
    ]
    print_table([head, *(measure(shape, runs) for shape in shapes())])


if __name__ == "__main__":
    main()
