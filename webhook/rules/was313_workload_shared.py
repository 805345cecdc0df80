"""One Workload for several controllers, or several Workloads for one.

## What it checks
A Workload with a controllerRef that another Workload of the namespace has as well (for a Job see WAS138: it follows
neither); a PodGroup or CompositePodGroup
whose `workloadRef` names a Workload that stands for another controller than the one that owns the group (the owner's
own controller counts too: a JobSet's child Job owns the group of the JobSet's Workload).

## Why
The Job controller takes the first Workload that names a Job's parent, in no fixed order, so with two of them each child
Job may follow another one. kube-scheduler 1.37 goes by the group alone (WAS208), so a group that names a stranger's
Workload starts; but people, dashboards and controllers that count by Workload take its Pods for the stranger's.

## Fields read
`spec.controllerRef`, `spec.workloadRef`, `metadata.ownerReferences`; the Workloads of the namespace; the owning Job.

## Allowed
```yaml
kind: PodGroup
metadata: {ownerReferences: [{kind: JobSet, name: train, controller: true, ...}]}
spec: {workloadRef: {workloadName: train, templateName: workers}, ...}   # controllerRef: JobSet train
```

## Denied
```yaml
kind: Workload
metadata: {name: train-2}
spec: {controllerRef: {apiGroup: jobset.x-k8s.io, kind: JobSet, name: train}, ...}    # Workload train has the same
```

## Fix
Give each controller one Workload, and each group the Workload of its own controller.

## References
k8s.io/api v0.37.2 scheduling/v1beta1 WorkloadSpec.controllerRef; findParentWorkload in the Job controller.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.rules._owners import Owner, controller_of, controller_ref, workloads_of
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS313",
    name="workload-shared",
    summary="a Workload that stands for several controllers, or several Workloads for one",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted:
        return  # controllers make one Workload each, and every plain Job's would cost a list of the namespace
    if isinstance(facts.obj, core.Workload):
        yield from _twins(facts, facts.obj)
    elif isinstance(facts.obj, core.PodGroup | core.CompositePodGroup):
        yield from _stranger(facts, facts.obj)


def _twins(facts: Facts, workload: core.Workload) -> Iterator[Finding | Unresolved]:
    owner = controller_ref(workload)
    # A Job follows no controllerRef at all: it makes a Workload of its own (WAS138, WAS139).
    if owner is None or (owner.group, owner.kind) == ("batch", "Job"):
        return
    looked = workloads_of(facts, owner)
    if looked.value is None:
        yield Unresolved(reason=f"whether another Workload has the controllerRef {owner}: {looked.unknown}")
        return
    others = [item.metadata.name for item in looked.value if item.metadata.name != facts.name]
    if others:
        yield Finding(
            field=SPEC / "controllerRef",
            message=(
                f"is {owner}, which Workload {quoted(others)} names, too: the Job controller follows one of them, in no fixed "
                "order"
            ),
            fix="leave this Workload out, or delete the other first",
            seen=len(others) + 1,
            limit=1,
        )


def _stranger(facts: Facts, group: core.PodGroup | core.CompositePodGroup) -> Iterator[Finding | Unresolved]:
    reference = group.spec.workload_ref
    owner = controller_of(group.metadata)
    if reference is None or owner is None:
        return
    workload = facts.surroundings.workload(facts.namespace, reference.workload_name).value
    named = controller_ref(workload) if workload is not None else None
    if named is None or owner == named:
        return
    if owner.kind == "Job" and owner.group == "batch":
        job = facts.surroundings.job(facts.namespace, owner.name)
        if job.value is None:
            if job.unknown:
                yield Unresolved(reason=f"whether {owner} belongs to {named}: {job.unknown}")
            return
        if controller_of(job.value.metadata) == named:
            return
    yield _is_strange(owner, named, reference.workload_name)


def _is_strange(owner: Owner, named: Owner, workload_name: str) -> Finding:
    return Finding(
        field=SPEC / "workloadRef" / "workloadName",
        message=(
            f'names Workload "{workload_name}", that of {named}, but this group belongs to {owner}: 1.37 starts it, and '
            f"counts by Workload are wrong"
        ),
        fix=f"name a Workload with controllerRef {owner}, or none",
        seen=str(owner),
        limit=str(named),
    )
