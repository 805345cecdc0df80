"""R66: one Pod of a group names another scheduler. Unbound it does not count, bound it fails the whole group."""

from __future__ import annotations

from pathlib import Path

from tests.cases.support import condition, kubectl_create, let_in, member, pod_group
from tests.cluster.cluster import Cluster
from tests.cluster.plugin import NodesFactory
from tests.live.muster import running


def test_r66(control_plane: Cluster, namespace: str, nodes: NodesFactory, tmp_path: Path) -> None:
    """Without Muster the gang waits, and fails once the stranger is bound; with it the stranger is refused."""
    node = nodes(2)[0]
    let_in(control_plane, namespace)

    kubectl_create(control_plane, namespace, pod_group("without", 3))
    for index in range(2):
        kubectl_create(control_plane, namespace, member(f"without-{index}", "without"))
    kubectl_create(control_plane, namespace, member("stranger", "without", schedulerName="volcano"))
    control_plane.scheduler_idle()
    assert control_plane.bound_pods(namespace) == []
    assert condition(control_plane, namespace, "without") is None
    bind(control_plane, namespace, "stranger", node)
    seen = control_plane.wait_for(lambda: condition(control_plane, namespace, "without"), 60, "a word of the scheduler")
    assert seen["reason"] == "SchedulerError"
    assert "same .spec.schedulerName" in seen["message"]

    with running(control_plane, tmp_path):
        kubectl_create(control_plane, namespace, pod_group("with", 3))
        for index in range(2):
            kubectl_create(control_plane, namespace, member(f"with-{index}", "with"))
        stranger = member("with-2", "with", schedulerName="volcano")
        refused = kubectl_create(control_plane, namespace, stranger, check=False)
        kubectl_create(control_plane, namespace, pod_group("foreign", 2))
        first = kubectl_create(control_plane, namespace, member("foreign-0", "foreign", schedulerName="volcano"))
        second = kubectl_create(control_plane, namespace, member("foreign-1", "foreign", schedulerName="volcano"))

    assert refused.returncode == 1
    assert 'is "volcano", and "default-scheduler" for the 2 other Pods of PodGroup "with"' in refused.stderr
    assert "[WAS212]" in refused.stderr
    for warned in (first, second):
        assert "[WAS318]" in warned.stderr
        assert "[WAS212]" not in warned.stderr


def bind(cluster: Cluster, namespace: str, pod: str, node: str) -> None:
    """Plays the other scheduler."""
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body).expect(201)
