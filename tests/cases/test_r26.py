"""R26: a group's name is used again while the old group, or its Pods, are still there. Warned about, never denied."""

from __future__ import annotations

from pathlib import Path

from tests.cases.support import kubectl_create, let_in, member, pod_group
from tests.cluster.cluster import Cluster
from tests.live.muster import running


def test_r26(control_plane: Cluster, namespace: str, tmp_path: Path) -> None:
    """The API server refuses the second group while the first is going; Muster says why, and warns a Pod that joins."""
    let_in(control_plane, namespace)
    kubectl_create(control_plane, namespace, pod_group("train", 2))
    kubectl_create(control_plane, namespace, member("train-0", "train"))
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/train"
    control_plane.api.delete(path).expect(200, 202)
    assert control_plane.api.get(path).expect()["metadata"]["deletionTimestamp"]  # its Pod holds it

    without = kubectl_create(control_plane, namespace, pod_group("train", 2), check=False)
    assert "AlreadyExists" in without.stderr
    joined = kubectl_create(control_plane, namespace, member("train-1", "train"))
    assert joined.stderr == ""

    with running(control_plane, tmp_path):
        again = kubectl_create(control_plane, namespace, pod_group("train", 2), check=False)
        joins = kubectl_create(control_plane, namespace, member("train-2", "train"))
        fresh = kubectl_create(control_plane, namespace, pod_group("train-2", 2))

    assert "denied" not in again.stderr
    assert "AlreadyExists" in again.stderr
    assert "[WAS218]" in again.stderr
    assert "[WAS218]" in joins.stderr
    assert fresh.stderr == ""
