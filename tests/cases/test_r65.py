"""R65: Pods and their group disagree on priority. One Pod fails the whole group for ever; Muster refuses that Pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.support import condition, kubectl_create, let_in, member, pod_group
from tests.cluster.cluster import Cluster
from tests.cluster.plugin import NodesFactory
from tests.live.muster import running


def test_r65(control_plane: Cluster, namespace: str, nodes: NodesFactory, tmp_path: Path) -> None:
    """Without Muster the group gets SchedulerError; with it the Pod is refused, and an equal number is let in."""
    nodes(2)
    for name, value in (("r65-gold", 1000), ("r65-bronze", 100), ("r65-gold-batch", 1000)):
        create_class(control_plane, name, value)
    let_in(control_plane, namespace)

    kubectl_create(control_plane, namespace, pod_group("without", 2, priorityClassName="r65-gold"))
    kubectl_create(control_plane, namespace, member("without-0", "without", priorityClassName="r65-gold"))
    kubectl_create(control_plane, namespace, member("without-1", "without", priorityClassName="r65-bronze"))
    seen = control_plane.wait_for(lambda: condition(control_plane, namespace, "without"), 60, "a word of the scheduler")
    assert seen["reason"] == "SchedulerError"
    assert "same priority as the pod group's priority" in seen["message"]
    assert control_plane.bound_pods(namespace) == []

    with running(control_plane, tmp_path):
        kubectl_create(control_plane, namespace, pod_group("with", 2, priorityClassName="r65-gold"))
        refused = kubectl_create(
            control_plane, namespace, member("with-0", "with", priorityClassName="r65-bronze"), check=False
        )
        kubectl_create(control_plane, namespace, member("with-1", "with", priorityClassName="r65-gold"))
        kubectl_create(control_plane, namespace, member("with-2", "with", priorityClassName="r65-gold-batch"))

    assert refused.returncode == 1
    assert "denied the request" in refused.stderr
    assert 'gives the Pods priority 100 (PriorityClass "r65-bronze"), PodGroup "with" has 1000' in refused.stderr
    assert "[WAS211]" in refused.stderr
    control_plane.wait_for(
        lambda: len(control_plane.bound_pods(namespace, "group=with")) == 2, 60, "the equal numbers to be placed"
    )


def create_class(cluster: Cluster, name: str, value: int) -> None:
    raw: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    cluster.api.create(raw).expect(201, 409)
