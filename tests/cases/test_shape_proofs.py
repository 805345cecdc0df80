"""The shape rules (WAS101-WAS119) against the real Job controller and kube-scheduler 1.37.2, without Muster.

What a rule denies must really never start, and its allowed twin must: the fixtures of tests/rules are the objects. "Not
placed" means unbound when the scheduler is idle: for these faults 1.37 writes no condition to wait for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.client import MERGE_PATCH, object_path
from tests.cluster.cluster import RACK_LABEL, Cluster, rack_nodes
from tests.cluster.plugin import NodesFactory
from tests.support.cases import RULES, load_case

NEVER = {  # fixture of a denial or warning -> how many Pods exist while none is placed
    "WAS101/deny/completions-below-parallelism": 4,
    "WAS114/deny/ordered-ready": 1,
    "WAS119/deny/anti-affinity-on-the-gangs-key": 4,
    "WAS119/deny/spread-on-the-gangs-key": 4,
    "WAS119/deny/host-port-on-one-node": 4,
}
PLACED = {  # fixture of an admitted twin -> how many Pods are placed
    "WAS101/allow/min-count-at-completions": 4,
    "WAS102/allow/surge-pod-joins-the-group": 2,
    "WAS107/allow/equal-counts": 4,
    "WAS114/allow/parallel": 4,
    "WAS119/allow/one-pod-on-each-node": 4,
    "WAS119/allow/label-added-later": 4,
    "WAS119/allow/wide-skew": 4,
}


@pytest.fixture
def racks(nodes: NodesFactory, namespace: str) -> None:
    """Two racks of four nodes: room for every gang here, were it not for its shape."""
    nodes(rack_nodes(2, 4, gpu_count=0, prefix=namespace))


@pytest.fixture
def create(control_plane: Cluster, namespace: str) -> Callable[..., dict[str, Any]]:
    """Creates a raw object in the test's namespace."""

    def made(raw: dict[str, Any]) -> dict[str, Any]:
        raw = copy.deepcopy(raw)
        raw["metadata"]["namespace"] = namespace
        return control_plane.api.create(raw, namespace).expect(201)

    return made


def stage(name: str, create: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Creates a fixture's surroundings and its object, which is returned as stored."""
    case = load_case(RULES / f"{name}.yaml")
    for raw in case.surroundings:
        create(raw)
    return create(case.new)


def bound_when_idle(cluster: Cluster, namespace: str, existing: int) -> int:
    """Bound Pods once `existing` Pods exist and the scheduler has nothing more to try."""
    cluster.wait_for(lambda: len(cluster.pods(namespace)) >= existing, 30, f"{existing} Pods in {namespace}")
    cluster.scheduler_idle()
    return len(cluster.bound_pods(namespace))


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize("name", NEVER)
def test_what_is_denied_never_starts(
    name: str, control_plane: Cluster, namespace: str, create: Callable[..., dict[str, Any]]
) -> None:
    """Accepted by the API server, its Pods exist, and none is ever placed."""
    stage(name, create)

    assert bound_when_idle(control_plane, namespace, NEVER[name]) == 0
    assert len(control_plane.pods(namespace)) == NEVER[name]


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize("name", PLACED)
def test_the_allowed_twin_starts(
    name: str, control_plane: Cluster, namespace: str, create: Callable[..., dict[str, Any]]
) -> None:
    """What the rule leaves alone is placed on the same nodes."""
    stage(name, create)

    assert bound_when_idle(control_plane, namespace, PLACED[name]) == PLACED[name]


@pytest.mark.usefixtures("racks")
def test_r02_the_last_pod_of_a_batch_is_stuck(
    control_plane: Cluster, namespace: str, create: Callable[..., dict[str, Any]]
) -> None:
    """WAS107: all four end together, and the fifth is alone with minCount 4."""
    stage("WAS107/deny/one-completion-more", create)
    assert bound_when_idle(control_plane, namespace, 4) == 4

    finish(control_plane, namespace, 4)

    assert bound_when_idle(control_plane, namespace, 5) == 4  # the four that ended


@pytest.mark.usefixtures("racks")
def test_a_resumed_job_with_little_work_left_is_stuck(
    control_plane: Cluster, namespace: str, create: Callable[..., dict[str, Any]]
) -> None:
    """WAS107: two of four are done before the Job is suspended; resumed, the other two wait for four."""
    job = object_path(stage("WAS107/allow/equal-counts", create))
    assert bound_when_idle(control_plane, namespace, 4) == 4
    finish(control_plane, namespace, 2)
    control_plane.wait_for(lambda: status(control_plane, job).get("succeeded") == 2, 30, "two completions")
    control_plane.api.patch(job, {"spec": {"suspend": True}}, content_type=MERGE_PATCH).expect(200)
    control_plane.wait_for(lambda: gone(control_plane, namespace), 60, "the active Pods to go")

    control_plane.api.patch(job, {"spec": {"suspend": False}}, content_type=MERGE_PATCH).expect(200)

    control_plane.wait_for(lambda: len(unfinished(control_plane, namespace)) == 2, 30, "the new Pods")
    control_plane.scheduler_idle()
    assert [pod["spec"].get("nodeName") for pod in unfinished(control_plane, namespace)] == [None, None]

    lower = {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}}
    control_plane.api.patch(job, lower, content_type=MERGE_PATCH).expect(200)
    control_plane.wait_for(
        lambda: all(pod["spec"].get("nodeName") for pod in unfinished(control_plane, namespace)), 30, "the way out"
    )


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize(
    ("tree", "placed"),  # tree: how many levels, and which of them has a topology key
    [((3, 0), True), ((4, None), True), ((4, 0), False), ((4, 1), True), ((5, None), False)],
    ids=["three-keyed", "four", "four-keyed", "four-keyed-below-the-top", "five"],
)
def test_depth_of_composites(
    tree: tuple[int, int | None],
    placed: bool,
    control_plane: Cluster,
    namespace: str,
    create: Callable[..., dict[str, Any]],
) -> None:
    """WAS112: 3 are safe, 4 only without a topology key on the topmost, 5 never."""
    levels, keyed = tree
    create(workload())
    for level in range(levels):
        key = RACK_LABEL if level == keyed else None
        create(composite(f"level-{level}", f"level-{level - 1}" if level else None, key))
    create(leaf(f"level-{levels - 1}"))

    create(member("leaf"))

    assert bound_when_idle(control_plane, namespace, 1) == int(placed)


@pytest.mark.usefixtures("racks")
def test_minimum_of_a_jobs_own_group_is_put_back(
    control_plane: Cluster, namespace: str, create: Callable[..., dict[str, Any]]
) -> None:
    """WAS115: the Job controller undoes a patch of the PodGroup it made."""
    stage("WAS107/allow/equal-counts", create)
    assert bound_when_idle(control_plane, namespace, 4) == 4
    group = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    (made,) = control_plane.api.get(group).expect()["items"]
    assert [(owner["kind"], owner.get("controller", False)) for owner in made["metadata"]["ownerReferences"]] == [
        ("Job", True),
        ("Workload", False),
    ]

    lower = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    control_plane.api.patch(f"{group}/{made['metadata']['name']}", lower, content_type=MERGE_PATCH).expect(200)
    finish(control_plane, namespace, 1)  # the Job is synced when one of its Pods changes

    def stored() -> int:
        (item,) = control_plane.api.get(group).expect()["items"]
        return int(item["spec"]["schedulingPolicy"]["gang"]["minCount"])

    control_plane.wait_for(lambda: stored() == 4, 30, "the controller to put 4 back")


# ---- small objects ----------------------------------------------------------------------------------------------
def finish(cluster: Cluster, namespace: str, count: int) -> None:
    for pod in cluster.bound_pods(namespace)[:count]:
        cluster.set_pod_phase(namespace, pod["metadata"]["name"], "Succeeded")


def unfinished(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in cluster.pods(namespace) if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def gone(cluster: Cluster, namespace: str) -> bool:
    """Plays the kubelet for Pods that are being deleted: no one else ends them here."""
    for pod in unfinished(cluster, namespace):
        if "deletionTimestamp" in pod["metadata"]:
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            cluster.api.delete(path, {"gracePeriodSeconds": 0})
    return not unfinished(cluster, namespace)


def status(cluster: Cluster, path: str) -> dict[str, Any]:
    return dict(cluster.api.get(path).expect().get("status") or {})


def workload() -> dict[str, Any]:
    leaf_template = {"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1}}}
    top = {"name": "top", "schedulingPolicy": {"gang": {"minGroupCount": 1}}, "podGroupTemplates": [leaf_template]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "Workload",
        "metadata": {"name": "deep"},
        "spec": {"compositePodGroupTemplates": [top]},
    }


def composite(name: str, parent: str | None, key: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "workloadRef": {"workloadName": "deep", "templateName": "top"},
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def leaf(parent: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "leaf"},
        "spec": {
            "workloadRef": {"workloadName": "deep", "templateName": "leaf"},
            "parentCompositePodGroupName": parent,
            "schedulingPolicy": {"gang": {"minCount": 1}},
        },
    }


def member(group: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "member"},
        "spec": {
            "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "main", "image": "pause:3.10"}],
        },
    }
