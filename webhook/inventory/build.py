"""Raw objects -> Snapshot. No I/O and no clock: whoever reads the objects says how old they are.

`build(objects, Settings(...))` takes what `kubectl get nodes,resourceslices,deviceclasses -o yaml` prints, flattened
(webhook/sources/manifests.py), or what an agent watches: Nodes, ResourceSlices, DeviceClasses, RuntimeClasses,
DeviceTaintRules, Pods and ResourceClaims (these three for "not now" only), and passes over every other kind. Export
writes the same kinds, so nobody needs a new format; two annotations carry what an object does not say of itself:

- `muster.dev/high-water`: a JSON object of resource names and quantities that the node had in the last days;
- `muster.dev/gone`: the node was deleted minutes ago and may come back; on a ResourceSlice: it was there in the last
  days, and its devices may come back.

Both only ever add potential capacity, so nobody can cause a denial with them. What is not in the objects is not in the
cluster: an export without its DeviceClasses hides the extended resources that they serve.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import msgspec

from webhook.feasibility.selectors import host_ports
from webhook.inventory import devices
from webhook.inventory.node_table import NodeTable
from webhook.inventory.snapshot import (
    HOLDS,
    LIFECYCLE_TAINTS,
    REPELLING_EFFECTS,
    ExtendedClass,
    Node,
    Pool,
    Snapshot,
    State,
    Taint,
)
from webhook.inventory.tables import AMOUNT_MAX
from webhook.inventory.usage import AMOUNT_MAX as USED_MAX
from webhook.inventory.usage import Counter, PodUse, Usage, packed
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.quantity import Quantity, QuantityError
from webhook.plan.requests import effective_request

HIGH_WATER = "muster.dev/high-water"
GONE = "muster.dev/gone"
STABLE_SECONDS_MIN = 600
AGE_SECONDS_MAX = 60
# A pool without a known limit: enough nodes for any domain; a sum over them proves nothing (Snapshot.has_endless_pool).
ENDLESS_NODE_COUNT = 2000

_LIFECYCLE_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
# Labels and annotations of nodes that something adds and removes: Karpenter, cluster-autoscaler, Cluster API, and the
# node pools of managed clusters, whose autoscalers run where nobody in the cluster sees them.
_AUTOSCALER_SIGNS = {
    "karpenter.": "Karpenter",
    "cluster-autoscaler.kubernetes.io/": "cluster-autoscaler",
    "cluster.x-k8s.io/": "Cluster API",
    "cloud.google.com/gke-nodepool": "a GKE node pool",
    "eks.amazonaws.com/": "an EKS node group",
    "kubernetes.azure.com/agentpool": "an AKS node pool",
    "doks.digitalocean.com/node-pool": "a DOKS node pool",
}
_AUTOSCALER_PREFIXES = tuple(_AUTOSCALER_SIGNS)
_AUTOSCALER_KINDS = {
    "NodePool": "Karpenter",
    "NodeClaim": "Karpenter",
    "MachineDeployment": "Cluster API",
    "MachinePool": "Cluster API",
    "MachineSet": "Cluster API",
    "ProvisioningRequest": "cluster-autoscaler",
}
_ON_EVERY_NODE = ("cpu", "memory", "ephemeral-storage", "pods")
_AUTOSCALER_TAINTS = {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"}


class NodeMeta(core.Base, frozen=True):
    """What is read of a node's metadata."""

    name: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeTaint(core.Base, frozen=True):
    """A taint as it is written."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(core.Base, frozen=True):
    """What is read of a node's spec."""

    unschedulable: bool | None = None
    taints: tuple[NodeTaint, ...] | None = None


class NodeCondition(core.Base, frozen=True):
    """Only "Ready" is read."""

    type: str = ""
    status: str = ""


class NodeStatus(core.Base, frozen=True):
    """What is read of a node's status."""

    capacity: core.ResourceList | None = None
    allocatable: core.ResourceList | None = None
    conditions: tuple[NodeCondition, ...] | None = None


class NodeObject(core.Base, frozen=True):
    """A Node as far as it is read: an eighth of what a kubelet writes."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is known beside the objects.

    closed: the policy's word. is_file: a file, closed unless the policy or a sign says otherwise. stable_seconds: since
    when labels, taints and devices are unchanged; None if not known. age_seconds, age_seconds_max: for `fresh`.
    synced: State(False, why) while a first list is still missing. version: given by a publisher; "" for a hash of the
    content.
    """

    closed: Literal["auto", "true", "false"] = "auto"
    pools: Sequence[Pool] = ()
    is_file: bool = False
    stable_seconds: float | None = None
    age_seconds: float = 0.0
    age_seconds_max: float = AGE_SECONDS_MAX
    synced: State = HOLDS
    version: str = ""


@dataclass(slots=True)
class Notes:
    """What else objects say. signs: who may add nodes, and where that is seen. problems: what cannot be read."""

    signs: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Notes) -> None:
        for who, where in other.signs.items():
            self.signs.setdefault(who, where)
        self.problems += other.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What all objects hold, before the policy has its word."""

    version: str
    nodes: Sequence[Node]
    notes: Notes
    mapped: Sequence[ExtendedClass] = ()
    overheads: Mapping[str, core.ResourceList] = field(default_factory=dict)
    devices: devices.DeviceInventory | None = None
    usage: Usage | None = None


@dataclass(slots=True)
class _Found:
    """What the objects hold."""

    nodes: list[Node] = field(default_factory=list)
    mapped: list[ExtendedClass] = field(default_factory=list)
    overheads: dict[str, core.ResourceList] = field(default_factory=dict)
    pods: Counter = field(default_factory=Counter)
    notes: Notes = field(default_factory=Notes)
    reader: devices.Reader = field(default_factory=devices.Reader)
    slices: list[devices.Slice] = field(default_factory=list)
    former_slices: list[devices.Slice] = field(default_factory=list)
    device_objects: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    device_digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))


def build(objects: Iterable[Mapping[str, Any]], settings: Settings | None = None) -> Snapshot:
    """The snapshot of these objects. Never raises: an object that cannot be read makes it incomplete."""
    settings = settings or Settings()
    found = _Found()
    for raw in objects:
        try:
            _read(raw, found)
        except (msgspec.ValidationError, TypeError, AttributeError) as error:
            found.notes.problems.append(f"{_title(raw)} cannot be read: {error}")
    nodes = sorted(found.nodes, key=lambda node: node.name)
    usage = found.pods.usage()
    return finish(
        Content(
            version=settings.version or _version(nodes, found, usage),
            nodes=nodes,
            notes=found.notes,
            mapped=found.mapped,
            overheads=found.overheads,
            devices=_devices(found),
            usage=usage if len(usage.node) else None,
        ),
        settings,
    )


def finish(content: Content, settings: Settings) -> Snapshot:
    """The snapshot: the content with what the policy adds and says of it."""
    nodes = NodeTable.of(content.nodes)
    if settings.pools:
        nodes = nodes.followed_by([node for pool in settings.pools for node in _pool_nodes(pool, nodes)])
    return Snapshot(
        version=content.version,
        nodes=nodes if content.usage is None else nodes.with_usage(content.usage),
        age_seconds=settings.age_seconds,
        complete=_complete(settings, content),
        fresh=_fresh(settings),
        closed=_closed(settings, content.notes.signs),
        pools=tuple(settings.pools),
        mapped_resources=tuple(sorted(set(content.mapped), key=lambda one: (one.resource, one.device_class))),
        runtime_overheads=content.overheads,
        devices=content.devices,
    )


def _title(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    return f'{raw.get("kind")} "{metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"}"'


def _devices(found: _Found) -> devices.DeviceInventory | None:
    """None without any ResourceSlice: an inventory that never had one in view says nothing of devices."""
    if not found.slices and not found.former_slices:
        return None
    return devices.assemble(
        found.slices,
        classes=found.device_objects["DeviceClass"],
        taint_rules=found.device_objects["DeviceTaintRule"],
        claims=found.device_objects["ResourceClaim"],
        former=found.former_slices,
    )


def _read(raw: Mapping[str, Any], found: _Found) -> None:
    kind = raw.get("kind")
    if kind in ("DeviceClass", "DeviceTaintRule", "ResourceClaim"):
        found.device_objects[kind].append(raw)
        found.device_digest.update(repr((kind, raw.get("spec"), (raw.get("status") or {}).get("allocation"))).encode())
    if kind == "ResourceSlice":
        read = found.reader.read_slice(raw)
        is_gone = GONE in ((raw.get("metadata") or {}).get("annotations") or {})
        (found.former_slices if is_gone else found.slices).append(read)
        found.device_digest.update(repr((read.name, raw.get("spec"), is_gone)).encode())
    elif kind == "Node":
        found.nodes.append(read_node(msgspec.convert(raw, NodeObject), found.notes))
    elif kind == "DeviceClass":
        found.mapped += mapped_by(msgspec.convert(raw, core.DeviceClass))
    elif kind == "RuntimeClass":
        runtime_class = msgspec.convert(raw, core.RuntimeClass)
        found.overheads[runtime_class.metadata.name] = overhead_of(runtime_class)
    elif kind == "Pod":
        use = use_of(msgspec.convert(raw, core.Pod))
        if use is not None:
            found.pods.add(use)
    elif kind in _AUTOSCALER_KINDS and "." in str(raw.get("apiVersion", "")):
        found.notes.signs.setdefault(_AUTOSCALER_KINDS[kind], f"a {kind}")


def mapped_by(device_class: core.DeviceClass) -> list[ExtendedClass]:
    """The extended resources that it serves: by its implicit name, and by its field."""
    name = device_class.metadata.name
    found = [ExtendedClass(device_class=name, resource=f"deviceclass.resource.kubernetes.io/{name}")]
    extended = (device_class.spec or {}).get("extendedResourceName")
    if isinstance(extended, str) and extended:
        found.append(ExtendedClass(device_class=name, resource=extended))
    return found


def overhead_of(runtime_class: core.RuntimeClass) -> core.ResourceList:
    """What its Pods need beside their containers."""
    overhead = runtime_class.overhead
    return (overhead.pod_fixed if overhead else None) or {}


# ---- nodes --------------------------------------------------------------------------------------------------------
def read_node(node: NodeObject, notes: Notes) -> Node:
    """One node; what else it says is noted."""
    name = node.metadata.name
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    for key in (*labels, *annotations):
        if key.startswith(_AUTOSCALER_PREFIXES):
            who = next(who for prefix, who in _AUTOSCALER_SIGNS.items() if key.startswith(prefix))
            notes.signs.setdefault(who, f'{key} on node "{name}"')
    taints, away = _taints(node, notes)
    is_gone = GONE in annotations
    # SetDefaults_NodeStatus: without allocatable, it is the capacity.
    written = node.status.allocatable or node.status.capacity
    if written is None and not is_gone:
        notes.problems.append(f'node "{name}" does not say yet what it has')
    amounts = _amounts(written or {}, name, notes)
    read = Node(
        name=name,
        allocatable=amounts,
        labels=labels,
        taints=taints,
        potential=_high_water(node, notes),
        away=away,
    )
    return gone(read) if is_gone else read


def gone(node: Node) -> Node:
    """The same node after it was deleted: it may come back."""
    return replace(node, allocatable={}, potential={**node.potential, **node.allocatable}, away="deleted", real=False)


def _amounts(resources: core.ResourceList, name: str, notes: Notes) -> dict[str, int]:
    """In the scheduler's units. What is too large to count counts as endless; what cannot be read as well."""
    result: dict[str, int] = {}
    for resource, raw in resources.items():
        try:
            amount = _amount(resource, raw)
        except QuantityError:
            notes.problems.append(f'node "{name}": {resource} cannot be read')
            amount = AMOUNT_MAX
        result[resource] = amount
    return result


@lru_cache(maxsize=4096)
def _amount(resource: str, raw: str | float) -> int:
    """Nodes of one kind write the same few quantities. Raises QuantityError."""
    quantity = Quantity.parse(raw)
    return AMOUNT_MAX if quantity.is_capped else max(0, min(quantity.amount_of(resource), AMOUNT_MAX))


def _high_water(node: NodeObject, notes: Notes) -> dict[str, int]:
    written = (node.metadata.annotations or {}).get(HIGH_WATER)
    if written is None:
        return {}
    try:
        marks = json.loads(written)
    except ValueError:
        marks = None
    if not isinstance(marks, dict):
        notes.problems.append(f'node "{node.metadata.name}": annotation {HIGH_WATER} cannot be read')
        return {}
    return _amounts(marks, node.metadata.name, notes)


def _taints(node: NodeObject, notes: Notes) -> tuple[tuple[Taint, ...], str]:
    """The taints that stay, sorted, and why the node takes no Pods today ("" if it does)."""
    away = "cordoned" if node.spec.unschedulable else ""
    for condition in node.status.conditions or ():
        if condition.type == "Ready" and condition.status != "True":
            away = away or "not ready"
    if node.metadata.deletion_timestamp:
        away = away or "being deleted"
    lasting: list[Taint] = []
    for raw in node.spec.taints or ():
        taint = Taint(raw.key, raw.value or "", raw.effect)
        if taint.key in _AUTOSCALER_TAINTS:
            notes.signs.setdefault("cluster-autoscaler", f'taint {taint.key} on node "{node.metadata.name}"')
        if taint.effect not in REPELLING_EFFECTS:
            continue
        if taint.key in LIFECYCLE_TAINTS or taint.key.startswith(_LIFECYCLE_PREFIXES):
            away = away or f"taint {taint.key}"
        else:
            lasting.append(taint)
    return tuple(sorted(set(lasting))), away


def _pool_nodes(pool: Pool, nodes: NodeTable) -> list[Node]:
    """The nodes that a pool may still add."""
    there = int(nodes.has_labels(pool.labels).sum()) if pool.labels else 0
    limit = ENDLESS_NODE_COUNT if pool.node_count_max is None else max(0, pool.node_count_max - there)
    # What every node has, and a policy does not name, is no limit.
    allocatable = dict.fromkeys(_ON_EVERY_NODE, AMOUNT_MAX) | dict(pool.allocatable)
    return [
        Node(
            name=f"(pool {pool.name} {index})",
            allocatable=allocatable,
            labels=pool.labels,
            taints=pool.taints,
            away=f"pool {pool.name}",
            real=False,
            open_labels=True,
        )
        for index in range(limit)
    ]


# ---- Pods ----------------------------------------------------------------------------------------------------------
def use_of(pod: core.Pod) -> PodUse | None:
    """What a Pod that runs takes from its node, by its spec, which in the middle of a resize is the target. None: nothing."""
    node = pod.spec.node_name
    if not node or pod.status.phase in ("Succeeded", "Failed"):
        return None
    amounts = {"pods": 1}
    for name, quantity in effective_request(pod.spec, FieldPath(("spec",))).amounts.items():
        amount = quantity.amount_of(name)
        if amount > 0:
            amounts[name] = min(amount, USED_MAX)
    return PodUse(node, pod.spec.priority or 0, amounts, tuple(sorted(host_ports(pod.spec))))


# ---- states -------------------------------------------------------------------------------------------------------
def _complete(settings: Settings, content: Content) -> State:
    if not settings.synced.holds:
        return settings.synced
    if content.notes.problems:
        return State(False, content.notes.problems[0])
    if not content.nodes and not settings.pools:
        return State(False, "the inventory holds no Node")
    return HOLDS


def _fresh(settings: Settings) -> State:
    if settings.age_seconds <= settings.age_seconds_max:
        return HOLDS
    return State(
        False, f"the inventory is {settings.age_seconds:.0f} s old, more than {settings.age_seconds_max:.0f} s"
    )


def _closed(settings: Settings, found_signs: Mapping[str, str]) -> State:
    """design.md, promise 2: closed only without any sign that nodes may come, or be changed."""
    if settings.closed == "false":
        return State(False, "the policy says that the inventory is not closed")
    signs = [f'the policy declares the autoscaled pool "{pool.name}"' for pool in settings.pools]
    signs += [f"{where} is a sign of {who}" for who, where in sorted(found_signs.items())]
    if signs:
        refused = "closed: true is not believed: " if settings.closed == "true" else ""
        return State(False, refused + signs[0])
    if settings.closed == "true" or settings.is_file:
        return HOLDS
    if settings.stable_seconds is None or settings.stable_seconds < STABLE_SECONDS_MIN:
        return State(False, "labels, taints or devices of nodes changed less than ten minutes ago")
    return HOLDS


def _version(nodes: Sequence[Node], found: _Found, usage: Usage) -> str:
    """A hash of everything an answer may depend on; heartbeats are not in it."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(found.device_digest.digest())
    for node in nodes:
        parts: tuple[Any, ...] = (
            node.name,
            sorted(node.allocatable.items()),
            sorted(node.labels.items()),
            [str(taint) for taint in node.taints],
            sorted(node.potential.items()),
            node.away,
        )
        digest.update(repr(parts).encode())
    if len(usage.node):
        digest.update(packed(usage))
    digest.update(repr(sorted((one.resource, one.device_class) for one in found.mapped)).encode())
    digest.update(repr(sorted((name, sorted(amounts.items())) for name, amounts in found.overheads.items())).encode())
    return digest.hexdigest()
