"""Cases R94-R115 at the height of the plan: object -> GangPlan -> demands -> the engine's answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Job, device_class, jobset, lws, pod_group
from tests.builders import job as any_job
from tests.feasibility.inventories import changed, objects, pool, snapshot
from webhook.feasibility import explain
from webhook.feasibility.check import faults
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import copies_at_once, evaluate
from webhook.feasibility.model import Demand, Part, Profile
from webhook.feasibility.result import Feasible, Infeasible, Result, Rung, Unknown
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Question, Snapshot

GPU = "nvidia.com/gpu"
RACK = "topo.example.com/rack"


def gang(count: int, gpus: int = 0, *, tolerating: bool = True, resource: str = GPU) -> Job:
    """A gang Job; "tolerating" as in the cases."""
    made = any_job("train").parallelism(count).completions(count).gang()
    if gpus:
        made.gpu(gpus, resource)
    return made.toleration(GPU) if tolerating else made


def only(made: Any, **settings: Any) -> Demand:
    (demand,) = demands(made.plan(), **settings)
    return demand


def answer(made: Any, where: Snapshot | None = None, question: Question = Question.NEVER) -> Result:
    where = where or snapshot()
    demand = only(made)
    result = evaluate(demand, where, question)
    if isinstance(result, Feasible):
        assert faults(demand, result.witness.placements, where, question) == []
    return result


def impossible(made: Any, where: Snapshot | None = None) -> str:
    result = answer(made, where)
    assert isinstance(result, Infeasible), result
    return explain.text(result)


def keyed(made: Job, key: str = RACK) -> Job:
    return made.topology(key)


# ---- R94, R95, R96 ------------------------------------------------------------------------------------------------
def test_r94_a_busy_cluster_is_not_an_impossible_one() -> None:
    running = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"bronze-{i}", "namespace": "team-b"},
            "spec": {"nodeName": f"g{i}", "containers": [{"name": "c", "resources": {"limits": {GPU: "8"}}}]},
            "status": {"phase": "Running"},
        }
        for i in range(1, 5)
    ]
    busy = build([*objects("racks"), *running], Settings(is_file=True))
    assert isinstance(answer(gang(2, 8), busy), Feasible)
    assert isinstance(answer(gang(2, 8), busy, Question.READY), Feasible)
    assert isinstance(answer(gang(2, 8), busy, Question.NOT_NOW), Infeasible)


def test_r95_a_pod_larger_than_any_node() -> None:
    made = any_job("train").parallelism(1).requests(cpu="97").toleration(GPU)
    assert 'a Pod of "train" needs cpu: 97; the largest node has cpu: 96' in impossible(made)
    assert isinstance(answer(made, snapshot(pools=(pool(8, cpu=128_000),))), Unknown)
    assert isinstance(answer(any_job("train").requests(cpu="96").toleration(GPU)), Feasible)


@pytest.mark.parametrize(
    ("count", "gpus", "fits"), [(2, 16, False), (5, 8, False), (8, 4, True), (4, 5, True), (5, 5, False)]
)
def test_r96_the_sum_fits_but_no_node_does(count: int, gpus: int, fits: bool) -> None:
    assert isinstance(answer(gang(count, gpus)), Feasible if fits else Infeasible)


# ---- R98, R100, R101 ----------------------------------------------------------------------------------------------
def test_r98_scale_from_zero() -> None:
    where = snapshot("cpu-only", pools=(pool(8),))
    assert isinstance(answer(gang(4, 8), where), Unknown)
    assert "holds 8" in impossible(gang(9, 8), where)
    assert where.denial_hindrance() == 'the policy declares the autoscaled pool "gpu"'
    assert isinstance(answer(gang(900, 8), snapshot("cpu-only", pools=(pool(None),))), Unknown)


def test_r98_a_pod_too_large_for_an_endless_pool_as_well() -> None:
    assert "the largest node has nvidia.com/gpu: 8" in impossible(
        gang(2, 16), snapshot("cpu-only", pools=(pool(None),))
    )


def test_r100_a_pool_that_matches_is_never_impossible() -> None:
    assert isinstance(answer(gang(6, 8), snapshot(pools=(pool(8),))), Unknown)
    assert isinstance(answer(gang(4, 8), snapshot(pools=(pool(8),))), Feasible)


def test_r101_cordoned_and_not_ready_nodes_are_potential_capacity() -> None:
    def away(raw: Any) -> Any:
        if raw["metadata"]["name"] == "g3":
            raw["spec"]["unschedulable"] = True
            raw["spec"]["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        if raw["metadata"]["name"] == "g4":
            raw["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
            raw["spec"]["taints"].append({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
        return raw

    where = changed("racks", away)
    assert isinstance(answer(gang(4, 8), where), Feasible)
    assert isinstance(answer(gang(4, 8), where, Question.READY), Infeasible)
    gone = changed("racks", lambda raw: None if raw["metadata"]["name"].startswith("g") else raw)
    assert "no node has nvidia.com/gpu" in impossible(gang(4, 8), gone)


def test_a_node_deleted_minutes_ago_may_come_back() -> None:
    def gone(raw: Any) -> Any:
        if raw["metadata"]["name"] == "g4":
            raw["metadata"]["annotations"] = {"muster.dev/gone": "true"}
        return raw

    assert isinstance(answer(gang(4, 8), changed("racks", gone)), Feasible)
    assert isinstance(answer(gang(4, 8), changed("racks", gone), Question.READY), Infeasible)


def test_what_a_node_had_in_the_last_days_is_potential() -> None:
    def restarted(raw: Any) -> Any:
        if raw["metadata"]["name"] == "g4":
            raw["status"]["allocatable"][GPU] = "0"
            raw["metadata"]["annotations"] = {"muster.dev/high-water": '{"nvidia.com/gpu": "8"}'}
        return raw

    assert isinstance(answer(gang(4, 8), changed("racks", restarted)), Feasible)
    assert isinstance(answer(gang(4, 8), changed("racks", restarted), Question.READY), Infeasible)


# ---- R102 ---------------------------------------------------------------------------------------------------------
def test_r102_a_topology_key_nobody_has() -> None:
    result = answer(keyed(gang(2, 8), "topo.example.com/block"))
    assert isinstance(result, Infeasible)
    assert result.proof.rung is Rung.NO_DOMAIN
    assert "no node has that label" in explain.text(result)
    where = snapshot("cpu-only", pools=(pool(8),))
    assert isinstance(answer(keyed(gang(2, 8), "topo.example.com/block"), where), Unknown)


def test_r102_a_key_on_some_nodes_only() -> None:
    def two(raw: Any) -> Any:
        if raw["metadata"]["name"] in ("g3", "g4"):
            del raw["metadata"]["labels"][RACK]
        return raw

    assert isinstance(answer(keyed(gang(2, 8)), changed("racks", two)), Feasible)
    assert 'the best, "r1", holds 2' in impossible(keyed(gang(3, 8)), changed("racks", two))


def test_r102_an_empty_value_is_a_domain() -> None:
    def empty(raw: Any) -> Any:
        if raw["metadata"]["labels"].get(RACK) == "r1":
            raw["metadata"]["labels"][RACK] = ""
        else:
            raw["metadata"]["labels"].pop(RACK, None)
        return raw

    assert isinstance(answer(keyed(gang(2, 8)), changed("racks", empty)), Feasible)
    assert isinstance(answer(keyed(gang(3, 8)), changed("racks", empty)), Infeasible)


def test_r102_a_bare_group_without_any_pods_has_to_find_its_key_too() -> None:
    assert "no node has that label" in impossible(pod_group("train").gang(2).topology("topo.example.com/block"))
    result = answer(pod_group("train").gang(2).topology(RACK))
    assert isinstance(result, Unknown)
    assert result.reasons[0].doubt == "pods-unknown"
    assert isinstance(answer(pod_group("train").gang(1000)), Infeasible), "6 nodes take 660 Pods"


def test_the_topology_gate_off_in_the_scheduler_leaves_the_key_out() -> None:
    made = keyed(gang(4, 8))
    assert isinstance(answer(made), Infeasible)
    assert isinstance(evaluate(only(made, profile=Profile(topology=False)), snapshot()), Feasible)


# ---- R104 ---------------------------------------------------------------------------------------------------------
def test_r104_a_missing_toleration_is_no_proof_for_a_template() -> None:
    made = gang(2, 8, tolerating=False)
    assert "by tolerating nvidia.com/gpu=present:NoSchedule" in impossible(made)
    assert isinstance(evaluate(only(made).without(Part.TAINTS), snapshot()), Feasible)


def test_r104_a_toleration_without_a_key_tolerates_all() -> None:
    made = gang(2, 8, tolerating=False)
    made.pod_spec["tolerations"] = [{"operator": "Exists"}]
    assert isinstance(answer(made), Feasible)


# ---- R105, R107, R108, R109 ---------------------------------------------------------------------------------------
def mig(raw: Any, *, whole: bool = False) -> Any:
    if raw["metadata"]["name"].startswith("g"):
        raw["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "56"
        if not whole:
            del raw["status"]["allocatable"][GPU]
    return raw


def test_r105_mig_devices_are_no_whole_gpus() -> None:
    assert "no node has nvidia.com/gpu" in impossible(gang(2, 1), changed("racks", mig))
    assert isinstance(answer(gang(2, 1), changed("racks", lambda raw: mig(raw, whole=True))), Feasible)


@pytest.mark.parametrize("name", ["nvidia.com/gpus", "nvidia/gpu", "alpha.kubernetes.io/nvidia-gpu"])
def test_r107_misspelled_and_legacy_names(name: str) -> None:
    assert f"no node has {name}" in impossible(gang(2, 8, resource=name))


def test_r107_a_device_class_may_serve_a_resource_no_node_has() -> None:
    mapped = device_class("gpu", extended_resource="nvidia.com/gpus").dict()
    where = build([*objects("racks"), mapped], Settings(is_file=True))
    result = answer(gang(2, 8, resource="nvidia.com/gpus"), where)
    assert isinstance(result, Unknown)
    assert result.reasons[0].doubt == "mapped-resource"
    assert isinstance(answer(gang(5, 8), where), Infeasible), "nvidia.com/gpu itself is not mapped"


def test_r108_a_label_value_nobody_has() -> None:
    made = gang(2, 8).node_selector("accel", "h20O")
    assert 'without nodeSelector "accel"' in impossible(made)
    assert isinstance(answer(gang(2, 8).node_selector("accel", "h200")), Feasible)
    made = gang(2, 8)
    made.pod_spec["affinity"] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "accel", "operator": "In", "values": ["x"]}]}}
            ]
        }
    }
    assert isinstance(answer(made), Feasible)


def test_r108_a_pools_unknown_labels_may_match() -> None:
    made = gang(2, 8).node_selector("topology.kubernetes.io/zone", "z9")
    assert isinstance(answer(made, snapshot(pools=(pool(8),))), Unknown)
    made = gang(2, 8).node_selector("accel", "h20O")
    assert isinstance(answer(made, snapshot(pools=(pool(8),))), Infeasible), "the pool declares this label"


def test_r109_shared_units() -> None:
    def shared(raw: Any) -> Any:
        if raw["metadata"]["name"] == "g1":
            raw["status"]["allocatable"]["rdma/hca_shared_devices_a"] = "1000"
        return raw

    made = gang(8, 1, resource="rdma/hca_shared_devices_a")
    assert isinstance(answer(made, changed("racks", shared)), Feasible)
    assert "no node has rdma/hca_shared_devices_a" in impossible(made)


# ---- R111, R114, R115 ---------------------------------------------------------------------------------------------
def test_r111_no_nic_asked_is_no_question_of_capacity() -> None:
    assert isinstance(answer(gang(2, 8).env("FI_PROVIDER", "efa")), Feasible)


def test_r114_replicas_are_groups_of_their_own() -> None:
    for demand in demands(lws("serve").replicas(10).size(2).gpu(8).toleration(GPU).plan()):
        assert isinstance(evaluate(demand, snapshot()), Feasible)


def test_r114_how_many_groups_start_at_once() -> None:
    demand = only(gang(2, 8))
    assert copies_at_once(demand.root, snapshot()) == 2
    assert copies_at_once(only(keyed(gang(3, 4))).root, snapshot()) == 2, "one in each rack"


def test_r115_a_suspended_job_says_so() -> None:
    made = gang(2, 16)
    assert not only(made).suspended
    made.spec["suspend"] = True
    assert only(made).suspended


# ---- what a group's quorum is -------------------------------------------------------------------------------------
def test_only_the_quorum_has_to_fit() -> None:
    made = any_job("train").parallelism(8).completions(8).gang(4).gpu(8).toleration(GPU)
    assert isinstance(answer(made), Feasible)
    every = only(made).with_every_member()
    assert every is not None
    assert isinstance(evaluate(every, snapshot()), Infeasible)


def test_a_plain_job_is_one_pod_at_a_time() -> None:
    made = any_job("train").parallelism(50).gpu(8).toleration(GPU)
    assert isinstance(answer(made), Feasible)
    assert isinstance(answer(any_job("train").parallelism(50).gpu(9).toleration(GPU)), Infeasible)


def test_members_of_a_group_that_others_may_join() -> None:
    made = any_job("train").parallelism(8).completions(8).gpu(8).toleration(GPU).scheduling_group("shared")
    assert only(made).root.needed == 1


def test_a_jobs_roles_are_asked_one_by_one_without_a_gang() -> None:
    small, large = (
        any_job("a").parallelism(2).gpu(8).toleration(GPU),
        any_job("b").parallelism(2).gpu(9).toleration(GPU),
    )
    made = jobset("train").role("small", small).role("large", large)
    results = {type(evaluate(demand, snapshot())).__name__ for demand in demands(made.plan())}
    assert results == {"Feasible", "Infeasible"}
