"""What a tenant reads: the texts of denials, the excluded nodes, and suggestions that were tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webhook.feasibility import explain
from webhook.feasibility.bounds import View
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, Requirement, Scope, TreeDemand
from webhook.feasibility.result import Change, Infeasible
from webhook.inventory.snapshot import Node, Question, Snapshot, Taint

RACK = "topology.kubernetes.io/rack"
DEDICATED = Taint("dedicated", "infer", "NoSchedule")
GPU = (("nvidia.com/gpu", 8),)


def node(index: int, **changes: Any) -> Node:
    labels = {RACK: f"r{index // 8}", "kubernetes.io/hostname": f"n{index}"}
    made = Node(name=f"n{index}", allocatable={"nvidia.com/gpu": 8, "cpu": 96_000, "pods": 110}, labels=labels)
    return replace(made, **changes)


def racks() -> Snapshot:
    """Two racks of 8; 2 nodes of the second are dedicated to somebody else, the first has only four."""
    nodes = [node(index) for index in range(4)] + [node(index) for index in range(8, 14)]
    return Snapshot(version="1", nodes=(*nodes, node(14, taints=(DEDICATED,)), node(15, taints=(DEDICATED,))))


def gang(needed: int = 8, key: str | None = RACK, **pod: Any) -> Demand:
    pods = (PodDemand(**({"count": needed, "request": GPU} | pod)),)
    return Demand(name="train", root=LeafDemand(needed=needed, topology_key=key, pods=pods))


def text(demand: Demand, snapshot: Snapshot) -> str:
    result = evaluate(demand, snapshot)
    assert isinstance(result, Infeasible), result
    return explain.text(result)


def test_the_example_of_the_design() -> None:
    assert text(gang(), racks()) == (
        'gang "train" needs 8 Pods of nvidia.com/gpu: 8 in one topology.kubernetes.io/rack; the best, "r1", holds 6 '
        "(nodes excluded there: 2 taint dedicated=infer:NoSchedule). Largest gang that fits: 6. "
        "Fits without the topology key, or with minCount <= 6, or by tolerating dedicated=infer:NoSchedule"
    )


def test_several_taints_of_one_key_are_tolerated_by_the_key() -> None:
    """Tolerating one of them alone would not do."""
    both = (DEDICATED, replace(DEDICATED, effect="NoExecute"))
    snapshot = replace(racks(), nodes=tuple(replace(one, taints=both) if one.taints else one for one in racks().nodes))

    assert "or by tolerating dedicated (operator Exists)" in text(gang(), snapshot)


def test_a_pod_larger_than_any_node_says_by_how_much() -> None:
    assert text(gang(2, None, request=(("cpu", 97_500),)), racks()) == (
        'gang "train" needs 2 Pods of cpu: 97500m; the largest node has cpu: 96. Fits with cpu <= 96 in each Pod'
    )


def test_one_pod_alone() -> None:
    demand = replace(gang(1, None, request=(("nvidia.com/gpu", 9),)), scope=Scope.POD)
    assert text(demand, racks()).startswith('a Pod of "train" needs nvidia.com/gpu: 9; the largest node has')


def test_nothing_there_at_all() -> None:
    assert text(gang(1, None), Snapshot(version="1", nodes=())) == (
        'gang "train" needs 1 Pod of nvidia.com/gpu: 8; there is no node'
    )


def test_a_composite_counts_groups() -> None:
    leaf = gang(4).root
    demand = Demand(name="train", root=TreeDemand(needed=3, children=(replace(leaf, copies=4),)))
    found = evaluate(demand, racks())
    assert isinstance(found, Infeasible)
    assert (found.explanation.unit, found.explanation.holds, found.explanation.largest) == ("groups", 2, 2)
    assert "Largest number of groups that fits: 2" in explain.text(found)
    assert "with minGroupCount <= 2" in explain.text(found)


def test_without_suggestions_no_engine_call_is_made() -> None:
    found = evaluate(gang(), racks(), with_explanation=False)
    assert isinstance(found, Infeasible)
    assert found.explanation.suggestions == ()
    assert found.explanation.largest == 6


def test_only_what_helps_by_itself_is_suggested() -> None:
    """Two obstacles at once: taking away one of them is no help, and is not said to be."""
    demand = gang(8, None, selector=(Requirement("disk", "In", ("nvme",)),), request=(("nvidia.com/gpu", 9),))
    found = evaluate(demand, racks())
    assert isinstance(found, Infeasible)
    assert found.explanation.suggestions == ()


def test_every_single_change_is_tried() -> None:
    selector = gang(2, None, selector=(Requirement("disk", "In", ("nvme",)),))
    ports = gang(13, None, request=(), ports=frozenset({("", "TCP", 80)}), tolerations=None)
    apart = gang(3, apart=(RACK,), request=())
    affinity = gang(2, None, affinity=())
    for demand, change in (
        (selector, Change.NO_SELECTOR),
        (ports, Change.NO_PORTS),
        (apart, Change.NO_ANTI_AFFINITY),
        (affinity, Change.NO_AFFINITY),
    ):
        found = evaluate(demand, racks())
        assert isinstance(found, Infeasible)
        assert change in {one.change for one in found.explanation.suggestions}, change


def test_the_table_of_muster_explain() -> None:
    (first, second) = explain.domain_rows(gang().root, View(racks(), Question.NEVER))
    assert first[:3] == (("r1",), 8, 6)
    assert [(one.text, one.node_count) for one in first[3]] == [("taint dedicated=infer:NoSchedule", 2)]
    assert second == (("r0",), 4, 4, ())
