"""What the agent keeps of Nodes, devices, Pods and claims: all that webhook/inventory/ reads, and nothing that changes with a
heartbeat. So an update that only says "still alive" is equal to the byte, and nothing is made of it."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.cluster.device_use_feed import CLAIM, RULE
from webhook.inventory.build import NodeObject, NodeSpec, NodeStatus, use_of
from webhook.inventory.device_use import Allocated
from webhook.inventory.devices import allocated_by
from webhook.inventory.usage import PodUse
from webhook.objects import core
from webhook.objects.kinds import Kind

# Annotations that the inventory reads: Muster's own, and signs of an autoscaler.
READ_ANNOTATIONS = ("muster.dev/", "karpenter.", "cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/")


class DeviceMeta(core.Base, frozen=True):
    name: str = ""


class DeviceObject(core.Base, frozen=True):
    """A ResourceSlice or DeviceTaintRule. The spec stays as it came: webhook/inventory/devices.py reads it."""

    metadata: DeviceMeta = DeviceMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class AllocatedClaim(core.Base, frozen=True):
    """A ResourceClaim, of which only the allocation is read."""

    status: dict[str, Any] | None = None


class ClaimUse(core.Base, frozen=True):
    """held: names of devices, by driver and pool."""

    held: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


INVENTORY_KINDS = (
    Kind("", "Node", "nodes", ("v1",), NodeObject, namespaced=False),
    Kind("resource.k8s.io", "ResourceSlice", "resourceslices", ("v1",), DeviceObject, namespaced=False),
)
# Read by warnings alone.
USE_KINDS = {
    CLAIM: Kind("resource.k8s.io", CLAIM, "resourceclaims", ("v1",), AllocatedClaim),
    RULE: Kind("resource.k8s.io", RULE, "devicetaintrules", ("v1",), DeviceObject, namespaced=False),
}


def kept(obj: core.Base) -> core.Base:
    """A Node without annotations that nobody reads and without conditions but Ready; of a Pod what it takes from its node,
    of a claim the devices that it holds; anything else as it is."""
    if isinstance(obj, core.Pod):
        return use_of(obj) or PodUse("", 0, {})
    if isinstance(obj, AllocatedClaim):
        by_pool = Allocated.of(allocated_by({"status": obj.status})).by_pool
        return ClaimUse(tuple((*pool, tuple(sorted(names))) for pool, names in sorted(by_pool.items())))
    if not isinstance(obj, NodeObject):
        return obj
    written = obj.metadata.annotations or {}
    annotations = {key: value for key, value in written.items() if key.startswith(READ_ANNOTATIONS)}
    conditions = tuple(one for one in obj.status.conditions or () if one.type == "Ready")
    # Without allocatable it is the capacity (SetDefaults_NodeStatus); with it nobody looks at the capacity.
    capacity = obj.status.capacity if obj.status.allocatable is None else None
    return NodeObject(
        metadata=msgspec.structs.replace(obj.metadata, annotations=annotations or None),
        spec=NodeSpec(unschedulable=obj.spec.unschedulable, taints=obj.spec.taints or None),
        status=NodeStatus(capacity=capacity, allocatable=obj.status.allocatable, conditions=conditions),
    )
