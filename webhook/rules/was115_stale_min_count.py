"""Stale min count after a scale.

## What it checks
UPDATE of an object whose Pods name a PodGroup: fewer Pods than the group's minCount after the change and enough
before it, or more Pods that the application waits for than the group starts with. And UPDATE of minCount on a
PodGroup that a Job's
controller made from the Job.

## Why
A PodGroup that Pods only name does not follow the object's size. After scaling down, the next Pod that has to be
replaced waits for minCount Pods that no longer exist. After scaling up, the gang may start with fewer Pods than the
application
waits for. In 1.37 minCount of a PodGroup may be changed at any time, but the Job controller puts back what somebody
writes into the PodGroup of a Job: there the Job is the place.

## Fields read
The number of Pods before and after, the application's barrier, the PodGroup's minCount and owner

## Allowed
```yaml
# PodGroup "train": minCount 4
kind: Deployment
spec: {replicas: 5, template: {spec: {schedulingGroup: {podGroupName: train}}}}    # replicas were 11
```

## Denied
```yaml
# PodGroup "train": minCount 11
kind: Deployment
spec: {replicas: 5, template: {spec: {schedulingGroup: {podGroupName: train}}}}    # replicas were 11: a warning
```

## Fix
Patch the named object's minCount: the PodGroup where the group is bare, the Job's
`spec.scheduling.schedulingPolicy.gang.minCount` where the Job owns it.

## References
pkg/controller/job/job_scheduling_manager.go of 1.37.2 (syncGangMinCount); case R15, R16
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.words import plural
from webhook.plan.barrier import read_barrier
from webhook.plan.model import PodSet
from webhook.rules._barriers import needed_pods
from webhook.rules._gangs import Gang, gangs, pod_count_in
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS115",
    name="stale-min-count",
    summary="a scale leaves the minCount of a named PodGroup behind, or a patch goes to the wrong object",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet", "PodGroup"}),
    operations=frozenset({"UPDATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted or facts.old_plan is None:
        return
    if isinstance(facts.obj, core.PodGroup):
        yield from _patched_in_the_wrong_place(facts, facts.obj)
        return
    for gang in gangs(facts):
        if gang.shared:
            yield from _fewer_pods(facts, gang)
            yield from _larger_application(facts, gang)


def _fewer_pods(facts: Facts, gang: Gang) -> Iterator[Finding]:
    name = gang.group.name or ""
    before = pod_count_in(facts.old_plan.leaf_groups(), name) if facts.old_plan else None
    after = gang.group.pod_count
    if before is None or after is None or not after < gang.min_count <= before:
        return
    yield Finding(
        field=_changed(facts, gang).pod_count_path,
        message=(
            f'the PodGroup "{name}" still has minCount {gang.min_count}, and only {after} of {before} Pods will exist: one '
            "that has to be replaced stays Pending for ever"
        ),
        fix=f"patch minCount of {gang.title} to {max(1, after)} or less",
        seen=after,
        limit=gang.min_count,
        excess=gang.min_count - after,
    )


def _larger_application(facts: Facts, gang: Gang) -> Iterator[Finding]:
    """More Pods, or a larger barrier, than the stored gang starts with."""
    needed = needed_pods(facts, gang)
    if needed is None or facts.old_plan is None or facts.old is None:
        return
    wanted, barrier = needed
    old_sets = [p for group in facts.old_plan.leaf_groups() if group.name == gang.group.name for p in group.pod_sets]
    old_metadata: core.ObjectMeta = getattr(facts.old, "metadata", core.ObjectMeta())
    same_size = [p.pod_count for p in old_sets] == [p.pod_count for p in gang.pod_sets]
    if gang.min_count >= wanted.minimum or (same_size and read_barrier(old_sets, old_metadata) == barrier):
        return
    yield Finding(
        field=_changed(facts, gang).pod_count_path,
        reason="stored gang below the barrier",
        message=(
            f"{gang.title} still starts with {plural(gang.min_count, 'Pod')}, and the application waits for {wanted.minimum} "
            f"({barrier.text}): what starts holds its nodes and waits for the rest"
        ),
        fix=f"patch minCount of {gang.title} to {wanted.minimum}",
        seen=gang.min_count,
        limit=wanted.minimum,
        excess=wanted.minimum - gang.min_count,
    )


def _changed(facts: Facts, gang: Gang) -> PodSet:
    """The Pod set whose number went down."""
    old = {p.role: p.pod_count for p in facts.old_plan.all_pod_sets()} if facts.old_plan else {}
    return next((p for p in gang.pod_sets if p.pod_count != old.get(p.role)), gang.pod_sets[0])


def _patched_in_the_wrong_place(facts: Facts, pod_group: core.PodGroup) -> Iterator[Finding]:
    owner = pod_group.metadata.controller()
    old = facts.old
    if owner is None or owner.kind != "Job" or not isinstance(old, core.PodGroup):
        return
    # Only the group of a root Job is kept in step; a delegated one is not, and has no Workload among its owners.
    if not any(reference.kind == "Workload" for reference in pod_group.metadata.owner_references or ()):
        return
    new_gang, old_gang = pod_group.spec.scheduling_policy.gang, old.spec.scheduling_policy.gang
    if new_gang is None or old_gang is None or new_gang.min_count == old_gang.min_count:
        return
    group = next(iter(facts.plan.leaf_groups()))
    yield Finding(
        field=group.min_count_path,
        reason="min count patched in the wrong place",
        message=(
            f'this group is made from Job "{owner.name}", whose controller will put minCount {old_gang.min_count} '
            f"back in place of {new_gang.min_count}"
        ),
        fix=f'patch "spec.scheduling.schedulingPolicy.gang.minCount" of Job "{owner.name}" instead',
        seen=new_gang.min_count,
        limit=old_gang.min_count,
    )
