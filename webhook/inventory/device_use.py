"""What is in the way of devices today, for warnings only: which of them claims hold, and the DeviceTaintRules.

Both come and go all the time, so they are apart from what devices there are: `overlaid` puts them over an inventory, which
costs nothing per device. `marks` says of each node which of its devices they concern, by the devices' place in the order that
nodes of equal devices share. So nodes with the same marks are still one to every table, and no device has to be unpacked to
see what is left of a node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from webhook.inventory.device_table import PackedDevices
from webhook.inventory.devices import DeviceId, DeviceInventory, DeviceTaint, PoolId, TaintRule
from webhook.inventory.snapshot import Question

_NONE: frozenset[str] = frozenset()


class Allocated(AbstractSet[DeviceId]):
    """Devices that claims hold, by pool: as a set of names in full, 40,000 of them take 10 MB in every process."""

    __slots__ = ("by_pool",)

    def __init__(self, by_pool: Mapping[PoolId, frozenset[str]]) -> None:
        self.by_pool = by_pool

    @classmethod
    def of(cls, devices: Iterable[DeviceId]) -> Self:
        """Of full names."""
        found: dict[PoolId, set[str]] = defaultdict(set)
        for driver, pool, name in devices:
            found[driver, pool].add(name)
        return cls({pool: frozenset(names) for pool, names in found.items()})

    def __contains__(self, device: Any) -> bool:
        driver, pool, name = device
        return name in self.by_pool.get((driver, pool), _NONE)

    def __iter__(self) -> Iterator[DeviceId]:
        return ((*pool, name) for pool, names in self.by_pool.items() for name in names)

    def __len__(self) -> int:
        return sum(map(len, self.by_pool.values()))


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """None: it is not known, and nothing is said that rests on it."""

    allocated: Allocated | None = None
    taint_rules: tuple[TaintRule, ...] | None = None


NOTHING_KNOWN = DeviceUse()


def overlaid(inventory: DeviceInventory, use: DeviceUse) -> DeviceInventory:
    """The same devices as they are used today; what is not known counts as none."""
    return replace(inventory, allocated=use.allocated or Allocated({}), taint_rules=use.taint_rules or (), prepared={})


# ---- which devices of a node ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Mark:
    """Bits by the place of a device among its node's own. held: those that claims hold. ruled: of each rule that names pools or
    devices, in the order of `named`, those that it taints."""

    held: int = 0
    ruled: tuple[int, ...] = ()


UNMARKED = Mark()


def is_named(rule: TaintRule) -> bool:
    """Does it tell equal devices apart, by the names of pools or devices?"""
    return rule.pool is not None or rule.device is not None


def marks(inventory: DeviceInventory, question: Question) -> Mapping[str, Mark]:
    """Those of nodes that have any; worked out once."""
    if question is Question.NEVER:
        return {}
    found = inventory.prepared.get(("marks", question))
    if found is None:
        found = inventory.prepared.setdefault(("marks", question), _marks(inventory, question))
    return found  # type: ignore[no-any-return]


def _marks(inventory: DeviceInventory, question: Question) -> dict[str, Mark]:
    rules = tuple(filter(is_named, inventory.taint_rules))
    held: Mapping[PoolId, frozenset[str]] = {}
    if question is Question.NOT_NOW:
        taken = inventory.allocated
        held = (taken if isinstance(taken, Allocated) else Allocated.of(taken)).by_pool
    nodes: dict[str, None] = {}
    for pool in held:
        nodes |= dict.fromkeys(inventory.nodes_of(pool))
    for rule in rules:
        nodes |= dict.fromkeys(_nodes_of(rule, inventory))
    # Nodes with the same marks share one.
    same: dict[Mark, Mark] = {}
    found = {node: same.setdefault(mark, mark) for node in nodes for mark in [_mark(inventory, node, held, rules)]}
    return {node: mark for node, mark in found.items() if mark.held or any(mark.ruled)}


def _nodes_of(rule: TaintRule, inventory: DeviceInventory) -> Iterable[str]:
    """All nodes that may have a device of the rule."""
    if rule.pool is None:
        return inventory.local
    if rule.driver is not None:
        return inventory.nodes_of((rule.driver, rule.pool))
    pools = [pool for pool in inventory.strays if pool[1] == rule.pool]
    return (node for pool in (("", rule.pool), *pools) for node in inventory.nodes_of(pool))


def _mark(
    inventory: DeviceInventory, node: str, held: Mapping[PoolId, frozenset[str]], rules: Sequence[TaintRule]
) -> Mark:
    local = inventory.local
    ids = local.ids(node) if isinstance(local, PackedDevices) else [device.id for device in local[node]]
    taken = 0
    ruled = [0] * len(rules)
    for place, (driver, pool, name) in enumerate(ids):
        if name in held.get((driver, pool), _NONE):
            taken |= 1 << place
        for index, rule in enumerate(rules):
            if rule.names((driver, pool), name):
                ruled[index] |= 1 << place
    return Mark(taken, tuple(ruled))


# ---- bytes ----------------------------------------------------------------------------------------------------------
class _Packed(msgspec.Struct, array_like=True):
    """held: (driver, pool, names)."""

    held: list[tuple[str, str, tuple[str, ...]]] | None
    rules: list[tuple[str, tuple[str, str, str], str | None, str | None, str | None]] | None


def packed(use: DeviceUse) -> bytes:
    """As bytes."""
    held = None
    if use.allocated is not None:
        held = [(*pool, tuple(sorted(names))) for pool, names in sorted(use.allocated.by_pool.items())]
    rules: Any = None
    if use.taint_rules is not None:
        rules = [
            (one.name, (one.taint.key, one.taint.value, one.taint.effect), one.driver, one.pool, one.device)
            for one in use.taint_rules
        ]
    return msgspec.msgpack.encode(_Packed(held, rules))


def unpacked(data: bytes | memoryview) -> DeviceUse:
    """What these bytes say. Raises msgspec.DecodeError."""
    read = msgspec.msgpack.decode(data, type=_Packed)
    allocated = None
    if read.held is not None:
        # Drivers name the devices of every node alike.
        same: dict[tuple[str, ...], frozenset[str]] = {}
        drivers: dict[str, str] = {}
        by_pool: dict[PoolId, frozenset[str]] = {}
        for driver, pool, names in read.held:
            by_pool[drivers.setdefault(driver, driver), pool] = same.setdefault(names, frozenset(names))
        allocated = Allocated(by_pool)
    rules = None
    if read.rules is not None:
        rules = tuple(TaintRule(name, DeviceTaint(*taint, name), *rest) for name, taint, *rest in read.rules)
    return DeviceUse(allocated, rules)
