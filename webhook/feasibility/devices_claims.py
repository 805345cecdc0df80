"""ResourceClaim specs -> what they ask of devices, with every part that is not understood made harmless.

A `Wanted` claim asks no more than the real one: a selector outside the CEL subset may match, a DeviceClass that nobody
knows makes its request unlimited, a constraint that cannot be read is left out. Each such part is a note in `doubts`.
Rules: k8s.io/dynamic-resource-allocation v0.37.2, structured allocator; both the v1 and the flat v1beta1 form are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.feasibility.cel import Selector, selector
from webhook.feasibility.model import Toleration
from webhook.inventory.devices import DeviceClass, Key, selectors
from webhook.objects.quantity import Quantity, QuantityError

# k8s.io/api resource/v1: AllocationResultsMaxSize.
DEVICES_PER_CLAIM_MAX = 32
ALL = -1


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request. count: ALL for allocationMode All. selectors: of the class, then of the request
    itself, whose texts are `own`.
    is_open: nothing is known that a device must be (its class does not exist yet). capacities: what one device must
    have, at least."""

    name: str
    device_class: str
    selectors: tuple[Selector, ...]
    count: int = 1
    is_admin: bool = False
    is_open: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacities: tuple[tuple[Key, Quantity], ...] = ()
    own: frozenset[str] = frozenset()

    @property
    def count_min(self) -> int:
        """All takes one device at least."""
        return 1 if self.count == ALL else self.count


@dataclass(frozen=True, slots=True)
class Request:
    """alternatives: one, or those of firstAvailable in order."""

    name: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """attribute: by (domain, id). requests: names it is about, () for all. is_distinct: distinctAttribute."""

    attribute: Key
    requests: tuple[str, ...] = ()
    is_distinct: bool = False

    def meets(self, request: Request, alternative: Alternative) -> bool:
        """Is it about this way to satisfy the request?"""
        if not self.requests or request.name in self.requests:
            return True
        return len(request.alternatives) > 1 and f"{request.name}/{alternative.name}" in self.requests


@dataclass(frozen=True, slots=True)
class Wanted:
    """One claim. doubts: what was left out, in words; empty if nothing was."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def device_count_min(self) -> int:
        """Devices that the claim takes at least."""
        return sum(min(one.count_min for one in request.alternatives) for request in self.requests)

    def reads(self) -> frozenset[tuple[str, str, str]]:
        """Attributes and capacities that its selectors, constraints and capacity requests look at."""
        found: set[tuple[str, str, str]] = set()
        for request in self.requests:
            for one in request.alternatives:
                for chosen in one.selectors:
                    found |= chosen.reads
                found |= {("capacity", *key) for key, _ in one.capacities}
        return frozenset(found)


def read_claim(spec: Mapping[str, Any], classes: Mapping[str, DeviceClass]) -> Wanted:
    """spec: a ResourceClaimSpec (of a claim, or of a template). classes: every DeviceClass there is. Never raises."""
    doubts: list[str] = []
    devices = _map(spec.get("devices"))
    requests = [_request(_map(raw), classes, doubts) for raw in _list(devices.get("requests"))]
    found = [_constraint(_map(raw), doubts) for raw in _list(devices.get("constraints"))]
    derived = _derived(devices)
    constraints = []
    for constraint in found:
        if constraint is not None and constraint.attribute in derived:
            doubts.append(f'attribute "{"/".join(constraint.attribute)}" is derived')
        elif constraint is not None:
            constraints.append(constraint)
    return Wanted(
        requests=tuple(one for one in requests if one is not None),
        constraints=tuple(constraints),
        doubts=tuple(dict.fromkeys(doubts)),
    )


def class_claim(device_class: DeviceClass, count: int) -> Wanted:
    """The claim that the scheduler makes for an extended resource."""
    doubts: list[str] = []
    chosen = _compiled(device_class.selectors, doubts)
    return Wanted((Request("", (Alternative("", device_class.name, chosen, count),)),), doubts=tuple(doubts))


def _request(raw: Mapping[str, Any], classes: Mapping[str, DeviceClass], doubts: list[str]) -> Request | None:
    name = _text(raw.get("name"))
    alternatives = _list(raw.get("firstAvailable"))
    if alternatives:
        found = [_alternative(_map(item), classes, doubts) for item in alternatives]
        return Request(name, tuple(found))
    exactly = raw.get("exactly")
    if isinstance(exactly, Mapping):
        return Request(name, (_alternative(exactly, classes, doubts),))
    if "deviceClassName" in raw:
        return Request(name, (_alternative(raw, classes, doubts),))
    doubts.append(f'request "{name}" has no known form')
    return None


def _alternative(raw: Mapping[str, Any], classes: Mapping[str, DeviceClass], doubts: list[str]) -> Alternative:
    class_name = _text(raw.get("deviceClassName"))
    device_class = classes.get(class_name)
    if device_class is None:
        doubts.append(f'DeviceClass "{class_name}" is not known')
    own = _compiled(selectors(raw), doubts)
    chosen = own if device_class is None else (*_compiled(device_class.selectors, doubts), *own)
    return Alternative(
        name=_text(raw.get("name")),
        device_class=class_name,
        selectors=chosen,
        count=_count(raw, doubts),
        is_admin=raw.get("adminAccess") is True,
        is_open=device_class is None,
        tolerations=tuple(_toleration(_map(item)) for item in _list(raw.get("tolerations"))),
        capacities=_capacities(_map(_map(raw.get("capacity")).get("requests")), doubts),
        own=frozenset(one.text for one in own),
    )


def _count(raw: Mapping[str, Any], doubts: list[str]) -> int:
    mode = raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return ALL
    count = raw.get("count", 1)
    if mode != "ExactCount" or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        doubts.append(f'a request with allocationMode "{mode}" and count {count!r}')
        return 1
    return count


def _compiled(texts: Sequence[str | None], doubts: list[str]) -> tuple[Selector, ...]:
    """Selectors; one of an unknown kind may match and is left out."""
    found = tuple(selector(text) for text in texts if text is not None)
    if len(found) != len(texts):
        doubts.append("a selector that is not CEL")
    doubts += [f"a selector that Muster does not evaluate: {one.text[:120]}" for one in found if not one.is_whole]
    return found


def _capacities(raw: Mapping[str, Any], doubts: list[str]) -> tuple[tuple[Key, Quantity], ...]:
    """capacity.requests; a name without a domain is looked up with the device's driver: domain ""."""
    found: list[tuple[Key, Quantity]] = []
    if raw:
        doubts.append("capacity is asked of a device that several claims may share")
    for name, amount in sorted(raw.items()):
        domain, slash, rest = name.partition("/")
        try:
            quantity = Quantity.parse(amount)
        except (QuantityError, TypeError):
            doubts.append(f'capacity "{name}" cannot be read')
            continue
        found.append(((domain, rest) if slash else ("", name), quantity))
    return tuple(found)


def _constraint(raw: Mapping[str, Any], doubts: list[str]) -> Constraint | None:
    for field, is_distinct in (("matchAttribute", False), ("distinctAttribute", True)):
        name = raw.get(field)
        if isinstance(name, str) and "/" in name:
            domain, _, rest = name.partition("/")
            requests = tuple(sorted(one for one in _list(raw.get("requests")) if isinstance(one, str)))
            return Constraint((domain, rest), requests, is_distinct)
    doubts.append("a constraint of no known form")
    return None


def _derived(devices: Mapping[str, Any]) -> set[Key]:
    """Attributes that some request derives by an expression of its own (alpha)."""
    found: set[Key] = set()
    for request in map(_map, _list(devices.get("requests"))):
        parts = [_map(request.get("exactly")), *map(_map, _list(request.get("firstAvailable")))]
        for part in parts:
            for entry in map(_map, _list(part.get("derivedAttributes"))):
                domain, _, rest = _text(entry.get("name")).partition("/")
                found.add((domain, rest))
    return found


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=_text(raw.get("key")),
        operator=_text(raw.get("operator")),
        value=_text(raw.get("value")),
        effect=_text(raw.get("effect")),
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
