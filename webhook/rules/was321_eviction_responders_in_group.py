"""evictionResponders in the template of a Job that gets a group.

## What it checks
`evictionResponders` in the Pod template of a Job for which the Job controller makes a PodGroup: with WorkloadWithJob on,
that is every Job without a controller owner, with or without `spec.scheduling`, and every delegated one.

## Why
The API server accepts the Job. The controller then writes `schedulingGroup` into each Pod, and the API server refuses
every one of them: "may not be set when evictionResponders is set". The Job never starts; it says so only in FailedCreate
events. (The field exists where the gate EvictionRequestAPI is on; elsewhere the API server drops it, and the Job runs.)

## Fields read
`spec.template.spec.evictionResponders`, `metadata.ownerReferences`, `metadata.annotations`.

## Allowed
```yaml
kind: Job
spec: {template: {spec: {containers: [...]}}}
```

## Denied
```yaml
kind: Job
spec: {template: {spec: {evictionResponders: [{name: example.com/drain, priority: 1000}], containers: [...]}}}
```

## Fix
Leave `evictionResponders` out of Jobs while WorkloadWithJob is on.

## References
k8s.io/kubernetes v1.37.2 pkg/apis/core/validation/validation.go (schedulingGroup); seen on a real control plane,
tests/cases/test_eviction_responders.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Phase
from webhook.plan.model import GroupOrigin, LeafGroup
from webhook.rules._groups import view_of
from webhook.rules._traps import job_gate_cap
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS321",
    name="eviction-responders-in-group",
    summary="evictionResponders in a Job that gets a PodGroup: every Pod of it is refused and it never starts",
    kinds=frozenset({"Job", "JobSet"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.leaf_groups():
        if group.origin is not GroupOrigin.CONTROLLER:
            continue
        for pod_set in group.pod_sets:
            responders = pod_set.template.spec.eviction_responders
            if not responders:
                continue
            cap = _cap(facts, group)
            gets = "gets" if cap is Action.DENY else "may get"
            yield Finding(
                field=pod_set.spec_path / "evictionResponders",
                message=(
                    "the Job controller of 1.37 puts the Pods into a PodGroup, and the API server refuses a Pod that has both "
                    f"this and a group: the Job {gets} no Pod, and only events say why"
                ),
                fix="leave evictionResponders out of the Pod template",
                seen=len(responders),
                limit=0,
                at_most=cap,
            )


def _cap(facts: Facts, group: LeafGroup) -> Action:
    """In a file, and in the CRD of a JobSet, the field may be one that the cluster drops; what came through the API
    server in a Job is there. Without its parent's Workload a child Job gets no group, and runs."""
    if facts.phase is Phase.REVIEW or facts.kind != "Job":
        return Action.WARN
    is_made = group.workload_template_name is None or view_of(facts, group).value is not None
    return job_gate_cap(facts) or Action.WARN if is_made else Action.WARN
