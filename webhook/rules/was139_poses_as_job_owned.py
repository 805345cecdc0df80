"""A Workload or PodGroup that poses as the Job controller's.

## What it checks
A Workload with controllerRef and controller owner reference to a Job, or a PodGroup of that Job's Workload with the
Job as its controller, written by somebody else than a trusted controller. An update counts if it adds the reference.

## Why
The Job controller of 1.37 tells its own objects by the owner reference, which anyone can write. When it finds two
Workloads or two PodGroups it gives up and makes the Job's next Pods without a group, for good: a resumed Job, or the
first Pod that has to be replaced, loses its gang, topology and shared claims. Only the controller's log says so.

## Fields read
`metadata.ownerReferences`, `spec.controllerRef`, `spec.workloadRef`, the requester; the Job and its Workload

## Allowed
```yaml
kind: PodGroup
metadata:
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: ...}]                      # not controller
spec: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
kind: Workload
metadata:
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: ..., controller: true}]
spec: {controllerRef: {apiGroup: batch, kind: Job, name: train}, ...}
```

## Fix
Leave `controller: true` out of the owner reference, and name another controllerRef or none.

## References
filterControlledByJob in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import METADATA
from webhook.rules._owners import Owner, controller_of, controller_ref, is_finished
from webhook.rules._traps import gets_own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS139",
    name="poses-as-job-owned",
    summary="a second Workload or PodGroup under a Job's name makes its next Pods run without a group",
    kinds=frozenset({"Workload", "PodGroup"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    owner = controller_of(facts.metadata)
    if facts.requester.trusted or owner is None or (owner.group, owner.kind) != ("batch", "Job"):
        return
    old_metadata: core.ObjectMeta | None = getattr(facts.old, "metadata", None)
    if old_metadata is not None and old_metadata.controller() == facts.metadata.controller():
        return  # it was the Job's before, most likely the Job controller's own: this update makes nothing of it
    looked = facts.surroundings.job(facts.namespace, owner.name)
    if looked.unknown is not None:
        yield Unresolved(reason=f'whether Job "{owner.name}" is the owner: {looked.unknown}')
        return
    job = looked.value
    reference = facts.metadata.controller()
    if job is None or reference is None or job.metadata.uid != reference.uid:
        return
    if not gets_own_group(job) or is_finished(job):
        return
    if _stands_for(facts, owner):
        yield Finding(
            field=METADATA / "ownerReferences",
            message=(
                f"makes this {facts.kind} look like the one that the Job controller made for {owner}: in 1.37 it finds "
                "two of them and makes the Job's next Pods without a group, for good and without an event"
            ),
            fix="leave controller: true out of the owner reference",
            seen=facts.name,
        )


def _stands_for(facts: Facts, owner: Owner) -> bool:
    """Is it one that the Job controller would look at: for the Job by name, directly or through its Workload?"""
    if isinstance(facts.obj, core.Workload):
        return controller_ref(facts.obj) == owner
    assert isinstance(facts.obj, core.PodGroup)  # noqa: S101  META.kinds
    ref = facts.obj.spec.workload_ref
    workload = facts.surroundings.workload(facts.namespace, ref.workload_name).value if ref else None
    return workload is not None and controller_ref(workload) == owner
