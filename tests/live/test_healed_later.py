"""What looks like a fault that never heals, and heals on 1.37.2: why the rules named here warn and do not deny.

Each object is accepted, does not start, and starts as it was written once something that was not there is created, or
something that is in the way is gone. A denial would have refused what 1.37 runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import job as job_builder
from tests.cluster.cluster import Cluster, rack_nodes
from tests.cluster.controlplane import ControlPlaneOptions
from tests.live.test_traps import PARENT, PARENT_REF, SCHEDULING, job, pod, priority_class, workload

ROOM_SECONDS = 60.0  # bounds a hang, asserts nothing
Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(control_plane: Cluster) -> Iterator[Cluster]:
    names = control_plane.create_nodes(rack_nodes(1, 2, prefix="healed"))
    yield control_plane
    control_plane.delete_nodes(names)


def test_class_that_comes_later(cluster: Cluster) -> None:
    """WAS124: a Job names a PriorityClass that does not exist; it starts once somebody creates the class."""
    namespace = cluster.new_namespace("class-later")
    cluster.api.create(job(priorityClassName="healed-later"), namespace).expect(201)
    _wait(cluster, lambda: _listed(cluster, namespace, "workloads"), "the Workload")
    assert cluster.pods(namespace) == []
    assert _listed(cluster, namespace, "podgroups") == []

    cluster.api.create(priority_class("healed-later", 10)).expect(201)

    _wait(cluster, lambda: len(cluster.bound_pods(namespace)) == 2, "both Pods")


@pytest.mark.parametrize("fault", ["name", "gang"])
def test_adopted_pod_takes_the_group_away(cluster: Cluster, fault: str) -> None:
    """WAS101, WAS121 to WAS127, WAS321, WAS407: a Job with a selector of its own that finds a Pod to adopt is not new to
    the Job controller, which makes no group for it: neither its name nor its minCount stops it."""
    namespace = cluster.new_namespace(f"adopts-{fault}")
    cluster.api.create(pod("left-behind"), namespace).expect(201)
    raw = job("a" * 58) if fault == "name" else _gang_of_four_with_two_pods()
    raw["spec"].update(manualSelector=True, selector={"matchLabels": {"app": "train"}})
    raw["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    cluster.api.create(raw, namespace).expect(201)

    _wait(cluster, lambda: len(cluster.bound_pods(namespace)) == 2, "both Pods")

    assert _listed(cluster, namespace, "podgroups") == []


def test_sibling_that_goes(cluster: Cluster) -> None:
    """WAS128: the second child Job on a template starts when the first one has ended and its ttl is over."""
    namespace = cluster.new_namespace("sibling-goes")
    parent = cluster.api.create(PARENT, namespace).expect(201)
    cluster.api.create(workload("w", PARENT_REF), namespace).expect(201)
    owner = {**_reference(parent), "controller": True}
    for name in ("first", "second"):
        raw = job(name)
        raw["spec"]["ttlSecondsAfterFinished"] = 0
        raw["metadata"].update(
            annotations={"scheduling.k8s.io/group-template-name": "workers"}, ownerReferences=[owner]
        )
        cluster.api.create(raw, namespace).expect(201)
        if name == "first":
            _wait(cluster, lambda: len(_of(cluster, namespace, "first")) == 2, "the first Job's Pods")

    for item in _of(cluster, namespace, "first"):
        cluster.set_pod_phase(namespace, item["metadata"]["name"], "Succeeded")

    _wait(cluster, lambda: len(_of(cluster, namespace, "second")) == 2, "the second Job's Pods")


def test_another_scheduler_places_what_kube_scheduler_never_would(cluster: Cluster) -> None:
    """WAS101, WAS114, WAS119, WAS136, WAS211, WAS213, WAS407: whoever binds the Pods decides what a group means."""
    namespace = cluster.new_namespace("foreign")
    raw = _gang_of_four_with_two_pods()
    raw["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    cluster.api.create(raw, namespace).expect(201)
    pods = _wait(cluster, lambda: _pods(cluster, namespace, 2), "both Pods")

    for item in pods:
        name = item["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "healed-0-0"},
        }
        cluster.api.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding).expect(201)

    assert len(cluster.bound_pods(namespace)) == 2


def test_limit_range_fills_in_a_limit(cluster: Cluster) -> None:
    """WAS116: what a Pod lacks a LimitRange may give it; a template of a Job or StatefulSet is refused as it stands."""
    namespace = cluster.new_namespace("limit-range")
    limits = [{"type": "Container", "default": {"nvidia.com/gpu": "1", "cpu": "1"}}]
    spec = {"limits": limits}
    cluster.api.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "filled"}, "spec": spec}, namespace
    ).expect(201)
    requests: list[Json] = [{"requests": {"nvidia.com/gpu": "1"}}, {"limits": {"hugepages-2Mi": "4Mi"}}]
    for number, resources in enumerate(requests):
        containers = [{"name": "main", "image": "pause:3.10", "resources": resources}]
        bare, raw, stateful = pod(f"bare-{number}"), job(f"job-{number}"), _stateful(f"set-{number}")
        for holder in (bare["spec"], raw["spec"]["template"]["spec"], stateful["spec"]["template"]["spec"]):
            holder["containers"] = containers

        answers = [cluster.api.create(item, namespace) for item in (bare, raw, stateful)]

        assert [answer.status for answer in answers] == [201, 422, 422], [answer.body for answer in answers]


def test_default_class_that_comes_later(start_control_plane: Callable[[ControlPlaneOptions], Cluster]) -> None:
    """WAS137: a priority without a class is accepted once the global default class has that value."""
    cluster = start_control_plane(ControlPlaneOptions())
    cluster.create_nodes(rack_nodes(1, 1, prefix="default"))
    namespace = cluster.new_namespace("default-later")
    raw = _stateful("server", priority=1000)
    cluster.api.create(raw, namespace).expect(201)
    _wait(cluster, lambda: "must not be provided" in _events(cluster, namespace), "a refused Pod")

    cluster.api.create(priority_class("healed-default", 1000, globalDefault=True)).expect(201)

    _wait(cluster, lambda: len(cluster.bound_pods(namespace)) == 1, "the Pod")


# -- helpers ------------------------------------------------------------------------------------------------------
def _gang_of_four_with_two_pods() -> Json:
    raw = job_builder("train").parallelism(4).completions(2).dict()
    del raw["metadata"]["namespace"]
    raw["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    return raw


def _stateful(name: str, **pod_spec: Any) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "p"}], **pod_spec}}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def _reference(parent: Json) -> Json:
    metadata = parent["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}


def _wait(cluster: Cluster, probe: Callable[[], Any], what: str) -> Any:
    return cluster.wait_for(probe, ROOM_SECONDS, what)


def _listed(cluster: Cluster, namespace: str, plural: str) -> list[Json]:
    return list(cluster.api.get(f"{SCHEDULING}/namespaces/{namespace}/{plural}").expect()["items"])


def _pods(cluster: Cluster, namespace: str, count: int) -> list[Json]:
    pods = cluster.pods(namespace)
    return pods if len(pods) == count else []


def _of(cluster: Cluster, namespace: str, owner: str) -> list[Json]:
    return [
        item
        for item in cluster.bound_pods(namespace)
        if any(reference["name"] == owner for reference in item["metadata"].get("ownerReferences", []))
    ]


def _events(cluster: Cluster, namespace: str) -> str:
    items = cluster.api.get(f"/api/v1/namespaces/{namespace}/events").expect()["items"]
    return " ".join(item["message"] for item in items)
