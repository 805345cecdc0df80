"""What the agent keeps of Nodes and ResourceSlices: all that webhook/inventory/build.py reads, and nothing that changes
with a heartbeat. So an update that only says "still alive" is equal to the byte, and nothing is made of it."""

from __future__ import annotations

import msgspec

from webhook.inventory.build import NodeObject, NodeSpec, NodeStatus, use_of
from webhook.inventory.usage import PodUse
from webhook.objects import core
from webhook.objects.kinds import Kind

# Annotations that the inventory reads: Muster's own, and signs of an autoscaler.
READ_ANNOTATIONS = ("muster.dev/", "karpenter.", "cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/")


class SliceMeta(core.Base, frozen=True):
    name: str = ""


class InventorySlice(core.Base, frozen=True):
    """The spec stays as it came: its devices are read by webhook/inventory/devices.py."""

    metadata: SliceMeta = SliceMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


INVENTORY_KINDS = (
    Kind("", "Node", "nodes", ("v1",), NodeObject, namespaced=False),
    Kind("resource.k8s.io", "ResourceSlice", "resourceslices", ("v1",), InventorySlice, namespaced=False),
)


def kept(obj: core.Base) -> core.Base:
    """A Node without annotations that nobody reads and without conditions but Ready; of a Pod what it takes from its node;
    anything else as it is."""
    if isinstance(obj, core.Pod):
        return use_of(obj) or PodUse("", 0, {})
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
