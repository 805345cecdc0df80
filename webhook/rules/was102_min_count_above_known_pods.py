"""Min count above the Pods this object brings.

## What it checks
Pods that name a PodGroup by `schedulingGroup` ("bring your own group"): the group's minCount against the Pods that
this object brings. In `muster review --complete` against all Pods of the set that name the group.

## Why
The scheduler of 1.37 holds a gang's Pods back until minCount of them exist, and says nothing while it waits. Several
objects may share one group: two Jobs of 2 Pods and minCount 4 start once both are there. So one object that brings
too few
Pods is worth a warning and never a denial: a denial would let neither of them in. When the set is declared complete,
nobody else brings the rest, and the gang can never start.

## Fields read
`schedulingGroup` of the Pod templates, the PodGroup's `spec.schedulingPolicy.gang.minCount`, and the number of Pods
(`parallelism`, `completions`, `replicas`, `size`)

## Allowed
```yaml
# PodGroup "train": schedulingPolicy: {gang: {minCount: 4}}
kind: Job
spec:
  parallelism: 4
  template: {spec: {schedulingGroup: {podGroupName: train}}}
```

## Denied
```yaml
# PodGroup "train": schedulingPolicy: {gang: {minCount: 5}}; a warning, and in review of a complete set a denial
kind: Job
spec:
  parallelism: 4
  template: {spec: {schedulingGroup: {podGroupName: train}}}
```

## Fix
Lower the PodGroup's minCount (it may be changed at any time), or bring more Pods.

## References
pkg/scheduler/framework/plugins/gangscheduling of 1.37.2 (AllPodsCount); case R21
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import plural
from webhook.plan.model import GroupOrigin, PolicyKind
from webhook.rules._gangs import Gang, gangs
from webhook.rules._members import pods_in_set
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS102",
    name="min-count-above-known-pods",
    summary="a PodGroup wants more Pods than the objects that name it bring",
    kinds=frozenset(
        {"Job", "CronJob", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet", "PodGroup"}
    ),
    operations=frozenset({"CREATE"}),
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted:
        return  # what a controller makes of an object that was judged already
    if facts.kind == "PodGroup":
        yield from _group_in_complete_set(facts)
        return
    for gang in gangs(facts):
        pod_count = gang.group.pod_count
        if gang.shared and pod_count is not None and pod_count < gang.min_count:
            yield from _object_brings_too_few(facts, gang, pod_count)


def _object_brings_too_few(facts: Facts, gang: Gang, pod_count: int) -> Iterator[Finding]:
    name = gang.group.name or ""
    in_set = pods_in_set(facts, name)
    if in_set is not None and in_set >= gang.min_count:
        return
    proven = in_set is not None
    rest = (
        f"all objects given together {in_set}: none ever starts, and no event says so"
        if proven
        else "1.37 starts none before others bring the rest, and no event says so"
    )
    yield Finding(
        field=gang.group.path,
        message=(
            f"{gang.title} has minCount {gang.min_count}, and this {facts.kind} brings {plural(pod_count, 'Pod')}"
            f"{', ' if proven else ': '}{rest}"
        ),
        fix=f"lower minCount of {gang.title} to {max(1, in_set or pod_count)}, or bring more Pods",
        seen=in_set if in_set is not None else pod_count,
        limit=gang.min_count,
        at_most=gang.at_most if proven else Action.WARN,
    )


def _group_in_complete_set(facts: Facts) -> Iterator[Finding]:
    """The PodGroup itself, in a set that holds all who name it. A group that nobody names keeps nobody waiting."""
    for group in facts.plan.leaf_groups():
        if group.origin is not GroupOrigin.ITSELF or group.policy is not PolicyKind.GANG or group.min_count is None:
            continue
        in_set = pods_in_set(facts, group.name or "")
        if in_set and in_set < group.min_count:
            yield Finding(
                field=group.min_count_path,
                message=f"is {group.min_count}, and all objects given together bring {plural(in_set, 'Pod')} that name the group: "
                "none ever starts, and no event says so",
                fix=f"set it to {in_set} or less, or add Pods that name the group",
                seen=in_set,
                limit=group.min_count,
            )
