"""`spec.scheduling` in a JobSet's child Jobs.

## What it checks
`spec.scheduling` in the Job template of a replicatedJob, with or without the delegation annotation.

## Why
A child Job has the JobSet as its controller, and the Job controller of 1.37 does not act on the `spec.scheduling` of
such a Job: with the annotation it takes the template of the JobSet's Workload, without it it makes no group at all. The
gang that was written never is one: its Pods start one by one and hold their devices while they wait for each other.

## Fields read
`spec.replicatedJobs[].template.spec.scheduling`, `spec.replicatedJobs[].template.metadata.annotations`.

## Allowed
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - name: workers
    template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}}
```

## Denied
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - name: workers
    template: {spec: {scheduling: {schedulingPolicy: {gang: {}}}}}
```
A child that writes `basic: {}` loses nothing, so it only gets a warning.

## Fix
Declare the scheduling once: in a Workload whose controllerRef is the JobSet, and delegate to it with the annotation.

## References
kubernetes/kubernetes#141380; pkg/controller/job/job_scheduling_manager.go getManagementMode (1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._jobs import job_parts
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS322",
    name="nested-scheduling",
    summary="spec.scheduling in the child Jobs of a JobSet, on which 1.37 does not act",
    kinds=frozenset({"JobSet"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding]:
    for part in job_parts(facts.obj):
        if part.spec.scheduling is None or part.names_group:
            continue
        instead = (
            "the annotation takes the group from the JobSet's Workload"
            if part.group_template is not None
            else "no group is made for it, and its Pods start one by one"
        )
        yield Finding(
            field=part.scheduling_path,
            message=f'1.37 does not act on spec.scheduling of a child Job (role "{part.role}"): {instead}',
            fix="leave it out"
            if not part.is_gang
            else (
                "declare it once, in a Workload whose controllerRef is this JobSet, and name its template in annotation "
                '"scheduling.k8s.io/group-template-name" of this Job template'
            ),
            seen="gang" if part.is_gang else "basic",
            at_most=Action.DENY if part.is_gang else Action.WARN,
        )
