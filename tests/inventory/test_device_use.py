"""What is in use of devices today, put over the devices: it is as if it had been read with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.feasibility.devices.objects import (
    CLASSES,
    GPU,
    NIC,
    ROOT,
    claim,
    device,
    gang,
    node,
    ready,
    request,
    resource_slice,
    snapshot,
)
from webhook.feasibility.devices import Need
from webhook.feasibility.devices_check import Judge
from webhook.feasibility.devices_claims import read_claim
from webhook.feasibility.devices_explain import taints
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Infeasible
from webhook.inventory import device_table, device_use, devices, tables
from webhook.inventory.device_use import Allocated, DeviceUse, overlaid
from webhook.inventory.devices import DeviceInventory, taint_rule
from webhook.inventory.snapshot import Question, Snapshot

Json = dict[str, Any]
NODES = ("n0", "n1", "n2")
NAMES = ("d0", "d1", "d2", "d3")
TAINT = {"key": "repair", "effect": "NoSchedule"}
PODS_MAX = 6
TOLERANT = [{"key": "repair", "operator": "Exists"}]
CLAIMS = (
    claim(request("a", GPU, 1)),
    claim(request("a", GPU, 2), match=ROOT),
    claim(request("a", GPU, 1, tolerations=TOLERANT), request("b", NIC, 1, tolerations=TOLERANT)),
    claim(request("a", GPU, None)),
    claim(request("a", GPU, 1, f'device.attributes["{GPU}"].uuid != "n1-d0"')),
)


@dataclass
class World:
    """slices, and what is in use of them: full names of devices, and DeviceTaintRules."""

    slices: list[Json]
    held: list[tuple[str, str, str]]
    rules: list[Json]

    def whole(self) -> Snapshot:
        """As read from files."""
        results = [{"driver": driver, "pool": pool, "device": name} for driver, pool, name in self.held]
        status = {"allocation": {"devices": {"results": results}}}
        held = {"kind": "ResourceClaim", "metadata": {"name": "held"}, "status": status}
        return snapshot([node(name) for name in NODES], self.slices, held, self.rules, classes=CLASSES)

    def in_parts(self) -> Snapshot:
        """As an agent publishes it and a worker takes it up."""
        bare = snapshot([node(name) for name in NODES], self.slices, classes=CLASSES)
        assert isinstance(bare.devices, DeviceInventory)
        rules = [found for found in map(taint_rule, self.rules) if found is not None]
        use = device_use.unpacked(device_use.packed(DeviceUse(Allocated.of(self.held), tuple(rules))))
        mapped = device_table.unpacked(device_table.packed(bare.devices))
        return Snapshot(version=bare.version, nodes=bare.nodes, devices=overlaid(mapped, use))


@dataclass
class Model:
    """What a node has. roots: of its devices; board: what parts of one board share, 0 where they are whole devices."""

    roots: list[str]
    board: int
    is_tainted: bool

    def slice_of(self, where: str, pool: str) -> Json:
        parts: Json = {"consumesCounters": [{"counterSet": "b", "counters": {"m": {"value": "2"}}}]}
        more = parts if self.board else {}
        found = [
            device(name, {ROOT: root, "uuid": f"{where}-{name}"}, **more)
            for name, root in zip(NAMES, self.roots, strict=False)
        ]
        if self.is_tainted:
            found[0]["taints"] = [{"key": "own", "effect": "NoExecute"}]
        sets = {"sharedCounters": [{"name": "b", "counters": {"m": {"value": str(self.board)}}}]}
        return resource_slice(f"{where}-gpu", GPU, found, pool=pool, nodeName=where, **(sets if self.board else {}))


models = st.builds(
    Model,
    roots=st.lists(st.sampled_from(["p0", "p1"]), min_size=1, max_size=4),
    board=st.sampled_from([0, 0, 0, 2, 5, 8]),
    is_tainted=st.sampled_from([False, False, False, True]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    # Most nodes of a cluster are alike.
    some = draw(st.lists(models, min_size=1, max_size=2))
    slices = [
        draw(st.sampled_from(some)).slice_of(name, draw(st.sampled_from([name, name, f"pool of {name}"])))
        for name in NODES
    ]
    # NICs of one pool that two nodes have, and some that all nodes reach.
    if draw(st.booleans()):
        both = [device(f"nic-{name}", {ROOT: "p0"}, nodeName=name) for name in NODES[:2]]
        slices.append(resource_slice("nics", NIC, both, pool="nics", perDeviceNodeSelection=True))
    if draw(st.booleans()):
        slices.append(resource_slice("far", NIC, [device("d0", {ROOT: "p1"}), device("d1")], pool="far", allNodes=True))
    ids = [
        (raw["spec"]["driver"], raw["spec"]["pool"]["name"], one["name"])
        for raw in slices
        for one in raw["spec"]["devices"]
    ]
    held = draw(st.lists(st.sampled_from([*ids, (GPU, "gone", "d0")]), max_size=6, unique=True))
    pools = sorted({pool for _, pool, _ in ids})
    selector = st.fixed_dictionaries(
        {},
        optional={
            "driver": st.sampled_from([GPU, NIC]),
            "pool": st.sampled_from(pools),
            "device": st.sampled_from(NAMES),
        },
    )
    effects = st.sampled_from(["NoSchedule", "NoExecute", "None"])
    rules = [
        {
            "kind": "DeviceTaintRule",
            "metadata": {"name": f"r{index}"},
            "spec": {"deviceSelector": draw(selector), "taint": {**TAINT, "effect": draw(effects)}},
        }
        for index in range(draw(st.integers(0, 2)))
    ]
    return World(slices, held, rules)


def inventory_of(where: Snapshot) -> DeviceInventory:
    assert isinstance(where.devices, DeviceInventory)
    return where.devices


def answers(where: Snapshot, spec: Json, question: Question) -> Iterator[tuple[int, bool]]:
    """Per node: how many Pods its devices hold, and whether that is certain."""
    need = Need((read_claim(spec, inventory_of(where).classes),))
    base = tables.base(where, question)
    found = need.answers(base)
    return ((found[code].pod_count, found[code].is_exact) for code in need.key.shelf(base).codes)


@pytest.mark.parametrize("identity_count", [64, 1])
@pytest.mark.parametrize("question", list(Question))
@settings(max_examples=150, deadline=None)
@given(world=worlds(), spec=st.sampled_from(CLAIMS))
def test_over_the_devices_it_is_as_if_read_with_them(
    question: Question, identity_count: int, world: World, spec: Json
) -> None:
    """identity_count: 1 makes the uuid an attribute that tells devices one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "_IDENTITY_VALUE_COUNT_MIN", identity_count)
        whole, parts = world.whole(), world.in_parts()

        assert list(answers(whole, spec, question)) == list(answers(parts, spec, question))
        wanted = read_claim(spec, inventory_of(whole).classes)
        assert taints(wanted, tables.base(whole, question)) == taints(wanted, tables.base(parts, question))


@pytest.mark.parametrize("identity_count", [64, 1])
@pytest.mark.parametrize("question", [Question.READY, Question.NOT_NOW])
@settings(max_examples=200, deadline=None)
@given(world=worlds(), spec=st.sampled_from(CLAIMS))
def test_it_is_what_device_by_device_comes_out(
    question: Question, identity_count: int, world: World, spec: Json
) -> None:
    """The independent judge knows no marks: it asks of each device by its name whether it is held or tainted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "_IDENTITY_VALUE_COUNT_MIN", identity_count)
        where = world.in_parts()
    wanted = read_claim(spec, inventory_of(where).classes)
    for one, (most, is_exact) in zip(where.nodes, answers(where, spec, question), strict=True):
        real = next(
            count
            for count in range(PODS_MAX, -1, -1)
            if Judge(inventory_of(where), question).claims([wanted] * count, one)
        )
        assert most >= real
        if is_exact:
            assert min(most, PODS_MAX) == real


@given(world=worlds())
def test_never_reads_none_of_it(world: World) -> None:
    bare = World(world.slices, [], [])
    for spec in CLAIMS:
        assert list(answers(world.in_parts(), spec, Question.NEVER)) == list(
            answers(bare.in_parts(), spec, Question.NEVER)
        )


@given(held=st.sets(st.tuples(st.sampled_from([GPU, NIC]), st.sampled_from(NODES), st.sampled_from(NAMES))))
def test_held_devices_are_a_set_of_names(held: set[tuple[str, str, str]]) -> None:
    found = device_use.unpacked(device_use.packed(DeviceUse(Allocated.of(held)))).allocated

    assert found == held
    assert found is not None
    assert len(found) == len(held)
    assert (GPU, "n0", "nowhere") not in found


def test_what_is_not_known_stays_unknown() -> None:
    assert device_use.unpacked(device_use.packed(DeviceUse())) == DeviceUse()
    assert device_use.unpacked(device_use.packed(DeviceUse(Allocated({}), ()))) == DeviceUse(Allocated({}), ())


@pytest.mark.parametrize("question", [Question.READY, Question.NOT_NOW])
def test_no_device_is_unpacked_to_see_what_is_left(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy cluster holds devices of nearly all nodes, and 80,000 devices take a second to unpack."""
    names = [f"n{number}" for number in range(40)]
    slices = [resource_slice(name, GPU, [device(one) for one in NAMES], nodeName=name) for name in names]
    bare = snapshot([node(name) for name in names], slices, classes=CLASSES)
    held = Allocated.of((GPU, name, one) for name in names[4:] for one in NAMES[:3])
    rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "n0"}, "taint": TAINT}}
    read = taint_rule(rule)
    assert read is not None
    mapped = device_table.unpacked(device_table.packed(inventory_of(bare)))
    where = Snapshot(version="1", nodes=bare.nodes, devices=overlaid(mapped, DeviceUse(held, (read,))))
    asked = ready(gang(200, {"g": claim(request("gpu", GPU, 1))}), where)
    unpacked, seen = [], []
    decode, ids = device_table.PackedDevices.__getitem__, device_table.PackedDevices.ids
    monkeypatch.setattr(
        device_table.PackedDevices, "__getitem__", lambda self, node: unpacked.append(node) or decode(self, node)
    )
    monkeypatch.setattr(device_table.PackedDevices, "ids", lambda self, node: seen.append(node) or ids(self, node))

    found = evaluate(asked, where, question)

    assert isinstance(found, Infeasible)
    assert found.proof.best == (39 * 4 if question is Question.READY else 3 * 4 + 36)
    assert unpacked == []
    assert sorted(seen) == sorted(["n0", *(names[4:] if question is Question.NOT_NOW else [])])
    codes = tables.base(where, question).label(ready(asked_spec(), where).pods()[0].devices.key)[0]  # type: ignore[union-attr]
    assert len(np.unique(codes)) == (2 if question is Question.READY else 3)


def asked_spec() -> Any:
    """The same demand's parts."""
    return gang(200, {"g": claim(request("gpu", GPU, 1))})
