"""Rights of the people who try `make cluster`: what an administrator of gangs gives the tenant of a namespace."""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.cluster import Cluster

_RBAC: Final = "rbac.authorization.k8s.io"
_EVERYTHING: Final = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
_READ: Final = ["get", "list", "watch"]

# Beside Kubernetes' own role `edit`, which knows Pods and Jobs and none of these.
GANGS: Final = "tenant-of-gangs"
# Cluster-scoped, and named in answers: classes to choose from, and what is left of a quota.
LIMITS: Final = "reader-of-limits"
_ROLES: Final = {
    GANGS: [
        {"apiGroups": [group], "resources": resources, "verbs": _EVERYTHING}
        for group, resources in (
            ("scheduling.k8s.io", ["workloads", "podgroups", "compositepodgroups"]),
            ("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"]),
            ("jobset.x-k8s.io", ["jobsets"]),
            ("leaderworkerset.x-k8s.io", ["leaderworkersets"]),
        )
    ],
    LIMITS: [
        {"apiGroups": [group], "resources": [resource], "verbs": _READ}
        for group, resource in (
            ("muster.dev", "tierquotas"),
            ("scheduling.k8s.io", "priorityclasses"),
            ("resource.k8s.io", "deviceclasses"),
        )
    ],
}


def make_tenant(cluster: Cluster, user: str, *namespaces: str) -> None:
    """edit, and everything of gangs, in these namespaces; and what they are measured by, to read. Safe to repeat."""
    for name, rules in _ROLES.items():
        cluster.api.create(_object("ClusterRole", name, rules=rules)).expect(201, 409)
    for namespace in namespaces:
        cluster.grant(user, namespace)
        cluster.grant(user, namespace, GANGS)
    binding = _object(
        "ClusterRoleBinding",
        f"{user}-{LIMITS}",
        roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": LIMITS},
        subjects=[{"apiGroup": _RBAC, "kind": "User", "name": user}],
    )
    cluster.api.create(binding).expect(201, 409)


def _object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": name}, **fields}
