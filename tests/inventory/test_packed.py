"""Tables and devices as bytes: what comes back is what went in, and half of it is refused."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feasibility.devices.objects import GPU, NIC, claim, gang, ready, request, resource_slice
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Infeasible
from webhook.inventory import device_table, node_table
from webhook.inventory.devices import DeviceInventory, Reader, assemble
from webhook.inventory.node_table import NodeTable, TableBuilder
from webhook.inventory.snapshot import Node, Question, Snapshot, Taint

_names = st.sampled_from(["a", "b", "c"])
_nodes = st.builds(
    Node,
    name=_names,
    allocatable=st.dictionaries(_names, st.integers(0, 2**63 - 1), max_size=3),
    labels=st.dictionaries(_names, _names, max_size=3),
    taints=st.lists(st.builds(Taint, _names, _names, st.just("NoSchedule")), max_size=2).map(tuple),
    potential=st.dictionaries(_names, st.integers(0, 9), max_size=2),
    away=st.sampled_from(["", "cordoned"]),
    real=st.booleans(),
    open_labels=st.booleans(),
    used=st.dictionaries(_names, st.integers(0, 9), max_size=2),
    used_ports=st.frozensets(st.tuples(_names, st.just("TCP"), st.integers(1, 9)), max_size=2),
)


@given(nodes=st.lists(_nodes, max_size=6))
def test_a_table_is_its_nodes(nodes: list[Node]) -> None:
    table = NodeTable.of(nodes)

    assert list(table) == nodes
    assert list(node_table.unpacked(node_table.packed(table))) == nodes
    assert table.is_away().tolist() == [bool(node.away) for node in nodes]
    assert table.has_labels({"a": "b"}).tolist() == [node.labels.get("a") == "b" for node in nodes]


@given(nodes=st.lists(_nodes, min_size=1, max_size=6), changed=_nodes, data=st.data())
def test_a_changed_row_is_as_if_it_had_always_been_so(nodes: list[Node], changed: Node, data: st.DataObject) -> None:
    builder = TableBuilder(nodes)
    before = builder.table()
    row = data.draw(st.integers(0, len(nodes) - 1))

    builder.change(row, changed)

    assert list(before) == nodes
    assert list(builder.table()) == [*nodes[:row], changed, *nodes[row + 1 :]]


@given(nodes=st.lists(_nodes, max_size=5), more=st.lists(_nodes, max_size=5))
def test_two_tables_in_a_row_are_one(nodes: list[Node], more: list[Node]) -> None:
    """Equal values are one, or equal domains would fall apart."""
    both = NodeTable.of(nodes).followed_by(more)

    assert list(both) == [*nodes, *more]
    for column in (*both.fields.values(), *both.labels.values()):
        assert len({repr(value) for value in column.values}) == len(column.values)


def test_half_a_table_is_refused() -> None:
    data = node_table.packed(NodeTable.of([Node(name="a", allocatable={"cpu": 1}, labels={"rack": "r"})]))

    with pytest.raises(ValueError, match="ends too early"):
        node_table.unpacked(data[:-8])
    with pytest.raises(ValueError, match="no table"):
        node_table.unpacked(b"something else entirely")


def inventory() -> DeviceInventory:
    """Local, shared, former and partitionable devices, lists and versions, and one pool that is not complete."""
    plain = {
        "name": "d0",
        "attributes": {
            "uuid": {"string": "u"},
            "cuda": {"version": "1.2.3"},
            "roots": {"strings": ["a", "b"]},
            "index": {"int": 3},
            "ecc": {"bool": True},
        },
        "capacity": {"memory": {"value": "141Gi", "requestPolicy": {"default": "1Gi"}}},
        "taints": [{"key": "k", "effect": "NoSchedule"}],
    }
    part = {"name": "p0", "consumesCounters": [{"counterSet": "gpu0", "counters": {"memory": {"value": "40Gi"}}}]}
    counters = [{"name": "gpu0", "counters": {"memory": {"value": "80Gi"}}}]
    reader = Reader()
    slices = [
        reader.read_slice(resource_slice("a", GPU, [plain, plain | {"name": "d1"}], nodeName="a")),
        reader.read_slice(resource_slice("b", GPU, [part], nodeName="b", sharedCounters=counters)),
        reader.read_slice(resource_slice("everywhere", GPU, [plain], allNodes=True)),
        reader.read_slice(resource_slice("c", GPU, [plain], nodeName="c", slices=2)),
        reader.read_slice(resource_slice("d", NIC, [plain], nodeName="e", pool="nics of e")),
    ]
    former = [reader.read_slice(resource_slice("z", GPU, [plain | {"name": "was"}], nodeName="a"))]
    classes = [{"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}, {"new": {}}]}}]
    return assemble(slices, classes=classes, former=former)


def test_devices_come_back_as_they_were() -> None:
    before = inventory()
    after = device_table.unpacked(device_table.packed(before))

    assert {node: list(map(asdict, devices)) for node, devices in after.local.items()} == {
        node: list(map(asdict, devices)) for node, devices in before.local.items()
    }
    assert list(map(asdict, after.shared)) == list(map(asdict, before.shared))
    assert {pool: sets for pool, sets in before.counters.items() if sets} == after.counters
    for name in ("unclear", "classes", "groups", "identities", "strays"):
        assert getattr(after, name) == getattr(before, name), name
    assert [[one.id for one in devices] for devices in after.group_devices] == [
        [one.id for one in devices] for devices in before.group_devices
    ]
    assert any(device.is_former for devices in after.local.values() for device in devices)


def test_equal_devices_of_a_node_share_their_shape() -> None:
    after = device_table.unpacked(device_table.packed(inventory()))
    first, second = (device for device in after.local["a"] if not device.is_former)

    assert first.shape is second.shape


def test_half_the_devices_are_refused() -> None:
    data = device_table.packed(replace(inventory(), prepared={}))

    with pytest.raises(ValueError, match="end too early"):
        device_table.unpacked(data[:-1])
    with pytest.raises(ValueError, match="no devices"):
        device_table.unpacked(b"something else entirely")


@pytest.mark.parametrize("question", list(Question))
def test_a_decision_decodes_one_node_of_each_kind(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the question is: 80,000 devices take a second to decode."""
    names = [f"n{number}" for number in range(40)]
    reader = Reader()
    gpu = {"name": "d0", "attributes": {"model": {"string": "h200"}}}
    slices = [reader.read_slice(resource_slice(name, GPU, [gpu], nodeName=name)) for name in names]
    classes = [{"metadata": {"name": GPU}, "spec": {}}]
    devices = device_table.unpacked(device_table.packed(assemble(slices, classes=classes)))
    nodes = [Node(name=name, allocatable={"pods": 110}, labels={"rack": "r"}) for name in names]
    where = Snapshot(version="1", nodes=nodes, devices=devices)
    asked = ready(gang(41, {"g": claim(request("gpu", GPU, 1))}, topology="rack"), where)
    looked: list[str] = []
    decode = device_table.PackedDevices.__getitem__
    monkeypatch.setattr(
        device_table.PackedDevices, "__getitem__", lambda self, node: looked.append(node) or decode(self, node)
    )

    found = evaluate(asked, where, question)

    assert isinstance(found, Infeasible)
    assert found.proof.best == 40
    assert looked == []
