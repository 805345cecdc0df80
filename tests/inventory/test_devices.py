"""ResourceSlices -> DeviceInventory: which pools count, what is unclear, what is interned."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.feasibility.devices.objects import GPU, NIC, device, device_class, gpus, on_label, resource_slice
from webhook.inventory.devices import UNREADABLE, DeviceInventory, Reader, assemble
from webhook.inventory.versions import Version

Json = dict[str, Any]


def inventory(*slices: Json, **more: Any) -> DeviceInventory:
    reader = Reader()
    return assemble([reader.read_slice(raw) for raw in slices], **more)


def named(devices: Any) -> list[str]:
    return [one.name for one in devices]


# ---- pools --------------------------------------------------------------------------------------------------------
def test_local_and_shared_devices_are_kept_apart() -> None:
    found = inventory(
        gpus("n1", 2),
        resource_slice("f", "f.example.com", [device("port")], nodeSelector=on_label("a", "b")),
        resource_slice("all", "c.example.com", [device("channel")], allNodes=True),
        resource_slice(
            "each",
            "e.example.com",
            [device("x", nodeName="n2"), device("y", allNodes=True)],
            perDeviceNodeSelection=True,
        ),
    )
    assert named(found.local["n1"]) == ["gpu-0", "gpu-1"]
    assert named(found.local["n2"]) == ["x"]
    assert sorted(named(found.shared)) == ["channel", "port", "y"]
    assert found.unclear == {}


@pytest.mark.parametrize(
    ("slices", "where"),
    [
        ([resource_slice("a", GPU, [device("d")], nodeName="n", slices=2)], "n"),
        ([resource_slice("a", GPU, [device("d")], nodeName="n", pool="p", slices=2)], ""),
        ([resource_slice("a", GPU, [device("d")], allNodes=True, pool="n", slices=2)], ""),
        ([resource_slice(x, GPU, [device(x)], nodeName="n", generation=g) for x, g in (("a", 1), ("b", 2))], "n"),
        ([resource_slice(x, GPU, [device("d")], nodeName="n", slices=2) for x in "ab"], "n"),
        ([resource_slice("a", GPU, [device("d")], somethingNew=True)], ""),
        ([resource_slice("a", GPU, [device("d", consumesCounters=[{"counterSet": "none"}])], nodeName="n")], "n"),
        ([resource_slice("a", GPU, [], nodeName="n", sharedCounters=[{"name": "s", "counters": {"m": {"value": "x"}}}])], ""),
    ],
    ids=["incomplete", "foreign-name", "everywhere", "two-generations", "name-twice", "new-form", "no-set", "counter"],
)  # fmt: skip
def test_what_is_not_certain_of_a_pool_is_unclear(slices: list[Json], where: str) -> None:
    found = inventory(*slices)
    assert found.unclear == {where: frozenset({GPU})}
    assert found.local == {}


def test_a_newer_generation_alone_counts() -> None:
    found = inventory(resource_slice("new", GPU, [device("d")], nodeName="n", generation=7))
    assert named(found.local["n"]) == ["d"]


def test_former_devices_are_added_by_name() -> None:
    reader = Reader()
    now, before = reader.read_slice(gpus("n", 2)), reader.read_slice(gpus("n", 3))
    found = assemble([now], former=[before])
    assert [(one.name, one.is_former) for one in found.local["n"]] == [
        ("gpu-0", False), ("gpu-1", False), ("gpu-2", True),
    ]  # fmt: skip
    assert named(found.devices()) == ["gpu-0", "gpu-1"]


# ---- devices ------------------------------------------------------------------------------------------------------
def test_equal_devices_share_a_shape_and_true_is_not_one() -> None:
    reader = Reader()
    one = reader.shape(GPU, device("a", {"x": 1, f"{GPU}/y": "z"}))
    assert reader.shape(GPU, device("b", {f"{GPU}/x": 1, "y": "z"})) is one
    assert reader.shape(GPU, device("c", {"x": True, "y": "z"})) is not one
    assert one.attributes[GPU, "x"] == ("int", 1)


def test_what_cannot_be_read_is_marked() -> None:
    reader = Reader()
    twice = reader.shape(GPU, device("a", {"x": 1, f"{GPU}/x": 2}))
    assert twice.attributes[GPU, "x"] == UNREADABLE
    assert twice.is_broken
    assert reader.shape(GPU, device("a", {"v": "v:1.2"})).is_broken
    assert not reader.shape(GPU, device("a", {"v": "v:1.2.3"})).is_broken
    assert reader.shape(GPU, {"name": "a", "attributes": {"new": {"duration": "1s"}}}).is_broken
    assert reader.shape(GPU, device("a", {}, {"memory": "lots"})).capacities[GPU, "memory"].value is None


def test_uuids_do_not_tell_nodes_apart() -> None:
    found = inventory(*[gpus(f"n{i}") for i in range(100)], gpus("small", 2))
    assert found.identities == {(GPU, "uuid")}
    assert len(set(found.groups.values())) == 2
    assert found.groups["n1"] == found.groups["n99"] != found.groups["small"]


# ---- the rest -----------------------------------------------------------------------------------------------------
def test_classes_taint_rules_and_allocations() -> None:
    rules = [
        {"metadata": {"name": "one"}, "spec": {"deviceSelector": {"pool": "n"}, "taint": {"key": "k", "effect": "NoSchedule"}}},
        {"metadata": {"name": "none"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}},
        {"metadata": {"name": "info"}, "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "None"}}},
    ]  # fmt: skip
    results = [
        {"driver": GPU, "pool": "n", "device": "gpu-0"},
        {"driver": GPU, "pool": "n", "device": "gpu-1", "adminAccess": True},
        {"driver": NIC, "pool": "n", "device": "nic-0", "shareID": "s"},
    ]
    claims = [{"status": {"allocation": {"devices": {"results": results}}}}, {"status": {}}, {}]
    classes = [device_class(GPU, extended="example.com/gpu"), device_class("other", "true", "false")]
    found = inventory(gpus("n", 2), classes=classes, taint_rules=rules, claims=claims)
    assert [rule.name for rule in found.taint_rules if rule.meets(found.local["n"][0])] == ["one"]
    assert found.allocated == {(GPU, "n", "gpu-0")}
    assert found.classes["other"].selectors == ("true", "false")
    assert [one.name for one in found.classes_of("example.com/gpu")] == [GPU]
    assert [one.name for one in found.classes_of(f"deviceclass.resource.kubernetes.io/{GPU}")] == [GPU]
    assert found.classes_of("nvidia.com/gpu") == ()


def test_nonsense_is_unclear_and_never_an_error() -> None:
    for raw in ({}, {"spec": None}, {"spec": {"devices": [None, 1, "x"], "pool": []}}, {"spec": {"driver": 5}}):
        inventory({"metadata": None, **raw}, classes=[{}], taint_rules=[{}], claims=[{}])


@pytest.mark.parametrize(
    "ordered",
    [
        ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"],
        ["1.9.0", "1.10.0", "2.0.0-1", "2.0.0"],
    ],
)  # fmt: skip
def test_versions_order_as_semver_says(ordered: list[str]) -> None:
    versions = [Version.parse(text) for text in ordered]
    for left, right in itertools.pairwise(versions):
        assert left is not None
        assert right is not None
        assert (left.compare(right), right.compare(left), left.compare(left)) == (-1, 1, 0)


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.3-a..b", "1.2.3.4"]
)
def test_what_is_no_version(text: str) -> None:
    assert Version.parse(text) is None
