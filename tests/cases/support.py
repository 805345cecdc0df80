"""What the cases on the real control plane share: small objects, kubectl as a tenant, the scheduler's word."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.cluster.cluster import Cluster

TENANT = "alice"
Raw = dict[str, Any]


def pod_group(name: str, min_count: int, **spec: Any) -> Raw:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": {"all": {}}, **spec},
    }


def member(name: str, group: str, **spec: Any) -> Raw:
    """A bare Pod in a PodGroup, labelled with its name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"group": group}},
        "spec": {
            "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "main", "image": "pause:3.10"}],
            **spec,
        },
    }


def let_in(cluster: Cluster, namespace: str) -> None:
    """The tenant may edit the namespace. The role `edit` gets the verbs on PodGroups by aggregation, a moment after the
    control plane has started."""
    cluster.grant(TENANT, namespace)

    def allowed() -> bool:
        words = ("auth", "can-i", "create", "podgroups.scheduling.k8s.io", "-n", namespace)
        return cluster.kubectl(*words, user=TENANT, check=False).returncode == 0

    cluster.wait_for(allowed, 60, "the tenant's rights on PodGroups")


def kubectl_create(
    cluster: Cluster, namespace: str, raw: Mapping[str, Any], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """``kubectl create`` as the tenant: what stands on the terminal is in stdout and stderr."""
    return cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(raw), user=TENANT, check=check)


def condition(cluster: Cluster, namespace: str, group: str) -> Raw | None:
    """The PodGroup's condition `PodGroupInitiallyScheduled`, None as long as the scheduler has said nothing."""
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/{group}"
    conditions = (cluster.api.get(path).expect().get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == "PodGroupInitiallyScheduled"), None)
