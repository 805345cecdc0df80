"""A feed that publishes, a worker's inventory over it, and what watches tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from webhook.cluster.device_use_feed import CLAIM, RULE, DeviceUseFeed
from webhook.cluster.inventory import LiveInventory
from webhook.cluster.inventory_feed import InventoryFeed
from webhook.cluster.inventory_kinds import INVENTORY_KINDS, USE_KINDS, kept
from webhook.cluster.pod_feed import PodFeed
from webhook.cluster.published import Files
from webhook.cluster.side_files import Source
from webhook.cluster.store import StoreReader, StoreWriter
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.marks import Marks
from webhook.inventory.snapshot import Question, Snapshot
from webhook.objects import core
from webhook.policy.model import Cluster

GPU = "nvidia.com/gpu"
NO_MARKS = Marks()
NODE_TYPE = INVENTORY_KINDS[0].type


class Rig:
    """A feed that publishes, an inventory over it, and a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.cluster = Cluster()
        self.folder = folder
        self.writer = StoreWriter(folder / "facts.sqlite")
        self.feed = self.new_feed()
        self.inventory = LiveInventory(
            StoreReader(folder / "facts.sqlite"), folder, lambda: self.cluster, lambda: self.now
        )
        self.writer.beat()

    def new_feed(self, *, marks: Marks | None = NO_MARKS) -> InventoryFeed:
        """An agent that has just started; its machine's clocks are an hour apart. marks: None if not loaded."""
        self.pods = PodFeed()
        self.use = DeviceUseFeed()
        beside: dict[str, Source] = {"pods": self.pods, "use": self.use}
        feed = InventoryFeed(self.writer, Files(self.folder), lambda: self.now, lambda: self.now + 3600, beside)
        if marks is not None:
            feed.load(marks)
        return feed

    def restart(self, marks: Marks | None) -> None:
        """Another agent, which knows of the past what is written down."""
        self.writer = StoreWriter(self.folder / "facts.sqlite")
        self.writer.beat()
        self.feed = self.new_feed(marks=marks)

    def list_all(self, *nodes: dict[str, Any]) -> None:
        for kind in ("DeviceClass", "RuntimeClass", "ResourceSlice"):
            self.feed.replace_kind(kind, [])
        self.feed.replace_kind("Node", [("", node["metadata"]["name"], stored(node)) for node in nodes])

    def put(self, node: dict[str, Any]) -> None:
        self.feed.put("Node", "", node["metadata"]["name"], stored(node))

    def put_slice(self, name: str, *devices: str) -> None:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool}
        raw = {"metadata": {"name": name}, "spec": {**spec, "devices": [{"name": one} for one in devices]}}
        self.feed.put("ResourceSlice", "", name, msgspec.json.encode(raw))

    def put_pod(self, name: str, node: str, gpus: str = "8", priority: int = 0, phase: str = "Running") -> None:
        """As the watcher stores it."""
        container = {"name": "c", "resources": {"limits": {GPU: gpus}}}
        spec = {"nodeName": node, "priority": priority, "containers": [container]}
        raw = {"metadata": {"name": name, "namespace": "x"}, "spec": spec, "status": {"phase": phase}}
        use = kept(msgspec.json.decode(msgspec.json.encode(raw), type=core.Pod))
        self.pods.put("Pod", "x", name, msgspec.json.encode(use))

    def put_claim(self, name: str, *devices: tuple[str, str], **result: Any) -> None:
        """(pool, device) of what it holds; as the watcher stores it."""
        results = [{"driver": "gpu.example.com", "pool": pool, "device": one, **result} for pool, one in devices]
        raw = {"metadata": {"name": name}, "status": {"allocation": {"devices": {"results": results}}}}
        self.use.put(CLAIM, "x", name, as_stored(CLAIM, raw if devices else {"metadata": {"name": name}}))

    def put_rule(self, name: str, **selector: str) -> None:
        spec = {"deviceSelector": selector, "taint": {"key": name, "effect": "NoSchedule"}}
        self.use.put(RULE, "", name, as_stored(RULE, {"metadata": {"name": name}, "spec": spec, "status": {"x": 1}}))

    def look(self, seconds: float = 1.0) -> Snapshot:
        self.now += seconds
        self.feed.step()
        self.inventory.look()
        found = self.inventory.current()
        assert found is not None
        return found

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*inventory-*"))


def node(name: str, gpus: str = "8", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": "1", "labels": {"rack": "r1"}, **metadata},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "8", "pods": "110", GPU: gpus},
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            ],
        },
    }


def stored(raw: dict[str, Any]) -> bytes:
    """As the watcher stores it."""
    return msgspec.json.encode(kept(msgspec.json.decode(msgspec.json.encode(raw), type=NODE_TYPE)))


def as_stored(kind: str, raw: dict[str, Any]) -> bytes:
    """As the watcher stores it."""
    return msgspec.json.encode(kept(msgspec.json.decode(msgspec.json.encode(raw), type=USE_KINDS[kind].type)))


def in_use(snapshot: Snapshot) -> tuple[set[str], list[str]]:
    """The held devices, as pool/device, and the names of rules."""
    assert isinstance(snapshot.devices, DeviceInventory)
    held = {f"{pool}/{name}" for _, pool, name in snapshot.devices.allocated}
    return held, [rule.name for rule in snapshot.devices.taint_rules]


def gpus(snapshot: Snapshot, question: Question = Question.NEVER) -> int:
    return sum(one.capacity(question).get(GPU, 0) for one in snapshot.nodes if one.counts(question))
