"""Raw objects -> Snapshot: amounts, taints, what is away, and the three states with their reasons."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.inventory.build import GONE, HIGH_WATER, Settings, build
from webhook.inventory.snapshot import Node, Pool, Question, Snapshot, State, Taint
from webhook.inventory.tables import AMOUNT_MAX

GPU = "nvidia.com/gpu"

ANY = "0.0.0.0"  # noqa: S104  the wildcard of hostPort


def node(name: str = "n1", **changes: Any) -> dict[str, Any]:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {}},
        "spec": {},
        "status": {"allocatable": {"cpu": "8", "pods": "110", GPU: "8"}},
    }
    for section, fields in changes.items():
        raw[section] = {**raw[section], **fields} if isinstance(raw.get(section), dict) else fields  # type: ignore[dict-item]
    return raw


def of_file(*objects: dict[str, Any], **settings: Any) -> Snapshot:
    return build(objects, Settings(is_file=True, **settings))


def only(*objects: dict[str, Any]) -> Node:
    (found,) = of_file(*objects).nodes
    return found


# ---- amounts ------------------------------------------------------------------------------------------------------
def test_amounts_are_rounded_up_as_the_scheduler_does() -> None:
    found = only(node(status={"allocatable": {"cpu": "0.0001", "memory": "1.5", GPU: "8"}}))
    assert found.allocatable == {"cpu": 1, "memory": 2, GPU: 8}


@pytest.mark.parametrize("amount", ["9E", "9223372036854775807", "1e30"])
def test_an_amount_too_large_to_count_never_limits(amount: str) -> None:
    assert only(node(status={"allocatable": {"cpu": amount}})).allocatable == {"cpu": AMOUNT_MAX}


def test_capacity_stands_in_for_allocatable() -> None:
    raw = node()
    raw["status"] = {"capacity": {"cpu": "4"}}
    assert only(raw).allocatable == {"cpu": 4000}


def test_a_node_that_has_not_reported_leaves_the_inventory_incomplete() -> None:
    raw = node()
    raw["status"] = {}
    assert of_file(raw).complete == State(False, 'node "n1" does not say yet what it has')


def test_an_unreadable_amount_never_limits_and_makes_it_incomplete() -> None:
    snapshot = of_file(node(status={"allocatable": {"cpu": "many"}}))
    assert snapshot.nodes[0].allocatable == {"cpu": AMOUNT_MAX}
    assert snapshot.complete == State(False, 'node "n1": cpu cannot be read')


def test_high_water_marks_and_deleted_nodes_are_potential() -> None:
    marked = only(node(metadata={"annotations": {HIGH_WATER: '{"nvidia.com/gpu": "16"}'}}))
    assert marked.capacity(Question.NEVER)[GPU] == 16
    assert marked.capacity(Question.READY)[GPU] == 8
    gone = only(node(metadata={"annotations": {GONE: "true"}}))
    assert gone.capacity(Question.NEVER)[GPU] == 8
    assert (gone.away, gone.real, gone.counts(Question.READY)) == ("deleted", False, False)


def test_an_unreadable_mark_makes_it_incomplete() -> None:
    snapshot = of_file(node(metadata={"annotations": {HIGH_WATER: "[]"}}))
    assert snapshot.complete == State(False, f'node "n1": annotation {HIGH_WATER} cannot be read')


# ---- taints and what is away --------------------------------------------------------------------------------------
def test_only_lasting_taints_that_repel_stay() -> None:
    taints = [
        {"key": "b", "value": "1", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoExecute"},
        {"key": "c", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    found = only(node(spec={"taints": taints}))
    assert found.taints == (Taint("a", "", "NoExecute"), Taint("b", "1", "NoSchedule"))
    assert found.away == "taint node.kubernetes.io/not-ready"


@pytest.mark.parametrize(
    ("changes", "away"),
    [
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"status": {"allocatable": {}, "conditions": [{"type": "Ready", "status": "Unknown"}]}}, "not ready"),
        ({"status": {"allocatable": {}, "conditions": [{"type": "DiskPressure", "status": "False"}]}}, ""),
        ({"metadata": {"name": "n1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "being deleted"),
        ({}, ""),
    ],
)
def test_why_a_node_takes_no_pods_today(changes: dict[str, Any], away: str) -> None:
    assert only(node(**changes)).away == away


# ---- Pods ---------------------------------------------------------------------------------------------------------
def running(name: str, on: str, phase: str = "Running", **limits: str) -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x"},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": limits}, "ports": ports}]},
        "status": {"phase": phase},
    }


def test_pods_take_from_what_is_free_and_from_nothing_else() -> None:
    found = only(
        node(),
        running("a", "n1", **{GPU: "3", "cpu": "1500m"}),
        running("b", "n1", "Succeeded", **{GPU: "5"}),
        running("c", "elsewhere", **{GPU: "1"}),
    )
    assert found.capacity(Question.NOT_NOW) == {"cpu": 6500, "pods": 109, GPU: 5}
    assert found.capacity(Question.NEVER)[GPU] == 8
    assert found.used_ports == {(ANY, "TCP", 80)}


# ---- other kinds --------------------------------------------------------------------------------------------------
def test_device_classes_map_resources_by_name_and_implicitly() -> None:
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    snapshot = of_file(node(), {**raw, "spec": {"extendedResourceName": "x/gpu"}})
    assert snapshot.is_mapped("x/gpu") == "gpu"
    assert snapshot.is_mapped("deviceclass.resource.kubernetes.io/gpu") == "gpu"
    assert snapshot.is_mapped("x/other") is None


def test_runtime_classes_and_kinds_that_are_passed_over() -> None:
    runtime = {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}
    snapshot = of_file(node(), runtime, {"kind": "RuntimeClass", "metadata": {"name": "runc"}}, {"kind": "Secret"})
    assert snapshot.runtime_overheads == {"kata": {"cpu": "1"}, "runc": {}}
    assert snapshot.complete.holds


def test_an_unreadable_object_makes_it_incomplete() -> None:
    snapshot = of_file(node(), {"kind": "Node", "metadata": {"name": "n2", "labels": 5}})
    assert not snapshot.complete.holds
    assert snapshot.complete.reason.startswith('Node "n2" cannot be read')
    assert [one.name for one in snapshot.nodes] == ["n1"]


# ---- states -------------------------------------------------------------------------------------------------------
def test_a_file_may_deny() -> None:
    assert of_file(node()).denial_hindrance() is None


def test_nothing_at_all_is_not_complete() -> None:
    assert of_file().denial_hindrance() == "the inventory holds no Node"


def test_age_and_a_first_list_still_missing() -> None:
    assert build([node()], Settings(is_file=True, age_seconds=61)).denial_hindrance() == (
        "the inventory is 61 s old, more than 60 s"
    )
    synced = State(False, "ResourceSlices are not listed yet")
    assert build([node()], Settings(synced=synced)).denial_hindrance() == "ResourceSlices are not listed yet"


@pytest.mark.parametrize(
    ("metadata", "who"),
    [
        ({"labels": {"karpenter.sh/nodepool": "x"}}, "Karpenter"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}, "cluster-autoscaler"),
        ({"annotations": {"cluster.x-k8s.io/machine": "m"}}, "Cluster API"),
        ({"labels": {"cloud.google.com/gke-nodepool": "x"}}, "a GKE node pool"),
    ],
)
@pytest.mark.parametrize("closed", ["auto", "true"])
def test_signs_of_an_autoscaler(metadata: dict[str, Any], who: str, closed: Any) -> None:
    state = build([node(metadata=metadata)], Settings(is_file=True, closed=closed)).closed
    assert not state.holds
    assert state.reason.endswith(f"is a sign of {who}")
    assert state.reason.startswith("closed: true is not believed") is (closed == "true")


def test_a_node_pool_object_is_a_sign() -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}}
    assert of_file(node(), pool).closed == State(False, "a NodePool is a sign of Karpenter")


def test_auto_waits_until_nothing_changed_for_ten_minutes() -> None:
    assert build([node()], Settings(stable_seconds=600)).closed.holds
    for seconds in (599.0, None):
        state = build([node()], Settings(stable_seconds=seconds)).closed
        assert state == State(False, "labels, taints or devices of nodes changed less than ten minutes ago")
    assert build([node()], Settings(closed="true")).closed.holds
    assert not build([node()], Settings(closed="false", is_file=True)).closed.holds


def test_a_declared_pool_adds_the_nodes_it_may_still_add() -> None:
    pool = Pool(name="gpu", allocatable={GPU: 8}, labels={"pool": "gpu"}, node_count_max=3)
    snapshot = of_file(node(metadata={"labels": {"pool": "gpu"}}), pools=(pool,))
    assert [one.real for one in snapshot.nodes] == [True, False, False]
    assert snapshot.denial_hindrance() == 'the policy declares the autoscaled pool "gpu"'


# ---- versions -----------------------------------------------------------------------------------------------------
def test_a_heartbeat_makes_no_new_version() -> None:
    beat = node(
        status={
            "allocatable": node()["status"]["allocatable"],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}],
        }
    )
    assert of_file(node()).version == of_file(beat).version
    assert of_file(node()).version != of_file(node(spec={"unschedulable": True})).version


def test_the_order_of_objects_makes_no_new_version() -> None:
    assert of_file(node("a"), node("b")).version == of_file(node("b"), node("a")).version
