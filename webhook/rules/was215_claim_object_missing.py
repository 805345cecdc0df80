"""Claim object missing.

## What it checks
Every ResourceClaim and ResourceClaimTemplate that a group or its Pods name: it must exist in the namespace. The text
names the nearest one, and says if the name belongs to the other kind.

## Why
1.37 accepts the reference. A Pod whose claim or template is missing stays Pending without a condition or an event of
its own, and a group's claim matters as soon as one Pod uses it: then the gang waits with it. The object may be on its
way in the same apply, so this warns.

## Fields read
`resourceClaims` of the group and of the Pods; ResourceClaims and ResourceClaimTemplates of the namespace

## Allowed
```yaml
# ResourceClaimTemplate "one-gpu" exists
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
```

## Denied
```yaml
# ResourceClaimTemplate "one-gpu" exists
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gqu
```

## Fix
Create the object, or correct the name.

## References
k8s.io/api core/v1 PodResourceClaim; pkg/controller/resourceclaim/controller.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import nearest
from webhook.plan.model import PlannedClaim
from webhook.rules._claims import CLAIM, TEMPLATE, claim_spec, object_text, planned_claims, source
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS215",
    name="claim-object-missing",
    summary="a ResourceClaim or ResourceClaimTemplate that is named does not exist",
    kinds=frozenset({ANY_KIND}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted:
        return  # said when the object was submitted that this one is made from
    for claim in planned_claims(facts):
        field, name = source(claim)
        if not name:
            continue
        looked = claim_spec(facts, claim)
        if looked.unknown is not None:
            yield Unresolved(field=claim.path / field, reason=f"whether {object_text(claim)} exists: {looked.unknown}")
        if looked.absent:
            yield Finding(
                field=claim.path / field,
                message=(
                    f'no {object_text(claim)} in namespace "{facts.namespace}"{_hint(facts, claim)}: Pods that use '
                    "it stay Pending, and their gang with them"
                ),
                fix="create it or correct the name",
                seen=name,
            )


def _hint(facts: Facts, claim: PlannedClaim) -> str:
    """Only asked once the absence is confirmed."""
    field, name = source(claim)
    if field == CLAIM:
        if facts.surroundings.claim_template(facts.namespace, name).value is not None:
            return f" (it is a template: write {TEMPLATE})"
        return ""
    if facts.surroundings.claim(facts.namespace, name).value is not None:
        return f" (it is a ResourceClaim: write {CLAIM})"
    existing = facts.surroundings.claim_templates(facts.namespace).value or ()
    near = nearest(name, [template.metadata.name for template in existing])
    return f' (nearest: "{near}")' if near else ""
