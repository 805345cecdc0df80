"""Which selector, attribute or number leaves a claim without devices: what the 5xx rules tell a tenant."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from webhook.feasibility.cel import Selector, Truth
from webhook.feasibility.devices_bounds import Offer
from webhook.feasibility.devices_claims import DEVICES_PER_CLAIM_MAX, Alternative, Constraint, Request, Wanted
from webhook.feasibility.devices_stock import DeviceKey, Values
from webhook.inventory.devices import DeviceInventory, DeviceTaint, Key, Shape
from webhook.inventory.snapshot import Question
from webhook.inventory.tables import Base

_VALUES_MAX = 10


class Shortage(enum.StrEnum):
    """What is short."""

    SELECTOR = "selector"  # no device of the class passes a selector
    CLASS = "class"  # no device at all is in the class
    CAPACITY = "capacity"  # no device has the capacity that is asked of one
    COUNT = "count"  # no node has that many
    CONSTRAINT = "constraint"  # no node has them with the attribute that they must have in common
    LIMIT = "limit"  # more than a claim can hold
    TOGETHER = "together"  # each request alone would do


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Why no node has the devices of one claim. request: its name; subject: the selector's text or the attribute;
    asked, most: devices asked for and the most that one node has; values: what the class's devices have instead."""

    shortage: Shortage
    request: str = ""
    device_class: str = ""
    subject: str = ""
    asked: int = 0
    most: int = 0
    in_class: int = 0
    values: tuple[str, ...] = ()


def gap(claim: Wanted, inventory: DeviceInventory, base: Base) -> Gap:
    """The most telling reason for a claim that no node satisfies."""
    if claim.device_count_min > DEVICES_PER_CLAIM_MAX:
        return Gap(shortage=Shortage.LIMIT, asked=claim.device_count_min, most=DEVICES_PER_CLAIM_MAX)
    shapes = [(device.shape, count) for device, count in inventory.examples(_attributes(claim.reads()))]
    for request in claim.requests:
        if len(request.alternatives) == 1:
            found = _without_any(request.name, request.alternatives[0], shapes)
            if found is not None:
                return found
    bare = Wanted(claim.requests)
    for request in claim.requests:
        most = _most_of_request(Wanted((request,)), base)
        count = min(one.count_min for one in request.alternatives)
        if most < count:
            name = " or ".join(dict.fromkeys(one.device_class for one in request.alternatives))
            return Gap(shortage=Shortage.COUNT, request=request.name, device_class=name, asked=count, most=most)
    if _holds(bare, base):
        for constraint in claim.constraints:
            if not _holds(Wanted(claim.requests, (constraint,)), base):
                name, most = _smaller(claim, constraint, base)
                return Gap(
                    shortage=Shortage.CONSTRAINT, subject="/".join(constraint.attribute), request=name, most=most
                )
    return Gap(shortage=Shortage.TOGETHER)


def _attributes(reads: Iterable[tuple[str, str, str]]) -> frozenset[Key]:
    return frozenset((domain, name) for kind, domain, name in reads if kind == "attribute")


def _without_any(name: str, one: Alternative, shapes: Sequence[tuple[Shape, int]]) -> Gap | None:
    """A request that no device satisfies: the first selector after which none is left. shapes: with how many devices
    there are of each."""
    left = list(shapes)
    in_class = 0
    for index, selector in enumerate(one.selectors):
        passing = [(shape, count) for shape, count in left if selector.of(Values(shape)) is not Truth.NO]
        if not passing and left:
            is_own = any(text == selector.text for text in one.own)
            if not is_own and index == 0:
                return Gap(shortage=Shortage.CLASS, request=name, device_class=one.device_class)
            there = [shape for shape, _ in left]
            text = _culprit(selector, there)
            return Gap(
                shortage=Shortage.SELECTOR,
                request=name,
                device_class=one.device_class,
                subject=text,
                in_class=in_class or _total(left),
                values=_values(selector, there, text),
            )
        left = passing
        in_class = _total(left)
    for (domain, attribute), amount in one.capacities:
        having = [shape.capacities.get((domain or shape.driver, attribute)) for shape, _ in left]
        if left and not any(found and (found.value is None or found.value >= amount) for found in having):
            largest = max((found.value for found in having if found and found.value), default=None)
            return Gap(
                shortage=Shortage.CAPACITY,
                request=name,
                device_class=one.device_class,
                subject=f"{attribute}: {amount}",
                values=(str(largest),) if largest else (),
            )
    return None


def _total(shapes: Sequence[tuple[Shape, int]]) -> int:
    return sum(count for _, count in shapes)


def _culprit(selector: Selector, shapes: Sequence[Shape]) -> str:
    """The part of an expression that alone leaves no device, or all of it."""
    for text, _ in selector.conjuncts:
        if all(text in selector.culprits(Values(shape)) for shape in shapes):
            return text
    return selector.text


def _values(selector: Selector, shapes: Sequence[Shape], text: str) -> tuple[str, ...]:
    """``model = h200``: what the devices have of the attributes that the text names."""
    found: list[str] = []
    for kind, domain, name in sorted(selector.reads):
        if name not in text:
            continue
        seen = {_shown(shape, kind, (domain, name)) for shape in shapes} - {""}
        if seen:
            more = f" and {len(seen) - _VALUES_MAX} more" if len(seen) > _VALUES_MAX else ""
            found.append(f"{name} is " + ", ".join(sorted(seen)[:_VALUES_MAX]) + more)
    if "device.driver" in text:
        found.append("driver is " + ", ".join(sorted({f'"{shape.driver}"' for shape in shapes})[:_VALUES_MAX]))
    return tuple(found)


def _shown(shape: Shape, kind: str, key: Key) -> str:
    if kind == "capacity":
        capacity = shape.capacities.get(key)
        return "" if capacity is None or capacity.value is None else str(capacity.value)
    tag = shape.attributes.get(key)
    if tag is None:
        return ""
    return (
        f'"{tag[1]}"' if tag[0] in ("string", "version") else str(tag[1]).lower() if tag[0] == "bool" else str(tag[1])
    )


def _offers(claim: Wanted, base: Base, question: Question = Question.NEVER) -> Iterator[Offer]:
    matched = frozenset(constraint.attribute for constraint in claim.constraints)
    for stock in DeviceKey(claim.reads(), matched).shelf(base).stocks:
        yield Offer((claim,), (), stock, question)


def _holds(claim: Wanted, base: Base) -> bool:
    return any(offer.most() > 0 for offer in _offers(claim, base))


def _smaller(claim: Wanted, constraint: Constraint, base: Base) -> tuple[str, int]:
    """(the largest request, with how many devices it would hold together with the others); ("", 0) where that alone is
    no way out."""
    largest = max(claim.requests, key=lambda request: request.alternatives[0].count)
    if len(largest.alternatives) != 1:
        return "", 0
    for count in range(largest.alternatives[0].count - 1, 0, -1):
        fewer = Request(largest.name, (replace(largest.alternatives[0], count=count),))
        requests = tuple(fewer if request is largest else request for request in claim.requests)
        if _holds(Wanted(requests, (constraint,)), base):
            return largest.name, count
    return "", 0


def _most_of_request(claim: Wanted, base: Base) -> int:
    """The most devices for its only request that one node has."""
    request = claim.requests[0]
    return max((offer.room(offer.asked[request].mask) for offer in _offers(claim, base)), default=0)


# ---- what only warns ----------------------------------------------------------------------------------------------
def unheard_of(claim: Wanted, inventory: DeviceInventory) -> tuple[str, ...]:
    """Attributes that the claim's own selectors or constraints read and no device of its classes has: in 1.37 such a
    selector fails on every device."""
    found: list[str] = []
    for request in claim.requests:
        for one in request.alternatives:
            having = _in_class(one, inventory)
            for selector in one.selectors:
                # An answer that does not depend on the attribute (has, another part that is false) is no error.
                if selector.text not in one.own or not all(
                    selector.of(Values(shape)) is Truth.MAYBE for shape in having
                ):
                    continue
                for kind, domain, name in sorted(selector.reads):
                    key = (domain, name)
                    if having and not any(
                        key in (shape.attributes if kind == "attribute" else shape.capacities) for shape in having
                    ):
                        found.append(f"{domain}/{name}")
    return tuple(dict.fromkeys(found))


def _in_class(one: Alternative, inventory: DeviceInventory) -> list[Shape]:
    """Shapes of devices that the class's selectors let in."""
    if one.is_open:
        return []
    of_class = [selector for selector in one.selectors if selector.text not in one.own]
    reads = _attributes(read for selector in one.selectors for read in selector.reads)
    shapes = {id(device.shape): device.shape for device, _ in inventory.examples(reads)}.values()
    return [shape for shape in shapes if all(s.of(Values(shape)) is not Truth.NO for s in of_class)]


def taints(claim: Wanted, base: Base) -> tuple[DeviceTaint, ...]:
    """Taints of the devices that the claim may take on these nodes and does not tolerate."""
    found: set[DeviceTaint] = set()
    for offer in _offers(claim, base):
        for kind in offer.stock.kinds if any(kind.taints for kind in offer.stock.kinds) else ():
            for request in claim.requests:
                for one in request.alternatives:
                    if all(selector.of(Values(kind.shape)) is not Truth.NO for selector in one.selectors):
                        found |= {taint for taint in kind.taints if not _tolerated(one, taint)}
    return tuple(sorted(found))


def _tolerated(one: Alternative, taint: DeviceTaint) -> bool:
    return any(toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in one.tolerations)
