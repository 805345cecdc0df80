"""What the benchmarks send: a member Pod, a gang Job and a JobSet of 20 roles, as AdmissionReviews, and their world."""

from __future__ import annotations

import json
from typing import Any

from tests.edge.reviews import Raw, review
from webhook.admission.pipeline import Pipeline
from webhook.policies import load_policy
from webhook.sources.folder import BUILT_IN_OBJECTS, ObjectSetSource

POD_REVIEW_BYTES = 2300
"""About the size of the review of a small member Pod, for comparison with earlier measurements."""


def _container(gpus: int) -> Raw:
    return {
        "name": "trainer",
        "image": "registry.internal/ml/trainer:2026-11-01",
        "command": ["torchrun", "--nproc-per-node=8", "train.py"],
        "env": [
            {"name": "NCCL_DEBUG", "value": "WARN"},
            {"name": "MASTER_PORT", "value": "29500"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ],
        "resources": {
            "limits": {"cpu": "96", "memory": "900Gi", "nvidia.com/gpu": str(gpus)},
            "requests": {"cpu": "96", "memory": "900Gi", "nvidia.com/gpu": str(gpus)},
        },
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }


def _pod_spec(gpus: int = 8) -> Raw:
    return {
        "containers": [_container(gpus)],
        "restartPolicy": "Never",
        "priorityClassName": "train-gold",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "fabric"}],
    }


def member_pod() -> Raw:
    """One Pod of the group "train", with what the API server has filled in by the validating phase."""
    filled = {
        "priority": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "schedulingGroup": {"podGroupName": "train"},
    }
    raw: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "namespace": "team-a",
            "uid": "1f1f6c0e-93b7-4d7e-8a27-0d3c6c2f9b11",
            "labels": {"app": "train", "muster.dev/group": "train"},
            "annotations": {"example.com/notes": ""},
        },
        "spec": _pod_spec() | filled,
    }
    raw["metadata"]["annotations"]["example.com/notes"] = "x" * (POD_REVIEW_BYTES - len(body(raw)))
    return raw


def job(name: str = "train", pods: int = 16) -> Raw:
    """A gang Job in one rack."""
    gang = {
        "schedulingPolicy": {"gang": {"minCount": pods}},
        "schedulingConstraints": {"topology": [{"key": "topo.example.com/rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "fabric"}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"app": name}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "scheduling": gang,
            "template": {"metadata": {"labels": {"app": name}}, "spec": _pod_spec()},
        },
    }


def jobset(roles: int = 20) -> Raw:
    """A JobSet with a group of its own for each role."""
    replicated = []
    for index in range(roles):
        spec = job(pods=4)["spec"]
        del spec["scheduling"]
        spec["template"]["spec"]["schedulingGroup"] = {"podGroupName": f"role-{index}"}
        replicated.append({"name": f"role-{index}", "replicas": 1, "template": {"spec": spec}})
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"replicatedJobs": replicated},
    }


def world() -> list[Raw]:
    """Everything that the three refer to."""

    def group(name: str, pods: int) -> Raw:
        return {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": pods}},
                "disruptionMode": {"single": {}},
                "priorityClassName": "train-gold",
                "priority": 1000,
                "preemptionPolicy": "PreemptLowerPriority",
                "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "fabric"}],
            },
        }

    return [
        *(dict(raw) for raw in BUILT_IN_OBJECTS),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "a"}}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "train-gold"},
            "value": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "fabric", "namespace": "team-a"},
            "spec": {"spec": {"devices": {"requests": [{"name": "n", "exactly": {"deviceClassName": "fabric"}}]}}},
        },
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "fabric"}, "spec": {}},
        group("train", 16),
        *(group(f"role-{index}", 4) for index in range(20)),
    ]


def body(raw: Raw) -> bytes:
    """The review of its creation, as compact JSON."""
    return json.dumps(review(raw), separators=(",", ":")).encode()


def pipeline(**more: Any) -> Pipeline:
    """The real rules with no policy of anybody's, over `world`."""
    return Pipeline(policies=lambda: _POLICY, source=ObjectSetSource(world(), complete=True), **more)


_POLICY = load_policy(())
