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
from webhook.plan.model import PlannedClaim, PodSet
from webhook.rules._claims import claim_spec


def with_claims(demand: Demand, facts: Facts, snapshot: Snapshot) -> Demand:
    """The demand with what its claims need, as far as their specs are known."""

    def spec(key: ClaimKey) -> Mapping[str, Any] | None:
        return claim_spec(facts, _planned(key)).value

    return with_devices(demand, snapshot, spec, on_demand_drivers=facts.policy.parameters.on_demand_drivers)


def _planned(key: ClaimKey) -> PlannedClaim:
    name, claim, template = key
    return PlannedClaim(name=name, resource_claim_name=claim, resource_claim_template_name=template, path=FieldPath())


def wanted_claims(facts: Facts, pod: PodDemand | PodSet) -> Iterator[tuple[PlannedClaim, Wanted]]:
    """The claims of a Pod set whose specs are known, read against the snapshot's DeviceClasses."""
    inventory = device_inventory(facts)
    drivers = frozenset(facts.policy.parameters.on_demand_drivers)
    planned_claims = pod.planned_claims if isinstance(pod, PodDemand) else pod.claims
    for planned in planned_claims if inventory is not None else ():
        spec = claim_spec(facts, planned).value
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
