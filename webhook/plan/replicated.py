"""apps/v1 Deployment, ReplicaSet and StatefulSet -> GangPlan: equal Pods, grouped only by their own schedulingGroup."""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.plan.model import GangPlan, PodSet
from webhook.plan.parts import split_by_group, starting

ORDERED_READY = "OrderedReady"


def plan_deployment(api_version: str, namespace: str, obj: core.ReplicatedWorkload) -> GangPlan:
    """Never raises. maxSurge may add Pods for a while; they join the same group, so they never make it smaller."""
    return _plan("Deployment", api_version, namespace, obj, _pod_set(obj))


def plan_replica_set(api_version: str, namespace: str, obj: core.ReplicatedWorkload) -> GangPlan:
    """Never raises."""
    return _plan("ReplicaSet", api_version, namespace, obj, _pod_set(obj))


def plan_stateful_set(api_version: str, namespace: str, obj: core.ReplicatedWorkload) -> GangPlan:
    """Never raises. OrderedReady, the default, creates a Pod only when the one before is Ready: a gang of more than
    one such Pod waits for Pods that are never created."""
    pod_set = _pod_set(obj)
    if (obj.spec.pod_management_policy or ORDERED_READY) == ORDERED_READY:
        pod_set = starting(pod_set, after=(), condition=ORDERED_READY, path=SPEC / "podManagementPolicy")
    return _plan("StatefulSet", api_version, namespace, obj, pod_set)


def _pod_set(obj: core.ReplicatedWorkload) -> PodSet:
    replicas = 1 if obj.spec.replicas is None else max(0, obj.spec.replicas)
    return PodSet(
        role="",
        template=obj.spec.template,
        path=SPEC / "template",
        pod_count=replicas,
        pod_count_path=SPEC / "replicas",
        pod_count_declared=replicas,
        replicas=replicas,
    )


def _plan(kind: str, api_version: str, namespace: str, obj: core.ReplicatedWorkload, pod_set: PodSet) -> GangPlan:
    groups, loose = split_by_group((pod_set,))
    name = obj.metadata.name
    return GangPlan(kind=kind, api_version=api_version, namespace=namespace, name=name, groups=groups, pod_sets=loose)
