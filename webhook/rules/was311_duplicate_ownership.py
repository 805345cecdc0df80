"""Two writers for one gang.

## What it checks
Three ways of saying twice who makes the group of a Job's Pods: `spec.scheduling` and a `schedulingGroup` in the Pod
template; `spec.scheduling` of a Job whose controller has a Workload of its own (a Workload with that controllerRef);
the annotation `scheduling.k8s.io/group-template-name` and a `schedulingGroup`.

## Why
1.37 takes one of the two and says nothing of the other. A `schedulingGroup` in the template wins over everything: if
that PodGroup does not exist, the Pods wait for ever although `spec.scheduling` asks for a perfect gang. A child Job's
`spec.scheduling` is not acted on while the parent's Workload is. Later versions refuse the pair. The annotation beside
a `schedulingGroup` changes nothing, so it only warns.

## Fields read
`spec.scheduling`, `spec.template.spec.schedulingGroup`, `metadata.annotations`, `metadata.ownerReferences`; the
controllerRef of the Workloads in the namespace.

## Allowed
```yaml
kind: Job
spec: {template: {spec: {schedulingGroup: {podGroupName: train}}}}
```

## Denied
```yaml
kind: Job
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {schedulingGroup: {podGroupName: train}}}
```

## Fix
Keep one of the two.

## References
k8s.io/kubernetes v1.37.2 pkg/controller/job/job_scheduling_manager.go getManagementMode; KEP-5547.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.rules._jobs import JOB_HOLDERS, JobPart, job_parts
from webhook.rules._owners import controller_of, workloads_of
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS311",
    name="duplicate-ownership",
    summary="two places say who makes the group of a Job's Pods, and 1.37 takes one of them silently",
    kinds=JOB_HOLDERS,
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for part in job_parts(facts.obj):
        if part.names_group:
            yield from _beside_group(part)
    if isinstance(facts.obj, core.Job) and facts.obj.spec.scheduling is not None:
        yield from _beside_parent(facts, facts.obj)


def _beside_group(part: JobPart) -> Iterator[Finding]:
    group = part.spec.template.spec.scheduling_group
    name = group.pod_group_name if group else None
    if part.spec.scheduling is not None:
        yield Finding(
            field=part.scheduling_path,
            message=(
                f'stands beside schedulingGroup "{name}" of the Pod template, and 1.37 acts on that one only: the Pods '
                f'wait for PodGroup "{name}", whatever spec.scheduling asks for'
            ),
            fix="keep one: remove schedulingGroup to have the Job controller make the group, or remove spec.scheduling",
            seen=name,
        )
    if part.group_template is not None:
        yield Finding(
            field=part.annotation_path,
            message=(
                f'stands beside schedulingGroup "{name}" of the Pod template, and 1.37 acts on that one only: no group '
                "is made from the parent's Workload"
            ),
            fix="keep one of the annotation and schedulingGroup",
            seen=name,
            at_most=Action.WARN,
        )


def _beside_parent(facts: Facts, job: core.Job) -> Iterator[Finding | Unresolved]:
    owner = controller_of(job.metadata)
    if owner is None or job.spec.template.spec.scheduling_group is not None:
        return
    looked = workloads_of(facts, owner)
    if looked.value is None:
        yield Unresolved(reason=f"whether {owner} has a Workload of its own: {looked.unknown}")
        return
    if not looked.value:
        return  # WAS310: ignored, and nobody else makes a group
    part = next(job_parts(job))
    yield Finding(
        field=part.scheduling_path,
        message=(
            f"stands beside Workload {quoted(w.metadata.name for w in looked.value)} of the Job's controller {owner}: 1.37 "
            "goes by that Workload and does not act on this"
        ),
        fix=(
            "remove it, write the gang in that Workload, and name its template in annotation "
            '"scheduling.k8s.io/group-template-name"'
        ),
        seen=str(owner),
    )
