"""One flat min count over several roles.

## What it checks
Several roles of one object (of a JobSet, a LeaderWorkerSet) share one PodGroup whose minCount can be reached without
one of them.

## Why
A gang counts Pods and knows no roles. With a head, 10 CPU workers and 4 GPU workers, minCount 9 is reached by the
head and 8 CPU workers, while none of the GPU workers that the application needs has a place: what started holds its
nodes and waits.
It may also go well, so this is a warning.

Where roles start one after another this is the only way to share a group, and the rule says nothing.

## Fields read
`schedulingGroup` of the templates, the number of Pods of each role, the PodGroup's minCount

## Allowed
```yaml
# PodGroup "train": minCount 9
kind: JobSet
spec:
  replicatedJobs:
  - name: head
    template: {spec: {parallelism: 1, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
  - name: workers
    template: {spec: {parallelism: 8, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
```

## Denied
```yaml
# PodGroup "train": minCount 9
kind: JobSet
spec:
  replicatedJobs:
  - name: head
    template: {spec: {parallelism: 1, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
  - name: cpu
    template: {spec: {parallelism: 10, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
  - name: gpu
    template: {spec: {parallelism: 4, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
```

## Fix
Give each role its own PodGroup with its own minCount, under a CompositePodGroup whose minGroupCount is the number of
roles. Or set minCount to all Pods.

## References
k8s.io/api v0.37.2 scheduling/v1alpha3 CompositePodGroup; case R14
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import PodSet
from webhook.rules._gangs import Gang, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS118",
    name="mixed-roles-flat-min-count",
    summary="several roles share one minCount that can be reached without one of them",
    kinds=frozenset({"JobSet", "LeaderWorkerSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        pod_count = gang.group.pod_count
        if len(gang.pod_sets) < 2 or pod_count is None or any(p.starts_after for p in gang.pod_sets):
            continue
        missing = [p for p in gang.pod_sets if p.pod_count and pod_count - p.pod_count >= gang.min_count]
        if missing:
            yield _finding(gang, missing, pod_count)


def _finding(gang: Gang, missing: list[PodSet], pod_count: int) -> Finding:
    names = " or ".join(sorted(f'"{pod_set.role}"' for pod_set in missing)[:10])
    return Finding(
        field=gang.group.path,
        message=(
            f"{gang.title} starts with any {gang.min_count} of {pod_count} Pods: these may lack every Pod of {names}, hold "
            "their nodes and wait"
        ),
        fix=f"use a PodGroup for each role, or minCount {pod_count}",
        seen=gang.min_count,
        limit=pod_count,
    )
