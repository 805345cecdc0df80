"""Two child Jobs on one group template.

## What it checks
Child Jobs of one parent that take their group from the parent's Workload (annotation
`scheduling.k8s.io/group-template-name`) must each name another template. A replicatedJob of a JobSet with more than one
replica breaks it, and so do two replicatedJobs with the same value, or two Jobs with one owner. An empty value is the
first template.

## Why
The Job controller of 1.37 calls the PodGroup after the Workload and the template, and after nothing of the Job. The
second Job finds the name taken by the first one's group, does not share it, and tries for ever: it never gets a Pod,
and no event says so. It is stuck as long as the first Job exists, finished or not. Where that may go (a sibling that is
there already, child Jobs with `ttlSecondsAfterFinished`) this warns.

Without the Workload 1.37 makes no group at all and both Jobs run, ungrouped (WAS312): then this warns only.

## Fields read
The annotation, `replicas`, `metadata.ownerReferences`; Workloads and Jobs of the namespace

## Allowed
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - {name: workers, replicas: 1, template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}}}
  - {name: drivers, replicas: 1, template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: drivers}}}}
```

## Denied
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - {name: workers, replicas: 2, template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}}}
```

## Fix
Give each child Job a template of its own. Or let all Pods name one PodGroup of your own by `schedulingGroup`: that
one may be shared.

## References
computePodGroupName in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import LeafGroup, PodSet
from webhook.plan.parts import GROUP_TEMPLATE_ANNOTATION
from webhook.rules._groups import view_of
from webhook.rules._names import quoted
from webhook.rules._owners import controller_of
from webhook.rules._rewrite import raw_at
from webhook.rules._traps import delegated_groups, job_gate_cap
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS128",
    name="delegated-jobs-share-template",
    summary="two child Jobs take their group from one template: the second one never starts",
    kinds=frozenset({"Job", "JobSet"}),
    operations=frozenset({"CREATE"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if isinstance(facts.obj, core.Job):
        yield from _siblings(facts, facts.obj)
    else:
        yield from _roles(facts)


def _roles(facts: Facts) -> Iterator[Finding]:
    """Of one JobSet: by template, how many child Jobs ask for it."""
    by_title: dict[str, list[LeafGroup]] = {}
    for group in delegated_groups(facts):
        view = view_of(facts, group).value
        # An empty name and the first template's are the same: the title says which template it is.
        by_title.setdefault(view.title if view else str(group.workload_template_name), []).append(group)
    for groups in by_title.values():
        counts = [1 if group.group_count is None else group.group_count for group in groups]
        if sum(counts) > 1:
            pod_sets = [pod_set for group in groups for pod_set in group.pod_sets]
            who = f"{sum(counts)} Jobs of {quoted(pod_set.role for pod_set in pod_sets)}"
            # A child Job that is deleted once it has ended makes room for the next one.
            goes = any(_ttl(facts, pod_set) is not None for pod_set in pod_sets)
            yield _finding(facts, groups[0], sum(counts), who, Action.WARN if goes else Action.DENY)


def _siblings(facts: Facts, job: core.Job) -> Iterator[Finding | Unresolved]:
    """Of one Job: the others that its owner has already."""
    for group in delegated_groups(facts):
        jobs = facts.surroundings.jobs(facts.namespace)
        if jobs.value is None:
            yield Unresolved(reason=f"the other Jobs of the owner: {jobs.unknown}", field=group.path)
            continue
        others = [other.metadata.name for other in jobs.value if _same_template(facts, job, other)]
        if others:
            # A sibling may end and be deleted, and then this one starts.
            yield _finding(facts, group, len(others) + 1, f"this Job and {quoted(others)}", Action.WARN)


def _same_template(facts: Facts, job: core.Job, other: core.Job) -> bool:
    """A Job that is going takes its group along, so its name will be free."""
    return (
        other.metadata.name != facts.name
        and other.metadata.deletion_timestamp is None
        and controller_of(other.metadata) == controller_of(job.metadata)
        and other.metadata.annotation(GROUP_TEMPLATE_ANNOTATION) == job.metadata.annotation(GROUP_TEMPLATE_ANNOTATION)
        and other.spec.template.spec.scheduling_group is None
    )


def _ttl(facts: Facts, pod_set: PodSet) -> object:
    """The child Job's `ttlSecondsAfterFinished`."""
    return raw_at(facts.raw, FieldPath(pod_set.path[:-1]) / "ttlSecondsAfterFinished")


def _finding(facts: Facts, group: LeafGroup, count: int, who: str, at_most: Action) -> Finding:
    cap = (job_gate_cap(facts) or Action.WARN).at_most(at_most)
    view = view_of(facts, group).value
    template = view.title if view else f'template "{group.workload_template_name}"'
    return Finding(
        field=group.path,
        message=(
            f"{who} make groups of one name, by {template}: while one exists, the next gets no Pod, without an event"
        ),
        fix="name another template for each child Job, or let all Pods name one PodGroup of your own by schedulingGroup",
        seen=count,
        limit=1,
        excess=count - 1,
        at_most=cap if view else Action.WARN,
    )
