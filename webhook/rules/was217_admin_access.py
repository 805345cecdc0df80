"""Admin access.

## What it checks
Claims with `adminAccess: true`, looked up through the ResourceClaim or ResourceClaimTemplate that a group or its Pods
name, outside the namespaces that the policy lists in `features.adminAccessClaims` (none unless it says so).

## Why
Admin access hands out devices that others have allocated, without counting them: it is made for monitoring agents. The
API server wants a label on the namespace for it, and whoever may label a namespace unlocks it. A gang with such claims
computes on other people's devices, and no quota and no capacity check sees it.

## Fields read
`resourceClaims`; `adminAccess` in the ResourceClaims and templates

## Allowed
```yaml
# ResourceClaimTemplate "one-gpu" without adminAccess
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
```

## Denied
```yaml
# ResourceClaimTemplate "watch-gpu": exactly: {deviceClassName: gpu.example.com, adminAccess: true}
resourceClaims:
- name: gpu
  resourceClaimTemplateName: watch-gpu
```

## Fix
Take adminAccess out of the claim. An administrator lists the namespace in `features.adminAccessClaims`.

## References
k8s.io/api resource/v1 DeviceRequest; KEP-5018 (DRAAdminAccess); case R74
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.claims import has_admin_access
from webhook.rules._claims import claim_spec, object_text, planned_claims, source
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS217",
    name="admin-access",
    summary="a claim with adminAccess outside the namespaces that may use it",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.policy.feature_allowed("admin_access_claims"):
        return
    for claim in planned_claims(facts):
        looked = claim_spec(facts, claim)
        field, name = source(claim)
        if name and looked.unknown is not None:
            reason = f"whether {object_text(claim)} asks for adminAccess: {looked.unknown}"
            yield Unresolved(field=claim.path / field, reason=reason)
        if looked.value is not None and has_admin_access(looked.value):
            yield Finding(
                field=claim.path / field,
                message=(
                    f'names {object_text(claim)}, which asks for adminAccess, and namespace "{facts.namespace}" may '
                    "not use that: it hands out devices that others hold, and no quota counts them"
                ),
                fix="take adminAccess out of the claim, or have the namespace added to the policy's features.adminAccessClaims",
                seen=name,
            )
