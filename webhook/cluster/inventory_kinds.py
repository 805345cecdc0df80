"""What the agent keeps of Nodes and ResourceSlices: all that webhook/inventory/build.py reads, and nothing that changes
with a heartbeat. So an update that only says "still alive" is equal to the byte and is not written."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.objects import core
from webhook.objects.kinds import Kind

# Annotations that the inventory reads: Muster's own, and signs of an autoscaler.
READ_ANNOTATIONS = ("muster.dev/", "karpenter.", "cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/")


class InventoryMeta(core.Base, frozen=True):
    name: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeCondition(core.Base, frozen=True):
    type: str = ""
    status: str = ""


class NodeSpec(core.Base, frozen=True):
    unschedulable: bool | None = None
    taints: tuple[dict[str, Any], ...] | None = None


class NodeStatus(core.Base, frozen=True):
    capacity: core.ResourceList | None = None
    allocatable: core.ResourceList | None = None
    conditions: tuple[NodeCondition, ...] | None = None


class InventoryNode(core.Base, frozen=True):
    metadata: InventoryMeta = InventoryMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class SliceMeta(core.Base, frozen=True):
    name: str = ""


class InventorySlice(core.Base, frozen=True):
    """The spec stays as it came: its devices are read by webhook/inventory/devices.py."""

    metadata: SliceMeta = SliceMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


INVENTORY_KINDS = (
    Kind("", "Node", "nodes", ("v1",), InventoryNode, namespaced=False),
    Kind("resource.k8s.io", "ResourceSlice", "resourceslices", ("v1",), InventorySlice, namespaced=False),
)


def kept(obj: core.Base) -> core.Base:
    """A Node without annotations that nobody reads and without conditions but Ready; anything else as it is."""
    if not isinstance(obj, InventoryNode):
        return obj
    annotations = {k: v for k, v in (obj.metadata.annotations or {}).items() if k.startswith(READ_ANNOTATIONS)}
    taints = tuple(
        {key: value for key, value in taint.items() if key != "timeAdded"} for taint in obj.spec.taints or ()
    )
    conditions = tuple(one for one in obj.status.conditions or () if one.type == "Ready")
    # Without allocatable it is the capacity (SetDefaults_NodeStatus); with it nobody looks at the capacity.
    capacity = obj.status.capacity if obj.status.allocatable is None else None
    return InventoryNode(
        metadata=msgspec.structs.replace(obj.metadata, annotations=annotations or None),
        spec=NodeSpec(unschedulable=obj.spec.unschedulable, taints=taints or None),
        status=NodeStatus(capacity=capacity, allocatable=obj.status.allocatable, conditions=conditions),
    )
