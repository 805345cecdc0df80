"""Device class missing.

## What it checks
The DeviceClasses that the claims of a group or its Pods ask for, looked up through their ResourceClaim or
ResourceClaimTemplate. Of a request with alternatives (`firstAvailable`) one class must exist.

## Why
A claim of a class that does not exist cannot be allocated: the Pods stay Pending, after quota has been charged for
them. A class that is installed after its first claim is a supported order (a driver rolled out by GitOps), so this
warns; strict denies it.

## Fields read
`resourceClaims`; `spec.devices.requests` of the ResourceClaims and templates; DeviceClasses

## Allowed
```yaml
# ResourceClaimTemplate "one-gpu": deviceClassName: gpu.example.com, which exists
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
```

## Denied
```yaml
# ResourceClaimTemplate "one-gpu": deviceClassName: gpus.example.com; only gpu.example.com exists
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
```

## Fix
Correct the class in the template, or install the driver that brings it.

## References
k8s.io/api resource/v1 DeviceClass; case R81
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.claims import device_class_alternatives, device_classes
from webhook.objects.words import nearest
from webhook.plan.model import PlannedClaim
from webhook.rules._claims import claim_spec, planned_claims, source
from webhook.rules._names import quoted
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS216",
    name="device-class-missing",
    summary="a claim asks for a DeviceClass that does not exist",
    kinds=frozenset({ANY_KIND}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted:
        return
    for claim in planned_claims(facts):
        spec = claim_spec(facts, claim).value
        if spec is None:
            continue  # WAS215
        for names in ([name] for name in device_classes(spec)):
            yield from _request(facts, claim, names)
        for names in device_class_alternatives(spec):
            yield from _request(facts, claim, names)


def _request(facts: Facts, claim: PlannedClaim, names: list[str]) -> Iterator[Finding | Unresolved]:
    """One request: any of these classes would do."""
    looked = [facts.surroundings.device_class(name) for name in names]
    if any(item.value is not None for item in looked):
        return
    field = claim.path / source(claim)[0]
    unknown = next((item.unknown for item in looked if item.unknown is not None), None)
    if unknown is not None:
        yield Unresolved(field=field, reason=f"whether DeviceClass {quoted(names)} exists: {unknown}")
        return
    yield Finding(
        field=field,
        message=(
            f'"{source(claim)[1]}" asks for DeviceClass {quoted(names)}, and none exists{_hint(facts, names)}: Pods that use '
            "it stay Pending"
        ),
        fix="correct deviceClassName there, or have its driver installed",
        seen=", ".join(names),
    )


def _hint(facts: Facts, names: list[str]) -> str:
    existing = [item.metadata.name for item in facts.surroundings.device_classes().value or ()]
    near = next((found for name in names if (found := nearest(name, existing))), None)
    if near:
        return f' (nearest: "{near}")'
    return f" (there are {quoted(existing)})" if existing else ""
