"""Claims -> device needs: what the engine has to know of a Pod's ResourceClaims.

READ THIS FIRST for devices. `with_devices(demand, snapshot, specs)` fills `PodDemand.devices`, `.served` and `.pins`:

1. devices_claims.py reads each claim's spec into what it certainly asks (cel.py: selectors in three truth values);
2. devices_stock.py reduces each node's devices to what those claims look at: nodes of equal stock are one class;
3. devices_bounds.py bounds how many Pods one node's devices hold, devices_search.py finds an allocation or none;
4. the engine takes the numbers as it takes cpu: `limits` per node, `ceiling` for devices that many nodes share, `pins`
   for Pods that share a claim on one node's devices;
5. devices_check.py is the independent judge of a witness.

Everything is an upper bound: an attribute that a device lacks, a selector outside the subset, a driver that publishes
devices on demand, a pool that is not complete, a node that does not exist yet may all match. Taints of devices and
allocations of today count only for READY and NOT_NOW. Source: kubernetes-1.37 section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from webhook.feasibility.devices_bounds import ENDLESS, Offer, may_match_driver, truth
from webhook.feasibility.devices_claims import Alternative, Request, Wanted, class_claim, read_claim
from webhook.feasibility.devices_search import Most, solve
from webhook.feasibility.devices_stock import DeviceKey, Kind, Shelf, kept
from webhook.feasibility.model import Demand, Doubt, LeafDemand, PodDemand, Reason, TreeDemand
from webhook.feasibility.nodefit import FIT_MAX, is_mapped
from webhook.inventory import tables
from webhook.inventory.devices import EVERYWHERE, DeviceInventory
from webhook.inventory.snapshot import Question, Snapshot
from webhook.inventory.tables import Base, Ints

ClaimKey = tuple[str, str | None, str | None]
# The spec of the ResourceClaim that a claim entry (name, resourceClaimName, resourceClaimTemplateName) stands for; None
# where it is not known.
Specs = Callable[[ClaimKey], Mapping[str, Any] | None]

_ASKED = Reason(Doubt.CLAIMS, "the Pods use resource claims")


@dataclass(frozen=True)
class Need:
    """A Pod set's claims: `own` each Pod has for itself, `shared` exist once, `identities` say which those are.
    See model.DeviceNeed."""

    own: tuple[Wanted, ...]
    shared: tuple[Wanted, ...] = ()
    identities: tuple[ClaimKey, ...] = ()
    key: DeviceKey = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        claims = (*self.own, *self.shared)
        reads = frozenset().union(*(claim.reads() for claim in claims))
        matched = frozenset(constraint.attribute for claim in claims for constraint in claim.constraints)
        object.__setattr__(self, "key", DeviceKey(reads, matched))

    @cached_property
    def _hash(self) -> int:
        return hash((self.own, self.shared))

    def __hash__(self) -> int:
        return self._hash

    @property
    def shared_claims(self) -> tuple[tuple[ClaimKey, Wanted], ...]:
        """The shared claims with what tells each from others."""
        return tuple(zip(self.identities, self.shared, strict=True))

    def answers(self, base: Base) -> tuple[Most, ...]:
        """Per stock of the nodes: how many Pods, and whether that is reached. Worked out once per table."""

        def make() -> tuple[Most, ...]:
            return tuple(
                solve(Offer(self.own, self.shared, stock, base.question)) for stock in self.key.shelf(base).stocks
            )

        return kept(base, ("answers", self), make)  # type: ignore[no-any-return]

    def limits(self, base: Base) -> Ints:
        """int64 [stock]: at most how many such Pods one node holds."""

        def make() -> Ints:
            return np.array([min(one.pod_count, FIT_MAX) for one in self.answers(base)], dtype=np.int64)

        return kept(base, ("limits", self), make)  # type: ignore[no-any-return]

    def ceiling(self, base: Base) -> int:
        """At most how many such Pods there can be anywhere, by requests that only devices of many nodes satisfy."""
        return kept(base, ("ceiling", self), lambda: self._ceiling(base))  # type: ignore[no-any-return]

    def _ceiling(self, base: Base) -> int:
        shelf = self.key.shelf(base)
        offers = [Offer(self.own, self.shared, stock, base.question) for stock in shelf.stocks]
        requests = [request for claim in self.own for request in claim.requests]
        return min((_shared_count(request, offers, base) for request in requests), default=ENDLESS)

    def device_count_max(self, base: Base) -> int:
        """For a need of one request: the most devices that one node has for it."""
        offers = [Offer(self.own, self.shared, stock, base.question) for stock in self.key.shelf(base).stocks]
        return max((offer.room(one.mask) for offer in offers for one in offer.asked.values()), default=0)

    def is_exact(self, base: Base) -> bool:
        """Are the limits reached on every node, each taken alone and all together?"""
        return kept(base, ("exact", self), lambda: self._is_exact(base))  # type: ignore[no-any-return]

    def _is_exact(self, base: Base) -> bool:
        if not all(one.is_exact for one in self.answers(base)):
            return False
        own = [request for claim in self.own for request in claim.requests]
        shared = [request for claim in self.shared for request in claim.requests]
        for stock in self.key.shelf(base).stocks:
            offer = Offer(self.own, self.shared, stock, base.question)
            of_many = sum(1 << index for index, kind in enumerate(stock.kinds) if kind.is_shared)
            somewhere = sum(
                1 << index for index, kind in enumerate(stock.kinds) if kind.is_shared and not kind.is_everywhere
            )
            if any(offer.asked[request].mask & of_many for request in own):
                return False
            if any(offer.asked[request].mask & somewhere for request in shared):
                return False
        return True

    def words(self) -> str:
        """`gpu.example.com: 2, nic.example.com: 1 (one resource.kubernetes.io/pcieRoot)`."""
        return ", ".join(claim_words(claim) for claim in (*self.own, *self.shared))


def claim_words(claim: Wanted) -> str:
    """What a claim asks, for a text."""
    parts = [" or ".join(dict.fromkeys(_way_words(one) for one in request.alternatives)) for request in claim.requests]
    same = [
        f"with {'a different' if one.is_distinct else 'the same'} {'/'.join(one.attribute)}"
        for one in claim.constraints
    ]
    return " + ".join(parts) + (f" ({', '.join(same)})" if same else "")


def _way_words(one: Alternative) -> str:
    count = "all" if one.count < 0 else str(one.count)
    return f"{count} {one.device_class}"


def _shared_count(request: Request, offers: list[Offer], base: Base) -> int:
    """How many Pods the devices that many nodes share satisfy; ENDLESS where a node's own device may do."""
    count = 1
    for offer in offers:
        asked = offer.asked[request]
        if asked.is_open or asked.is_admin:
            return ENDLESS
        kinds = [kind for index, kind in enumerate(offer.stock.kinds) if asked.mask >> index & 1]
        if any(not kind.is_shared or kind.shape.is_multiple for kind in kinds):
            return ENDLESS
        count = asked.count
    inventory = base.devices
    assert isinstance(inventory, DeviceInventory)  # noqa: S101  the shelf was made from it
    found = 0
    for device in inventory.shared:
        kind = Kind(device.shape, 1, {}, (), (), True, device.is_former)
        found += any(truth(one, kind, Question.NEVER) for one in request.alternatives)
    return found // count


def opened(claim: Wanted, on_demand_drivers: frozenset[str]) -> Wanted:
    """The claim, with requests that a driver may satisfy which publishes on demand without limit."""
    if not on_demand_drivers:
        return claim

    def way(one: Alternative) -> Alternative:
        may = any(may_match_driver(one, driver) for driver in on_demand_drivers)
        return replace(one, is_open=True) if may else one

    requests = tuple(
        replace(request, alternatives=tuple(way(one) for one in request.alternatives)) for request in claim.requests
    )
    if requests == claim.requests:
        return claim
    why = "its driver publishes devices only when they are asked for"
    return replace(claim, requests=requests, doubts=(*claim.doubts, why))


# ---- demands ------------------------------------------------------------------------------------------------------
def with_devices(
    demand: Demand,
    snapshot: Snapshot,
    specs: Specs,
    *,
    on_demand_drivers: Iterable[str] = (),
    question: Question = Question.NEVER,
) -> Demand:
    """The demand with its device needs. Without a device inventory, or where no Pod asks for devices, it is unchanged.

    on_demand_drivers: drivers that publish devices only when they are asked for (policy): their devices are unknown.
    """
    inventory = snapshot.devices
    if not isinstance(inventory, DeviceInventory) or demand.skip is not None:
        return demand
    asks = any(pod.claims or any(is_mapped(snapshot, name) for name, _ in pod.request) for pod in demand.pods())
    if not asks:
        return demand
    maker = _Maker(snapshot, inventory, specs, frozenset(on_demand_drivers), tables.base(snapshot, question))
    return replace(demand, root=maker.group(demand.root))


@dataclass(slots=True)
class _Maker:
    snapshot: Snapshot
    inventory: DeviceInventory
    specs: Specs
    on_demand: frozenset[str]
    base: Base
    read: dict[ClaimKey, Wanted | None] = field(default_factory=dict)

    def group(self, group: LeafDemand | TreeDemand) -> LeafDemand | TreeDemand:
        if isinstance(group, TreeDemand):
            return replace(group, children=tuple(self.group(child) for child in group.children))
        return replace(group, pods=tuple(self.pod(pod, group) for pod in group.pods))

    def pod(self, pod: PodDemand, leaf: LeafDemand) -> PodDemand:
        served = tuple(
            (name, Need((opened(class_claim(one, amount), self.on_demand),)))
            for name, amount in pod.request
            if is_mapped(self.snapshot, name)
            for one in self.inventory.classes_of(name)
        )
        if not pod.claims:
            return replace(pod, served=served)
        own: list[Wanted] = []
        shared: list[tuple[ClaimKey, Wanted]] = []
        doubts: list[Reason] = []
        for key in dict.fromkeys(pod.claims):
            wanted = self._wanted(key)
            if wanted is None:
                doubts.append(Reason(Doubt.CLAIMS, f'what claim "{key[0]}" still asks of devices is not known'))
            elif key in leaf.claims or key[1] is not None:
                shared.append((_identity(key), wanted))
            else:
                own.append(wanted)
        need = Need(tuple(own), tuple(wanted for _, wanted in shared), tuple(identity for identity, _ in shared))
        doubts += self._doubts(need, [wanted for _, wanted in shared])
        kept_doubts = [reason for reason in pod.unknowns if reason != _ASKED]
        return replace(
            pod,
            devices=need,
            served=served,
            pins=tuple(identity for identity, wanted in shared if self.pins(wanted)),
            unknowns=tuple(dict.fromkeys([*kept_doubts, *doubts])),
        )

    def _doubts(self, need: Need, shared: list[Wanted]) -> list[Reason]:
        found = [Reason(Doubt.CLAIMS, text) for claim in (*need.own, *need.shared) for text in claim.doubts]
        if not found and not need.is_exact(self.base):
            found.append(Reason(Doubt.CLAIMS, "whether the devices suffice for all Pods is not certain"))
        if not found and any(not self.pins(wanted) and not self._is_of_all_nodes(wanted) for wanted in shared):
            found.append(Reason(Doubt.CLAIMS, "where a shared claim lets its Pods run is not certain"))
        return found

    def _wanted(self, key: ClaimKey) -> Wanted | None:
        if key not in self.read:
            spec = self.specs(key)
            found = None if spec is None else read_claim(spec, self.inventory.classes)
            self.read[key] = None if found is None else opened(found, self.on_demand)
        return self.read[key]

    # -- shared claims ----------------------------------------------------------------------------------------------
    def pins(self, wanted: Wanted) -> bool:
        """Does the claim, once allocated, certainly tie its Pods to one node (createNodeSelector)? So it is where some
        request can only be satisfied by devices of one node."""
        if self.base.has_open or not self.base.is_real.all():
            return False
        return any(all(self._is_local(one) for one in request.alternatives) for request in wanted.requests)

    def _is_local(self, one: Alternative) -> bool:
        if one.is_open:
            return False
        drivers = self.inventory.unclear.get(EVERYWHERE, frozenset())
        if any(may_match_driver(one, driver) for driver in drivers):
            return False
        return not any(
            truth(one, Kind(device.shape, 1, {}, (), (), True, False), Question.NEVER)
            for device in self.inventory.shared
            if not device.shape.binds_to_node
        )

    def _is_of_all_nodes(self, wanted: Wanted) -> bool:
        """Is it certain that the claim leaves its Pods free to run anywhere?"""
        shelf: Shelf = DeviceKey(wanted.reads(), frozenset(one.attribute for one in wanted.constraints)).shelf(
            self.base
        )
        kinds = [kind for stock in shelf.stocks for kind in stock.kinds]
        return all(
            kind.is_everywhere and not kind.shape.binds_to_node
            for kind in kinds
            if any(truth(one, kind, Question.NEVER) for request in wanted.requests for one in request.alternatives)
        )


def _identity(key: ClaimKey) -> ClaimKey:
    """A claim by name is one, whatever the Pods call it."""
    return ("", key[1], None) if key[1] is not None else key
