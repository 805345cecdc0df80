"""Claim shapes on the real kube-scheduler 1.37.2: where Muster says never, it places nothing; where feasible, all.

Each shape has nodes of its own, told apart by a label, with ResourceSlices made by hand. It is run twice, each time on
fresh nodes: with the largest gang that Muster calls feasible, and with the smallest that it calls impossible. A gang
that is feasible and not placed is a greedy miss of the scheduler, or a fault of ours: none was seen, so none is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster.cluster import WAS_GATES, Cluster, NodeSpec
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.feasibility.devices.objects import (
    CLASSES,
    GPU,
    NIC,
    ROOT,
    claim,
    device,
    device_class,
    first_available,
    gang,
    gpus,
    nics,
    node,
    on_label,
    ready,
    request,
    resource_slice,
    snapshot,
    way,
)
from webhook.feasibility.check import faults
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Feasible, Infeasible, Result, Unknown
from webhook.inventory.snapshot import Question

Json = dict[str, Any]
LABEL = "devices.example.com/shape"
CPU = 8
PODS_MAX = 12
ENOUGH = 6
# (names of the shape's nodes, the value of its label) -> its slices.
Stock = Callable[[list[str], str], list[Json]]


@dataclass(frozen=True)
class Shape:
    """most: the largest gang that fits, as a person worked it out; None: any number. unknown: for which of the two gangs
    ("fits", "over") Muster's answer is Unknown, while the scheduler has one. loners: half of the Pods (the smaller half) do
    not use the shared claims."""

    name: str
    stock: Stock
    most: int | None
    own: Mapping[str, Json] = field(default_factory=dict)
    shared: Mapping[str, Json] = field(default_factory=dict)
    node_count: int = 2
    cpu: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    question: Question = Question.NEVER
    loners: bool = False


def local(gpu_count: int = 2, nic_count: int = 2, roots: int = 2) -> Stock:
    def make(names: list[str], _: str) -> list[Json]:
        return [raw for name in names for raw in (gpus(name, gpu_count, roots), nics(name, nic_count, roots))]

    return make


def devices(driver: str, *found: Json, **more: Any) -> Stock:
    """The same devices on each node."""
    name = driver.split(".", maxsplit=1)[0]
    return lambda names, _: [
        resource_slice(f"{node_name}-{name}", driver, found, nodeName=node_name, **more) for node_name in names
    ]


def partitioned(names: list[str], _: str) -> list[Json]:
    """Each node: one whole device or four quarters, of 40 units of memory."""

    def part(name: str, memory: str) -> Json:
        counters = {"memory": {"value": memory}}
        return device(name, {"size": memory}, consumesCounters=[{"counterSet": "board", "counters": counters}])

    found = []
    for name in names:
        sets = [{"name": "board", "counters": {"memory": {"value": "40"}}}]
        found.append(resource_slice(f"{name}-sets", GPU, [], pool=name, slices=2, nodeName=name, sharedCounters=sets))
        parts = [part("whole", "40"), *(part(f"quarter-{i}", "10") for i in range(4))]
        found.append(resource_slice(f"{name}-parts", GPU, parts, pool=name, slices=2, nodeName=name))
    return found


def fabric(count: int, driver: str = "fabric.example.com", **more: Any) -> Stock:
    """Devices that all nodes of the shape reach."""

    def make(_: list[str], label: str) -> list[Json]:
        found = [device(f"port-{i}", {"index": i}, **more) for i in range(count)]
        return [resource_slice(f"{label}-fabric", driver, found, nodeSelector=on_label(LABEL, label))]

    return make


def everywhere(driver: str, count: int) -> Stock:
    def make(_: list[str], label: str) -> list[Json]:
        found = [device(f"channel-{i}") for i in range(count)]
        return [resource_slice(f"{label}-all", driver, found, allNodes=True)]

    return make


def per_device(names: list[str], label: str) -> list[Json]:
    """One pool; each node has two devices of its own in it."""
    found = [device(f"d-{i}-{name}", nodeName=name) for name in names for i in range(2)]
    return [resource_slice(f"{label}-pool", GPU, found, perDeviceNodeSelection=True)]


def both(*stocks: Stock) -> Stock:
    return lambda names, label: [raw for stock in stocks for raw in stock(names, label)]


def incomplete(names: list[str], _: str) -> list[Json]:
    return [resource_slice(f"{name}-half", GPU, [device("d")], nodeName=name, slices=2) for name in names]


def two_generations(names: list[str], _: str) -> list[Json]:
    old = [resource_slice(f"{name}-old", GPU, [device(f"d{i}") for i in range(3)], nodeName=name) for name in names]
    new = [resource_slice(f"{name}-new", GPU, [device("d0")], nodeName=name, generation=2) for name in names]
    return old + new


SIZE = 'device.attributes["gpu.example.com"].size'
INDEX = 'device.attributes["gpu.example.com"].index'
TAINT = {"key": "unhealthy", "effect": "NoSchedule"}
SHAPES = (
    Shape("one-gpu", local(), 4, {"g": claim(request("a", GPU))}),
    Shape("two-gpus", local(3), 2, {"g": claim(request("a", GPU, 2))}),
    Shape("gpu-and-nic", local(4, 2), 4, {"g": claim(request("a", GPU), request("b", NIC), match=ROOT)}),
    Shape("two-gpus-and-nic", local(4, 4), 4, {"g": claim(request("a", GPU, 2), request("b", NIC), match=ROOT)}),
    Shape("too-many-on-a-root", local(8, 2), 4, {"g": claim(request("a", GPU, 3), request("b", NIC), match=ROOT)}),
    Shape("never-on-a-root", local(4, 2), 0, {"g": claim(request("a", GPU, 3), match=ROOT)}),
    Shape("roots-do-not-mix", local(3, 1), 2, {"g": claim(request("a", GPU, 1), request("b", NIC), match=ROOT)}),
    Shape(
        "subset-of-requests",
        local(4, 1),
        2,
        {"g": claim(request("a", GPU, 2), request("b", NIC), match=ROOT, of=["a"])},
    ),
    Shape("no-such-attribute", local(), 0, {"g": claim(request("a", GPU), match="example.com/none")}),
    Shape("selector", local(4), 2, {"g": claim(request("a", GPU, 1, f"{INDEX} < 1"))}),
    Shape("selector-never", local(4), 0, {"g": claim(request("a", GPU, 1, f"{INDEX} > 9"))}),
    Shape("two-claims", local(3, 3), 2, {"g": claim(request("a", GPU, 2)), "n": claim(request("a", NIC, 2))}),
    Shape("two-requests-one-pool", local(3), 2, {"g": claim(request("a", GPU), request("b", GPU, 1, f"{INDEX} > 0"))}),
    Shape("all", local(4), 2, {"g": claim(request("a", GPU, None))}),
    Shape("all-and-one-more", local(4), 0, {"g": claim(request("a", GPU, None), request("b", GPU))}),
    Shape("one-and-all-of-the-rest", local(4), 0, {"g": claim(request("b", GPU), request("a", GPU, None))}),
    Shape("all-of-none", local(2, 0), 0, {"g": claim(request("a", NIC, None))}),
    Shape("more-than-32", local(40), 0, {"g": claim(request("a", GPU, 33))}, node_count=1),
    Shape("first-available", local(4, 1), 4, {"g": claim(first_available("a", x=way(GPU, 4), y=way(NIC)))}),
    Shape(
        "first-available-constrained",
        local(4, 2),
        4,
        {"g": claim(first_available("a", x=way(GPU, 4), y=way(GPU)), request("b", NIC), match=ROOT)},
    ),
    Shape("quarters", partitioned, 8, {"g": claim(request("a", GPU, 1, f"{SIZE} == '10'"))}),
    Shape("wholes", partitioned, 2, {"g": claim(request("a", GPU, 1, f"{SIZE} == '40'"))}),
    Shape(
        "whole-and-quarter",
        partitioned,
        0,
        {"g": claim(request("a", GPU, 1, f"{SIZE} == '40'"), request("b", GPU, 1, f"{SIZE} == '10'"))},
    ),
    Shape("admin", local(1), None, {"g": claim(request("a", GPU, 1, adminAccess=True))}, node_count=1),
    Shape("admin-too-many", local(1), 0, {"g": claim(request("a", GPU, 2, adminAccess=True))}, node_count=1),
    Shape(
        "shared-device",
        devices("multi.example.com", device("m", allowMultipleAllocations=True)),
        None,
        {"g": claim(request("a", "multi.example.com"))},
        node_count=1,
    ),
    Shape(
        "shared-capacity",
        devices("multi.example.com", device("m", {}, {"lanes": "10"}, allowMultipleAllocations=True)),
        2,
        {"g": claim(request("a", "multi.example.com", capacity={"requests": {"lanes": "4"}}))},
        node_count=1,
        unknown=("fits", "over"),
    ),
    Shape(
        "capacity-never",
        local(2),
        0,
        {"g": claim(request("a", GPU, 1, capacity={"requests": {"memory": "200Gi"}}))},
    ),
    Shape("fabric", fabric(3), 3, {"g": claim(request("a", "fabric.example.com"))}, unknown=("fits",)),
    Shape("fabric-pairs", fabric(5), 2, {"g": claim(request("a", "fabric.example.com", 2))}, unknown=("fits",)),
    Shape(
        "fabric-and-gpu",
        both(local(2), fabric(3)),
        3,
        {"g": claim(request("a", GPU)), "f": claim(request("a", "fabric.example.com"))},
        unknown=("fits",),
    ),
    Shape("per-device", per_device, 4, {"g": claim(request("a", GPU))}),
    Shape("shared-pins", local(), 2, shared={"s": claim(request("a", GPU))}, cpu=4000),
    Shape("shared-by-half", local(), 4, shared={"s": claim(request("a", GPU))}, cpu=4000, loners=True),
    Shape("shared-and-own", local(3), 2, {"g": claim(request("a", GPU))}, {"s": claim(request("a", GPU))}),
    Shape(
        "shared-channel",
        both(local(2), everywhere("channel.example.com", 1)),
        4,
        {"g": claim(request("a", GPU))},
        {"s": claim(request("a", "channel.example.com"))},
    ),
    Shape(
        "shared-binds",
        fabric(1, "binding.example.com", bindsToNode=True),
        2,
        shared={"s": claim(request("a", "binding.example.com"))},
        cpu=4000,
        unknown=("fits",),
    ),
    Shape("distinct", local(4, 0), 4, {"g": claim(request("a", GPU, 2), distinct=ROOT)}, unknown=("fits",)),
    Shape("distinct-never", local(8, 0), 0, {"g": claim(request("a", GPU, 3), distinct=ROOT)}),
    Shape("extended", local(2), 4, resources={"example.com/gpu": 1}, unknown=("fits",)),
    Shape("extended-never", local(2), 0, resources={"example.com/gpu": 3}),
    Shape("implicit", local(2), 2, resources={f"deviceclass.resource.kubernetes.io/{GPU}": 2}, unknown=("fits",)),
    Shape(
        "tainted",
        devices(GPU, device("d", taints=[TAINT])),
        0,
        {"g": claim(request("a", GPU))},
        question=Question.READY,
    ),
    Shape(
        "tolerated",
        devices(GPU, device("d", taints=[TAINT])),
        2,
        {"g": claim(request("a", GPU, tolerations=[{"key": "unhealthy", "operator": "Exists"}]))},
        question=Question.READY,
    ),
    Shape("incomplete", incomplete, 0, {"g": claim(request("a", GPU))}, unknown=("over",)),
    Shape("two-generations", two_generations, 2, {"g": claim(request("a", GPU))}, unknown=("fits", "over")),
    Shape("missing-attribute", local(), 0, {"g": claim(request("a", GPU, 1, f"{INDEX}x == 1"))}, unknown=("over",)),
    Shape("no-such-class", local(), 0, {"g": claim(request("a", "none.example.com"))}, unknown=("over",)),
    Shape(
        "regular-expression",
        local(2),
        4,
        {"g": claim(request("a", GPU, 1, 'device.attributes["gpu.example.com"].model.matches("^[h].*")'))},
        unknown=("fits",),
    ),
)
EXTRA_CLASSES = tuple(device_class(f"{name}.example.com") for name in ("multi", "fabric", "channel", "binding"))
EXTENDED = device_class("extended.example.com", f'device.driver == "{GPU}"', extended="example.com/gpu")

CPU_DRIVER = "cpu.example.com"
ROOTS = 'device.attributes["resource.kubernetes.io"].pcieRoot'


def listed(*roots: str, nic: str = "p1") -> Stock:
    return both(devices(CPU_DRIVER, device("cpu", {ROOT: list(roots)})), devices(NIC, device("nic", {ROOT: nic})))


PAIR = claim(request("a", CPU_DRIVER), request("b", NIC), match=ROOT)
LISTS = (
    Shape("list-overlap", listed("p0", "p1"), 1, {"g": PAIR}, node_count=1),
    Shape("list-disjoint", listed("p0", "p2"), 0, {"g": PAIR}, node_count=1),
    Shape("list-has", listed("p0"), 1, {"g": claim(request("a", CPU_DRIVER, 1, f'"p0" in {ROOTS}'))}, node_count=1),
    Shape("list-lacks", listed("p0"), 0, {"g": claim(request("a", CPU_DRIVER, 1, f'"p9" in {ROOTS}'))}, node_count=1),
)
"""One gate more than usual: DRAListTypeAttributes."""


class Run:
    """One gang of a shape on nodes of its own, in a namespace of its own."""

    def __init__(self, cluster: Cluster, shape: Shape, pod_count: int, kind: str) -> None:
        self.cluster, self.shape, self.pod_count = cluster, shape, pod_count
        self.label = f"{shape.name}-{kind}"
        self.nodes = [f"{self.label}-{i}" for i in range(shape.node_count)]
        self.slices = shape.stock(self.nodes, self.label)
        self.loner_count = pod_count // 2 if shape.loners else 0
        self.namespace = ""

    def result(self) -> Result:
        """Muster's answer for this gang on these nodes."""
        shape = self.shape
        cpu = {"cpu": shape.cpu} if shape.cpu else {}
        where = snapshot(
            [
                {**node(name, **{LABEL: self.label}), "status": {"allocatable": {"cpu": str(CPU), "pods": "110"}}}
                for name in self.nodes
            ],
            self.slices,
            classes=(*CLASSES, *EXTRA_CLASSES, EXTENDED, device_class("cpu.example.com")),
        )
        request = {**cpu, **shape.resources}
        asked = gang(self.pod_count, shape.own, shape.shared, request=request, loner_count=self.loner_count)
        demand = ready(asked, where, shape.question)
        found = evaluate(demand, where, shape.question)
        if isinstance(found, Feasible):
            assert faults(demand, found.witness.placements, where, shape.question) == []
        return found

    def start(self) -> None:
        self.namespace = self.cluster.new_namespace(self.label, {"resource.kubernetes.io/admin-access": "true"})
        self.cluster.create_nodes([NodeSpec(name, {LABEL: self.label}, {"cpu": str(CPU)}) for name in self.nodes])
        for raw in self.slices:
            self.cluster.api.create(raw).expect(201)
        api = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        entries = []
        for prefix, claims in (("", self.shape.own), ("shared-", self.shape.shared)):
            for name, spec in claims.items():
                raw = {**api, "metadata": {"name": prefix + name}, "spec": {"spec": spec}}
                self.cluster.api.create(raw, self.namespace).expect(201)
                entries.append({"name": name, "resourceClaimTemplateName": prefix + name})
        group: Json = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": self.pod_count}}},
        }
        shared = [one for one in entries if one["name"] in self.shape.shared]
        if shared:
            group["spec"]["resourceClaims"] = shared
        self.cluster.api.create(group, self.namespace).expect(201)
        own = [one for one in entries if one["name"] not in self.shape.shared]
        for index in range(self.pod_count):
            # Loners last: the scheduler is greedy, and one that came first could take a user's place on the claim's node.
            used = own if index >= self.pod_count - self.loner_count else entries
            self.cluster.api.create(self._pod(index, used), self.namespace).expect(201)

    def _pod(self, index: int, entries: Sequence[Json]) -> Json:
        asked = {name: str(amount) for name, amount in self.shape.resources.items()}
        if self.shape.cpu:
            asked["cpu"] = f"{self.shape.cpu}m"
        resources: Json = {"requests": asked, "limits": asked, "claims": [{"name": one["name"]} for one in entries]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"train-{index}"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "pause:3.10", "resources": resources}],
                "resourceClaims": list(entries),
                "schedulingGroup": {"podGroupName": "train"},
                "nodeSelector": {LABEL: self.label},
            },
        }

    def bound(self) -> int:
        return len(self.cluster.bound_pods(self.namespace))

    def stop(self) -> None:
        if self.namespace:
            self.cluster.delete_namespace(self.namespace)
        self.cluster.delete_nodes(self.nodes)
        for raw in self.slices:
            self.cluster.api.delete(f"/apis/resource.k8s.io/v1/resourceslices/{raw['metadata']['name']}")


def runs_of(cluster: Cluster, shape: Shape) -> list[Run]:
    """The largest gang that fits, and one Pod more."""
    if shape.most is None:
        return [Run(cluster, shape, ENOUGH, "fits")]
    fits = [Run(cluster, shape, shape.most, "fits")] if shape.most else []
    return [*fits, Run(cluster, shape, shape.most + 1, "over")]


@dataclass
class Table:
    """What was started, and how many Pods of each run the scheduler bound."""

    runs: dict[str, Run]
    bound: dict[str, int] = field(default_factory=dict)


def play(cluster: Cluster, shapes: Sequence[Shape]) -> Iterator[Table]:
    classes = [*CLASSES, *EXTRA_CLASSES, EXTENDED, device_class("cpu.example.com")]
    table = Table({run.label: run for shape in shapes for run in runs_of(cluster, shape)})
    try:
        for raw in classes:
            cluster.api.create(raw).expect(201)
        for run in table.runs.values():
            run.start()
        for label, run in table.runs.items():
            if label.endswith("-fits"):
                try:
                    cluster.wait_for(lambda run=run: run.bound() == run.pod_count, 60, label)
                except TimeoutError:
                    continue  # the test of this run says so
        cluster.scheduler_idle(300)
        table.bound = {label: run.bound() for label, run in table.runs.items()}
        yield table
    finally:
        for run in table.runs.values():
            run.stop()
        for raw in classes:
            cluster.api.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{raw['metadata']['name']}")


@pytest.fixture(scope="module")
def table(control_plane: Cluster) -> Iterator[Table]:
    yield from play(control_plane, SHAPES)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_never_and_feasible_are_what_the_scheduler_does(table: Table, shape: Shape) -> None:
    judge(table, shape)


def judge(table: Table, shape: Shape) -> None:
    fits, over = table.runs.get(f"{shape.name}-fits"), table.runs.get(f"{shape.name}-over")
    if fits is not None:
        assert table.bound[fits.label] == fits.pod_count
        found = fits.result()
        assert isinstance(found, Unknown if "fits" in shape.unknown else Feasible), found
    if over is not None:
        assert table.bound[over.label] == 0
        assert isinstance(over.result(), Unknown if "over" in shape.unknown else Infeasible), over.result()


def test_list_attributes(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> None:
    """R83: a CPU on the roots p0 and p1, a NIC on p1: they have p1 in common."""
    cluster = start_control_plane(ControlPlaneOptions(feature_gates={**WAS_GATES, "DRAListTypeAttributes": True}))
    for found in play(cluster, LISTS):
        for shape in LISTS:
            judge(found, shape)
