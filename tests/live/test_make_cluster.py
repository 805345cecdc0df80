"""What `make cluster` adds to a control plane."""

from __future__ import annotations

from tests.cluster.cluster import Cluster
from tests.live.__main__ import deleted_pods_removed


def test_a_deleted_pod_with_a_node_goes_away(control_plane: Cluster) -> None:
    """Without a kubelet it would stay Terminating, and its TierQuota would never get anything back."""
    namespace = control_plane.new_namespace()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placed"},
        "spec": {"nodeName": "some-node", "containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }
    control_plane.api.create(pod, namespace).expect(201)
    control_plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/placed").expect(200)
    assert [one["metadata"]["name"] for one in control_plane.pods(namespace)] == ["placed"]

    with deleted_pods_removed(control_plane):
        control_plane.wait_for(lambda: not control_plane.pods(namespace), 30, "the deleted Pod to go")
