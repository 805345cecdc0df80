"""Snapshot: a frozen view of the cluster's capacity, for one decision after the other.

READ THIS FIRST if you write against the inventory. `Node` is what kube-scheduler sees of one node, in the scheduler's
own units: cpu in thousandths rounded up, everything else in whole units rounded up (NodeInfo.Allocatable,
kubernetes-1.37 row 3). `Snapshot` holds nodes, the state of the inventory and, made on first use, the prepared tables
of webhook/inventory/tables.py, one set per `Question`:

- NEVER: total allocatable or the high-water mark, whichever is more; no Pods, no cordons, no lifecycle taints; nodes
  deleted minutes ago and nodes that a declared pool may still add are there.
- READY: total allocatable of the nodes that take Pods today, without the Pods on them.
- NOT_NOW: what is free on those.

`Snapshot.denial_hindrance()` says why a capacity denial may not rest on it (None: it may). Built by inventory.build.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from webhook.objects.core import ResourceList
from webhook.objects.words import taint_text

NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


# Taints that the node controller, the kubelet and cloud providers put on and take off by themselves
# (api/core/v1/well_known_taints.go, cloud-provider/api), and those of node life cycle controllers outside the tree: a
# node that carries one is potential capacity.
LIFECYCLE_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cluster.x-k8s.io/uninitialized",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/unregistered",
        "karpenter.sh/disrupted",
        "node.cilium.io/agent-not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "efs.csi.aws.com/agent-not-ready",
    }
)
REPELLING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class Question(enum.StrEnum):
    """What is asked of a snapshot: could this ever be placed, could it without Pods, could it now."""

    NEVER = "never"
    READY = "ready"
    NOT_NOW = "not now"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint that keeps Pods away (NoSchedule or NoExecute)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return taint_text(self.key, self.value, self.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node, real or potential.

    allocatable: today's, by resource name. potential: high-water marks of the last days, where they are more.
    taints: without lifecycle taints. away: why it takes no Pods today ("cordoned", "not ready", a lifecycle taint's
    key, "deleted", "pool <name>"); "" if it does. real: False for a deleted node or one a pool may add.
    open_labels: labels that are not listed are unknown, not absent (a pool's node before it exists).
    used, used_ports: by the Pods on it, for NOT_NOW (`used["pods"]` is their number); ports as (ip, protocol, port).
    """

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=_nothing)
    taints: tuple[Taint, ...] = ()
    potential: Mapping[str, int] = field(default_factory=_nothing)
    away: str = ""
    real: bool = True
    open_labels: bool = False
    used: Mapping[str, int] = field(default_factory=_nothing)
    used_ports: frozenset[tuple[str, str, int]] = frozenset()

    def capacity(self, question: Question) -> Mapping[str, int]:
        """What a Pod may use of it, by resource name; a missing name is 0."""
        if question is Question.NOT_NOW:
            if not self.used:
                return self.allocatable
            return {name: max(0, amount - self.used.get(name, 0)) for name, amount in self.allocatable.items()}
        if not self.potential or question is Question.READY:
            return self.allocatable
        names = self.allocatable.keys() | self.potential.keys()
        return {name: max(self.allocatable.get(name, 0), self.potential.get(name, 0)) for name in names}

    def counts(self, question: Question) -> bool:
        """Is it part of the answer?"""
        return question is Question.NEVER or not self.away


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """An autoscaled node pool of the policy: the shape of its nodes and how many there may be (None: no limit known).

    labels: those every node of the pool gets; other labels are unknown. Its existing nodes are told by them.
    """

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=_nothing)
    taints: tuple[Taint, ...] = ()
    node_count_min: int = 0
    node_count_max: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """One property of the inventory and why it holds or does not."""

    holds: bool
    reason: str


HOLDS = State(True, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedClass:
    """A DeviceClass that serves an extended resource where a node's allocatable of it is 0."""

    device_class: str
    resource: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """See the module. version: changes when anything in it does. age_seconds: since the last sign from the source.

    complete: everything was read. fresh: recently enough. closed: nothing can grow (design, promise 2).
    mapped_resources: extended resources that a DeviceClass maps (also by its implicit name).
    runtime_overheads: RuntimeClass name -> podFixed, {} where it has none.
    devices: a webhook.inventory.devices.DeviceInventory, opaque here; None: devices are not known.
    """

    version: str
    nodes: Sequence[Node]
    age_seconds: float = 0.0
    complete: State = HOLDS
    fresh: State = HOLDS
    closed: State = HOLDS
    pools: tuple[Pool, ...] = ()
    mapped_resources: tuple[ExtendedClass, ...] = ()
    runtime_overheads: Mapping[str, ResourceList] = field(default_factory=_nothing)
    devices: object | None = None
    # Made on first use; a plain dict, whose setdefault is atomic: two threads may compute the same table, one stays.
    prepared: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def denial_hindrance(self) -> str | None:
        """Why no capacity denial may rest on this snapshot; None if one may."""
        for state in (self.complete, self.fresh, self.closed):
            if not state.holds:
                return state.reason
        return None

    @property
    def has_endless_pool(self) -> bool:
        """A pool whose size nobody knows: no sum over nodes proves anything, only what a single node cannot hold."""
        return any(pool.node_count_max is None for pool in self.pools)

    def is_mapped(self, resource: str) -> str | None:
        """The DeviceClass that may serve this extended resource without any allocatable; None if none does."""
        for mapped in self.mapped_resources:
            if mapped.resource == resource:
                return mapped.device_class
        return None
