"""The independent judge of device placements: is there an allocation, device by device, on the nodes of a witness?

Slow and plain. It looks at single devices, not at kinds, shares no code with the bounds and the search but the reading
of claims and selectors, and goes through claims, requests and devices as the scheduler's allocator does, except that it
may try another order for Pods. Only what is certain counts: a selector that may match does not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from webhook.feasibility.cel import Truth
from webhook.feasibility.devices_claims import ALL, DEVICES_PER_CLAIM_MAX, Alternative, Wanted
from webhook.feasibility.devices_stock import Values, constraint_values, reaches
from webhook.inventory.devices import Device, DeviceId, DeviceInventory, Key, Tagged
from webhook.inventory.snapshot import Node, Question

_BUDGET_STEPS = 50_000


@dataclass(slots=True)
class Hands:
    """Which devices are taken, and what counters are used, on all nodes together."""

    taken: set[DeviceId] = field(default_factory=set)
    used: Counter[tuple[tuple[str, str], str, str]] = field(default_factory=Counter)


def candidates(inventory: DeviceInventory, node: Node, question: Question) -> list[Device]:
    """Devices that the node reaches today, and that no claim holds where that is asked."""
    found = _reached(inventory, node)
    if question is Question.NOT_NOW:
        found = [device for device in found if device.id not in inventory.allocated]
    return found


def _reached(inventory: DeviceInventory, node: Node) -> list[Device]:
    found = [*inventory.local.get(node.name, ()), *inventory.shared]
    return [device for device in found if not device.is_former and reaches(device, node)]


@dataclass(slots=True)
class Judge:
    """Allocates claims on one node after the other; `claims` gives False where it found none."""

    inventory: DeviceInventory
    question: Question
    hands: Hands = field(default_factory=Hands)
    left: int = _BUDGET_STEPS

    def claims(self, claims: Sequence[Wanted], node: Node) -> bool:
        """Takes devices for all of these claims on the node, or nothing. Admin access beside other requests is not
        certain: within one Pod they keep each other from a device, by their order."""
        requests = [request for claim in claims for request in claim.requests]
        if len(set(requests)) > 1 and any(one.is_admin for request in requests for one in request.alternatives):
            return False
        devices = candidates(self.inventory, node, self.question)
        if self.question is Question.NOT_NOW:
            self._count_held(node)
        return next(self._claims(claims, devices), None) is not None

    def _count_held(self, node: Node) -> None:
        """What the devices that claims hold draw on counters, once per device."""
        for device in _reached(self.inventory, node):
            if device.id in self.inventory.allocated and device.id not in self.hands.taken:
                self.hands.taken.add(device.id)
                for name, amounts in device.shape.consumes:
                    for counter, nano in amounts:
                        self.hands.used[device.pool, name, counter] += nano

    def _claims(self, claims: Sequence[Wanted], devices: list[Device]) -> Iterator[bool]:
        if not claims:
            yield True
            return
        first, *rest = claims
        if first.doubts:
            return
        for _ in self._requests(first, 0, devices, []):
            yield from self._claims(rest, devices)

    def _requests(
        self, claim: Wanted, index: int, devices: list[Device], held: list[tuple[Alternative, str, Device]]
    ) -> Iterator[bool]:
        if index == len(claim.requests):
            yield True
            return
        request = claim.requests[index]
        for one in request.alternatives:
            matching = [device for device in devices if self.matches(one, device)]
            count = len(matching) if one.count == ALL else one.count
            if not count or len(held) + count > DEVICES_PER_CLAIM_MAX:
                continue
            for _ in self._choose(claim, (index, one), matching, count, held):
                yield from self._requests(claim, index + 1, devices, held)

    def _choose(
        self,
        claim: Wanted,
        way: tuple[int, Alternative],
        matching: list[Device],
        count: int,
        held: list[tuple[Alternative, str, Device]],
    ) -> Iterator[bool]:
        """`count` of the matching devices, in order; they are held while the generator stands at its yield."""
        if not count:
            yield True
            return
        index, one = way
        for at, device in enumerate(matching):
            self.left -= 1
            if self.left < 0 or len(matching) - at < count:
                return
            if not self._take(one, device, held):
                continue
            held.append((one, claim.requests[index].name, device))
            if self._constraints_hold(claim, held):
                yield from self._choose(claim, way, matching[at + 1 :], count - 1, held)
            held.pop()
            self._give_back(one, device)

    def matches(self, one: Alternative, device: Device) -> bool:
        """Does the device certainly satisfy this way of a request?"""
        if one.is_open or device.shape.is_broken:
            return False
        taints = list(device.shape.taints)
        taints += [rule.taint for rule in self.inventory.taint_rules if rule.meets(device)]
        if self.question is not Question.NEVER and not all(
            any(toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in one.tolerations)
            for taint in taints
        ):
            return False
        return all(selector.of(Values(device.shape)) is Truth.YES for selector in one.selectors)

    def _take(self, one: Alternative, device: Device, held: list[tuple[Alternative, str, Device]]) -> bool:
        if device.shape.is_multiple:
            return not device.shape.capacities
        if one.is_admin:
            return all(other.id != device.id for _, _, other in held)
        if device.id in self.hands.taken:
            return False
        limits = self.inventory.counters.get(device.pool, {})
        for name, amounts in device.shape.consumes:
            for counter, nano in amounts:
                if self.hands.used[device.pool, name, counter] + nano > limits[name][counter]:
                    return False
        for name, amounts in device.shape.consumes:
            for counter, nano in amounts:
                self.hands.used[device.pool, name, counter] += nano
        self.hands.taken.add(device.id)
        return True

    def _give_back(self, one: Alternative, device: Device) -> None:
        if one.is_admin or device.shape.is_multiple:
            return
        self.hands.taken.discard(device.id)
        for name, amounts in device.shape.consumes:
            for counter, nano in amounts:
                self.hands.used[device.pool, name, counter] -= nano

    @staticmethod
    def _constraints_hold(claim: Wanted, held: list[tuple[Alternative, str, Device]]) -> bool:
        names = {request.name: request for request in claim.requests}
        for constraint in claim.constraints:
            bound = [device for one, name, device in held if constraint.meets(names[name], one)]
            values = [_values(device, constraint.attribute) for device in bound]
            if any(found is None for found in values):
                return False
            if constraint.is_distinct:
                seen = [found for found in values if found]
                if len(set(seen)) != len(seen) or any(len(found) != 1 for found in seen):
                    return False
            elif values and not frozenset.intersection(*(found for found in values if found)):
                return False
        return True


def _values(device: Device, attribute: Key) -> frozenset[Tagged] | None:
    tag = device.shape.attributes.get(attribute)
    found = None if tag is None else constraint_values(tag)
    return None if not found else frozenset(found)


def node_faults(
    inventory: DeviceInventory,
    placed: Sequence[tuple[Node, tuple[Wanted, ...], tuple[tuple[object, Wanted], ...], int]],
    question: Question,
) -> list[str]:
    """What is wrong with Pods on nodes: entries (node, claims each Pod has for itself, (identity, claim) that Pods
    share, number of Pods). A claim that Pods on several nodes share has to be one that all those nodes reach."""
    judge = Judge(inventory, question)
    nodes: dict[str, Node] = {}
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    homes: dict[object, str] = {}
    found: list[str] = []
    for node, own, shared, pod_count in placed:
        nodes[node.name] = node
        for identity, claim in shared:
            if homes.setdefault(identity, node.name) != node.name and not _is_of_everywhere(judge, claim, node):
                found.append(f"{identity}: shared by Pods on several nodes")
        wanted[node.name] += [claim for _ in range(pod_count) for claim in own]
    once = {identity: claim for _, _, shared, _ in placed for identity, claim in shared}
    for name, claims in wanted.items():
        here = [claim for identity, claim in once.items() if homes[identity] == name]
        if not judge.claims([*here, *claims], nodes[name]):
            found.append(f"{name}: no devices for all of its Pods")
    return found


def _is_of_everywhere(judge: Judge, wanted: Wanted, node: Node) -> bool:
    """Are all devices that the claim could have got there open to all nodes?"""
    devices = candidates(judge.inventory, node, judge.question)
    ways = [one for request in wanted.requests for one in request.alternatives]
    matching = [device for device in devices if any(judge.matches(one, device) for one in ways)]
    return all(
        device.node is None and device.selector is None and not device.shape.binds_to_node for device in matching
    )
