"""leaderworkerset.x-k8s.io/v1 LeaderWorkerSet -> GangPlan.

A LeaderWorkerSet makes `replicas` leader Pods and for each of them `size - 1` workers (StatefulSets with Parallel Pod
management, lws v0.8.0 pkg/controllers). Templates are plain text: a schedulingGroup in one of them puts the Pods of
all replicas into the same PodGroup. No Job is involved, so no controller of 1.37 makes a group for it.
"""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.plan.model import GangPlan, PodSet
from webhook.plan.parts import split_by_group, starting

LEADER = "leader"
WORKER = "worker"


def plan_leader_worker_set(api_version: str, namespace: str, lws: core.LeaderWorkerSet) -> GangPlan:
    """Never raises."""
    spec = lws.spec
    at = SPEC / "leaderWorkerTemplate"
    templates = spec.leader_worker_template
    replicas = 1 if spec.replicas is None else max(0, spec.replicas)
    size = 1 if templates.size is None else templates.size
    own_leader = templates.leader_template
    pod_sets = [
        PodSet(
            role=LEADER,
            template=templates.worker_template if own_leader is None else own_leader,
            path=at / ("workerTemplate" if own_leader is None else "leaderTemplate"),
            pod_count=replicas,
            pod_count_path=SPEC / "replicas",
            pod_count_declared=replicas,
            replicas=replicas,
        )
    ]
    if size > 1:
        workers = PodSet(
            role=WORKER,
            template=templates.worker_template,
            path=at / "workerTemplate",
            pod_count=replicas * (size - 1),
            pod_count_path=at / "size",
            pod_count_declared=size,
            replicas=replicas,
            ranks=size - 1,
        )
        if spec.startup_policy == "LeaderReady":
            workers = starting(workers, after=(LEADER,), condition="Ready", path=SPEC / "startupPolicy")
        pod_sets.append(workers)
    groups, loose = split_by_group(pod_sets)
    return GangPlan(
        kind="LeaderWorkerSet",
        api_version=api_version,
        namespace=namespace,
        name=lws.metadata.name,
        groups=groups,
        pod_sets=loose,
    )
