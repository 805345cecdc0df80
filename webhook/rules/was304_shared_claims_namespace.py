"""Shared claims in a namespace that may not use them.

## What it checks
`resourceClaims` of a group (a Job's `spec.scheduling`, a Workload's templates, a PodGroup) in a namespace that the
policy's `features.sharedClaims` does not list. No list means every namespace. A Pod's own claims are no business of
this rule.

## Why
A group's claim is one claim for all its Pods (gate DRAWorkloadResourceClaims, beta and off by default in 1.37). It pins
every Pod that uses it to the nodes of its devices, and it is often mistaken for one device per Pod, so clusters open it
step by step.

## Fields read
`resourceClaims` of every group that the object describes.

## Allowed
```yaml
kind: PodGroup
spec: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
kind: PodGroup       # policy: features: {sharedClaims: {namespaces: [ml-*]}}, namespace team-b
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  resourceClaims: [{name: channel, resourceClaimTemplateName: imex}]
```

## Fix
Give each Pod a claim of its own, use a namespace on the list, or ask the cluster's administrators to add yours.

## References
k8s.io/api v0.37.2 scheduling/v1beta1 PodGroupResourceClaim.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._features import allowed_here, not_allowed
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS304",
    name="shared-claims-namespace",
    summary="claims shared by a group in a namespace that is not on the allow-list",
    kinds=frozenset({"Job", "Workload", "PodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if allowed_here(facts, "shared_claims"):
        return
    for group in facts.plan.leaf_groups():
        if not group.claims:
            continue
        yield not_allowed(
            facts,
            "shared_claims",
            group.claims_path,
            what=f"claims that a group shares ({quoted(claim.name for claim in group.claims)})",
            why="one claim serves all Pods of the group and pins them to its devices",
            fix="give each Pod its own claim, or ask for the namespace to be added",
        )
