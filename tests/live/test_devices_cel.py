"""Every CEL form that may support a proof, and what kube-scheduler 1.37.2 answers to it. This is the whitelist's proof.

Each expression is the selector of a claim with admin access, which uses nothing up; each claim has one Pod, and all are
held against the same two devices on one node. Bound: the expression is true for one of them. Unbound with an answer:
false. A runtime error shows as SchedulerError. One of the devices is tried per claim, by its `name` attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.client import Response
from tests.cluster.cluster import Cluster
from tests.feasibility.devices.objects import GPU, claim, device, device_class, request, resource_slice
from webhook.feasibility.cel import Truth, selector
from webhook.feasibility.devices_stock import Values
from webhook.inventory.devices import Reader

Json = dict[str, Any]
A = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'
NODE = "cel-node"
DEVICE = device(
    "one",
    {
        "model": "h100",
        "index": 1,
        "zero": 0,
        "healthy": True,
        "empty": "",
        "number": "12",
        "version": "v:1.10.3",
        "early": "v:2.0.0-rc.1",
        "net.example.com/speed": 400,
        "net.example.com/label": "A&B",
    },
    {"memory": "141Gi", "net.example.com/lanes": "16", "half": "500m"},
)

# What the subset must say, and what the scheduler does: YES bound, NO unbound, MAYBE a runtime error (or not our word).
EXPRESSIONS: tuple[tuple[str, Truth], ...] = (
    ('device.driver == "gpu.example.com"', Truth.YES),
    ('device.driver == "nic.example.com"', Truth.NO),
    ('device.driver != "gpu.example.com"', Truth.NO),
    ('"gpu.example.com" == device.driver', Truth.YES),
    ('device.driver in ["a", "b"]', Truth.NO),
    ('device.driver in ["a", "gpu.example.com"]', Truth.YES),
    ('device.driver.startsWith("gpu.")', Truth.YES),
    ('device.driver.endsWith(".org")', Truth.NO),
    ('device.driver.contains("example")', Truth.YES),
    ("device.allowMultipleAllocations", Truth.NO),
    ("!device.allowMultipleAllocations", Truth.YES),
    ("device.allowMultipleAllocations == false", Truth.YES),
    (f'{A}.model == "h100"', Truth.YES),
    (f'{A}.model == "H100"', Truth.NO),
    (f'{A}.model != "h100"', Truth.NO),
    (f'{A}["model"] == "h100"', Truth.YES),
    (f'{A}["model"] == "a100"', Truth.NO),
    (f"{A}.model == 'h100'", Truth.YES),
    (f'{A}.model == r"h100"', Truth.YES),
    (f'{A}.model == "h\\u0031\\x300"', Truth.YES),
    (f'{A}.model in ["a100", "h100"]', Truth.YES),
    (f'{A}.model in ["a100"]', Truth.NO),
    (f"{A}.model in [1, 2]", Truth.NO),
    (f'{A}.model.startsWith("h")', Truth.YES),
    (f'{A}.model.startsWith("a")', Truth.NO),
    (f'{A}.model.endsWith("00")', Truth.YES),
    (f'{A}.model.contains("x")', Truth.NO),
    (f'{A}.empty == ""', Truth.YES),
    (f'{A}.model.matches("^h.*")', Truth.YES),
    (f'{A}.model.matches("^.*h100.*$")', Truth.YES),
    (f'{A}.model.matches("100")', Truth.YES),
    (f'{A}.model.matches("^100")', Truth.NO),
    (f'{A}.model.matches("^h.00.+$")', Truth.NO),
    (f'{A}.model.matches("^$")', Truth.NO),
    (f'{A}.empty.matches("^.*$")', Truth.YES),
    (f'{A}.model.upperAscii() == "H100"', Truth.YES),
    (f'{A}.model.lowerAscii() == "H100"', Truth.NO),
    (f'{A}.model.lowerAscii().matches("^.*a100.*$")', Truth.NO),
    ('device.attributes["net.example.com"].label.lowerAscii() == "a&b"', Truth.YES),
    (f'{A}.model < "i"', Truth.YES),
    (f'{A}.model >= "i"', Truth.NO),
    (f'{A}.number < "9"', Truth.YES),
    (f"{A}.index == 1", Truth.YES),
    (f"{A}.index == 2", Truth.NO),
    (f"{A}.index != 1", Truth.NO),
    (f"{A}.index == 0x1", Truth.YES),
    (f"{A}.index > -1", Truth.YES),
    (f"{A}.index < 1", Truth.NO),
    (f"{A}.index <= 1", Truth.YES),
    (f"{A}.index >= 2", Truth.NO),
    (f"{A}.index in [1, 2]", Truth.YES),
    (f"{A}.index in [2, 3]", Truth.NO),
    (f"{A}.zero == 0", Truth.YES),
    (f"{A}.zero > 0", Truth.NO),
    # Values of different types are unequal, which is an answer; ordering them is an error.
    (f'{A}.index == "1"', Truth.NO),
    (f'{A}.index != "1"', Truth.YES),
    (f"{A}.model == 1", Truth.NO),
    (f"{A}.healthy == 1", Truth.NO),
    (f"{A}.zero == false", Truth.NO),
    (f'{A}.index < "2"', Truth.MAYBE),
    (f"{A}.healthy", Truth.YES),
    (f"!{A}.healthy", Truth.NO),
    (f"{A}.healthy == true", Truth.YES),
    (f"{A}.healthy != true", Truth.NO),
    (f"!!{A}.healthy", Truth.YES),
    (f"!{A}.model", Truth.MAYBE),
    (f"{A}.model", Truth.MAYBE),
    # What a device does not have.
    (f'{A}.missing == "x"', Truth.MAYBE),
    (f'{A}.missing != "x"', Truth.MAYBE),
    ('device.attributes["none.example.com"].model == "x"', Truth.MAYBE),
    ('device.capacity["none.example.com"].x.isGreaterThan(quantity("1"))', Truth.MAYBE),
    (f"has({A}.model)", Truth.YES),
    (f"has({A}.missing)", Truth.NO),
    (f"!has({A}.missing)", Truth.YES),
    ('has(device.attributes["none.example.com"].model)', Truth.NO),
    (f"has({C}.memory)", Truth.YES),
    (f"has({C}.missing)", Truth.NO),
    (f'"model" in {A}', Truth.YES),
    (f'"missing" in {A}', Truth.NO),
    ('"model" in device.attributes["none.example.com"]', Truth.NO),
    (f'"memory" in {C}', Truth.YES),
    (f'"missing" in {C}', Truth.NO),
    (f'has({A}.missing) && {A}.missing == "x"', Truth.NO),
    (f"has({A}.model) ? {A}.index == 1 : false", Truth.YES),
    (f"has({A}.missing) ? {A}.missing == 1 : {A}.index == 2", Truth.NO),
    # Other domains.
    ('device.attributes["net.example.com"].speed == 400', Truth.YES),
    ('device.attributes["net.example.com"].speed > 400', Truth.NO),
    ('device.attributes["net.example.com"].label == "A&B"', Truth.YES),
    ('device.attributes["net.example.com"].model == "h100"', Truth.MAYBE),
    # Errors and logic: false and true absorb them, on either side.
    (f'{A}.missing == 1 && device.driver == "x"', Truth.NO),
    (f'device.driver == "x" && {A}.missing == 1', Truth.NO),
    (f'{A}.missing == 1 || device.driver == "gpu.example.com"', Truth.YES),
    (f'device.driver == "gpu.example.com" || {A}.missing == 1', Truth.YES),
    (f'{A}.missing == 1 || device.driver == "x"', Truth.MAYBE),
    (f'{A}.missing == 1 && device.driver == "gpu.example.com"', Truth.MAYBE),
    (f"{A}.index == 1 && {A}.healthy && {A}.zero == 0", Truth.YES),
    (f"{A}.index == 1 && {A}.healthy && {A}.zero == 1", Truth.NO),
    (f"{A}.index == 2 || {A}.index == 3 || {A}.index == 4", Truth.NO),
    (f"({A}.index == 2 || {A}.healthy) && {A}.zero == 0", Truth.YES),
    (f"{A}.index == 2 || {A}.healthy && {A}.zero == 1", Truth.NO),
    (f"!({A}.index == 1)", Truth.NO),
    (f"{A}.index == 2 == false", Truth.YES),
    ("true", Truth.YES),
    ("false", Truth.NO),
    ("1 == 2", Truth.NO),
    # Quantities.
    (f'{C}.memory.compareTo(quantity("141Gi")) == 0', Truth.YES),
    (f'{C}.memory.compareTo(quantity("80Gi")) > 0', Truth.YES),
    (f'{C}.memory.compareTo(quantity("200Gi")) >= 0', Truth.NO),
    (f'{C}.memory.isGreaterThan(quantity("141Gi"))', Truth.NO),
    (f'{C}.memory.isGreaterThan(quantity("100G"))', Truth.YES),
    (f'{C}.memory.isLessThan(quantity("1Ti"))', Truth.YES),
    (f'{C}.memory == quantity("141Gi")', Truth.YES),
    (f'{C}.half.compareTo(quantity("0.5")) == 0', Truth.YES),
    (f'{C}.half.isLessThan(quantity("500m"))', Truth.NO),
    ('device.capacity["net.example.com"].lanes.compareTo(quantity("16")) == 0', Truth.YES),
    (f'quantity("1Gi").isLessThan({C}.memory)', Truth.YES),
    # Versions.
    (f'{A}.version.compareTo(semver("1.10.3")) == 0', Truth.YES),
    (f'{A}.version.isGreaterThan(semver("1.9.0"))', Truth.YES),
    (f'{A}.version.isLessThan(semver("1.9.0"))', Truth.NO),
    (f'{A}.version == semver("1.10.3")', Truth.YES),
    (f'{A}.version == semver("1.10.3+build")', Truth.YES),
    (f'{A}.version != semver("1.10.4")', Truth.YES),
    (f'{A}.early.isLessThan(semver("2.0.0"))', Truth.YES),
    (f'{A}.early.compareTo(semver("2.0.0-rc.2")) < 0', Truth.YES),
    (f'{A}.early.isGreaterThan(semver("2.0.0-2"))', Truth.YES),
    (f'{A}.version == "1.10.3"', Truth.MAYBE),
)


class Answers:
    """The scheduler's answer per expression: YES, NO or MAYBE for a runtime error."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.found: dict[str, tuple[Truth, str]] = {}

    def ask(self, expressions: list[str]) -> None:
        names = {}
        refused = []
        for number, text in enumerate(expressions):
            name = f"e{number}"
            names[name] = text
            spec = claim(request("one", "cel-class", 1, text, adminAccess=True))
            answer = self._create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}, name)
            if not answer.ok:
                refused.append((text, answer.body.get("message")))
                continue
            pod = {
                "containers": [{"name": "main", "image": "pause:3.10"}],
                "restartPolicy": "Never",
                "resourceClaims": [{"name": "c", "resourceClaimName": name}],
                "nodeSelector": {"cel": "yes"},
            }
            self._create({"apiVersion": "v1", "kind": "Pod", "spec": pod}, name).expect(201)
        assert refused == []
        self.cluster.wait_for(lambda: self._read(names), 120, "an answer for every expression")

    def _create(self, raw: Json, name: str) -> Response:
        return self.cluster.api.create({**raw, "metadata": {"name": name}}, self.namespace)

    def _read(self, names: dict[str, str]) -> bool:
        for pod in self.cluster.pods(self.namespace):
            text = names[pod["metadata"]["name"]]
            if pod["spec"].get("nodeName"):
                self.found[text] = (Truth.YES, "bound")
                continue
            for condition in pod.get("status", {}).get("conditions", []):
                if condition["type"] == "PodScheduled":
                    is_error = condition.get("reason") == "SchedulerError"
                    self.found[text] = (Truth.MAYBE if is_error else Truth.NO, condition.get("message", ""))
        return len(self.found) == len(names)


@pytest.fixture(scope="module")
def answers(control_plane: Cluster) -> Iterator[Answers]:
    namespace = control_plane.new_namespace("cel", {"resource.kubernetes.io/admin-access": "true"})
    nodes = control_plane.create_nodes(1, prefix=NODE, labels={"cel": "yes"}, allocatable={"pods": "500"})
    objects = [
        device_class("cel-class", 'device.driver == "gpu.example.com"'),
        resource_slice("cel-slice", GPU, [DEVICE], nodeName=nodes[0], pool="cel"),
    ]
    try:
        for raw in objects:
            control_plane.api.create(raw).expect(201)
        found = Answers(control_plane, namespace)
        found.ask([text for text, _ in EXPRESSIONS])
        yield found
    finally:
        control_plane.delete_namespace(namespace)
        control_plane.api.delete("/apis/resource.k8s.io/v1/deviceclasses/cel-class")
        control_plane.api.delete("/apis/resource.k8s.io/v1/resourceslices/cel-slice")
        control_plane.delete_nodes(nodes)


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
def test_the_subset_says_what_the_scheduler_says(answers: Answers, text: str, expected: Truth) -> None:
    seen, message = answers.found[text]
    ours = selector(text).of(Values(Reader().shape(GPU, DEVICE)))
    assert (seen, ours) == (expected, expected), message
    assert selector(text).is_whole
