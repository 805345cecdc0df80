"""Pod omits group claim.

## What it checks
Pods that name a PodGroup with `resourceClaims` and reference one of these claims neither exactly nor nearly
(a near miss is WAS201).

## Why
A group's claim is made once for the group, and only Pods that reference it get its devices. A Pod that leaves it out
runs without them, on any node. That is legal, and right for a launcher or a coordinator; in a worker it shows only when
the application finds no device. Where other Pods of the same object use the claim, the omission is taken as meant and
only audited.

## Fields read
The Pods' `resourceClaims`; the PodGroup's `spec.resourceClaims`

## Allowed
```yaml
# Pod in PodGroup "train", whose resourceClaims hold {name: gpu, resourceClaimTemplateName: one-gpu}
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
```

## Denied
```yaml
# Pod in PodGroup "train", whose resourceClaims hold {name: gpu, resourceClaimTemplateName: one-gpu}: a warning
resourceClaims: []
```

## Fix
Copy the group's entry into the Pod's `resourceClaims`, and name it in the `resources.claims` of the container that
needs the device.

## References
KEP-5729 (DRAWorkloadResourceClaims); case R76
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import GroupOrigin, LeafGroup, PodSet
from webhook.rules._claims import compare, source
from webhook.rules._groups import POD_KINDS, GroupView, views
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS202",
    name="pod-omits-group-claim",
    summary="a Pod does not reference a claim of its group",
    kinds=POD_KINDS,
    default_action=Action.WARN,
    gate="DRAWorkloadResourceClaims",
)


def check(facts: Facts) -> Iterator[Finding]:
    for leaf, looked in views(facts):
        view = looked.value
        # A group that a controller makes for these Pods alone and whose claim none of them uses is WAS219's.
        if view is None or leaf.origin is not GroupOrigin.REFERENCED:
            continue
        for pod_set in leaf.pod_sets:
            yield from _findings(leaf, pod_set, view)


def _findings(leaf: LeafGroup, pod_set: PodSet, view: GroupView) -> Iterator[Finding]:
    _, omitted = compare(pod_set.claims, view.claims)
    if not omitted:
        return
    used_elsewhere = {claim.key for other in leaf.pod_sets for claim in other.claims}
    meant = all(claim.key in used_elsewhere for claim in omitted)
    names = quoted(claim.name for claim in omitted)
    entries = ", ".join(f"{{name: {claim.name}, {source(claim)[0]}: {source(claim)[1]}}}" for claim in omitted)
    plural = "claims" if len(omitted) > 1 else "claim"
    yield Finding(
        field=pod_set.spec_path / "resourceClaims",
        message=f"does not reference {plural} {names} of {view.title}: these Pods run without the group's devices",
        fix=f"add {entries} if they need them",
        seen=sorted(claim.name for claim in pod_set.claims),
        limit=sorted(claim.name for claim in view.claims),
        at_most=Action.AUDIT if meant else Action.WARN,
    )
