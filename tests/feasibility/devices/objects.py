"""Raw objects of device tests: nodes, ResourceSlices, DeviceClasses, claims. INV-DRA of the cases is `dra_node`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from webhook.feasibility.devices import ClaimKey, with_devices
from webhook.feasibility.model import Demand, LeafDemand, PodDemand, Scope
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Question, Snapshot

Json = dict[str, Any]
GPU, NIC = "gpu.example.com", "nic.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
API = "resource.k8s.io/v1"


# -- devices --------------------------------------------------------------------------------------------------------
def attribute(value: bool | int | str | list[Any]) -> Json:
    """A DeviceAttribute; a string that starts with "v:" is a version."""
    if isinstance(value, list):
        return {f"{next(iter(attribute(value[0])))}s": value}
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    if isinstance(value, str) and value.startswith("v:"):
        return {"version": value[2:]}
    return {kind: value}


def device(
    name: str, attributes: Mapping[str, Any] | None = None, capacity: Mapping[str, Any] | None = None, **more: Any
) -> Json:
    found: Json = {"name": name, **more}
    if attributes:
        found["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, Mapping) else {"value": value} for key, value in capacity.items()
        }
    return found


def resource_slice(
    name: str,
    driver: str,
    devices: Sequence[Json],
    *,
    pool: str = "",
    slices: int = 1,
    generation: int = 1,
    **reach: Any,
) -> Json:
    """reach: nodeName, nodeSelector, allNodes, perDeviceNodeSelection, sharedCounters."""
    spec: Json = {
        "driver": driver,
        "pool": {"name": pool or reach.get("nodeName") or name, "generation": generation, "resourceSliceCount": slices},
        **reach,
    }
    if devices:
        spec["devices"] = list(devices)
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def on_label(key: str, value: str) -> Json:
    """A nodeSelector for one label."""
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}


def device_class(name: str, *selectors: str, extended: str = "") -> Json:
    """Without selectors it selects the devices of the driver with the class's name."""
    texts = selectors or (f'device.driver == "{name}"',)
    spec: Json = {"selectors": [{"cel": {"expression": text}} for text in texts]}
    if extended:
        spec["extendedResourceName"] = extended
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


CLASSES = (device_class(GPU), device_class(NIC))


# -- nodes ----------------------------------------------------------------------------------------------------------
def node(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": "96", "memory": "1000Gi", "pods": "110"}},
    }


def gpus(node_name: str, count: int = 8, roots: int = 4, **more: Any) -> Json:
    """A slice of GPUs, spread over PCIe roots p0, p1, ... in order."""
    devices = [
        device(
            f"gpu-{i}",
            {ROOT: f"p{i * roots // count}", "index": i, "model": "h200", "uuid": f"{node_name}-{i}"},
            {"memory": "141Gi"},
            **more,
        )
        for i in range(count)
    ]
    return resource_slice(f"{node_name}-gpu", GPU, devices, nodeName=node_name)


def nics(node_name: str, count: int = 4, roots: int = 4) -> Json:
    devices = [device(f"nic-{i}", {ROOT: f"p{i * roots // count}", "speed": 400}) for i in range(count)]
    return resource_slice(f"{node_name}-nic", NIC, devices, nodeName=node_name)


def dra_node(name: str, **labels: str) -> list[Json]:
    """A node of INV-DRA: 8 GPUs and 4 NICs, 2 + 1 on each of the PCIe roots p0 to p3."""
    return [node(name, **labels), gpus(name), nics(name)]


# -- claims ---------------------------------------------------------------------------------------------------------
def request(name: str, class_name: str, count: int | None = 1, *selectors: str, **more: Any) -> Json:
    """An `exactly` request; count None is allocationMode All."""
    return {"name": name, "exactly": way(class_name, count, *selectors, **more)}


def way(class_name: str, count: int | None = 1, *selectors: str, **more: Any) -> Json:
    found: Json = {"deviceClassName": class_name, **more}
    if count is None:
        found["allocationMode"] = "All"
    else:
        found |= {"allocationMode": "ExactCount", "count": count}
    if selectors:
        found["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return found


def first_available(name: str, **ways: Json) -> Json:
    return {"name": name, "firstAvailable": [{"name": key, **value} for key, value in ways.items()]}


def claim(*requests: Json, match: str = "", of: Sequence[str] = (), distinct: str = "") -> Json:
    """A ResourceClaimSpec."""
    devices: Json = {"requests": list(requests)}
    constraints: list[Json] = []
    if match:
        constraints.append({"matchAttribute": match, **({"requests": list(of)} if of else {})})
    if distinct:
        constraints.append({"distinctAttribute": distinct, **({"requests": list(of)} if of else {})})
    if constraints:
        devices["constraints"] = constraints
    return {"devices": devices}


# -- snapshots and demands ------------------------------------------------------------------------------------------
def snapshot(*objects: Json | Iterable[Any], classes: Sequence[Json] = CLASSES) -> Snapshot:
    """objects: as deeply nested in lists as is handy."""
    return build([*_flat(objects), *classes], Settings(is_file=True))


def _flat(objects: Iterable[Any]) -> Iterator[Json]:
    for item in objects:
        if isinstance(item, dict):
            yield item
        else:
            yield from _flat(item)


def gang(
    pod_count: int,
    own: Mapping[str, Json] | None = None,
    shared: Mapping[str, Json] | None = None,
    *,
    request: Mapping[str, int] | None = None,
    topology: str | None = None,
    loner_count: int = 0,
) -> tuple[Demand, dict[ClaimKey, Json]]:
    """A gang whose Pods have these claims, and the specs behind them. cpu in thousandths. loner_count: of the Pods, how
    many do not use the shared claims."""
    specs: dict[ClaimKey, Json] = {(name, None, name): spec for name, spec in (own or {}).items()}
    group = {(name, None, f"shared-{name}"): spec for name, spec in (shared or {}).items()}
    asked = tuple(sorted((request or {}).items()))
    loners = PodDemand(count=loner_count, request=asked, claims=tuple(specs))
    specs |= group
    users = PodDemand(count=pod_count - loner_count, request=asked, claims=tuple(specs))
    pods = tuple(pod for pod in (users, loners) if pod.count)
    leaf = LeafDemand(needed=pod_count, pods=pods, claims=tuple(group), topology_key=topology)
    return Demand(root=leaf, scope=Scope.GANG, name="train"), specs


def ready(
    asked: tuple[Demand, Mapping[ClaimKey, Json]], where: Snapshot, question: Question = Question.NEVER, **more: Any
) -> Demand:
    """The demand with its device needs."""
    demand, specs = asked
    return with_devices(demand, where, specs.get, question=question, **more)
