"""A native gang for another scheduler.

## What it checks
Pods that ask for a native group (a gang of `spec.scheduling`, or a `schedulingGroup`) and have a `schedulerName` that
the policy's `cluster.schedulers` does not list, or the annotation by which Volcano and its kin group Pods
(`scheduling.k8s.io/group-name`).

## Why
PodGroups are kube-scheduler's. Another scheduler binds the Pods one by one, or by a group of its own, and the native
group never takes effect; a member that it binds makes kube-scheduler refuse the rest of a mixed group.

## Fields read
`schedulerName` and annotations of the Pod templates in a group; `cluster.schedulers` of the policy.

## Allowed
```yaml
kind: Job
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {schedulerName: default-scheduler}}
```

## Denied
```yaml
kind: Job
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {schedulerName: volcano}}
```

## Fix
Use a scheduler that knows native groups, or the gang of that scheduler instead. If it is a profile of kube-scheduler,
its name belongs into `cluster.schedulers`.

## References
k8s.io/kubernetes v1.37.2 pkg/scheduler/schedule_one_podgroup.go validatePodGroup.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_own_word
from webhook.plan.model import PodSet
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS318",
    name="foreign-scheduler",
    summary="Pods of a native group that another scheduler places",
    kinds=frozenset({"Pod", "Job", "CronJob", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)

VOLCANO_GROUP = "scheduling.k8s.io/group-name"


def check(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.leaf_groups():
        if is_own_word(group):
            for pod_set in group.pod_sets:
                yield from _of(facts, pod_set)


def _of(facts: Facts, pod_set: PodSet) -> Iterator[Finding]:
    name = pod_set.template.spec.scheduler_name
    known = facts.policy.spec.cluster.schedulers
    if not facts.policy.knows_scheduler(name):
        yield Finding(
            field=pod_set.spec_path / "schedulerName",
            message=(
                f'"{name}" is not in the policy\'s cluster.schedulers ({quoted(known)}): it places the Pods without regard to '
                "their PodGroup"
            ),
            fix="use one of these, or its own gang, or have a kube-scheduler profile added there",
            seen=name,
            limit=sorted(known),
        )
    group_name = pod_set.template.metadata.annotation(VOLCANO_GROUP)
    if group_name is not None:
        yield Finding(
            field=pod_set.path / "metadata" / "annotations" / VOLCANO_GROUP,
            message=(
                f'puts the Pods into group "{group_name}" of another scheduler, beside their PodGroup: neither scheduler '
                "goes by the other's group"
            ),
            fix="keep one of the two",
            seen=group_name,
        )
