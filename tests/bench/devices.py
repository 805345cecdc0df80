"""Devices: 5,120 nodes with 8 GPUs and 8 NICs as 10,240 ResourceSlices, matchAttribute over pcieRoot.

`python -m tests.bench.devices` prints: reading the slices, the first decision (prepares the tables), prepared decisions
with and without explanation, a claim with a selector not seen before (and how long decisions on another thread take
meanwhile), and the same where every device has a uuid and every rack names its PCIe roots differently; then "not now", where claims
hold 40,000 devices: all GPUs of 5,000 nodes, or any eight devices of each, as a worker takes it up.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.feasibility.devices.objects import CLASSES, GPU, NIC, ROOT, claim, gang, node, ready, request, resource_slice
from webhook.feasibility.cel import selector
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Feasible, Infeasible
from webhook.inventory import device_table, device_use, tables
from webhook.inventory.build import Settings, build
from webhook.inventory.device_use import Allocated, DeviceUse, marks, overlaid
from webhook.inventory.devices import DeviceInventory, DeviceTaint, Reader, TaintRule, assemble
from webhook.inventory.snapshot import Question, Snapshot

NODES, RACKS = 5120, 320
HOLDING = 5000
RACK = "topo.example.com/rack"
Json = dict[str, Any]


def cluster(*, alike: bool) -> list[Json]:
    """alike: no uuids, the same names of PCIe roots everywhere."""
    found: list[Json] = []
    for number in range(NODES):
        name = f"n{number}"
        rack = number * RACKS // NODES
        found.append(node(name, **{RACK: f"r{rack}"}))
        for driver in (GPU, NIC):
            devices = []
            for i in range(8):
                attributes: Json = {ROOT: {"string": f"pci{'' if alike else rack}-{i // 2}"}, "index": {"int": i}}
                if not alike:
                    attributes["uuid"] = {"string": f"{name}-{driver}-{i}"}
                devices.append({"name": f"d{i}", "attributes": attributes, "capacity": {"memory": {"value": "141Gi"}}})
            found.append(resource_slice(f"{name}-{driver}", driver, devices, nodeName=name))
    return found


def times(run: Callable[[], object], count: int = 300) -> str:
    """p50 and p99 in milliseconds, by the clock and of processor time: other work on the machine is in the former."""
    wall, processor = [], []
    for _ in range(count):
        begin, begin_processor = time.perf_counter(), time.thread_time()
        run()
        processor.append(time.thread_time() - begin_processor)
        wall.append(time.perf_counter() - begin)
    p50, p99 = np.percentile(wall, [50, 99]) * 1e3
    p50_processor, p99_processor = np.percentile(processor, [50, 99]) * 1e3
    return f"p50 {p50:.3f} ms, p99 {p99:.3f} ms (processor {p50_processor:.3f}, {p99_processor:.3f})"


def once(run: Callable[[], Any]) -> tuple[Any, str]:
    begin, begin_processor = time.perf_counter(), time.thread_time()
    found = run()
    processor = time.thread_time() - begin_processor
    return found, f"{(time.perf_counter() - begin) * 1e3:.1f} ms (processor {processor * 1e3:.1f})"


def beside(run: Callable[[], Any], other: Callable[[], object]) -> tuple[str, str]:
    """How long run takes, and the longest of `other` on a second thread meanwhile, in milliseconds by the clock."""
    longest, count, done = 0.0, 0, threading.Event()

    def repeat() -> None:
        nonlocal longest, count
        while not done.is_set():
            begin = time.perf_counter()
            other()
            longest = max(longest, time.perf_counter() - begin)
            count += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        taken = once(run)[1]
    finally:
        done.set()
        thread.join()
    return taken, f"longest of {count} {longest * 1e3:.1f} ms"


ALIGNED = {"g": claim(request("gpu", GPU, 2), request("nic", NIC, 2), match=ROOT)}


def selecting(expression: str) -> Json:
    return {"g": claim(request("gpu", GPU, 2, expression), request("nic", NIC, 1), match=ROOT)}


def decision(where: Snapshot, pod_count: int, own: Mapping[str, Json]) -> object:
    """All that one request costs: reading the claims, the needs, the answer with its explanation."""
    demand = ready(gang(pod_count, own, topology=RACK), where)
    return evaluate(demand, where)


def held(*, whole: bool) -> Allocated:
    """Eight devices of each of 5,000 nodes. whole: its GPUs, else any."""
    chance = random.Random(1)
    every = [(driver, f"d{index}") for driver in (GPU, NIC) for index in range(8)]
    return Allocated.of(
        (driver, f"n{number}", name)
        for number in range(HOLDING)
        for driver, name in (every[:8] if whole else chance.sample(every, 8))
    )


def not_now(where: Snapshot) -> None:
    """A new version of what is held: what a worker does off the path of requests, and what the first request pays."""
    assert isinstance(where.devices, DeviceInventory)
    mapped = device_table.unpacked(device_table.packed(where.devices))
    for whole in (True, False):
        raw = device_use.packed(DeviceUse(held(whole=whole), ()))
        use, taken = once(lambda raw=raw: device_use.unpacked(raw))
        print(
            f"  held, {'all GPUs' if whole else 'any eight devices'} of {HOLDING} nodes: {len(raw):,} bytes, read in {taken}"
        )
        now = replace(where, devices=overlaid(mapped, use), prepared={})
        print(f"    which of a node's devices: {once(lambda now=now: marks(now.devices, Question.NOT_NOW))[1]}")
        asked = ready(gang(64, ALIGNED, topology=RACK), now)
        key = asked.pods()[0].devices.key  # type: ignore[union-attr]
        table, taken = once(lambda now=now, key=key: key.shelf(tables.base(now, Question.NOT_NOW)))
        print(f"    the table of stocks, {len(table.stocks)} different: {taken}")
        found, taken = once(lambda now=now, asked=asked: evaluate(asked, now, Question.NOT_NOW, with_explanation=False))
        print(f"    first decision: {taken}, {type(found).__name__}")
        decide = lambda now=now, asked=asked: evaluate(asked, now, Question.NOT_NOW, with_explanation=False)  # noqa: E731
        print(f"    prepared decisions: {times(decide)}")
        rule = TaintRule("repair", DeviceTaint("repair", "", "NoSchedule"), pool="n7")
        ruled = replace(where, devices=overlaid(mapped, DeviceUse(use.allocated, (rule,))), prepared={})
        print(
            f"    ready, one pool tainted by a rule, first: {once(lambda r=ruled, a=asked: evaluate(a, r, Question.READY))[1]}"
        )


def main() -> None:
    for alike in (True, False):
        print(f"{NODES} nodes, {2 * NODES} ResourceSlices, " + ("all alike" if alike else "uuids and odd PCIe roots"))
        objects = cluster(alike=alike)
        slices = [raw for raw in objects if raw["kind"] == "ResourceSlice"]
        reader = Reader()
        read, taken = once(lambda reader=reader, slices=slices: [reader.read_slice(raw) for raw in slices])
        print(f"  reading the slices: {taken}; assembling: {once(lambda read=read: assemble(read))[1]}")
        where = build([*objects, *CLASSES], Settings(is_file=True))
        del objects, slices
        gc.collect()
        gc.freeze()
        first, taken = once(lambda where=where: decision(where, 64, ALIGNED))
        assert isinstance(first, Feasible), first
        print(f"  first decision: {taken}")
        print(f"  feasible, 64 Pods in one rack: {times(lambda where=where: decision(where, 64, ALIGNED))}")
        assert isinstance(decision(where, 65, ALIGNED), Infeasible)
        print(f"  impossible, 65 Pods, explained: {times(lambda where=where: decision(where, 65, ALIGNED))}")
        unseen = selecting(f'device.attributes["{GPU}"].index < 6 && device.driver == "{GPU}"')
        taken = once(lambda where=where, unseen=unseen: decision(where, 8, unseen))[1]
        print(f"  a selector not seen before, on an attribute that nobody has read: {taken}")
        unseen = selecting(f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0')
        taken, others = beside(
            lambda where=where, unseen=unseen: decision(where, 8, unseen),
            lambda where=where: decision(where, 65, ALIGNED),
        )
        print(f"  another one, while another thread decides: {taken}; decisions on that thread: {others}")
        not_now(where)
    long = " || ".join(f'device.attributes["{GPU}"].model == "m{i}"' for i in range(170))
    print(f"compiling a selector of {len(long)} characters: {once(lambda: selector(long))[1]}")


if __name__ == "__main__":
    main()
