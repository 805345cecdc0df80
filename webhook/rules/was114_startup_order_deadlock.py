"""Startup order deadlock.

## What it checks
One gang over Pods that are created one after another: roles of a JobSet with `dependsOn` or `startupPolicyOrder:
InOrder`, the workers of a LeaderWorkerSet with `startupPolicy: LeaderReady`, the Pods of a StatefulSet with
`podManagementPolicy:
OrderedReady` (its default). minCount must not be larger than the Pods that exist before the first wait ends.

## Why
A leader becomes Ready only when it runs, and it runs only when its gang starts. The gang starts only when minCount
Pods exist, and the others are created only when the leader is Ready. Neither side ever moves, and 1.37 says nothing.
A role that
waits for another to be Complete has the same trouble later: finished Pods no longer count.

Nothing stops other objects from joining a named group. The rule denies only where this object alone would fill the
gang, so that the group is plainly meant for it.

## Fields read
`dependsOn`, `startupPolicy`, `podManagementPolicy`, `schedulingGroup` of the templates, the PodGroup's minCount, the
number of Pods of each role

## Allowed
```yaml
# PodGroup "leaders": minCount 1, PodGroup "workers": minCount 2
kind: JobSet
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {parallelism: 1, template: {spec: {schedulingGroup: {podGroupName: leaders}}}}}
  - name: worker
    dependsOn: [{name: leader, status: Ready}]
    template: {spec: {parallelism: 2, template: {spec: {schedulingGroup: {podGroupName: workers}}}}}
```

## Denied
```yaml
# PodGroup "train": minCount 3
kind: JobSet
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {parallelism: 1, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
  - name: worker
    dependsOn: [{name: leader, status: Ready}]
    template: {spec: {parallelism: 2, template: {spec: {schedulingGroup: {podGroupName: train}}}}}
```

## Fix
One PodGroup for each role, or minCount at the number of Pods that come first, or no start order.

## References
jobset v0.11.1 pkg/controllers; lws v0.8.0 pkg/controllers; case R11
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.objects.words import plural
from webhook.plan.model import PodSet
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS114",
    name="startup-order-deadlock",
    summary="a gang waits for Pods that are created only after the gang has started",
    kinds=frozenset({"JobSet", "LeaderWorkerSet", "StatefulSet"}),
    gate="GenericWorkload",
)

ORDERED_READY = "OrderedReady"


def check(facts: Facts) -> Iterator[Finding]:
    found = list(gangs(facts))
    created, running = _start(tuple(facts.plan.all_pod_sets()), found)
    for gang in found:
        stuck = [p for p in gang.pod_sets if p.role in created and p.role not in running]
        if stuck and gang.filled_by_this_object:
            yield _finding(facts, gang, stuck[0], created)


def _start(pod_sets: tuple[PodSet, ...], found: list[Gang]) -> tuple[set[str], set[str]]:
    """The roles whose Pods are ever created, and those that ever run, if everything else goes as well as it can.

    Optimistic wherever something is not known, so that what does not run here can run nowhere.
    """
    by_role = {pod_set.role: pod_set for pod_set in pod_sets}
    gang_of = {pod_set.role: gang for gang in found for pod_set in gang.pod_sets}
    created: set[str] = set()
    running: set[str] = set()
    while True:
        before = len(created) + len(running)
        for role, pod_set in by_role.items():
            if all(other in running or other not in by_role for other in pod_set.starts_after):
                created.add(role)
        for role in created:
            gang = gang_of.get(role)
            if gang is None or _alive(gang, by_role[role], created, by_role) >= gang.min_count:
                running.add(role)
        if len(created) + len(running) == before:
            return created, running


def _alive(gang: Gang, pod_set: PodSet, created: set[str], by_role: dict[str, PodSet]) -> int:
    """Pods of the gang that can exist while `pod_set` waits to start."""
    finished = _finished_before(pod_set, by_role)
    return sum(
        _first_pods(other, gang) for other in gang.pod_sets if other.role in created and other.role not in finished
    )


def _first_pods(pod_set: PodSet, gang: Gang) -> int:
    """Pods of this set that exist before one of them is Ready."""
    if pod_set.pod_count is None:
        return gang.min_count
    return min(1, pod_set.pod_count) if pod_set.starts_condition == ORDERED_READY else pod_set.pod_count


def _finished_before(pod_set: PodSet, by_role: dict[str, PodSet]) -> set[str]:
    """Roles that must be Complete before this one's Pods are created: their Pods count no more."""
    finished: set[str] = set()
    waiting, seen = [pod_set], {pod_set.role}
    while waiting:
        current = waiting.pop()
        for role in current.starts_after:
            if current.starts_condition == "Complete":
                finished.add(role)
            if role in by_role and role not in seen:
                seen.add(role)
                waiting.append(by_role[role])
    return finished


def _finding(facts: Facts, gang: Gang, stuck: PodSet, created: set[str]) -> Finding:
    by_role = {pod_set.role: pod_set for pod_set in facts.plan.all_pod_sets()}
    alive = _alive(gang, stuck, created, by_role)
    late = next((p for p in gang.pod_sets if p.role not in created), stuck)
    if stuck.starts_condition == ORDERED_READY:
        order = f"a Pod is created when the one before is Ready ({ORDERED_READY})"
        cure = "set it to Parallel"
    elif late is stuck:
        order = f'"{stuck.role}" comes when {_list(stuck.starts_after)} is Complete, and finished Pods do not count'
        cure = "use one PodGroup for each role"
    else:
        order = f'"{late.role}" is created when {_list(late.starts_after)} is {late.starts_condition}'
        cure = "use one PodGroup for each role"
    # Neither a StatefulSet's policy nor the roles of a JobSet can be changed later.
    cure = f"{cure}, or " if facts.operation is Operation.CREATE else ""
    return Finding(
        field=late.starts_path or gang.group.path,
        message=(
            f"{gang.title} starts with {plural(gang.min_count, 'Pod')} at once, but before it has started only {alive} can exist: "
            f"{order}, so both wait for ever"
        ),
        fix=f"{cure}lower minCount of {gang.title} to {max(1, alive)}",
        seen=gang.min_count,
        limit=alive,
        excess=gang.min_count - alive,
        at_most=cap_on_update(facts, gang),
    )


def _list(roles: tuple[str, ...]) -> str:
    return ", ".join(f'"{role}"' for role in roles)
