"""Fields of a feature gate that is declared off.

## What it checks
The policy's `cluster.featureGates` says that a gate is off, and the object uses a field or kind of that gate:
`spec.scheduling` of a Job (WorkloadWithJob), `schedulingGroup` and the kinds Workload and PodGroup (GenericWorkload),
topology constraints (TopologyAwareWorkloadScheduling), shared claims (DRAWorkloadResourceClaims), `preemptionPolicy`
of groups (PodGroupPreemptionPolicy), composites (CompositePodGroup). A gate that the policy does not name is not known
and says nothing.

## Why
1.37 drops such a field before it stores the object, and nobody is told, kubectl with its strict validation neither:
the schema knows the field. The Job runs Pod by Pod, the group in any domain. In the cluster the webhook sees the object
after that, so this is found by `muster review`. One case shows in the cluster too: a Job keeps its topology constraint
and shared claims, and the Workload that the Job controller compiles from it loses them.

## Fields read
The fields named above; `cluster.featureGates` of the policy.

## Allowed
```yaml
kind: Job
spec: {parallelism: 4, completions: 4}
```

## Denied
```yaml
kind: Job            # policy: cluster: {featureGates: {WorkloadWithJob: false}}
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Fix
Turn the gate on in all components, or take the field away and do not rely on it.

## References
k8s.io/kubernetes v1.37.2 pkg/api/job/util.go DropDisabledFields, pkg/registry/scheduling/podgroup/strategy.go,
pkg/registry/scheduling/workload/strategy.go; pkg/api/pod/util.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.facts.model import Facts, Phase
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import GroupOrigin
from webhook.rules._jobs import job_parts
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS305",
    name="gate-off-field",
    summary="a field or kind of a feature gate that is declared off: 1.37 drops it silently",
    kinds=frozenset({ANY_KIND}),
    default_action=Action.WARN,
)

# kubectl says the second to a tenant who may not list CRDs.
_NOT_SERVED = 'the API server does not serve it: kubectl says "no matches for kind", or that it "failed to check CRD"'


@dataclass(frozen=True, slots=True)
class _Use:
    """survives: the API server keeps the field although the gate is off, and something later loses it."""

    gate: str
    field: FieldPath
    what: str
    effect: str
    survives: bool = False


def check(facts: Facts) -> Iterator[Finding]:
    if facts.policy.gate("GenericWorkload") is False:
        uses = _generic_uses(facts)
    elif facts.policy.gate("WorkloadWithJob") is False and any(p.spec.scheduling for p in job_parts(facts.obj)):
        uses = _job_uses(facts)
    else:
        uses = _group_uses(facts)
    for use in uses:
        if facts.policy.gate(use.gate) is not False:
            continue
        if facts.phase is not Phase.REVIEW and not use.survives:
            continue  # the API server kept it, so the gate is on and the policy's word is old: nothing to tell a tenant
        yield Finding(
            field=use.field,
            message=f'{use.what} needs the feature gate "{use.gate}", which is off in this cluster: {use.effect}',
            fix=f'have the gate "{use.gate}" turned on in all components, or remove the field and do not rely on it',
            seen=f"{use.gate}=false",
            limit=f"{use.gate}=true",
        )


def _generic_uses(facts: Facts) -> Iterator[_Use]:
    """Without GenericWorkload nothing of it works, so one finding per place is enough."""
    gate = "GenericWorkload"
    if facts.kind in ("Workload", "PodGroup", "CompositePodGroup"):
        yield _Use(gate, FieldPath.of("apiVersion"), f"the kind {facts.kind}", _NOT_SERVED)
        return
    effect = "the API server drops the field silently and the Pods run one by one"
    for pod_set in facts.plan.all_pod_sets():
        if pod_set.template.spec.scheduling_group is not None:
            yield _Use(gate, pod_set.spec_path / "schedulingGroup", "schedulingGroup", effect)
    yield from _job_uses(facts)


def _job_uses(facts: Facts) -> Iterator[_Use]:
    effect = "the API server drops the field silently and the Job runs Pod by Pod"
    for part in job_parts(facts.obj):
        if part.spec.scheduling is not None:
            yield _Use("WorkloadWithJob", part.scheduling_path, "spec.scheduling of a Job", effect)


def _group_uses(facts: Facts) -> Iterator[_Use]:
    dropped = "the API server drops it silently"
    for group in facts.plan.leaf_groups():
        if group.origin is GroupOrigin.REFERENCED:
            continue
        compiled = group.origin is GroupOrigin.CONTROLLER
        effect = "the Job keeps it and the Workload made from the Job loses it silently" if compiled else dropped
        if group.topology_path is not None:
            what = "schedulingConstraints.topology"
            yield _Use("TopologyAwareWorkloadScheduling", group.topology_path, what, effect, compiled)
        if group.claims:
            what = "a group's resourceClaims"
            yield _Use("DRAWorkloadResourceClaims", group.claims_path, what, effect, compiled)
        if group.preemption_policy is not None:
            field = group.path / "preemptionPolicy"
            yield _Use("PodGroupPreemptionPolicy", field, "a group's preemptionPolicy", dropped)
    for composite in facts.plan.composite_groups():
        if composite.preemption_policy is not None:
            field = composite.path / "preemptionPolicy"
            yield _Use("PodGroupPreemptionPolicy", field, "a composite's preemptionPolicy", dropped)
    yield from _composite_uses(facts)


def _composite_uses(facts: Facts) -> Iterator[_Use]:
    gate = "CompositePodGroup"
    obj = facts.obj
    if isinstance(obj, core.CompositePodGroup):
        yield _Use(gate, FieldPath.of("apiVersion"), "the kind CompositePodGroup", _NOT_SERVED)
    elif isinstance(obj, core.Workload) and obj.spec.composite_pod_group_templates:
        effect = "the API server drops it, and a Workload without any template is refused"
        yield _Use(gate, SPEC / "compositePodGroupTemplates", "compositePodGroupTemplates", effect)
    elif isinstance(obj, core.PodGroup) and obj.spec.parent_composite_pod_group_name is not None:
        effect = "the API server drops it silently and the group stands alone"
        yield _Use(gate, SPEC / "parentCompositePodGroupName", "parentCompositePodGroupName", effect)
