"""The device side of the 5xx rules: claims of a plan against the snapshot's devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.facts.model import Facts
from webhook.feasibility.devices import ClaimKey, Need, opened, with_devices
from webhook.feasibility.devices_claims import Wanted, read_claim
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, TreeDemand
from webhook.inventory import tables
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.snapshot import Question, Snapshot
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import GroupOrigin, PlannedClaim, PodSet
from webhook.plan.parts import claims
from webhook.rules._claims import claim_spec


def with_claims(demand: Demand, facts: Facts, snapshot: Snapshot) -> Demand:
    """The demand with what its claims need, as far as their specs are known."""

    def spec(key: ClaimKey) -> Mapping[str, Any] | None:
        return asked_spec(facts, _planned(key))

    return with_devices(demand, snapshot, spec, on_demand_drivers=facts.policy.parameters.on_demand_drivers)


def _planned(key: ClaimKey) -> PlannedClaim:
    name, claim, template = key
    return PlannedClaim(name=name, resource_claim_name=claim, resource_claim_template_name=template, path=FieldPath())


def asked_spec(facts: Facts, claim: PlannedClaim) -> Mapping[str, Any] | None:
    """What the claim still asks of devices; None where that is not known, and where it is allocated: the scheduler then
    asks nothing more of them, and they may have changed since."""
    made = _made_for_groups(facts, claim)
    if len(made) > 1:
        return None
    for name in made:
        claim = replace(claim, resource_claim_name=name, resource_claim_template_name=None)
    if claim.resource_claim_name is not None:
        found = facts.surroundings.claim(facts.namespace, claim.resource_claim_name).value
        if found is None or (found.status or {}).get("allocation"):
            return None
    return claim_spec(facts, claim).value


def _made_for_groups(facts: Facts, claim: PlannedClaim) -> set[str]:
    """The ResourceClaims that exist already for it in PodGroups that the Pods name. Their template may have been
    replaced since: whoever joins the group gets the claim that is there."""
    made: set[str] = set()
    for leaf in facts.plan.leaf_groups() if claim.resource_claim_template_name is not None else ():
        if leaf.origin is not GroupOrigin.REFERENCED or not leaf.name:
            continue
        group = facts.surroundings.pod_group(facts.namespace, leaf.name).value
        entries = () if group is None else claims(group.spec.resource_claims, FieldPath())
        if group is not None and claim.key in {entry.key for entry in entries}:
            made |= {
                str(one["resourceClaimName"])
                for one in (group.status or {}).get("resourceClaimStatuses") or ()
                if one.get("name") == claim.name and one.get("resourceClaimName")
            }
    return made


def wanted_claims(facts: Facts, pod: PodDemand | PodSet) -> Iterator[tuple[PlannedClaim, Wanted]]:
    """The claims of a Pod set whose specs are known, read against the snapshot's DeviceClasses."""
    inventory = device_inventory(facts)
    drivers = frozenset(facts.policy.parameters.on_demand_drivers)
    planned_claims = pod.planned_claims if isinstance(pod, PodDemand) else pod.claims
    for planned in planned_claims if inventory is not None else ():
        spec = asked_spec(facts, planned)
        if spec is not None and inventory is not None:
            yield planned, opened(read_claim(spec, inventory.classes), drivers)


def device_inventory(facts: Facts) -> DeviceInventory | None:
    """The snapshot's devices; None where nothing is known of them."""
    devices = None if facts.inventory is None else facts.inventory.devices
    return devices if isinstance(devices, DeviceInventory) else None


def fits_nowhere(claim: Wanted, snapshot: Snapshot, question: Question = Question.NEVER) -> bool:
    """Has no node the devices for even one such claim?"""
    base = tables.base(snapshot, question)
    return not Need((claim,)).limits(base).any()


def unpinned(demand: Demand) -> Demand | None:
    """The demand as if a shared claim on one node's devices let its Pods run anywhere; None if there is no such."""

    def of(group: LeafDemand | TreeDemand) -> LeafDemand | TreeDemand:
        if isinstance(group, LeafDemand):
            return replace(group, pods=tuple(replace(pod, pins=()) for pod in group.pods))
        return replace(group, children=tuple(of(child) for child in group.children))

    return replace(demand, root=of(demand.root)) if any(pod.pins for pod in demand.pods()) else None
