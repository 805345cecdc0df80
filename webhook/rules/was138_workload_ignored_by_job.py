"""A Workload that its Job does not use.

## What it checks
A Workload whose controllerRef is a Job that the Job controller makes a Workload of its own for: a Job without a
controller owner whose Pods name no PodGroup. Seen from both sides, when the Job or when the Workload is created.

## Why
With WorkloadWithJob on, the Job controller of 1.37 takes only a Workload that it made itself. One that somebody wrote
for the Job is accepted and passed over: the Job gets a second Workload and runs by its own `spec.scheduling`, as a
basic group if there is none. A gang, a topology key or a claim in the written Workload is silently lost.

## Fields read
`spec.controllerRef` of Workloads; owner, `managedBy` and `schedulingGroup` of the Job

## Allowed
```yaml
kind: Job
metadata: {name: train}
spec: {scheduling: {schedulingPolicy: {gang: {}}}, ...}     # and no Workload by hand
```

## Denied
```yaml
kind: Workload
spec:
  controllerRef: {apiGroup: batch, kind: Job, name: train}
  podGroupTemplates: [{name: workers, schedulingPolicy: {gang: {minCount: 4}}}]
---
kind: Job
metadata: {name: train}
spec: {...}                                                 # runs as a basic group
```

## Fix
Say it in the Job's `spec.scheduling`. Or make the PodGroup as well, and let the Job's Pods name it by
`schedulingGroup`.

## References
getOrCreateWorkload in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import METADATA, SPEC, FieldPath
from webhook.rules._names import quoted
from webhook.rules._owners import Owner, controller_of, controller_ref, workloads_of
from webhook.rules._traps import gets_own_group, own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS138",
    name="workload-ignored-by-job",
    summary="a Workload written for a Job that makes its own: what it asks for is lost",
    kinds=frozenset({"Job", "Workload"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if isinstance(facts.obj, core.Workload):
        yield from _of_workload(facts, facts.obj)
    elif own_group(facts) is not None and facts.name:
        job = Owner("batch", "Job", facts.name)
        looked = workloads_of(facts, job)
        if looked.value is None:
            yield Unresolved(reason=f"whether a Workload stands for the Job: {looked.unknown}")
            return
        written = [item.metadata.name for item in looked.value if controller_of(item.metadata) != job]
        if written:
            what = (
                f"this Job gets a Workload of its own and does not use {quoted(written)}, whose controllerRef names it"
            )
            yield _finding(METADATA / "name", what, quoted(written))


def _of_workload(facts: Facts, workload: core.Workload) -> Iterator[Finding]:
    owner = controller_ref(workload)
    # The Job controller's own, and what poses as such (WAS139).
    if owner is None or (owner.group, owner.kind) != ("batch", "Job") or controller_of(facts.metadata) == owner:
        return
    # A Job that is not there yet may come with a schedulingGroup of its own.
    job = facts.surroundings.job(facts.namespace, owner.name).value
    if job is not None and gets_own_group(job):
        yield _finding(
            SPEC / "controllerRef",
            f"names {owner}, which gets a Workload of its own and does not use this one",
            "it",
        )


def _finding(field: FieldPath, what: str, lost: str) -> Finding:
    return Finding(
        field=field,
        message=f"{what}: in 1.37 what {lost} asks for is not done",
        fix="write it in the Job's spec.scheduling, or name a PodGroup of your own by schedulingGroup",
    )
