"""Group claim unused.

## What it checks
A Job with `spec.scheduling.resourceClaims` whose Pod template references one of them neither exactly nor nearly (a near
miss is WAS201).

## Why
The claim is generated for the Job's PodGroup and never allocated, since no Pod asks for it: the Pods run without the
device, or Pending for another one. Nothing in 1.37 compares the two lists.

## Fields read
`spec.scheduling.resourceClaims`, `spec.template.spec.resourceClaims`

## Allowed
```yaml
spec:
  scheduling:
    schedulingPolicy: {gang: {}}
    resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
```

## Denied
```yaml
spec:
  scheduling:
    schedulingPolicy: {gang: {}}
    resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  template:
    spec: {}
```

## Fix
Copy the entry into the Pod template, and name it in the `resources.claims` of a container; or take it out of
`spec.scheduling`.

## References
KEP-5547 (WorkloadWithJob), KEP-5729 (DRAWorkloadResourceClaims); pkg/controller/resourceclaim/controller.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import GroupOrigin, LeafGroup, PlannedClaim
from webhook.rules._claims import compare, source
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS219",
    name="group-claim-unused",
    summary="a Job's group has a claim that none of its Pods references",
    kinds=frozenset({"Job"}),
    default_action=Action.WARN,
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding]:
    for leaf in facts.plan.leaf_groups():
        if leaf.origin is not GroupOrigin.CONTROLLER:
            continue
        for claim in _unused(leaf):
            field, name = source(claim)
            yield Finding(
                field=claim.path,
                message=(
                    f'no Pod of this Job references "{claim.name}": it is made for the group and never allocated, and '
                    "the Pods run without its devices"
                ),
                fix=f'add {{name: {claim.name}, {field}: {name}}} to "{leaf.pod_sets[0].spec_path}.resourceClaims"',
                seen=claim.name,
                at_most=Action.WARN,
            )


def _unused(leaf: LeafGroup) -> list[PlannedClaim]:
    """Claims that every Pod set leaves out."""
    left = list(leaf.claims) if leaf.pod_sets else []
    for pod_set in leaf.pod_sets:
        _, omitted = compare(pod_set.claims, leaf.claims)
        left = [claim for claim in left if claim in omitted]
    return left
