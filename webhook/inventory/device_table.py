"""Devices as bytes: a replica keeps them once, and a process decodes the devices of a node when somebody asks for them.

A cluster of 5,120 nodes has 80,000 devices; where each has a uuid, all of them as objects take 100 MiB in every process. What
decisions read, one node of each kind (`DeviceInventory.group_devices`), is decoded at once; the rest stays bytes. What is in
use of them today is no part of it: webhook/inventory/device_use.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webhook.inventory.devices import (
    Capacity,
    Device,
    DeviceClass,
    DeviceId,
    DeviceInventory,
    DeviceTaint,
    Shape,
)
from webhook.objects.quantity import Quantity

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode
_MAGIC = b"MUSTER-D"
# Shapes that were decoded lately, so that equal devices of one node share theirs.
_SHAPE_COUNT_MAX = 1024


class PackedDevices(Mapping[str, tuple[Device, ...]]):
    """The devices of each node (`DeviceInventory.local`), decoded on every look."""

    def __init__(self, rows: Mapping[str, int], nodes: Packed, shapes: Packed) -> None:
        self._rows, self._nodes, self._shapes = rows, nodes, shapes
        self._decoded: dict[int, Shape] = {}

    def __getitem__(self, node: str) -> tuple[Device, ...]:
        return tuple(self.device(raw, node) for raw in _decode(self._nodes[self._rows[node]]))

    def ids(self, node: str) -> list[DeviceId]:
        """Which devices these are, in order, at a tenth of the cost of what they say."""
        return [(raw[1], raw[2], raw[0]) for raw in _decode(self._nodes[self._rows[node]])]

    def __contains__(self, node: object) -> bool:
        return node in self._rows  # Mapping's own way is to decode its devices

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def device(self, raw: Sequence[Any], node: str | None) -> Device:
        """One device as `packed` wrote it."""
        name, driver, pool, shape, selector, is_former = raw
        return Device(name, (driver, pool), self._shape(shape), node, selector, is_former)

    def _shape(self, index: int) -> Shape:
        found = self._decoded.get(index)
        if found is None:
            if len(self._decoded) >= _SHAPE_COUNT_MAX:
                self._decoded = {}
            found = self._decoded[index] = _shape(_decode(self._shapes[index]))
        return found


class Packed:
    """Many byte strings in one, and where each begins."""

    def __init__(self, data: memoryview, ends: Sequence[int]) -> None:
        self._data, self._ends = data, ends

    def __getitem__(self, index: int) -> memoryview:
        return self._data[self._ends[index - 1] if index else 0 : self._ends[index]]


def packed(inventory: DeviceInventory) -> bytes:
    """The inventory as bytes."""
    shapes: dict[int, int] = {}
    shape_parts, node_parts = _Parts(), _Parts()

    def raw(device: Device) -> tuple[Any, ...]:
        index = shapes.setdefault(id(device.shape), len(shapes))
        if index == len(shape_parts.ends):
            shape_parts.append(_encode(_shape_parts(device.shape)))
        return (device.name, *device.pool, index, device.selector, device.is_former)

    for devices in inventory.local.values():
        node_parts.append(_encode([raw(device) for device in devices]))
    nodes = list(inventory.local)
    example_of: dict[int, int] = {}
    for row, node in enumerate(nodes):
        example_of.setdefault(inventory.groups[node], row)
    head = {
        "nodes": nodes,
        "groups": [inventory.groups[node] for node in nodes],
        "examples": [example_of[group] for group in range(len(inventory.group_devices))],
        "shared": [raw(device) for device in inventory.shared],
        "counters": [(*pool, _texts(sets)) for pool, sets in inventory.counters.items() if sets],
        "unclear": {node: sorted(drivers) for node, drivers in inventory.unclear.items()},
        "classes": [(one.name, one.selectors, one.extended_resource) for one in inventory.classes.values()],
        "strays": [(*pool, nodes) for pool, nodes in inventory.strays.items()],
        "identities": sorted(inventory.identities),
        "node_ends": node_parts.ends,
        "shape_ends": shape_parts.ends,
    }
    first = _encode(head)
    return b"".join([_MAGIC, len(first).to_bytes(8, "little"), first, node_parts.data, shape_parts.data])


def unpacked(data: memoryview | bytes) -> DeviceInventory:
    """The inventory that these bytes are. Raises ValueError."""
    view = memoryview(data)
    if bytes(view[:8]) != _MAGIC:
        raise ValueError("these are no devices")
    start = 16 + int.from_bytes(view[8:16], "little")
    head = _decode(view[16:start])
    nodes, node_ends, shape_ends = head["nodes"], head["node_ends"], head["shape_ends"]
    middle = start + (node_ends[-1] if node_ends else 0)
    if len(view) < middle + (shape_ends[-1] if shape_ends else 0):
        raise ValueError("the devices end too early")
    rows = {node: row for row, node in enumerate(nodes)}
    local = PackedDevices(rows, Packed(view[start:middle], node_ends), Packed(view[middle:], shape_ends))
    return DeviceInventory(
        local=local,
        shared=tuple(local.device(raw, None) for raw in head["shared"]),
        counters={(driver, pool): _numbers(sets) for driver, pool, sets in head["counters"]},
        unclear={node: frozenset(drivers) for node, drivers in head["unclear"].items()},
        classes={name: DeviceClass(name, tuple(selectors), extended) for name, selectors, extended in head["classes"]},
        allocated=frozenset(),
        taint_rules=(),
        groups=dict(zip(nodes, head["groups"], strict=True)),
        group_devices=tuple(local[nodes[row]] for row in head["examples"]),
        identities=frozenset((domain, name) for domain, name in head["identities"]),
        strays={(driver, pool): tuple(nodes) for driver, pool, nodes in head["strays"]},
    )


class _Parts:
    """Byte strings in one, in the making: 80,000 small ones would leave holes where they were."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ends: list[int] = []

    def append(self, part: bytes) -> None:
        self.data += part
        self.ends.append(len(self.data))


def _texts(sets: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, str]]:
    """Amounts in nano are beyond the integers of msgpack."""
    return {name: {counter: str(nano) for counter, nano in values.items()} for name, values in sets.items()}


def _numbers(sets: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, int]]:
    return {name: {counter: int(nano) for counter, nano in values.items()} for name, values in sets.items()}


def _taint_parts(taint: DeviceTaint) -> tuple[str, ...]:
    return (taint.key, taint.value, taint.effect, taint.rule)


def _shape_parts(shape: Shape) -> tuple[Any, ...]:
    return (
        shape.driver,
        [(*key, *tag) for key, tag in shape.attributes.items()],
        [(*key, _nano(one.value), _nano(one.default), one.has_policy) for key, one in shape.capacities.items()],
        [_taint_parts(taint) for taint in shape.taints],
        [(name, [(counter, str(nano)) for counter, nano in amounts]) for name, amounts in shape.consumes],
        shape.is_multiple,
        shape.binds_to_node,
        shape.is_broken,
    )


def _shape(parts: Sequence[Any]) -> Shape:
    driver, attributes, capacities, taints, consumes, *flags = parts
    return Shape(
        driver,
        {(domain, name): (kind, _value(value)) for domain, name, kind, value in attributes},
        {
            (domain, name): Capacity(_quantity(value), _quantity(default), has_policy)
            for domain, name, value, default, has_policy in capacities
        },
        tuple(DeviceTaint(*taint) for taint in taints),
        tuple((name, tuple((counter, int(nano)) for counter, nano in amounts)) for name, amounts in consumes),
        *flags,
    )


def _value(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value


def _nano(quantity: Quantity | None) -> str | None:
    return None if quantity is None else str(quantity.nano)


def _quantity(nano: str | None) -> Quantity | None:
    return None if nano is None else Quantity(int(nano))
