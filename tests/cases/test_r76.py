"""R76: a Pod's claim that is almost the group's. It runs, with a claim for each Pod while the group's stays unused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.support import Raw, kubectl_create, let_in, member, pod_group
from tests.cluster.cluster import Cluster
from tests.live.muster import running

GROUP_CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
NEAR_MISSES = [
    ({"name": "gpu", "resourceClaimTemplateName": "two-gpus"}, "resourceClaimTemplateName"),
    ({"name": "gpus", "resourceClaimTemplateName": "one-gpu"}, "name"),
    ({"name": "gpu", "resourceClaimName": "one-gpu"}, "resourceClaimName"),
]


@pytest.fixture
def claims(control_plane: Cluster, namespace: str) -> str:
    """The namespace, with a DeviceClass and two claim templates."""
    let_in(control_plane, namespace)
    device_class: Raw = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}}
    control_plane.api.create({**device_class, "metadata": {"name": "r76.example.com"}}).expect(201, 409)
    for name, count in (("one-gpu", 1), ("two-gpus", 2)):
        exactly = {"deviceClassName": "r76.example.com", "count": count}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        template: Raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
        control_plane.api.create({**template, "metadata": {"name": name}}, namespace).expect(201)
    return namespace


def test_r76(control_plane: Cluster, claims: str, tmp_path: Path) -> None:
    """Without Muster each Pod gets a claim of its own; with it each near miss is refused, with the field that differs."""
    namespace = claims
    create_gang(control_plane, namespace, "exact", GROUP_CLAIM)
    create_gang(control_plane, namespace, "near", {"name": "gpus", "resourceClaimTemplateName": "one-gpu"})
    control_plane.wait_for(lambda: len(owners(control_plane, namespace)) == 4, 60, "the claims to be generated")
    assert owners(control_plane, namespace) == [
        "Pod near-0",
        "Pod near-1",
        "PodGroup exact",
        "PodGroup near",
    ]

    with running(control_plane, tmp_path):
        kubectl_create(control_plane, namespace, pod_group("with", 2, resourceClaims=[GROUP_CLAIM]))
        answers = [
            kubectl_create(control_plane, namespace, member("with-0", "with", resourceClaims=[claim]), check=False)
            for claim, _ in NEAR_MISSES
        ]
        scratch = {"name": "scratch", "resourceClaimTemplateName": "two-gpus"}
        allowed = kubectl_create(
            control_plane, namespace, member("with-1", "with", resourceClaims=[GROUP_CLAIM, scratch])
        )
        omitted = kubectl_create(control_plane, namespace, member("with-2", "with"))

    for (_, field), answer in zip(NEAR_MISSES, answers, strict=True):
        assert answer.returncode == 1
        assert f"spec.resourceClaims[0].{field}: " in answer.stderr
        assert "[WAS201]" in answer.stderr
    assert "WAS2" not in allowed.stderr
    assert "[WAS202]" in omitted.stderr


def create_gang(cluster: Cluster, namespace: str, name: str, claim: dict[str, Any]) -> None:
    kubectl_create(cluster, namespace, pod_group(name, 2, resourceClaims=[GROUP_CLAIM]))
    for index in range(2):
        kubectl_create(cluster, namespace, member(f"{name}-{index}", name, resourceClaims=[claim]))


def owners(cluster: Cluster, namespace: str) -> list[str]:
    """Who owns the ResourceClaims of the namespace, sorted."""
    items = cluster.api.get(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims").expect()["items"]
    refs = [ref for item in items for ref in item["metadata"].get("ownerReferences") or [] if ref.get("controller")]
    return sorted(f"{ref['kind']} {ref['name']}" for ref in refs)
