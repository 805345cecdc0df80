"""The inventory of a live cluster: rows of the agent's store -> snapshots, and what a worker remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from webhook.cluster.inventory import GONE_SECONDS, LiveInventory
from webhook.cluster.inventory_kinds import INVENTORY_KINDS, kept
from webhook.cluster.store import StoreReader, StoreWriter
from webhook.inventory.snapshot import Question, Snapshot
from webhook.policy.model import Cluster

GPU = "nvidia.com/gpu"
NODE_TYPE = INVENTORY_KINDS[0].type


class Rig:
    """A store, an inventory over it, and a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.cluster = Cluster()
        self.writer = StoreWriter(folder / "facts.sqlite")
        self.reader = StoreReader(folder / "facts.sqlite")
        self.inventory = LiveInventory(self.reader, lambda: self.cluster, lambda: self.now)
        self.writer.beat()

    def list_all(self, *nodes: dict[str, Any]) -> None:
        for kind in ("DeviceClass", "RuntimeClass", "ResourceSlice"):
            self.writer.replace_kind(kind, [])
        self.writer.replace_kind("Node", [("", node["metadata"]["name"], stored(node)) for node in nodes])

    def put(self, node: dict[str, Any]) -> None:
        self.writer.put("Node", "", node["metadata"]["name"], stored(node))

    def look(self, seconds: float = 1.0) -> Snapshot:
        self.now += seconds
        self.inventory.look()
        found = self.inventory.current()
        assert found is not None
        return found


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


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


def gpus(snapshot: Snapshot, question: Question = Question.NEVER) -> int:
    return sum(one.capacity(question).get(GPU, 0) for one in snapshot.nodes if one.counts(question))


def test_nothing_before_the_agent_has_listed(rig: Rig) -> None:
    rig.inventory.look()

    assert rig.inventory.current() is None


def test_a_heartbeat_writes_nothing_and_makes_no_new_snapshot(rig: Rig) -> None:
    rig.list_all(node("a"))
    first, version = rig.look(), rig.reader.version("Node")

    beat = node("a", resourceVersion="2", annotations={"csi.volume.kubernetes.io/nodeid": "x"})
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:10Z"
    beat["status"]["conditions"][1]["status"] = "True"
    rig.put(beat)

    assert rig.reader.version("Node") == version
    assert rig.look() is first


def test_listing_the_same_again_makes_no_new_snapshot(rig: Rig) -> None:
    rig.list_all(node("a"))
    first = rig.look()

    rig.list_all(node("a"))

    assert rig.look() is first


def test_a_change_makes_a_new_snapshot_and_leaves_the_old_one_alone(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    first = rig.look()

    rig.put(node("b", "4"))
    second = rig.look()

    assert second.version != first.version
    assert (gpus(first), gpus(second, Question.READY)) == (16, 12)


def test_what_a_node_had_is_potential(rig: Rig) -> None:
    """A device plugin restarts: 0 for a moment is no proof of anything."""
    rig.list_all(node("a"))
    rig.look()

    rig.put(node("a", "0"))
    snapshot = rig.look()

    assert (gpus(snapshot), gpus(snapshot, Question.READY)) == (8, 0)


def test_a_deleted_node_may_come_back_for_ten_minutes(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.look()

    rig.writer.delete("Node", "", "b")

    assert gpus(rig.look()) == 16
    assert gpus(rig.look(GONE_SECONDS + 1)) == 8


def test_a_node_that_came_back_counts_once(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.look()
    rig.writer.delete("Node", "", "b")
    rig.look()

    rig.put(node("b"))

    assert [one.name for one in rig.look().nodes] == ["a", "b"]


def test_without_the_agent_it_is_incomplete_and_then_complete_again(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()

    rig.writer.unsynced("Node", "gone")
    broken = rig.look()
    rig.list_all(node("a"))
    mended = rig.look()

    assert (broken.complete.holds, broken.complete.reason) == (
        False,
        "the agent does not watch Node objects at the moment",
    )
    assert mended.complete.holds


def relabelled() -> dict[str, Any]:
    return node("a", labels={"rack": "r2"})


def unready() -> dict[str, Any]:
    changed = node("a")
    changed["status"]["conditions"][0]["status"] = "Unknown"
    changed["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
        ],
    }
    return changed


@pytest.mark.parametrize(("change", "closed"), [(relabelled, False), (unready, True), (lambda: node("c"), False)])
def test_closed_by_itself_after_ten_minutes_without_a_lasting_change(
    rig: Rig, change: Callable[[], dict[str, Any]], closed: bool
) -> None:
    rig.list_all(node("a"))
    assert not rig.look().closed.holds
    assert rig.look(601).closed.holds

    rig.put(change())

    assert rig.look().closed.holds is closed
    assert rig.look(601).closed.holds


def test_the_policys_word_counts_at_once(rig: Rig) -> None:
    rig.list_all(node("a"))
    assert not rig.look().closed.holds

    rig.cluster = Cluster.model_validate({"inventoryClosed": True})

    assert rig.look().closed.holds


def test_slow_builds_are_spread_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that takes 2 s is not repeated within 20 s, however often nodes change."""
    rig.list_all(node("a"))
    ticks = iter([0.0, 2.0])
    monkeypatch.setattr(rig.inventory, "_clock", lambda: rig.now + next(ticks, 2.0))
    rig.inventory.look()
    monkeypatch.setattr(rig.inventory, "_clock", lambda: rig.now)
    first = rig.inventory.current()

    rig.put(node("a", "4"))

    assert rig.look(10) is first
    assert rig.look(20) is not first
