"""Group claim shared.

## What it checks
A gang whose group has `resourceClaims`: all Pods that reference such a claim share what it allocates once. The rule
looks the claim or its template up and warns where it asks for a fixed number of devices, with that number. Devices of
drivers that publish them on demand (`parameters.onDemandDrivers`, for example ComputeDomain channels) are shared on
purpose and are passed over.

## Why
"One GPU template, eight Pods" reads like eight GPUs, and in a Pod it would be. In a group it is one claim for the
PodGroup: eight Pods share one GPU. If the device belongs to a node, the scheduler of 1.37 must also put every Pod that
references the claim on that node. Both are legal, so this warns.

## Fields read
The group's `resourceClaims` and `minCount`; a Job's Pods; the ResourceClaim or ResourceClaimTemplate

## Allowed
```yaml
spec:
  schedulingPolicy: {gang: {minCount: 8}}
  resourceClaims:
  - name: imex-channel
    resourceClaimTemplateName: channel        # compute-domain-default-channel.nvidia.com
```

## Denied
```yaml
spec:
  schedulingPolicy: {gang: {minCount: 8}}
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: one-gpu        # count: 1
```

## Fix
For a device per Pod, leave the claim out of the group and keep it in the Pods. If sharing is meant, there is nothing
to change: set this rule's action to Audit in such a namespace.

## References
KEP-5729 (DRAWorkloadResourceClaims); case R75, R77, R93
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.claims import device_classes, device_count
from webhook.objects.words import plural
from webhook.plan.model import GroupOrigin, LeafGroup, PlannedClaim, PolicyKind
from webhook.rules._claims import claim_spec
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS203",
    name="group-claim-shared",
    summary="several Pods share the devices of one group claim",
    kinds=frozenset({"Job", "PodGroup", "Workload"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="DRAWorkloadResourceClaims",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted:
        return  # the Job or the template it was made from has been warned about
    for leaf in facts.plan.leaf_groups():
        for claim in leaf.claims:
            user_count = _user_count(leaf, claim)
            if user_count is None or user_count < 2:
                continue
            looked = claim_spec(facts, claim)
            if looked.unknown is not None:
                yield Unresolved(field=claim.path, reason=f"how many devices it asks for: {looked.unknown}")
            elif looked.value is not None:
                yield from _findings(facts, leaf, claim, looked.value, user_count)


def _user_count(leaf: LeafGroup, claim: PlannedClaim) -> int | None:
    """Pods that share the claim: those that reference it where the object holds them, else as many as the gang has."""
    if leaf.origin is GroupOrigin.CONTROLLER:
        users = [pod_set for pod_set in leaf.pod_sets if claim.key in {own.key for own in pod_set.claims}]
        return sum(pod_set.pod_count or 0 for pod_set in users)
    return leaf.min_count if leaf.policy is PolicyKind.GANG else None


def _findings(
    facts: Facts, leaf: LeafGroup, claim: PlannedClaim, spec: Mapping[str, Any], user_count: int
) -> Iterator[Finding]:
    count = device_count(spec)
    if count is None or any(_on_demand(facts, name) for name in device_classes(spec)):
        return
    who = f"the {user_count} Pods that use it"
    if leaf.origin is not GroupOrigin.CONTROLLER:
        who = f"all Pods of the gang of {user_count}"
    yield Finding(
        field=claim.path,
        message=(
            f"{who} share {plural(count, 'device')}: a group's claim is allocated once, not for each Pod, and a device of a "
            "node keeps them all there"
        ),
        fix=f'for a device per Pod keep "{claim.name}" in the Pods only',
        seen=user_count,
        limit=count,
        at_most=Action.WARN,
    )


def _on_demand(facts: Facts, class_name: str) -> bool:
    """Does the class hand out devices of a driver that publishes them when asked, such as ComputeDomain channels?

    By the class's selectors where it is found, else by its name: ``compute-domain-default-channel.nvidia.com`` belongs
    to the driver ``compute-domain.nvidia.com``.
    """
    drivers = facts.policy.parameters.on_demand_drivers
    device_class = facts.surroundings.device_class(class_name).value
    selectors = "" if device_class is None else str((device_class.spec or {}).get("selectors") or "")
    return any(_same_family(driver, class_name) or _names_driver(selectors, driver) for driver in drivers)


def _same_family(driver: str, class_name: str) -> bool:
    driver_head, _, driver_domain = driver.partition(".")
    head, _, domain = class_name.partition(".")
    return domain == driver_domain and (head == driver_head or head.startswith(f"{driver_head}-"))


def _names_driver(selectors: str, driver: str) -> bool:
    return re.search(rf"[\"']{re.escape(driver)}[\"']", selectors) is not None
