"""A delegated Job whose group template may not be there in time.

## What it checks
A Job with a controller owner and the annotation `scheduling.k8s.io/group-template-name`, or a JobSet or CronJob whose
Job template carries it: is there a Workload whose controllerRef is that owner, and does it have the named template at
its top level?

## Why
The Job controller looks for the Workload and the template when it sees the Job first. If either is missing it makes
the Pods without a group, with no event, and never corrects it: the gang is silently none. A Workload made by the
parent's controller at about the same time loses this race now and then. controllerRef is a name, so the Workload can
be created before its owner.

## Fields read
The annotation; `metadata.ownerReferences`; controllerRef and template names of the Workloads in the namespace.

## Allowed
```yaml
kind: Workload       # created first
spec:
  controllerRef: {apiGroup: jobset.x-k8s.io, kind: JobSet, name: train}
  podGroupTemplates: [{name: workers, schedulingPolicy: {gang: {minCount: 4}}}]
---
kind: JobSet
metadata: {name: train}
spec: {replicatedJobs: [{name: workers, template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}}}]}
```

## Denied
```yaml
kind: JobSet         # the same JobSet, and no such Workload: a warning
metadata: {name: train}
spec: {replicatedJobs: [{name: workers, template: {metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}}}]}
```

## Fix
Create the Workload before its owner. Suspending the owner does not help: a suspended Job is looked at too.

## References
k8s.io/kubernetes v1.37.2 pkg/controller/job/job_scheduling_manager.go getOrCreateDelegatedPodGroup, isNewJob;
kubernetes/kubernetes#141380.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.kinds import BY_NAME
from webhook.rules._jobs import JOB_HOLDERS, JobPart, job_parts
from webhook.rules._owners import Owner, controller_of, workloads_of
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS312",
    name="delegated-race",
    summary="a delegated Job whose Workload or template may be missing when the Job controller looks",
    kinds=JOB_HOLDERS,
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for part in job_parts(facts.obj):
        template = part.group_template
        if template is None or part.names_group:
            continue
        owner = controller_of(part.metadata) if isinstance(facts.obj, core.Job) else _self(facts)
        if owner is None:
            continue  # WAS310: without an owner the annotation is not read
        looked = workloads_of(facts, owner)
        if looked.value is None:
            reason = f"whether a Workload with controllerRef {owner} is there before the Job: {looked.unknown}"
            yield Unresolved(reason=reason, field=part.annotation_path, warn=True)
        elif not looked.value:
            yield _missing(part, owner)
        elif not _has(looked.value[0], template):
            yield _without_template(part, template, looked.value[0])


def _self(facts: Facts) -> Owner:
    """The owner that child Jobs will have; with generateName its name is not known, so no Workload can name it yet."""
    return Owner(BY_NAME[facts.kind].group, facts.kind, facts.name)


def _has(workload: core.Workload, template: str) -> bool:
    """An empty name means the first template."""
    templates = workload.spec.pod_group_templates or ()
    return any(template in ("", item.name) for item in templates)


def _missing(part: JobPart, owner: Owner) -> Finding:
    return Finding(
        field=part.annotation_path,
        message=(
            f"no Workload has controllerRef {owner} yet: a Job that 1.37 sees before there is one never gets a group, and no "
            "event says so"
        ),
        fix=(
            f"create it first, with controllerRef {{apiGroup: {owner.group}, kind: {owner.kind}, "
            f"name: {owner.name or '...'}}}"
        ),
        seen=0,
        limit=1,
    )


def _without_template(part: JobPart, template: str, workload: core.Workload) -> Finding:
    names = [item.name for item in workload.spec.pod_group_templates or ()]
    return Finding(
        field=part.annotation_path,
        message=(
            f'names "{template}", and the top-level templates of Workload "{workload.metadata.name}" are '
            f"{quoted(names) or 'none'}: the Pods get no group, for good and without an event"
        ),
        fix="name one of these, or make a new Workload",
        seen=template,
        limit=sorted(names),
    )
