"""Min count above the Pods that can exist.

## What it checks
A gang whose group a controller makes from this object alone (a Job with `spec.scheduling`): minCount must not be
larger than the number of Pods that can exist at the same time. A Job never has more than
min(`parallelism`, `completions`) Pods; minCount follows `parallelism` where it is left out.

## Why
The scheduler of 1.37 holds a gang's Pods back until minCount of them exist. The Job controller never makes the
missing ones, so all Pods stay Pending for ever: without a condition, without an event, and without the Job ever
failing.
The API server compares minCount with `parallelism`, but not with `completions`.

`parallelism: 0` (a Job made paused) is no fault: 1.37 stores minCount 1 and lets it follow when `parallelism` grows.
Nor are `completions: 0` (the Job is done at once) and a work queue without `completions`.

## Fields read
`spec.parallelism`, `spec.completions`, `spec.scheduling.schedulingPolicy.gang.minCount`

## Allowed
```yaml
spec:
  parallelism: 8
  completions: 4
  scheduling: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
spec:
  parallelism: 8
  completions: 4
  scheduling: {schedulingPolicy: {gang: {}}}   # minCount becomes 8
```

## Fix
Set minCount to the number of Pods that can exist, or raise `completions`. A Job that runs already is never denied:
its Pods may have started before. Neither is one whose Pods another scheduler places, nor one with `manualSelector`,
which gets no group once it has adopted a Pod.

## References
KEP-5547 (WorkloadWithJob); pkg/controller/job/job_scheduling_manager.go of 1.37.2; case R03, R04
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.plan.model import GroupOrigin, PodSet
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules._schedulers import unless
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS101",
    name="min-count-above-pod-count",
    summary="a gang wants more Pods than can ever exist at the same time",
    kinds=frozenset({"Job"}),
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        pod_count = gang.group.pod_count
        if gang.group.origin is not GroupOrigin.CONTROLLER or pod_count is None or gang.min_count <= pod_count:
            continue
        if not all(_waits_or_is_done(pod_set, gang) for pod_set in gang.pod_sets):
            yield _finding(facts, gang, pod_count)


def _waits_or_is_done(pod_set: PodSet, gang: Gang) -> bool:
    """No Pods now is no fault: paused (minCount follows when it is scaled up), or a Job without work."""
    paused = pod_set.pod_count_declared == 0 and not gang.group.min_count_explicit
    return paused or pod_set.completions == 0


def _finding(facts: Facts, gang: Gang, pod_count: int) -> Finding:
    group = gang.group
    explicit = group.min_count_explicit
    limit_path, limit = _limit(group.pod_sets[0], pod_count)
    mine = "it" if explicit else f'"{group.min_count_path}"'
    # completions cannot be changed later, and parallelism is raised with minCount where that follows it.
    raised = f', or "{limit_path}" to {gang.min_count}' if facts.operation is Operation.CREATE else ""
    return Finding(
        field=group.min_count_path if explicit else group.pod_sets[0].pod_count_path,
        message=(
            f'{"is" if explicit else "makes minCount"} {gang.min_count}, but "{limit_path}" {limit} allows only '
            f"{plural(pod_count, 'Pod')}: 1.37 starts none of a gang before minCount exist, so {_who(facts)} stay Pending for ever, "
            f"without an event{unless(facts, gang.pod_sets)}"
        ),
        fix=f"set {mine} to {max(1, pod_count)} or less{raised}",
        seen=gang.min_count,
        limit=pod_count,
        excess=gang.min_count - pod_count,
        at_most=cap_on_update(facts, gang),
    )


def _who(facts: Facts) -> str:
    return "they" if facts.operation is Operation.CREATE else "those that do not run yet"


def _limit(pod_set: PodSet, pod_count: int) -> tuple[FieldPath | None, int | None]:
    """What allows no more Pods: the field and its value."""
    if pod_set.completions is not None and pod_set.completions == pod_count:
        return pod_set.completions_path, pod_set.completions
    return pod_set.pod_count_path, pod_set.pod_count_declared
