"""The checker refuses every placement that breaks one rule, so a witness that passes means something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from webhook.feasibility.check import faults
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, Requirement, Term, Toleration, TreeDemand
from webhook.feasibility.result import Placement
from webhook.inventory.snapshot import Node, Question, Snapshot, Taint

PORT = frozenset({("0.0.0.0", "TCP", 80)})  # noqa: S104  the wildcard of hostPort


def node(name: str, **changes: Any) -> Node:
    labels = {"rack": "r1", "kubernetes.io/hostname": name}
    return replace(Node(name=name, allocatable={"cpu": 4, "pods": 3}, labels=labels), **changes)


SNAPSHOT = Snapshot(
    version="1",
    nodes=(
        node("a"),
        node("b"),
        node("other", labels={"rack": "r2"}),
        node("bare", labels={}),
        node("tainted", taints=(Taint("x", "", "NoSchedule"),)),
        node("busy", used={"cpu": 3, "pods": 1}, used_ports=PORT),
        node("cordoned", away="cordoned"),
    ),
)


def demand(needed: int = 2, key: str | None = None, domain: str | None = None, **pod: Any) -> Demand:
    pods = (PodDemand(**({"count": needed, "request": (("cpu", 2),)} | pod)),)
    return Demand(root=LeafDemand(needed=needed, pods=pods, topology_key=key, domain=domain))


def on(*nodes: str, pod_count: int = 1) -> tuple[Placement, ...]:
    return tuple(Placement((), 0, name, pod_count) for name in nodes)


@pytest.mark.parametrize(
    ("asked", "placements"),
    [
        (demand(), on("a", "b")),
        (demand(), on("a", pod_count=2)),
        (demand(key="rack"), on("a", "b")),
        (demand(key="rack", domain="r1"), on("a", "b")),
        (demand(tolerations=(Toleration(operator="Exists"),)), on("a", "tainted")),
        (demand(tolerations=None), on("a", "tainted")),
        (demand(selector=(Requirement("rack", "In", ("r1",)),)), on("a", "b")),
        (
            demand(affinity=(Term((Requirement("rack", "In", ("r9",)),)), Term((Requirement("rack", "Exists"),)))),
            on("a", "b"),
        ),
        (demand(ports=PORT), on("a", "busy")),
        (demand(), on("a", "cordoned")),
        (demand(count=None), on("a", "b")),
    ],
)
def test_placements_that_hold(asked: Demand, placements: tuple[Placement, ...]) -> None:
    assert faults(asked, placements, SNAPSHOT) == []


@pytest.mark.parametrize(
    ("asked", "placements", "fault"),
    [
        (demand(3), on("a", "b"), "(): 2 of 3 Pods"),
        (demand(), on("a", "b", "busy"), "(): 3 Pods of a set of 2"),
        (demand(3), on("a", pod_count=3), "a: 6 of cpu, has 4"),
        (demand(4, request=()), on("a", pod_count=4), "a: 4 of pods, has 3"),
        (demand(request=(("x/y", 1),)), on("a", "b"), "a: 1 of x/y, has 0"),
        (demand(key="rack"), on("a", "other"), "(): spans ['r1', 'r2'] of rack"),
        (demand(key="rack"), on("bare", pod_count=2), "(): spans ['None'] of rack"),
        (demand(key="rack", domain="r2"), on("a", "b"), "(): not in r2"),
        (demand(), on("a", "tainted"), "tainted: taint x:NoSchedule"),
        (demand(selector=(Requirement("rack", "In", ("r2",)),)), on("other", "a"), 'a: not rack = "r2"'),
        (demand(affinity=()), on("a", "b"), "a: outside the node affinity"),
        (demand(needed_keys=("rack",)), on("a", "bare"), "bare: no label rack"),
        (demand(ports=PORT), on("a", pod_count=2), "a: a host port twice"),
        (demand(apart=("rack",)), on("a", "b"), "2 Pods in rack=r1"),
        (demand(apart=("kubernetes.io/hostname",)), on("bare", pod_count=2), "2 Pods in kubernetes.io/hostname=bare"),
        (demand(), on("a", "nowhere"), "no such node: nowhere"),
    ],
)
def test_placements_that_break_a_rule(asked: Demand, placements: tuple[Placement, ...], fault: str) -> None:
    assert fault in faults(asked, placements, SNAPSHOT)


def test_what_runs_counts_only_for_now() -> None:
    asked = demand(1, ports=PORT)
    assert faults(asked, on("busy"), SNAPSHOT) == []
    found = faults(asked, on("busy"), SNAPSHOT, Question.NOT_NOW)
    assert found == ["busy: 2 of cpu, has 1", "busy: a host port twice"]
    assert faults(asked, on("cordoned"), SNAPSHOT, Question.READY) == ["no such node: cordoned"]


def test_trees() -> None:
    leaf = demand(1).root
    tree = Demand(root=TreeDemand(needed=2, topology_key="rack", children=(replace(leaf, copies=2),)))

    def placed(*where: tuple[int, str]) -> tuple[Placement, ...]:
        return tuple(Placement(((0, copy),), 0, name, 1) for copy, name in where)

    assert faults(tree, placed((0, "a"), (1, "b")), SNAPSHOT) == []
    assert faults(tree, placed((0, "a")), SNAPSHOT) == ["(): 1 of 2 groups"]
    assert faults(tree, placed((0, "a"), (2, "b")), SNAPSHOT) == ["(): copy 2 of 2"]
    assert faults(tree, placed((0, "a"), (1, "other")), SNAPSHOT) == ["(): spans ['r1', 'r2'] of rack"]
