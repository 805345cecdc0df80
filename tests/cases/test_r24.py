"""R24: two places say who makes the group. 1.37 acts on one of them, and says nothing of the other."""

from __future__ import annotations

from pathlib import Path

from tests.builders import job, pod_group, pod_group_template, workload
from tests.cases.support import kubectl_create
from tests.cluster.cluster import Cluster
from tests.cluster.plugin import NodesFactory
from tests.live.muster import running


def test_r24(control_plane: Cluster, namespace: str, nodes: NodesFactory, tmp_path: Path) -> None:
    """Without Muster the gang of spec.scheduling is not made, and its Pods wait for a PodGroup that nobody creates."""
    nodes(2)
    control_plane.grant("alice", namespace)
    both = job("both").parallelism(2).completions(2).gang().disruption("all").scheduling_group("nobody-makes-it")
    raw = both.namespace(namespace).dict()
    child = job("child").parallelism(2).completions(2).gang().disruption("all").owner("JobSet", "parent")
    own_group = job("own-group").parallelism(2).completions(2).scheduling_group("mine").owner("JobSet", "parent")

    kubectl_create(control_plane, namespace, raw)
    control_plane.wait_for(lambda: len(control_plane.pods(namespace)) == 2, 60, "the Pods of the Job")
    control_plane.scheduler_idle()
    groups = control_plane.api.get(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups").expect()
    assert groups["items"] == []
    assert control_plane.bound_pods(namespace) == []

    parent = workload("parent").controller("JobSet", "parent", "jobset.x-k8s.io")
    parent.template(pod_group_template("workers", 2))
    with running(control_plane, tmp_path):
        refused = kubectl_create(control_plane, namespace, {**raw, "metadata": {"name": "second"}}, check=False)
        kubectl_create(control_plane, namespace, parent.namespace(namespace).dict())
        kubectl_create(
            control_plane, namespace, pod_group("mine").gang(2).disruption("all").namespace(namespace).dict()
        )
        duplicate = kubectl_create(control_plane, namespace, child.namespace(namespace).dict(), check=False)
        allowed = kubectl_create(control_plane, namespace, own_group.namespace(namespace).dict())

    assert refused.returncode == 1
    assert 'spec.scheduling: stands beside schedulingGroup "nobody-makes-it"' in refused.stderr
    assert "[WAS311]" in refused.stderr
    assert duplicate.returncode == 1
    assert 'stands beside Workload "parent" of the Job\'s controller JobSet "parent"' in duplicate.stderr
    assert "[WAS311]" in duplicate.stderr
    assert "WAS" not in allowed.stderr
