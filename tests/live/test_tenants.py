"""`make cluster`: alice, the tenant, may do in her namespace what a tenant does, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.crds import CRD_PROBES
from tests.live.quota_cluster import CRD_FILE
from tests.live.tenants import make_tenant

MAY = [
    ("create", "jobs.batch"),
    ("delete", "pods"),
    ("create", "workloads.scheduling.k8s.io"),
    ("patch", "podgroups.scheduling.k8s.io"),
    ("create", "compositepodgroups.scheduling.k8s.io"),
    ("create", "resourceclaimtemplates.resource.k8s.io"),
    ("create", "jobsets.jobset.x-k8s.io"),
    ("create", "leaderworkersets.leaderworkerset.x-k8s.io"),
    ("get", "tierquotas.muster.dev"),
    ("list", "priorityclasses.scheduling.k8s.io"),
]
MAY_NOT = [
    ("create", "tierquotas.muster.dev"),
    ("create", "priorityclasses.scheduling.k8s.io"),
    ("list", "nodes"),
    ("create", "rolebindings.rbac.authorization.k8s.io"),
]


@pytest.fixture
def tenancy(control_plane: Cluster, new_namespace: Callable[..., str]) -> tuple[Cluster, str, str]:
    """A cluster, alice's namespace, and one that is not hers."""
    control_plane.install_crds("jobset", "lws")
    control_plane.kubectl("apply", "-f", str(CRD_FILE))
    own, other = new_namespace("own"), new_namespace("other")
    make_tenant(control_plane, "alice", own)
    control_plane.wait_for(lambda: may(control_plane, own, "patch", "podgroups.scheduling.k8s.io"), 30, "the rights")
    return control_plane, own, other


def may(cluster: Cluster, namespace: str, verb: str, resource: str) -> bool:
    """By the API server's own word on alice."""
    said = cluster.kubectl("auth", "can-i", verb, resource, "-n", namespace, user="alice", check=False)
    return said.stdout.strip() == "yes"


def test_a_tenant_has_what_gangs_are_made_of(tenancy: tuple[Cluster, str, str]) -> None:
    """In her own namespace only, and limits to read."""
    cluster, own, other = tenancy

    assert [right for right in MAY if not may(cluster, own, *right)] == []
    assert [right for right in MAY_NOT if may(cluster, own, *right)] == []
    assert [right for right in MAY[:8] if may(cluster, other, *right)] == []


@pytest.mark.parametrize("name", sorted(CRD_PROBES))
def test_a_tenant_creates_what_the_examples_are(tenancy: tuple[Cluster, str, str], name: str) -> None:
    """A JobSet and a LeaderWorkerSet by her own hand."""
    cluster, own, _ = tenancy

    assert cluster.api_as("alice").create(CRD_PROBES[name].manifest, own).status == 201
