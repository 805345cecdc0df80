"""What WAS2xx rules deny, seen on the real 1.37.2 control plane without Muster: each of these groups never starts."""

from __future__ import annotations

import pytest

from tests.cases.support import Raw, condition, kubectl_create, let_in, member, pod_group
from tests.cluster.cluster import Cluster
from tests.cluster.plugin import NodesFactory

OWNER = {
    "apiVersion": "example.com/v1",  # a kind that the garbage collector cannot look up, so it leaves the Job alone
    "kind": "Trainer",
    "name": "run-7",
    "uid": "5f7c9a10-0000-4000-8000-000000000001",
    "controller": True,
}
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"


@pytest.fixture(autouse=True)
def classes(control_plane: Cluster, namespace: str, nodes: NodesFactory) -> None:
    """Two nodes, a tenant, and PriorityClasses that differ in number or in preemption policy."""
    nodes(2)
    let_in(control_plane, namespace)
    for name, value, policy in (
        ("proofs-high", 1000, "PreemptLowerPriority"),
        ("proofs-low", 100, "PreemptLowerPriority"),
        ("proofs-never", 1000, "Never"),
    ):
        raw: Raw = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        control_plane.api.create({**raw, "value": value, "preemptionPolicy": policy}).expect(201, 409)


def test_preemption_policy_mismatch(control_plane: Cluster, namespace: str) -> None:
    """WAS213: the same number, another preemption policy."""
    kubectl_create(control_plane, namespace, pod_group("train", 1, priorityClassName="proofs-high"))
    kubectl_create(control_plane, namespace, member("train-0", "train", priorityClassName="proofs-never"))

    seen = control_plane.wait_for(lambda: condition(control_plane, namespace, "train"), 60, "a word of the scheduler")

    assert seen["reason"] == "SchedulerError"
    assert "same preemption policy" in seen["message"]
    assert control_plane.bound_pods(namespace) == []


def test_root_priority_counts(control_plane: Cluster, namespace: str) -> None:
    """WAS211: Pods equal to their PodGroup but not to its root fail; the other way round they are placed."""
    workload(control_plane, namespace)
    for name, own, root in (("bad", "proofs-high", "proofs-low"), ("good", "proofs-low", "proofs-high")):
        composite(control_plane, namespace, f"{name}-root", None, priorityClassName=root)
        spec = {
            "workloadRef": {"workloadName": "tree", "templateName": "leaf"},
            "parentCompositePodGroupName": f"{name}-root",
        }
        kubectl_create(control_plane, namespace, pod_group(name, 1, priorityClassName=own, **spec))
        kubectl_create(control_plane, namespace, member(f"{name}-0", name, priorityClassName="proofs-high"))

    control_plane.wait_for(lambda: control_plane.bound_pods(namespace, "group=good"), 60, "the good tree to be placed")
    seen = control_plane.wait_for(lambda: condition(control_plane, namespace, "bad"), 60, "a word of the scheduler")

    assert seen["reason"] == "SchedulerError"
    assert control_plane.bound_pods(namespace, "group=bad") == []


def test_parent_cycle(control_plane: Cluster, namespace: str) -> None:
    """WAS210: two composites that name each other are stored, and Pods below them wait without a word."""
    workload(control_plane, namespace)
    composite(control_plane, namespace, "a", "b")
    composite(control_plane, namespace, "b", "a")
    spec = {"workloadRef": {"workloadName": "tree", "templateName": "leaf"}, "parentCompositePodGroupName": "a"}
    kubectl_create(control_plane, namespace, pod_group("train", 1, **spec))
    kubectl_create(control_plane, namespace, member("train-0", "train"))
    kubectl_create(control_plane, namespace, pod_group("witness", 1))
    kubectl_create(control_plane, namespace, member("witness-0", "witness"))

    control_plane.wait_for(lambda: control_plane.bound_pods(namespace, "group=witness"), 60, "the witness")
    control_plane.scheduler_idle()

    assert control_plane.bound_pods(namespace, "group=train") == []
    assert condition(control_plane, namespace, "train") is None


def test_delegated_group_takes_the_templates_class(control_plane: Cluster, namespace: str) -> None:
    """WAS211: a delegated Job's PodGroup has the class of the Workload's template, its Pods that of their own."""
    control_plane.api.create(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": "run-7"},
            "spec": {
                "controllerRef": {"apiGroup": "example.com", "kind": "Trainer", "name": "run-7"},
                "podGroupTemplates": [
                    {
                        "name": "workers",
                        "schedulingPolicy": {"gang": {"minCount": 2}},
                        "priorityClassName": "proofs-high",
                    }
                ],
            },
        },
        namespace,
    ).expect(201)
    kubectl_create(
        control_plane,
        namespace,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "workers",
                "annotations": {"scheduling.k8s.io/group-template-name": "workers"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "parallelism": 2,
                "completions": 2,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "priorityClassName": "proofs-low",
                        "containers": [{"name": "main", "image": "pause:3.10"}],
                    }
                },
            },
        },
    )
    groups = control_plane.wait_for(
        lambda: control_plane.api.get(POD_GROUPS.format(namespace)).expect()["items"], 60, "the Job's PodGroup"
    )
    name = groups[0]["metadata"]["name"]

    seen = control_plane.wait_for(lambda: condition(control_plane, namespace, name), 60, "a word of the scheduler")

    assert groups[0]["spec"]["priority"] == 1000
    assert seen["reason"] == "SchedulerError"
    assert "same priority as the pod group's priority" in seen["message"]


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_claim_name_unknown_is_refused_in_what_crds_make(control_plane: Cluster, namespace: str, kind: str) -> None:
    """WAS204, WAS220: what a JobSet or LeaderWorkerSet makes of such a template is refused by the API server."""
    container = {"name": "main", "image": "pause:3.10"}
    unknown_name = {"containers": [{**container, "resources": {"claims": [{"name": "gpu"}]}}]}
    no_source = {"containers": [container], "resourceClaims": [{"name": "gpu"}]}

    for spec in (unknown_name, no_source):
        answer = control_plane.api.create(made_from(kind, spec), namespace, dryRun="All")
        assert answer.status == 422
        assert "claim" in str(answer.body["message"]).lower()
    assert control_plane.api.create(made_from(kind, {"containers": [container]}), namespace, dryRun="All").ok


def made_from(kind: str, pod_spec: Raw) -> Raw:
    if kind == "Job":
        template = {"spec": {"restartPolicy": "Never", **pod_spec}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": template}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "serviceName": "x", "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": spec}


def workload(cluster: Cluster, namespace: str) -> None:
    spec = {
        "compositePodGroupTemplates": [
            {
                "name": "root",
                "schedulingPolicy": {"basic": {}},
                "podGroupTemplates": [{"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1}}}],
            }
        ]
    }
    raw: Raw = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "tree"}}
    cluster.api.create({**raw, "spec": spec}, namespace).expect(201)


def composite(cluster: Cluster, namespace: str, name: str, parent: str | None, **spec: str) -> None:
    raw: Raw = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": name}}
    body = {
        "schedulingPolicy": {"basic": {}},
        "workloadRef": {"workloadName": "tree", "templateName": "root"},
        **({"parentCompositePodGroupName": parent} if parent else {}),
        **spec,
    }
    cluster.api.create({**raw, "spec": body}, namespace).expect(201)
