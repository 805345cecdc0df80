"""Devices: what ResourceSlices, DeviceClasses, DeviceTaintRules and allocated ResourceClaims say of the cluster. Frozen.

READ THIS FIRST for the device part of a snapshot (`Snapshot.devices`). `read_slice` reads one ResourceSlice (a caller
that watches keeps the result per slice and reads only what changed); `assemble` puts them together:

- a pool counts with its highest generation, and only when complete; else it is *unclear*: it may hold any device of
  its driver, on its node or, where that is not certain, anywhere;
- `local`: devices tied to one node by name; `shared`: those a node selector or allNodes gives to several nodes;
- devices that a pool had in the last days (`former`) count as potential capacity only;
- allocated devices are known by name, for "not now" only.

Source: k8s.io/dynamic-resource-allocation v0.37.2 structured/internal/*/pools_*.go, api resource/v1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from webhook.inventory.versions import Version
from webhook.objects.quantity import Quantity, QuantityError
from webhook.objects.words import taint_text

Key = tuple[str, str]
# (kind, value) with kind one of int, bool, string, version, the same with an "s" for lists, or "" where the value
# cannot be read. The kind keeps True and 1 apart.
Tagged = tuple[str, Any]
PoolId = tuple[str, str]
DeviceId = tuple[str, str, str]

_KINDS = ("ints", "bools", "strings", "versions", "int", "bool", "string", "version")
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
UNREADABLE: Tagged = ("", None)
EVERYWHERE = ""
# An attribute with more values than this, in more than half of its devices, tells devices one by one (a uuid).
_IDENTITY_VALUE_COUNT_MIN = 64


@dataclass(frozen=True, slots=True, order=True)
class DeviceTaint:
    """A taint that keeps claims away (NoSchedule or NoExecute). rule: the DeviceTaintRule it comes from, "" if the
    driver set it."""

    key: str
    value: str
    effect: str
    rule: str = ""

    def __str__(self) -> str:
        return taint_text(self.key, self.value, self.effect)


@dataclass(frozen=True, slots=True)
class Capacity:
    """value: how much there is. default: what a claim takes that asks for none (None: all of it). None where it
    cannot be read."""

    value: Quantity | None
    default: Quantity | None = None
    has_policy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """All that a claim can see of a device, names aside. Interned: equal devices share one, compared by identity.

    attributes, capacities: by (domain, id); what has no domain gets the driver's. consumes: (counter set, ((counter,
    nano), ...)). is_multiple: allowMultipleAllocations. is_broken: 1.37 fails on it whatever the selector is.
    """

    driver: str
    attributes: Mapping[Key, Tagged]
    capacities: Mapping[Key, Capacity]
    taints: tuple[DeviceTaint, ...] = ()
    consumes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    is_multiple: bool = False
    binds_to_node: bool = False
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """One device. node: its node's name, None where `selector` (raw nodeSelector; None: all nodes) says which nodes."""

    name: str
    pool: PoolId
    shape: Shape
    node: str | None
    selector: Mapping[str, Any] | None = None
    is_former: bool = False

    @property
    def id(self) -> DeviceId:
        return (*self.pool, self.name)


@dataclass(frozen=True, slots=True)
class Slice:
    """One ResourceSlice as read. slice_count: of its pool. is_odd: a part of it is of no known form."""

    name: str
    pool: PoolId
    generation: int
    slice_count: int
    devices: tuple[Device, ...]
    counters: Mapping[str, Mapping[str, int]]
    is_odd: bool = False


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """selectors: CEL expressions that all hold; None stands for a selector of an unknown kind."""

    name: str
    selectors: tuple[str | None, ...] = ()
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule; None in a field: it does not matter."""

    name: str
    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def meets(self, device: Device) -> bool:
        return self.names(device.pool, device.name)

    def names(self, pool_id: PoolId, name: str) -> bool:
        driver, pool = pool_id
        return self.driver in (None, driver) and self.pool in (None, pool) and self.device in (None, name)


@dataclass(frozen=True, eq=False)
class DeviceInventory:
    """See the module. groups: nodes whose local devices are equal, one by one, but for names and identity attributes: node ->
    index into group_devices. unclear: node name (EVERYWHERE: any) -> drivers with an unclear pool. counters: nano, by pool
    and set. identities: attributes that tell devices one by one. strays: the nodes that hold devices of a pool which is not
    named after them. allocated, taint_rules: as they are today (webhook/inventory/device_use.py)."""

    local: Mapping[str, tuple[Device, ...]]
    shared: tuple[Device, ...]
    counters: Mapping[PoolId, Mapping[str, Mapping[str, int]]]
    unclear: Mapping[str, frozenset[str]]
    classes: Mapping[str, DeviceClass]
    allocated: AbstractSet[DeviceId]
    taint_rules: tuple[TaintRule, ...]
    groups: Mapping[str, int]
    group_devices: tuple[tuple[Device, ...], ...]
    identities: frozenset[Key]
    strays: Mapping[PoolId, tuple[str, ...]]
    # Made on first use, as Snapshot.prepared.
    prepared: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def classes_of(self, resource: str) -> tuple[DeviceClass, ...]:
        """The DeviceClasses that may serve an extended resource, by their field or by the implicit name."""
        implicit = resource.removeprefix("deviceclass.resource.kubernetes.io/")
        named = self.classes.get(implicit) if implicit != resource else None
        if named is not None:
            return (named,)
        return tuple(one for one in self.classes.values() if one.extended_resource == resource)

    def nodes_of(self, pool: PoolId) -> tuple[str, ...]:
        """All nodes that hold devices of the pool, and perhaps one that does not. A driver names a node's pool after it."""
        named = (pool[1],) if pool[1] in self.local else ()
        return (*named, *self.strays.get(pool, ()))

    def devices(self) -> Iterable[Device]:
        """Every device of every clear pool, former ones left out."""
        for devices in self.local.values():
            yield from (device for device in devices if not device.is_former)
        yield from (device for device in self.shared if not device.is_former)

    def examples(self, reads: frozenset[Key]) -> Iterator[tuple[Device, int]]:
        """As `devices`, with how often: of nodes with equal devices only one's are given, except where `reads` holds an
        attribute that tells devices one by one."""
        if reads & self.identities:
            yield from ((device, 1) for device in self.devices())
            return
        node_counts = Counter(self.groups.values())
        for index, devices in enumerate(self.group_devices):
            yield from ((device, node_counts[index]) for device in devices if not device.is_former)
        yield from ((device, 1) for device in self.shared if not device.is_former)


class Reader:
    """Reads ResourceSlices; equal devices come out with the same Shape as long as the Reader lives."""

    def __init__(self) -> None:
        self._shapes: dict[int, Shape] = {}
        # An attribute with its value is the same in thousands of devices.
        self._same: dict[tuple[Key, Tagged], tuple[Key, Tagged]] = {}

    @property
    def shape_count(self) -> int:
        """How many it has read so far, those that are gone included."""
        return len(self._shapes)

    def read_slice(self, raw: Mapping[str, Any]) -> Slice:
        """One ResourceSlice (resource.k8s.io/v1, a plain dict). Never raises: what cannot be read is unclear."""
        spec = _map(raw.get("spec"))
        pool = _map(spec.get("pool"))
        driver = _text(spec.get("driver"))
        pool_id = (driver, _text(pool.get("name")))
        per_device = spec.get("perDeviceNodeSelection") is True
        slice_reach = None if per_device else _reach(spec)
        devices: list[Device] = []
        is_odd = not per_device and slice_reach is None and bool(spec.get("devices"))
        for item in _list(spec.get("devices")):
            device = _map(item)
            reach = _reach(device) if per_device else slice_reach
            if reach is None:
                is_odd = True
                continue
            shape = self.shape(driver, device)
            devices.append(Device(_text(device.get("name")), pool_id, shape, *reach))
        counters = {
            _text(entry.get("name")): _counters(entry) for entry in map(_map, _list(spec.get("sharedCounters")))
        }
        is_odd = is_odd or any(None in offered.values() for offered in counters.values())
        return Slice(
            name=_text(_map(raw.get("metadata")).get("name")),
            pool=pool_id,
            generation=_int(pool.get("generation")),
            slice_count=_int(pool.get("resourceSliceCount")),
            devices=tuple(devices),
            counters={
                name: {counter: nano or 0 for counter, nano in found.items()} for name, found in counters.items()
            },
            is_odd=is_odd,
        )

    def shape(self, driver: str, device: Mapping[str, Any]) -> Shape:
        """The interned Shape of one entry of spec.devices."""
        same = self._same
        items = [same.setdefault(item, item) for item in _attributes(driver, _map(device.get("attributes"))).items()]
        attributes = dict(items)
        capacities = _capacities(driver, _map(device.get("capacity")))
        taints = tuple(taint for taint in map(_taint, _list(device.get("taints"))) if taint.effect in _REPELLING)
        consumes = tuple(
            (
                _text(entry.get("counterSet")),
                tuple((name, nano or 0) for name, nano in sorted(_counters(entry).items())),
            )
            for entry in map(_map, _list(device.get("consumesCounters")))
        )
        is_multiple = device.get("allowMultipleAllocations") is True
        binds = device.get("bindsToNode") is True
        shape = Shape(driver, attributes, capacities, taints, consumes, is_multiple, binds)
        # By the hash alone, since a key of its own would take as much memory as the shape.
        key = hash((driver, tuple(items), tuple(capacities.items()), taints, consumes, is_multiple, binds))
        found = self._shapes.get(key)
        if found is not None and _equal(found, shape):
            return found
        if any(tag == UNREADABLE or not _is_sound(tag) for tag in attributes.values()):
            shape = replace(shape, is_broken=True)
        return self._shapes.setdefault(key, shape) if found is None else shape


def _equal(one: Shape, other: Shape) -> bool:
    """All but is_broken, which follows from the rest."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("driver", "attributes", "capacities", "taints", "consumes", "is_multiple", "binds_to_node")
    )


def assemble(
    slices: Iterable[Slice],
    *,
    classes: Iterable[Mapping[str, Any]] = (),
    taint_rules: Iterable[Mapping[str, Any]] = (),
    claims: Iterable[Mapping[str, Any]] = (),
    former: Iterable[Slice] = (),
) -> DeviceInventory:
    """Slices as read, the rest raw. former: slices that existed in the last days (high-water marks)."""
    pools = _by_pool(slices)
    devices: list[Device] = []
    counters: dict[PoolId, Mapping[str, Mapping[str, int]]] = {}
    unclear: dict[str, set[str]] = defaultdict(set)
    for pool_id, members in pools.items():
        if _is_clear(members):
            devices += [device for one in members for device in one.devices]
            counters[pool_id] = {name: values for one in members for name, values in one.counters.items()}
        else:
            unclear[_unclear_at(pool_id, members)].add(pool_id[0])
    devices += _potential(former, devices)
    local: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        if device.node is not None:
            local[device.node].append(device)
    by_node = {node: tuple(sorted(found, key=lambda one: one.id)) for node, found in local.items()}
    identities = _identities(by_node)
    groups, group_devices = _groups(by_node, identities, counters)
    return DeviceInventory(
        local=by_node,
        shared=tuple(sorted((one for one in devices if one.node is None), key=lambda one: one.id)),
        counters=counters,
        unclear={node: frozenset(drivers) for node, drivers in unclear.items()},
        classes={found.name: found for found in map(_device_class, classes)},
        allocated=frozenset(device for claim in claims for device in allocated_by(claim)),
        taint_rules=tuple(found for found in map(taint_rule, taint_rules) if found is not None),
        groups=groups,
        group_devices=group_devices,
        identities=identities,
        strays=_strays(by_node),
    )


# ---- pools --------------------------------------------------------------------------------------------------------
def _by_pool(slices: Iterable[Slice]) -> dict[PoolId, list[Slice]]:
    pools: dict[PoolId, list[Slice]] = defaultdict(list)
    for one in slices:
        pools[one.pool].append(one)
    return pools


def _is_clear(members: Sequence[Slice]) -> bool:
    """Complete, of one generation, every device and counter set named once, and every part of a known form.

    A pool of two generations is being replaced; the scheduler may look at either for a moment."""
    first = members[0]
    if len(members) != first.slice_count or any(one.generation != first.generation for one in members):
        return False
    names = [device.name for one in members for device in one.devices]
    sets = [name for one in members for name in one.counters]
    if len(set(names)) != len(names) or len(set(sets)) != len(sets) or any(one.is_odd for one in members):
        return False
    limits = {name: values for one in members for name, values in one.counters.items()}
    return all(
        set_name in limits and all(counter in limits[set_name] for counter, _ in amounts)
        for one in members
        for device in one.devices
        for set_name, amounts in device.shape.consumes
    )


def _unclear_at(pool_id: PoolId, members: Sequence[Slice]) -> str:
    """The node that an unclear pool belongs to. A driver names the pool of a node after it; a pool with any other name
    may reach any node."""
    nodes = {device.node for one in members for device in one.devices}
    return pool_id[1] if nodes == {pool_id[1]} else EVERYWHERE


def _potential(former: Iterable[Slice], devices: Sequence[Device]) -> list[Device]:
    """Devices of the last days that are not there now."""
    known = {device.id for device in devices}
    found: dict[DeviceId, Device] = {}
    for one in former:
        for device in one.devices:
            if device.id not in known:
                # The counters they drew on may be gone too: without them nothing limits how they combine.
                shape = device.shape
                if shape.consumes:
                    shape = Shape(shape.driver, shape.attributes, shape.capacities, is_multiple=shape.is_multiple)
                found[device.id] = Device(device.name, device.pool, shape, device.node, device.selector, True)
    return list(found.values())


def _strays(local: Mapping[str, tuple[Device, ...]]) -> dict[PoolId, tuple[str, ...]]:
    found: dict[PoolId, dict[str, None]] = defaultdict(dict)
    for node, devices in local.items():
        for device in devices:
            if device.pool[1] != node:
                found[device.pool][node] = None
    return {pool: tuple(nodes) for pool, nodes in found.items()}


def _identities(local: Mapping[str, tuple[Device, ...]]) -> frozenset[Key]:
    shapes = {id(device.shape): device.shape for devices in local.values() for device in devices}.values()
    values: dict[Key, set[Tagged]] = defaultdict(set)
    count: dict[Key, int] = defaultdict(int)
    for shape in shapes:
        for key, tag in shape.attributes.items():
            values[key].add(tag)
            count[key] += 1
    return frozenset(
        key for key, seen in values.items() if len(seen) > _IDENTITY_VALUE_COUNT_MIN and 2 * len(seen) > count[key]
    )


def _groups(
    local: Mapping[str, tuple[Device, ...]],
    identities: frozenset[Key],
    counters: Mapping[PoolId, Mapping[str, Mapping[str, int]]],
) -> tuple[dict[str, int], tuple[tuple[Device, ...], ...]]:
    """Nodes with equal devices, but for identity attributes and names. Device order is by name, so that equal nodes
    list them alike."""
    coarse: dict[int, Hashable] = {}
    contents: dict[Hashable, int] = {}
    small: dict[Hashable, int] = {}
    groups: dict[str, int] = {}
    examples: list[tuple[Device, ...]] = []
    for node, devices in local.items():
        parts: list[Hashable] = []
        pools = sorted({device.pool for device in devices if device.shape.consumes})
        for device in devices:
            shape = device.shape
            key = coarse.get(id(shape))
            if key is None:
                key = coarse[id(shape)] = small.setdefault(_coarse(shape, identities), len(small))
            parts.append((key, device.is_former, pools.index(device.pool) if shape.consumes else -1))
        limits = tuple(
            (pool[0], tuple((name, tuple(sorted(values.items()))) for name, values in sorted(counters[pool].items())))
            for pool in pools
        )
        content = (tuple(parts), limits)
        index = contents.setdefault(content, len(contents))
        if index == len(examples):
            examples.append(devices)
        groups[node] = index
    return groups, tuple(examples)


def _coarse(shape: Shape, identities: frozenset[Key]) -> Hashable:
    attributes = tuple(item for item in shape.attributes.items() if item[0] not in identities)
    return (
        shape.driver,
        attributes,
        tuple(shape.capacities.items()),
        shape.taints,
        shape.consumes,
        shape.is_multiple,
        shape.binds_to_node,
        shape.is_broken,
    )


# ---- raw fields ---------------------------------------------------------------------------------------------------
def _reach(raw: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any] | None] | None:
    """(node name, None), (None, node selector) or (None, None) for all nodes; None for a form nobody knows."""
    if raw.get("nodeName"):
        return _text(raw["nodeName"]), None
    if raw.get("allNodes") is True:
        return None, None
    selector = raw.get("nodeSelector")
    return (None, selector) if isinstance(selector, Mapping) else None


def _attributes(driver: str, raw: Mapping[str, Any]) -> dict[Key, Tagged]:
    found: dict[Key, Tagged] = {}
    for key, name in sorted((qualified(name, driver), name) for name in raw):
        # Written with and without the driver's domain: which of the two counts is the scheduler's map order.
        found[key] = UNREADABLE if key in found else _tagged(_map(raw[name]))
    return found


@lru_cache(maxsize=4096)
def qualified(name: str, driver: str) -> Key:
    """``domain/id``; without a domain it has the driver's."""
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def _tagged(raw: Mapping[str, Any]) -> Tagged:
    for kind in _KINDS:
        value = raw.get(kind)
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            return (kind, tuple(value)) if all(_is_of(kind[:-1], one) for one in value) and value else UNREADABLE
        return (kind, value) if _is_of(kind, value) else UNREADABLE
    return UNREADABLE


def _is_of(kind: str, value: Any) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def _is_sound(tag: Tagged) -> bool:
    """A version that is none makes every selector fail on the device (getAttributeValue)."""
    kind, value = tag
    if kind == "version":
        return Version.parse(value) is not None
    return kind != "versions" or all(Version.parse(one) is not None for one in value)


def _capacities(driver: str, raw: Mapping[str, Any]) -> dict[Key, Capacity]:
    found: dict[Key, Capacity] = {}
    for key, name in sorted((qualified(name, driver), name) for name in raw):
        item = _map(raw[name])
        policy = _map(item.get("requestPolicy"))
        amount = _quantity(item.get("value"))
        found[key] = Capacity(None if key in found else amount, _quantity(policy.get("default")), bool(policy))
    return found


def _quantity(raw: Any) -> Quantity | None:
    if not isinstance(raw, (str, int, float)) or isinstance(raw, bool):
        return None
    return _parsed(raw)


@lru_cache(maxsize=1024)
def _parsed(raw: str | float) -> Quantity | None:
    """Devices of one model say the same."""
    try:
        found = Quantity.parse(raw)
    except QuantityError:
        return None
    return None if found.is_capped else found


def _counters(raw: Mapping[str, Any]) -> dict[str, int | None]:
    """nano, by counter; None for what cannot be read: as consumption it counts nothing, as an offer it makes the pool
    unclear."""
    found: dict[str, int | None] = {}
    for name, item in _map(raw.get("counters")).items():
        amount = _quantity(_map(item).get("value"))
        found[name] = None if amount is None else amount.nano
    return found


def _taint(raw: Any, rule: str = "") -> DeviceTaint:
    item = _map(raw)
    return DeviceTaint(_text(item.get("key")), _text(item.get("value")), _text(item.get("effect")), rule)


def taint_rule(raw: Mapping[str, Any]) -> TaintRule | None:
    """A DeviceTaintRule as read; None where it keeps no claim away from any device."""
    name = _text(_map(raw.get("metadata")).get("name"))
    spec = _map(raw.get("spec"))
    selector = spec.get("deviceSelector")
    taint = _taint(spec.get("taint"), name)
    if not isinstance(selector, Mapping) or taint.effect not in _REPELLING:
        return None
    return TaintRule(name, taint, selector.get("driver"), selector.get("pool"), selector.get("device"))


def _device_class(raw: Mapping[str, Any]) -> DeviceClass:
    spec = _map(raw.get("spec"))
    return DeviceClass(
        name=_text(_map(raw.get("metadata")).get("name")),
        selectors=selectors(spec),
        extended_resource=_text(spec.get("extendedResourceName")),
    )


def selectors(raw: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The CEL expressions of a `selectors` list; None for an entry of another kind."""
    expressions = (_map(_map(item).get("cel")).get("expression") for item in _list(raw.get("selectors")))
    return tuple(one if isinstance(one, str) else None for one in expressions)


def allocated_by(claim: Mapping[str, Any]) -> Iterable[DeviceId]:
    """Devices that a claim holds for itself: not with admin access, not a share."""
    allocation = _map(_map(claim.get("status")).get("allocation"))
    for item in _list(_map(allocation.get("devices")).get("results")):
        result = _map(item)
        if result.get("adminAccess") is not True and not result.get("shareID"):
            yield _text(result.get("driver")), _text(result.get("pool")), _text(result.get("device"))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0
