"""Claim field unknown.

## What it checks
In `review`: fields of the ResourceClaims and ResourceClaimTemplates that a group or its Pods name, and which
resource.k8s.io/v1 does not know at that place. A field that belongs elsewhere in a claim is named with its place.

## Why
The API server drops unknown fields (with a warning that few read). A `tolerations` beside `exactly` tolerates nothing,
a `count` at the wrong level asks for one device: the claim is accepted, and the gang waits for, or runs with, something
else than was written. A newer API may know the field, so this warns at most.

## Fields read
`spec` of the ResourceClaims and ResourceClaimTemplates among the given files

## Allowed
```yaml
devices:
  requests:
  - name: gpu
    exactly:
      deviceClassName: gpu.example.com
      tolerations: [{operator: Exists}]
```

## Denied
```yaml
tolerations: [{operator: Exists}]
devices:
  requests:
  - name: gpu
    exactly: {deviceClassName: gpu.example.com}
```

## Fix
Move the field to the named place.

## References
k8s.io/api resource/v1 types.go of v0.37.2; case R89
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.words import nearest
from webhook.rules._claims import TEMPLATE, claim_spec, object_text, planned_claims, source
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS222",
    name="claim-field-unknown",
    summary="a claim has a field that the API server drops",
    kinds=frozenset({ANY_KIND}),
    default_action=Action.WARN,
    review_only=True,
)

# resource.k8s.io/v1 at v0.37.2, ResourceClaimSpec and what hangs below it.
_SPEC = frozenset({"devices"})
_DEVICES = frozenset({"requests", "constraints", "config"})
_REQUEST = frozenset({"name", "exactly", "firstAvailable"})
_SUBREQUEST = frozenset(
    {"name", "deviceClassName", "selectors", "allocationMode", "count", "tolerations", "capacity", "derivedAttributes"}
)
_EXACTLY = (_SUBREQUEST - {"name"}) | {"adminAccess"}
_PLACES = (
    ("spec.devices.requests[].exactly", _EXACTLY),
    ("spec.devices", _DEVICES),
    ("spec.devices.requests[]", _REQUEST),
    ("spec", _SPEC),
)


def check(facts: Facts) -> Iterator[Finding]:
    for claim in planned_claims(facts):
        spec = claim_spec(facts, claim).value
        if spec is None or _is_flat(spec):
            continue
        for path, known in _unknown_fields(spec):
            field = source(claim)[0]
            at = SPEC.join(path) if field == TEMPLATE else path
            yield Finding(
                field=claim.path / field,
                message=f'names {object_text(claim)} with "{at}", which resource.k8s.io/v1 does not know: the API server drops it',
                fix=_fix(str(path[-1]), known),
                seen=str(at),
                at_most=Action.WARN,
            )


def _is_flat(spec: Mapping[str, Any]) -> bool:
    """The request form of v1beta1, where `deviceClassName` stood in the request itself."""
    return any("deviceClassName" in request for request in _maps(_map(spec.get("devices")).get("requests")))


def _unknown_fields(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, frozenset[str]]]:
    """Each unknown field with the names that are known beside it."""
    yield from _outside(spec, _SPEC, SPEC)
    devices = _map(spec.get("devices"))
    yield from _outside(devices, _DEVICES, SPEC / "devices")
    for index, request in enumerate(_maps(devices.get("requests"))):
        at = (SPEC / "devices" / "requests").at(index)
        yield from _outside(request, _REQUEST, at)
        yield from _outside(_map(request.get("exactly")), _EXACTLY, at / "exactly")
        for sub_index, item in enumerate(_maps(request.get("firstAvailable"))):
            yield from _outside(item, _SUBREQUEST, (at / "firstAvailable").at(sub_index))


def _outside(
    part: Mapping[str, Any], known: frozenset[str], path: FieldPath
) -> Iterator[tuple[FieldPath, frozenset[str]]]:
    for name in part:
        if name not in known:
            yield path / str(name), known


def _fix(name: str, known: frozenset[str]) -> str:
    for place, names in _PLACES:
        if name in names:
            return f'move "{name}" into {place}'
    near = nearest(name, known)
    return f'write "{near}"' if near else "take it out"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [_map(item) for item in value] if isinstance(value, list | tuple) else []
