"""One adapter per kind: typed object -> GangPlan. The table below is the list of kinds Muster understands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webhook.objects import core
from webhook.plan.compositepodgroup import plan_composite_pod_group
from webhook.plan.job import plan_cronjob, plan_job
from webhook.plan.jobset import plan_jobset
from webhook.plan.leaderworkerset import plan_leader_worker_set
from webhook.plan.model import GangPlan
from webhook.plan.pod import plan_pod
from webhook.plan.podgroup import plan_pod_group
from webhook.plan.replicated import plan_deployment, plan_replica_set, plan_stateful_set
from webhook.plan.workload import plan_workload

# (api_version, namespace, object) -> plan. Each adapter takes the typed object of its row in objects.kinds.
Adapter = Callable[[str, str, Any], GangPlan]

ADAPTERS: dict[str, Adapter] = {
    "Pod": plan_pod,
    "Job": plan_job,
    "CronJob": plan_cronjob,
    "Deployment": plan_deployment,
    "ReplicaSet": plan_replica_set,
    "StatefulSet": plan_stateful_set,
    "JobSet": plan_jobset,
    "LeaderWorkerSet": plan_leader_worker_set,
    "Workload": plan_workload,
    "PodGroup": plan_pod_group,
    "CompositePodGroup": plan_composite_pod_group,
}


def plan_of(kind: str, api_version: str, namespace: str, obj: core.Base) -> GangPlan:
    """The plan of an object; a kind without adapter has an empty plan. Never raises for a readable object."""
    adapter = ADAPTERS.get(kind)
    if adapter is None:
        metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
        return GangPlan(kind=kind, api_version=api_version, namespace=namespace, name=metadata.name)
    return adapter(api_version, namespace, obj)
