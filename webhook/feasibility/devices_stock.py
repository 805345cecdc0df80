"""Stock: what devices one node offers, reduced to what a claim looks at; nodes with equal stock are one.

`DeviceKey` takes the place of a label key in the engine's tables: its "values" are stocks. Its projection keeps the
attributes and capacities that the claim's selectors read; values of matchAttribute attributes are renamed in order of
appearance, since only their equality counts: nodes whose PCIe roots have other names are still equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from webhook.feasibility.cel import ABSENT, UNKNOWN
from webhook.feasibility.model import Reason, Term
from webhook.feasibility.selectors import terms
from webhook.inventory.device_use import UNMARKED, Mark, is_named, marks
from webhook.inventory.devices import (
    EVERYWHERE,
    Device,
    DeviceInventory,
    DeviceTaint,
    Key,
    PoolId,
    Shape,
    Tagged,
)
from webhook.inventory.snapshot import Node, Question
from webhook.inventory.tables import NAME_KEY, Base, Ints, NodeKey
from webhook.inventory.versions import Version

# Beyond this many different node selectors every node is taken to reach every shared device: an upper bound still.
_SELECTOR_COUNT_MAX = 256
_PREPARED_COUNT_MAX = 512


class Values:
    """A Shape as CEL sees it (cel.DeviceValues)."""

    __slots__ = ("_shape", "driver", "is_multiple")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.driver = shape.driver
        self.is_multiple: Any = shape.is_multiple

    def attribute(self, key: Key) -> Any:
        tag = self._shape.attributes.get(key)
        if tag is None:
            return ABSENT
        kind, value = tag
        if kind == "version":
            return Version.parse(value) or UNKNOWN
        if kind == "versions":
            return tuple(Version.parse(one) or UNKNOWN for one in value)
        return UNKNOWN if kind == "" else value

    def capacity(self, key: Key) -> Any:
        found = self._shape.capacities.get(key)
        if found is None:
            return ABSENT
        return UNKNOWN if found.value is None else found.value


class AnyOf:
    """A device of a driver of which nothing else is known (cel.DeviceValues)."""

    __slots__ = ("driver", "is_multiple")

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.is_multiple: Any = UNKNOWN

    def attribute(self, _key: Key) -> Any:
        return UNKNOWN

    def capacity(self, _key: Key) -> Any:
        return UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Devices of one node that no claim in question can tell apart.

    values: of the constraints' attributes, by key, each a tuple of tagged values (a scalar is one); None where the
    attribute cannot be read. sets: (counter set index, ((counter, nano), ...)). is_shared: other nodes reach it too;
    is_everywhere: all do.
    """

    shape: Shape
    count: int
    values: Mapping[Key, tuple[Tagged, ...] | None]
    sets: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    taints: tuple[DeviceTaint, ...]
    is_shared: bool
    is_former: bool
    is_everywhere: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """What one node offers. open_drivers: drivers that may publish more there than is known; is_open: nothing is
    known of it (a pool's node before it exists). limits: nano, per counter set index."""

    kinds: tuple[Kind, ...]
    limits: tuple[Mapping[str, int], ...] = ()
    open_drivers: frozenset[str] = frozenset()
    is_open: bool = False
    has_allocated: bool = False


class DeviceKey(NodeKey):
    """reads: ("attribute" | "capacity", domain, id) that selectors look at; matched: attributes of constraints."""

    reads: frozenset[tuple[str, str, str]]
    matched: frozenset[Key]

    def __new__(cls, reads: frozenset[tuple[str, str, str]], matched: frozenset[Key]) -> Self:
        # No label key holds a NUL.
        made = super().__new__(cls, f"\0devices {sorted(reads)} {sorted(matched)}")
        made.reads, made.matched = reads, matched
        return made

    def codes(self, base: Base) -> tuple[Ints, list[str]]:
        """As Base.label: int64 [node], and one "value" per stock."""
        shelf = self.shelf(base)
        return shelf.codes, [str(index) for index in range(len(shelf.stocks))]

    def shelf(self, base: Base) -> Shelf:
        """The stocks of all nodes of `base`, made on first use."""
        return kept(base, self, lambda: _Shelver(self, base).shelf())  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Shelf:
    """codes int64 [node]: index into stocks."""

    codes: Ints
    stocks: tuple[Stock, ...]


def kept(base: Base, key: Hashable, make: Any) -> Any:
    """Kept with the table. Made again after the store was emptied, it comes out the same."""
    found = base.prepared.get(key)
    if found is None:
        if len(base.prepared) >= _PREPARED_COUNT_MAX:
            base.prepared.clear()
        found = base.prepared.setdefault(key, make())
    return found


# ---- which node reaches which shared device -----------------------------------------------------------------------
def reach(inventory: DeviceInventory, node: Node) -> tuple[Device, ...]:
    """Shared devices that the node can use."""
    return tuple(device for device in inventory.shared if reaches(device, node))


def reaches(device: Device, node: Node) -> bool:
    if device.node is not None:
        return device.node == node.name
    return device.selector is None or _matches(_terms(device.selector), node)


def _terms(selector: Mapping[str, Any]) -> tuple[Term, ...] | None:
    doubts: list[Reason] = []
    found = terms({"requiredDuringSchedulingIgnoredDuringExecution": selector}, doubts)
    return None if doubts else found


def _matches(found: tuple[Term, ...] | None, node: Node) -> bool:
    """A selector that cannot be read may match."""
    if found is None:
        return True
    labels = {**node.labels, NAME_KEY: node.name}
    return any(
        all(requirement.holds(labels.get(requirement.key)) for requirement in term.labels + term.names)
        for term in found
    )


@dataclass(frozen=True, slots=True)
class _Now:
    """A device as the question sees it: its taints, and whether a claim holds it."""

    device: Device
    taints: tuple[DeviceTaint, ...]
    is_held: bool


# ---- making stocks ------------------------------------------------------------------------------------------------
class _Shelver:
    """Goes through the nodes of a table once."""

    def __init__(self, key: DeviceKey, base: Base) -> None:
        assert isinstance(base.devices, DeviceInventory)  # noqa: S101  a need is made from one
        self.inventory: DeviceInventory = base.devices
        self.base = base
        self.key = key
        self.question = base.question
        attributes = {(domain, name) for kind, domain, name in key.reads if kind == "attribute"}
        self.attributes = sorted(attributes)
        self.renamed = sorted(key.matched - attributes)
        self.capacities = sorted((domain, name) for kind, domain, name in key.reads if kind == "capacity")
        self.is_by_node = bool(self.inventory.identities & (attributes | key.matched))
        self.rules = () if self.question is Question.NEVER else self.inventory.taint_rules
        # Which bits of a mark are a rule's.
        self.bits = {rule: index for index, rule in enumerate(filter(is_named, self.rules))}
        self.marks = marks(self.inventory, self.question)
        self.projected: dict[Hashable, tuple[str, ...]] = {}
        self.stocks: list[Stock] = []
        self.by_content: dict[Hashable, int] = {}

    def shelf(self) -> Shelf:
        inventory = self.inventory
        open_everywhere = inventory.unclear.get(EVERYWHERE, frozenset())
        by_key: dict[Hashable, int] = {}
        names = self.base.label(NAME_KEY)[1]
        open_nodes: list[bool] = (self.base.is_open | ~self.base.is_real).tolist()
        codes = np.empty(len(names), dtype=np.int64)
        selectors = self._selectors()
        for index, (name, is_open) in enumerate(zip(names, open_nodes, strict=True)):
            local: Hashable = name if self.is_by_node and name in inventory.local else inventory.groups.get(name, -1)
            opened = open_everywhere | inventory.unclear.get(name, frozenset())
            mark = self.marks.get(name, UNMARKED)
            key = (local, mark, self._reached(selectors, index), opened, is_open)
            code = by_key.get(key)
            if code is None:
                code = by_key[key] = self._code(self.base.nodes[index], local, mark, opened, is_open)
            codes[index] = code
        return Shelf(codes, tuple(self.stocks))

    def _reached(self, selectors: Sequence[tuple[tuple[Term, ...] | None] | None], index: int) -> tuple[int, ...]:
        """Which of the selectors hold for the node."""
        if not selectors:
            return ()  # making a Node of a row costs more than all the rest of it
        node = self.base.nodes[index]
        return tuple(i for i, found in enumerate(selectors) if found is None or _matches(found[0], node))

    def _selectors(self) -> list[tuple[tuple[Term, ...] | None] | None]:
        """The different node selectors of shared devices; None: all nodes."""
        found: dict[str, tuple[tuple[Term, ...] | None] | None] = {}
        for device in self.inventory.shared:
            text = repr(device.selector)
            if text not in found:
                found[text] = None if device.selector is None else (_terms(device.selector),)
        return list(found.values()) if len(found) <= _SELECTOR_COUNT_MAX else [None]

    def _code(self, node: Node, local: Hashable, mark: Mark, opened: frozenset[str], is_open: bool) -> int:
        inventory = self.inventory
        if is_open:
            return self._intern(("open",), lambda: Stock((), is_open=True))
        if isinstance(local, int):
            own = inventory.group_devices[local] if local >= 0 else ()
        else:
            own = inventory.local[node.name]
        many = len({repr(device.selector) for device in inventory.shared}) > _SELECTOR_COUNT_MAX
        shared = inventory.shared if many else reach(inventory, node)
        return self._stock([*self._own(own, mark), *self._shared(shared)], opened)

    def _own(self, devices: Iterable[Device], mark: Mark) -> Iterator[_Now]:
        """Devices of a node that are only its, or those of an equal node in their stead: what names tell apart is in the mark."""
        ruled = mark.ruled or (0,) * len(self.bits)
        for place, device in enumerate(devices):
            taints = [
                rule.taint
                for rule in self.rules
                if (ruled[self.bits[rule]] >> place & 1 if rule in self.bits else rule.meets(device))
            ]
            yield _Now(device, self._taints(device, taints), bool(mark.held >> place & 1))

    def _shared(self, devices: Iterable[Device]) -> Iterator[_Now]:
        held = self.inventory.allocated if self.question is Question.NOT_NOW else ()
        for device in devices:
            taints = [rule.taint for rule in self.rules if rule.meets(device)]
            yield _Now(device, self._taints(device, taints), device.id in held)

    def _taints(self, device: Device, of_rules: Iterable[DeviceTaint]) -> tuple[DeviceTaint, ...]:
        return () if self.question is Question.NEVER else (*device.shape.taints, *of_rules)

    def _stock(self, devices: Sequence[_Now], opened: frozenset[str]) -> int:
        if self.question is not Question.NEVER:
            devices = [one for one in devices if not one.device.is_former]
        limits, sets = self._limits([one.device for one in devices])
        held = [one.device for one in devices if one.is_held]
        _use(limits, sets, held)
        counted: dict[Hashable, list[_Now]] = defaultdict(list)
        for one in devices:
            if not one.is_held:
                counted[self._projected(one, sets)].append(one)
        names = self._names(counted)
        content = (
            tuple(sorted((self._renamed(projected, names), len(found)) for projected, found in counted.items())),
            tuple(tuple(sorted(limit.items())) for limit in limits),
            tuple(sorted(opened)),
            bool(held),
        )

        def make() -> Stock:
            kinds = tuple(self._kind(found, sets) for found in counted.values())
            return Stock(kinds, tuple(limits), opened, has_allocated=bool(held))

        return self._intern(content, make)

    def _intern(self, content: Hashable, make: Callable[[], Stock]) -> int:
        code = self.by_content.setdefault(content, len(self.stocks))
        if code == len(self.stocks):
            self.stocks.append(make())
        return code

    def _limits(self, devices: Sequence[Device]) -> tuple[list[dict[str, int]], dict[tuple[PoolId, str], int]]:
        """What the counter sets that these devices draw on hold, numbered in order of appearance."""
        sets: dict[tuple[PoolId, str], int] = {}
        limits: list[dict[str, int]] = []
        for device in devices:
            for name, _ in device.shape.consumes:
                if (device.pool, name) not in sets:
                    sets[device.pool, name] = len(limits)
                    limits.append(dict(self.inventory.counters[device.pool][name]))
        return limits, sets

    def _projected(self, one: _Now, sets: Mapping[tuple[PoolId, str], int]) -> tuple[str, ...]:
        """As `_project`. Thousands of nodes are one example with other devices held: of that each device is looked at once."""
        device = one.device
        if self.is_by_node or device.shape.consumes:
            return self._project(one, sets)
        key = (device.shape, one.taints, device.is_former, device.node is None, device.selector is None)
        found = self.projected.get(key)
        if found is None:
            found = self.projected[key] = self._project(one, sets)
        return found

    def _project(self, one: _Now, sets: Mapping[tuple[PoolId, str], int]) -> tuple[str, ...]:
        """All that counts of a device, as text: texts of all kinds can be sorted."""
        device = one.device
        shape = device.shape
        return (
            shape.driver,
            f"{shape.is_multiple} {shape.is_broken} {device.is_former} {device.node is None} {device.selector is None} {shape.binds_to_node}",
            repr([(sets[device.pool, name], amounts) for name, amounts in shape.consumes]),
            repr(one.taints),
            repr([shape.capacities.get(key) for key in self.capacities]),
            repr([shape.attributes.get(key) for key in self.attributes]),
            *(repr(shape.attributes.get(key)) for key in self.renamed),
        )

    def _names(self, counted: Mapping[Hashable, list[_Now]]) -> dict[tuple[int, str], str]:
        """New names for the values of attributes that only constraints read, in order of appearance among kinds sorted
        by all else. Not where a device is shared: other nodes know it by its value. Not for lists: they overlap."""
        if not self.renamed or any(one.device.node is None for found in counted.values() for one in found):
            return {}
        names: dict[tuple[int, str], str] = {}
        start = 6
        order = sorted(counted.items(), key=lambda item: (item[0][:start], len(item[1]), item[0]))  # type: ignore[index]
        for projected, _ in order:
            for position, text in enumerate(projected[start:]):  # type: ignore[index]
                if text == "None" or text.startswith(("('ints'", "('bools'", "('strings'", "('versions'", "(''")):
                    continue
                names.setdefault((position, text), f"{text.split(',')[0]} {len(names)}")
        return names

    def _renamed(self, projected: Hashable, names: Mapping[tuple[int, str], str]) -> tuple[str, ...]:
        parts: tuple[str, ...] = projected  # type: ignore[assignment]
        return (*parts[:6], *(names.get((i, text), text) for i, text in enumerate(parts[6:])))

    def _kind(self, found: list[_Now], sets: Mapping[tuple[PoolId, str], int]) -> Kind:
        device = found[0].device
        shape = device.shape
        values = {key: constraint_values(shape.attributes[key]) for key in self.key.matched if key in shape.attributes}
        return Kind(
            shape=shape,
            count=len(found),
            values=values,
            sets=tuple((sets[device.pool, name], amounts) for name, amounts in shape.consumes),
            taints=found[0].taints,
            is_shared=device.node is None,
            is_former=device.is_former,
            is_everywhere=device.node is None and device.selector is None,
        )


def constraint_values(tag: Tagged) -> tuple[Tagged, ...] | None:
    """What matchAttribute compares: a list stands for each of its values (their intersection must not be empty)."""
    kind, value = tag
    if kind == "":
        return None
    return tuple((kind[:-1], one) for one in dict.fromkeys(value)) if kind.endswith("s") else ((kind, value),)


def _use(limits: list[dict[str, int]], sets: Mapping[tuple[PoolId, str], int], taken: Iterable[Device]) -> None:
    for device in taken:
        for name, amounts in device.shape.consumes:
            left = limits[sets[device.pool, name]]
            for counter, nano in amounts:
                left[counter] = max(0, left[counter] - nano)
