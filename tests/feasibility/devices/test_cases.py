"""Cases R75-R93 at the height of the engine: claims against INV-DRA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.feasibility.devices.objects import (
    CLASSES,
    GPU,
    NIC,
    ROOT,
    claim,
    device,
    device_class,
    dra_node,
    gang,
    gpus,
    node,
    on_label,
    ready,
    request,
    resource_slice,
    snapshot,
)
from webhook.feasibility import explain
from webhook.feasibility.check import faults
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Doubt, LeafDemand, PodDemand
from webhook.feasibility.result import Feasible, Infeasible, Result, Unknown
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Pool, Question, Snapshot

Json = dict[str, Any]
ONE = claim(request("gpu", GPU))
INV_DRA = snapshot([dra_node(f"g{i}") for i in range(1, 5)])


def answer(asked: Any, where: Snapshot = INV_DRA, question: Question = Question.NEVER, **more: Any) -> Result:
    demand = ready(asked, where, question, **more)
    found = evaluate(demand, where, question)
    if isinstance(found, Feasible):
        assert faults(demand, found.witness.placements, where, question) == []
    return found


def largest(own: Mapping[str, Json], shared: Mapping[str, Json] | None = None, **more: Any) -> int:
    """The gang with one Pod more is proved impossible, this one has a witness."""
    count = 0
    while isinstance(answer(gang(count + 1, own, shared, **more)), Feasible):
        count += 1
    assert isinstance(answer(gang(count + 1, own, shared, **more)), Infeasible)
    return count


# ---- R75, R77, R87, R88: claims that Pods share -------------------------------------------------------------------
def test_r75_pods_that_share_a_device_are_on_its_node() -> None:
    assert isinstance(answer(gang(8, shared={"gpu": ONE}, request={"cpu": 20_000})), Infeasible)
    assert isinstance(answer(gang(4, shared={"gpu": ONE}, request={"cpu": 20_000})), Feasible)
    assert isinstance(answer(gang(8, shared={"gpu": ONE}, request={"cpu": 2_000})), Feasible)


def test_r75_who_does_not_reference_the_claim_is_free() -> None:
    """8 Pods, 2 of which use the claim, minCount 3: the other 6 may run anywhere."""
    key = ("gpu", None, "shared-gpu")
    users = PodDemand(count=2, request=(("cpu", 60_000),), claims=(key,), role="user")
    others = PodDemand(count=6, request=(("cpu", 60_000),), role="other")
    demand, _ = gang(1)
    for needed, possible in ((3, True), (4, True), (5, False)):
        leaf = LeafDemand(needed=needed, pods=(users, others), claims=(key,))
        asked = type(demand)(root=leaf, name="train"), {key: ONE}
        assert isinstance(answer(asked), Infeasible) is not possible, needed


def test_r75_all_users_of_the_claim_are_needed() -> None:
    """minCount 3, only one Pod without the claim: two users at least, and a node holds one of them."""
    key = ("gpu", None, "shared-gpu")
    users = PodDemand(count=4, request=(("cpu", 60_000),), claims=(key,), role="user")
    other = PodDemand(count=1, request=(("cpu", 60_000),), role="other")
    demand, _ = gang(1)
    leaf = LeafDemand(needed=3, pods=(users, other), claims=(key,))
    assert isinstance(answer((type(demand)(root=leaf, name="train"), {key: ONE})), Infeasible)


def test_r77_a_channel_for_all_and_a_gpu_for_each() -> None:
    channel = resource_slice("channels", "channel.example.com", [device("c0")], allNodes=True)
    where = snapshot(
        [dra_node(f"g{i}") for i in range(1, 3)], channel, classes=(*CLASSES, device_class("channel.example.com"))
    )
    shared = {"channel": claim(request("c", "channel.example.com"))}
    assert isinstance(answer(gang(16, {"gpu": ONE}, shared), where), Feasible)
    assert isinstance(answer(gang(17, {"gpu": ONE}, shared), where), Infeasible)


def test_r87_two_pods_of_a_gang_share_one_claim() -> None:
    assert isinstance(answer(gang(2, shared={"gpu": ONE})), Feasible)


def test_r88_a_shared_device_is_used_once_today() -> None:
    """One allocated claim with two consumers holds one of two devices."""
    held = {
        "kind": "ResourceClaim",
        "metadata": {"name": "held"},
        "spec": ONE,
        "status": {
            "allocation": {"devices": {"results": [{"driver": GPU, "pool": "n", "device": "gpu-0"}]}},
            "reservedFor": [{"resource": "pods", "name": "a"}, {"resource": "pods", "name": "b"}],
        },
    }
    where = snapshot(node("n"), gpus("n", 2), held)
    assert isinstance(answer(gang(1, {"gpu": ONE}), where, Question.NOT_NOW), Feasible)
    assert isinstance(answer(gang(2, {"gpu": ONE}), where, Question.NOT_NOW), Infeasible)
    assert isinstance(answer(gang(2, {"gpu": ONE}), where), Feasible)
    assert isinstance(answer(gang(0 + 1, request={"cpu": 1000}), where, Question.NOT_NOW), Feasible)


# ---- R79, R81, R83, R84 -------------------------------------------------------------------------------------------
def test_r79_the_size_of_a_group_does_not_count_among_256_consumers() -> None:
    channel = resource_slice("channels", "channel.example.com", [device("c0")], allNodes=True)
    where = snapshot(
        [node(f"n{i}") for i in range(4)], channel, classes=(*CLASSES, device_class("channel.example.com"))
    )
    shared = {"channel": claim(request("c", "channel.example.com"))}
    assert isinstance(answer(gang(300, shared=shared), where), Feasible)


def test_r81_a_device_class_that_is_not_there_yet_proves_nothing() -> None:
    found = answer(gang(64, {"gpu": claim(request("gpu", "gpu-missing.example.com"))}))
    assert isinstance(found, Unknown)
    assert found.reasons[0].doubt is Doubt.CLAIMS


def test_r83_lists_have_a_value_in_common() -> None:
    def pair(*roots: str) -> Snapshot:
        cpu = resource_slice("cpu", "cpu.example.com", [device("cpu", {ROOT: list(roots)})], nodeName="n", pool="c")
        nic = resource_slice("nic", NIC, [device("nic", {ROOT: "p1"})], nodeName="n")
        return snapshot(node("n"), cpu, nic, classes=(*CLASSES, device_class("cpu.example.com")))

    own = {"g": claim(request("a", "cpu.example.com"), request("b", NIC), match=ROOT)}
    assert isinstance(answer(gang(1, own), pair("p0", "p1")), Feasible)
    assert isinstance(answer(gang(1, own), pair("p0", "p2")), Infeasible)


def test_r84_alignment_is_of_one_claim_not_of_pods() -> None:
    """Nothing makes two Pods choose the same rails, and nothing is claimed of it."""
    assert largest({"g": claim(request("gpu", GPU, 2), request("nic", NIC), match=ROOT)}) == 16


# ---- R89, R90, R92, R93 -------------------------------------------------------------------------------------------
def test_r89_a_taint_rule_is_taken_away_again() -> None:
    rule = {
        "kind": "DeviceTaintRule",
        "metadata": {"name": "blanket"},
        "spec": {"deviceSelector": {}, "taint": {"key": "maintenance", "effect": "NoSchedule"}},
    }
    where = snapshot(dra_node("g1"), rule)
    assert isinstance(answer(gang(1, {"gpu": ONE}), where), Feasible)
    assert isinstance(answer(gang(1, {"gpu": ONE}), where, Question.READY), Infeasible)
    tolerant = claim(request("gpu", GPU, tolerations=[{"key": "maintenance", "operator": "Exists"}]))
    assert isinstance(answer(gang(8, {"gpu": tolerant}), where, Question.READY), Feasible)


@pytest.mark.parametrize(
    ("selector", "kind"),
    [
        (f'device.attributes["{GPU}"].model == "h200"', Feasible),
        (f'device.attributes["{GPU}"].model == "h300"', Infeasible),
        (f'device.attributes["{GPU}"].nosuch == "x"', Unknown),
        (f'device.attributes["{GPU}"].model.matches("[h].*")', Unknown),
        (f'device.attributes["{GPU}"].model.matches("[a].*") && device.driver == "x"', Infeasible),
        (f'cel.bind(d, device.attributes["{GPU}"], d.model == "h300")', Unknown),
    ],
)
def test_r90_only_what_is_understood_proves_anything(selector: str, kind: type) -> None:
    assert isinstance(answer(gang(1, {"gpu": claim(request("gpu", GPU, 1, selector))})), kind)


def test_r92_nodes_that_may_come_bring_devices() -> None:
    pool = Pool(name="gpu", allocatable={"cpu": 96_000, "pods": 110}, node_count_max=8)
    where = build([*dra_node("g1"), *CLASSES], Settings(is_file=True, pools=(pool,)))
    assert isinstance(answer(gang(64, {"gpu": ONE}), where), Unknown)
    without = build([node("c1"), *CLASSES], Settings(is_file=True))
    assert not isinstance(answer(gang(1, {"gpu": ONE}), without), Infeasible)


def test_r93_devices_on_demand_are_unknown() -> None:
    driver = "compute-domain.example.com"
    classes = (*CLASSES, device_class(driver))
    where = snapshot([dra_node(f"g{i}") for i in range(1, 5)], classes=classes)
    channel = {"channel": claim(request("c", driver))}
    assert isinstance(answer(gang(4, {"gpu": ONE}, channel), where), Infeasible)
    found = answer(gang(4, {"gpu": ONE}, channel), where, on_demand_drivers=(driver,))
    assert isinstance(found, Unknown)
    # What is known still counts: 33 GPUs are not there.
    assert isinstance(answer(gang(33, {"gpu": ONE}, channel), where, on_demand_drivers=(driver,)), Infeasible)


# ---- words, high-water marks, doubts ------------------------------------------------------------------------------
def test_the_text_says_what_one_pod_asks() -> None:
    found = answer(gang(17, {"g": claim(request("gpu", GPU, 2), request("nic", NIC), match=ROOT)}))
    assert isinstance(found, Infeasible)
    assert explain.text(found).startswith(
        f'gang "train" needs 17 Pods of 2 {GPU} + 1 {NIC} (with the same {ROOT}); the cluster holds 16'
    )


def test_devices_of_the_last_days_may_come_back() -> None:
    gone = gpus("n", 8)
    gone["metadata"]["annotations"] = {"muster.dev/gone": "2026-11-29"}
    smaller = gpus("n", 2)
    assert isinstance(answer(gang(3, {"gpu": ONE}), snapshot(node("n"), smaller)), Infeasible)
    assert isinstance(answer(gang(3, {"gpu": ONE}), snapshot(node("n"), smaller, gone)), Unknown)
    assert isinstance(answer(gang(3, {"gpu": ONE}), snapshot(node("n"), smaller, gone), Question.READY), Infeasible)
    assert isinstance(answer(gang(9, {"gpu": ONE}), snapshot(node("n"), smaller, gone)), Infeasible)


def test_a_pool_that_is_not_complete_may_hold_anything_of_its_driver() -> None:
    half = resource_slice("half", GPU, [device("d")], pool="fabric", allNodes=True, slices=2)
    where = snapshot(node("n"), node("m"), half)
    assert isinstance(answer(gang(64, {"gpu": ONE}), where), Unknown)
    assert isinstance(answer(gang(1, {"nic": claim(request("nic", NIC))}), where), Infeasible)


def test_two_sets_on_the_devices_of_one_node_are_not_called_feasible_twice() -> None:
    """Each set alone fits, both together do not: the witness is held against single devices."""
    key, other = ("a", None, "t1"), ("b", None, "t2")
    pods = tuple(PodDemand(count=1, claims=(one,), role=str(one)) for one in (key, other))
    demand, _ = gang(1)
    asked = (
        type(demand)(root=LeafDemand(needed=2, pods=pods), name="x"),
        dict.fromkeys((key, other), claim(request("g", GPU, 5))),
    )
    assert not isinstance(answer(asked, snapshot(dra_node("g1"))), Feasible)
    assert not isinstance(answer(asked, snapshot(dra_node("g1"), dra_node("g2"))), Infeasible)


def test_a_fabric_of_some_nodes_is_counted_once() -> None:
    ports = [device(f"p{i}") for i in range(3)]
    fabric = resource_slice("fabric", "fabric.example.com", ports, nodeSelector=on_label("fabric", "yes"))
    where = snapshot(
        node("a", fabric="yes"), node("b", fabric="yes"), node("c"), fabric,
        classes=(*CLASSES, device_class("fabric.example.com")),
    )  # fmt: skip
    own = {"f": claim(request("f", "fabric.example.com"))}
    assert isinstance(answer(gang(4, own), where), Infeasible)
    assert not isinstance(answer(gang(3, own), where), Infeasible)
