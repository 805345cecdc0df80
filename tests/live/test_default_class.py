"""WAS141 on a control plane of its own, without Muster and with it: the class stops every other test's Jobs, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import job as job_builder
from tests.cluster.client import MERGE_PATCH, object_path
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import running

POLITE = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "polite"},
    "value": 0,
    "preemptionPolicy": "Never",
}


def job(name: str) -> dict[str, Any]:
    """Two Pods, no gang, no class."""
    raw = job_builder(name).parallelism(2).completions(2).dict()
    del raw["metadata"]["namespace"]
    raw["spec"].pop("scheduling", None)
    return raw


@pytest.fixture
def cluster(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> ControlPlane:
    control_plane = start_control_plane(ControlPlaneOptions())
    control_plane.create_nodes(1)
    return control_plane


def test_a_stored_class_becomes_the_default_and_every_new_plain_job_hangs_until_it_is_taken_back(
    cluster: ControlPlane,
) -> None:
    """`globalDefault` can change, `preemptionPolicy` cannot; the Job that hangs starts by itself afterwards."""
    namespace = cluster.new_namespace()
    cluster.api.create(POLITE).expect()
    path = object_path(POLITE)
    cluster.api.create(job("before"), namespace).expect()
    wait_for_pods(cluster, namespace, "before")

    assert cluster.api.patch(path, {"preemptionPolicy": "PreemptLowerPriority"}, MERGE_PATCH).status == 422
    cluster.api.patch(path, {"globalDefault": True}, MERGE_PATCH).expect()
    cluster.wait_for(lambda: not pod_group_accepted(cluster, namespace), 30, "the class to be the default")
    cluster.api.create(job("after"), namespace).expect()
    workloads = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/workloads"
    cluster.wait_for(lambda: len(cluster.api.get(workloads).expect()["items"]) == 2, 60, "the second Job's Workload")

    assert cluster.pods(namespace, "job-name=after") == []
    events = cluster.api.get(f"/api/v1/namespaces/{namespace}/events").expect()["items"]
    reasons = {event["reason"] for event in events if event["involvedObject"]["name"] == "after"}
    assert reasons <= {"WorkloadCreated"}, "nothing tells of the group that is refused"

    cluster.api.patch(path, {"globalDefault": False}, MERGE_PATCH).expect()
    wait_for_pods(cluster, namespace, "after")


def test_muster_refuses_the_class_and_a_dead_muster_refuses_nothing(cluster: ControlPlane, tmp_path: Path) -> None:
    with running(cluster, tmp_path) as muster:
        default = {**POLITE, "globalDefault": True}
        answer = cluster.api.create(default)
        cluster.api.create(POLITE).expect()
        update = cluster.api.patch(object_path(POLITE), {"globalDefault": True}, MERGE_PATCH)
        muster.kill()

        assert (answer.status, update.status) == (403, 403)
        assert 'admission webhook "traps.muster.dev" denied the request' in answer.body["message"]
        assert "globalDefault: every group without a class gets this one" in update.body["message"]
        cluster.api.patch(object_path(POLITE), {"globalDefault": True}, MERGE_PATCH).expect()


def wait_for_pods(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.wait_for(lambda: len(cluster.bound_pods(namespace, f"job-name={name}")) == 2, 60, f"the Pods of {name}")


def pod_group_accepted(cluster: Cluster, namespace: str) -> bool:
    body = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "probe"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    return cluster.api.create(body, namespace, dryRun="All").ok
