"""Fraction of an extended resource.

## What it checks
In every container of a Pod template: the amount of an extended resource must be a whole number. `3000m`, `2.0`, `3Ki`
and `1e1` are whole numbers (3, 2, 3072, 10); `500m` and `0.4` are not.

## Why
The API server refuses a Pod that asks for a part of a device. In a JobSet or a LeaderWorkerSet the template is plain
text to it: the object is accepted, and then every Job or StatefulSet made from it is refused, again and again, in the
log of a controller.

## Fields read
`resources.requests` and `resources.limits` of containers and init containers

## Allowed
```yaml
resources: {limits: {nvidia.com/gpu: 3000m}}   # 3
```

## Denied
```yaml
resources: {limits: {nvidia.com/gpu: 500m}}
```

## Fix
Ask for whole devices. To share a device, use what the cluster offers for it: a MIG or time-slicing resource name, or
a claim of a driver with shareable devices. Muster never rounds for you: half a device made into one is twice the
bill.

## References
pkg/apis/core/validation ValidateResourceQuantityValue of 1.37.2; case R62
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._resources import POD_KINDS, amount, container_resources, is_extended, refused, strongest
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS117",
    name="extended-resource-fraction",
    summary="a part of an extended resource: every Pod is refused",
    kinds=POD_KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for resources in container_resources(facts):
        for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
            for name in sorted(filter(is_extended, amounts)):
                quantity = amount(amounts[name])
                if quantity is not None and not quantity.is_integer:
                    yield Finding(
                        field=resources.path / field / name,
                        message=f'"{amounts[name]}" of "{name}" is no whole number of devices: the API server refuses '
                        f"{refused(facts)}",
                        fix="ask for whole devices, or use a resource name that stands for a shared part",
                        seen=amounts[name],
                        limit="a whole number",
                        at_most=strongest(facts),
                    )
