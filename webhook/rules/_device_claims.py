"""The device side of the 5xx rules: claims of a plan against the snapshot's devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from webhook.facts.model import Facts
from webhook.feasibility.devices import ClaimKey, Need, opened, with_devices
from webhook.feasibility.devices_bounds import may_match_driver
from webhook.feasibility.devices_claims import Wanted, read_claim
from webhook.feasibility.devices_explain import taints
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, TreeDemand
from webhook.inventory import tables
from webhook.inventory.device_use import DeviceUse, overlaid
from webhook.inventory.devices import DeviceInventory, DeviceTaint
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


def taints_of_all(claim: Wanted, snapshot: Snapshot) -> tuple[DeviceTaint, ...]:
    """The taints that keep the claim off every node which is ready; () where one would do."""
    return taints(claim, tables.base(snapshot, Question.READY)) if fits_nowhere(claim, snapshot, Question.READY) else ()


def taint_words(taint: DeviceTaint) -> str:
    """``maintenance:NoSchedule by DeviceTaintRule blanket``."""
    return str(taint) + (f" by DeviceTaintRule {taint.rule}" if taint.rule else "")


def claims_of(demand: Demand) -> tuple[Wanted, ...]:
    """What the Pods ask of devices, extended resources that a DeviceClass serves included."""
    needs = [need for pod in demand.pods() for need in (pod.devices, *(one for _, one in pod.served))]
    found = [claim for need in needs if isinstance(need, Need) for claim in (*need.own, *need.shared)]
    return tuple(dict.fromkeys(found))


def are_devices_away(demand: Demand, snapshot: Snapshot) -> bool:
    """Is there any device that takes no claims today, and does the demand ask for devices?"""
    inventory = snapshot.devices
    if not isinstance(inventory, DeviceInventory) or not claims_of(demand):
        return False
    if inventory.taint_rules:
        return True
    kinds = chain(inventory.shared, *inventory.group_devices)
    return tables.once(snapshot, "devices away", lambda: any(one.is_former or one.shape.taints for one in kinds))


def away_words(demand: Demand, snapshot: Snapshot) -> list[str]:
    """Why devices take no claims of this demand today."""
    inventory = snapshot.devices
    claims = claims_of(demand)
    if not isinstance(inventory, DeviceInventory) or not claims:
        return []
    base = tables.base(snapshot, Question.READY)
    found = [
        f"devices tainted {taint_words(one)}" for one in sorted({t for claim in claims for t in taints(claim, base)})
    ]
    are_former = any(one.is_former for one in chain(inventory.shared, *inventory.group_devices))
    return [*found, *(["devices that were there lately"] if are_former else [])]


def has_held_devices(snapshot: Snapshot) -> bool:
    """Is it known of any device that a claim holds it?"""
    inventory = snapshot.devices
    return isinstance(inventory, DeviceInventory) and bool(inventory.allocated)


def held_words(demand: Demand, snapshot: Snapshot) -> str:
    """``12 of gpu.example.com``: the devices that claims hold, of drivers that the demand may take some of."""
    inventory = snapshot.devices
    if not isinstance(inventory, DeviceInventory):
        return ""

    def count() -> Counter[str]:
        return Counter(driver for driver, _, _ in inventory.allocated)

    ways = [one for claim in claims_of(demand) for request in claim.requests for one in request.alternatives]
    counts = tables.once(snapshot, "held devices", count)
    found = sorted(driver for driver in counts if any(may_match_driver(one, driver) for one in ways))
    return ", ".join(f"{counts[driver]:,} of {driver}" for driver in found)


def with_all_devices_free(snapshot: Snapshot) -> Snapshot:
    """The same cluster, with no device held by a claim."""

    def make() -> Snapshot:
        assert isinstance(snapshot.devices, DeviceInventory)  # noqa: S101  asked where some are held
        return replace(
            snapshot, devices=overlaid(snapshot.devices, DeviceUse(None, snapshot.devices.taint_rules)), prepared={}
        )

    return tables.once(snapshot, "all devices free", make)


def unpinned(demand: Demand) -> Demand | None:
    """The demand as if a shared claim on one node's devices let its Pods run anywhere; None if there is no such."""

    def of(group: LeafDemand | TreeDemand) -> LeafDemand | TreeDemand:
        if isinstance(group, LeafDemand):
            return replace(group, pods=tuple(replace(pod, pins=()) for pod in group.pods))
        return replace(group, children=tuple(of(child) for child in group.children))

    return replace(demand, root=of(demand.root)) if any(pod.pins for pod in demand.pods()) else None
