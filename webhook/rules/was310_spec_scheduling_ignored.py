"""Scheduling settings that 1.37 does not act on.

## What it checks
`spec.scheduling` in a CronJob's job template, of a Job with a controller owner, and of a Job with a foreign
`managedBy`; the annotation `scheduling.k8s.io/group-template-name` on a Job without a controller owner. What a JobSet
writes is WAS322, what two writers write is WAS311.

## Why
The Job controller of 1.37 makes groups for root Jobs and for delegated ones, and for nothing else. A gang written
elsewhere is stored and silently ignored: the Pods start one by one, in any domain, and a "gang" of 17 in a rack of 16
runs. Nothing hangs, so this warns; a policy may make it a denial.

## Fields read
`spec.scheduling`, `spec.jobTemplate.spec.scheduling`, `spec.managedBy`, `metadata.ownerReferences`, the annotation.

## Allowed
```yaml
kind: CronJob
spec: {jobTemplate: {spec: {template: {spec: {schedulingGroup: {podGroupName: nightly}}}}}}
```

## Denied
```yaml
kind: CronJob
spec: {jobTemplate: {spec: {scheduling: {schedulingPolicy: {gang: {}}}}}}
```

## Fix
Name a PodGroup of your own in the Pod template's `schedulingGroup`, or remove the setting.

## References
k8s.io/kubernetes v1.37.2 pkg/controller/job/job_scheduling_manager.go getManagementMode.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.plan.parts import JOB_CONTROLLER, foreign_manager
from webhook.rules._jobs import job_parts
from webhook.rules._owners import controller_of, workloads_of
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS310",
    name="spec-scheduling-ignored",
    summary="scheduling settings where 1.37 does not act on them",
    kinds=frozenset({"Job", "CronJob"}),
    default_action=Action.WARN,
    gate="WorkloadWithJob",
)

_FIX = "remove it, or name a PodGroup of your own by schedulingGroup"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if isinstance(facts.obj, core.Job) and _is_duplicate(facts, facts.obj):
        return
    for part in job_parts(facts.obj):
        manager = foreign_manager(part.spec.managed_by, JOB_CONTROLLER)
        if manager and part.spec.scheduling is not None:
            yield Finding(
                field=part.scheduling_path,
                message=(
                    f'is for the built-in Job controller, and {SPEC / "managedBy"} gives the Job to "{manager}": no '
                    "Workload and no PodGroup is made in this cluster"
                ),
                fix=f'remove it unless "{manager}" is documented to act on it',
                seen=manager,
                limit=JOB_CONTROLLER,
            )
        elif part.names_group:
            return  # WAS311
    for ignored in facts.plan.ignored:
        yield Finding(field=ignored.path, message=f"has no effect: {ignored.why}", fix=_FIX)


def _is_duplicate(facts: Facts, job: core.Job) -> bool:
    """Is the Job one that WAS311 has a stronger word on?"""
    owner = controller_of(job.metadata)
    if owner is None or job.spec.scheduling is None:
        return False
    return bool(workloads_of(facts, owner).value)
