"""The bound and the search of one node against brute force, device by device (devices_check.Judge)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.feasibility.devices.objects import (
    CLASSES,
    GPU,
    NIC,
    ROOT,
    claim,
    device,
    first_available,
    node,
    resource_slice,
    snapshot,
    way,
)
from webhook.feasibility.devices import Need
from webhook.feasibility.devices_check import Judge
from webhook.feasibility.devices_claims import Wanted, read_claim
from webhook.inventory import tables
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.snapshot import Question, Snapshot

Json = dict[str, Any]
PODS_MAX = 5
SELECTORS = (
    f'device.attributes["{GPU}"].index < 2',
    f'device.attributes["{GPU}"].index > 0',
    f'has(device.attributes["{GPU}"].index)',
    "device.allowMultipleAllocations == false",
    f'device.attributes["{GPU}"].model.matches("[h].*")',
)
ROOTS = st.sampled_from([None, "p0", "p0", "p1", "p1", ["p0", "p1"]])


@st.composite
def slices(draw: st.DrawFn) -> list[Json]:
    """A node's devices: GPUs and NICs, some without a root, some on a shared board, some for any number of claims."""
    found = []
    for driver, count in ((GPU, draw(st.integers(0, 4))), (NIC, draw(st.integers(0, 3)))):
        board = draw(st.booleans()) and driver == GPU
        devices = []
        for i in range(count):
            root = draw(ROOTS)
            more: Json = {}
            if board and draw(st.booleans()):
                counters = {"memory": {"value": str(draw(st.integers(1, 3)))}}
                more["consumesCounters"] = [{"counterSet": "board", "counters": counters}]
            elif draw(st.integers(0, 9)) == 0:
                more["allowMultipleAllocations"] = True
            devices.append(device(f"d{i}", {"index": i} | ({ROOT: root} if root else {}), **more))
        slice_count = 2 if board else 1
        found.append(resource_slice(f"n-{driver}", driver, devices, nodeName="n", slices=slice_count))
        if board:
            sets = [{"name": "board", "counters": {"memory": {"value": str(draw(st.integers(1, 5)))}}}]
            found.append(resource_slice("n-sets", driver, [], pool="n", nodeName="n", slices=2, sharedCounters=sets))
    return found


@st.composite
def ways(draw: st.DrawFn, *, may_take_all: bool = True) -> Json:
    count = draw(st.sampled_from([1, 1, 1, 2, 3, None] if may_take_all else [1, 1, 2]))
    chosen = draw(st.lists(st.sampled_from(SELECTORS), max_size=1))
    more: Json = {"adminAccess": True} if may_take_all and draw(st.integers(0, 9)) == 0 else {}
    return way(draw(st.sampled_from([GPU, GPU, NIC])), count, *chosen, **more)


@st.composite
def specs(draw: st.DrawFn) -> Json:
    requests: list[Json] = []
    for i in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)) == 0:
            requests.append(
                first_available(f"r{i}", x=draw(ways(may_take_all=False)), y=draw(ways(may_take_all=False)))
            )
        else:
            requests.append({"name": f"r{i}", "exactly": draw(ways())})
    kind = draw(st.sampled_from(["", "match", "match", "of", "distinct"]))
    if kind == "match":
        return claim(*requests, match=ROOT)
    if kind == "of":
        return claim(*requests, match=ROOT, of=["r0"])
    return claim(*requests, distinct=ROOT) if kind == "distinct" else claim(*requests)


def truth(where: Snapshot, own: tuple[Wanted, ...], shared: tuple[Wanted, ...]) -> int:
    """The largest number of Pods with an allocation, up to PODS_MAX; -1 where the search would take too long."""
    inventory = where.devices
    assert isinstance(inventory, DeviceInventory)
    for pod_count in range(PODS_MAX, 0, -1):
        judge = Judge(inventory, Question.NEVER, left=20_000)
        if judge.claims([*shared, *(one for _ in range(pod_count) for one in own)], where.nodes[0]):
            return pod_count
        if judge.left < 0:
            return -1
    return 0


def read(where: Snapshot, spec: Json) -> Wanted:
    assert isinstance(where.devices, DeviceInventory)
    return read_claim(spec, where.devices.classes)


@settings(max_examples=400, deadline=None)
@given(slices(), specs(), st.none() | specs())
def test_never_below_the_truth_and_equal_where_exact(stock: list[Json], own: Json, shared: Json | None) -> None:
    where = snapshot(node("n"), stock, classes=CLASSES)
    mine = (read(where, own),)
    ours = (read(where, shared),) if shared else ()
    real = truth(where, mine, ours)
    need = Need(mine, ours, tuple((str(i), None, None) for i in range(len(ours))))
    (answer,) = need.answers(tables.base(where, Question.NEVER))
    assert answer.pod_count >= real
    if answer.is_exact and real >= 0:
        assert min(answer.pod_count, PODS_MAX) == real


@settings(max_examples=150, deadline=None)
@given(slices(), specs(), st.sampled_from(["p0", "p1"]))
def test_more_devices_and_fewer_constraints_never_hurt(stock: list[Json], own: Json, root: str) -> None:
    def most(slices_: list[Json], spec: Json) -> int:
        where = snapshot(node("n"), slices_, classes=CLASSES)
        (answer,) = Need((read(where, spec),)).answers(tables.base(where, Question.NEVER))
        return answer.pod_count

    before = most(stock, own)
    loose = claim(*own["devices"]["requests"])
    assert most(stock, loose) >= before
    if '"All"' not in repr(own).replace("'", '"'):
        added = resource_slice("n-more", GPU, [device("more", {ROOT: root, "index": 9})], nodeName="n", pool="more")
        assert most([*stock, added], own) >= before
