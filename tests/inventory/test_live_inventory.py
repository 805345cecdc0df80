"""The inventory of a live cluster: what watches say -> published versions -> a worker's snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.inventory.rig import Rig, gpus, node, stored
from webhook.cluster import inventory as inventory_module
from webhook.cluster.published import CHANGED, Files
from webhook.inventory import tables
from webhook.inventory.build import read_node
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.marks import GONE_SECONDS, MARK_SECONDS, Marks, decoded, encoded
from webhook.inventory.snapshot import Question
from webhook.policy.model import Cluster


def test_nothing_before_the_agent_has_listed(rig: Rig) -> None:
    rig.inventory.look()

    assert rig.inventory.current() is None


def test_a_heartbeat_writes_nothing_and_makes_no_new_snapshot(rig: Rig) -> None:
    rig.list_all(node("a"))
    first, files = rig.look(), rig.files()

    beat = node("a", resourceVersion="2", annotations={"csi.volume.kubernetes.io/nodeid": "x"})
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:10Z"
    beat["status"]["conditions"][1]["status"] = "True"
    rig.put(beat)

    assert rig.look() is first
    assert rig.files() == files


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

    rig.feed.delete("Node", "", "b")

    assert gpus(rig.look()) == 16
    rig.look(GONE_SECONDS + 1)
    assert gpus(rig.look()) == 8


def test_a_node_that_came_back_counts_once(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.look()
    rig.feed.delete("Node", "", "b")
    rig.look()

    rig.put(node("b"))

    assert [one.name for one in rig.look().nodes] == ["a", "b"]


@pytest.mark.parametrize(
    "change", [{"labels": {}}, {"labels": {"rack": "r2"}}, {"taints": [{"key": "init", "effect": "NoSchedule"}]}]
)
def test_a_node_that_came_back_bare_may_get_its_labels_again(rig: Rig, change: dict[str, Any]) -> None:
    """It was deleted and registers anew: what puts labels on it and takes taints off comes later, by minutes at most."""
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"), node("b"))
    before = rig.look()
    rig.feed.delete("Node", "", "b")
    rig.look()
    bare = node("b", labels=change.get("labels", {"rack": "r1"}))
    bare["spec"]["taints"] = change.get("taints", [])

    rig.put(bare)
    during = rig.look()
    rig.put(node("b"))
    after = rig.look()
    rig.feed.delete("Node", "", "b")
    rig.look()
    rig.put(bare)
    rig.look(GONE_SECONDS + 1)
    for_good = rig.look()

    assert [before.denial_hindrance(), after.denial_hindrance(), for_good.denial_hindrance()] == [None, None, None]
    assert 'node "b" was deleted and came back' in str(during.denial_hindrance())
    assert [one.name for one in during.nodes] == ["a", "b"]


def test_without_the_agent_it_is_incomplete_and_then_complete_again(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()

    rig.feed.unsynced("Node", "gone")
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
    """A version that takes 2 s to make is not made again within 20 s, however often nodes change."""
    rig.list_all(node("a"))
    ticks = iter([0.0, 2.0])
    monkeypatch.setattr(rig.feed, "_clock", lambda: rig.now + next(ticks, 2.0))
    rig.feed.step()
    monkeypatch.setattr(rig.feed, "_clock", lambda: rig.now)
    rig.inventory.look()
    first = rig.inventory.current()

    rig.put(node("a", "4"))

    meanwhile = rig.look(10)
    assert (meanwhile.nodes, meanwhile.complete.reason) == (first.nodes if first else None, CHANGED)
    assert rig.look(20) is not first


def test_one_nodes_change_writes_its_row_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table is made anew, no other node is read again, and devices stay the same object."""
    rig.list_all(*(node(f"n{number}") for number in range(50)))
    rig.put_slice("n1", "d0")
    first = rig.look()
    read: list[str] = []
    monkeypatch.setattr(
        "webhook.cluster.inventory_feed.read_node",
        lambda obj, notes: read.append(obj.metadata.name) or read_node(obj, notes),
    )
    monkeypatch.setattr("webhook.inventory.node_table.TableBuilder", None)

    rig.put(node("n7", labels={"rack": "r9"}))
    rig.put(node("n8"))
    second = rig.look()

    assert read == ["n7"]
    assert [dict(one.labels) for one in second.nodes if one.labels.get("rack") == "r9"] == [{"rack": "r9"}]
    assert len(second.nodes) == 50
    assert second.devices is first.devices


def test_a_former_version_stays_whole_while_a_new_one_is_in_force(rig: Rig) -> None:
    """Its file is gone, who has it mapped still reads it."""
    rig.list_all(node("a"), node("b", labels={"rack": "r2"}))
    first = rig.look()

    for number in range(5):
        rig.put(node("a", labels={"rack": f"new-{number}"}))
        rig.look()

    assert [one.labels["rack"] for one in first.nodes] == ["r1", "r2"]
    assert len(rig.files()) == 2  # the newest and the one before, which a worker may be about to map


def test_a_version_that_cannot_be_read_is_no_ground_for_denials(rig: Rig) -> None:
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"))
    first = rig.look()
    rig.put(node("a", "4"))
    rig.now += 1
    rig.feed.step()
    newest = max(rig.folder.glob("inventory-nodes-*"), key=lambda path: path.stat().st_mtime_ns)
    content = newest.read_bytes()
    newest.write_bytes(content[:100])
    rig.inventory.look()
    broken = rig.inventory.current()
    newest.write_bytes(content)

    assert broken is not None
    assert broken.nodes == first.nodes
    assert (first.denial_hindrance(), broken.complete.holds) == (None, False)
    assert rig.look().complete.holds


def test_what_cannot_be_written_is_no_ground_for_denials(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full memory volume: workers keep what they have, and know that it is not the newest."""
    rig.list_all(node("a"))
    rig.look()

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(rig.feed._files, "write", full)
        rig.put(node("b"))
        rig.now += 1
        with pytest.raises(OSError, match="No space"):
            rig.feed.step()
        rig.inventory.look()
    stale = rig.inventory.current()

    assert stale is not None
    assert stale.complete.reason == "the agent cannot write the newest version of the inventory"
    mended = rig.look()
    assert mended.complete.holds
    assert len(mended.nodes) == 2


@pytest.mark.parametrize("raised", [TypeError, IndexError, OverflowError])
def test_whatever_goes_wrong_ends_denials_and_the_looks_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    """A snapshot that nobody renews any more must not go on to deny."""
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"))
    first = rig.look()
    rig.put(node("a", "16"))
    with monkeypatch.context() as patched:
        patched.setattr(inventory_module.node_table, "unpacked", broken(raised))
        during = rig.look()

    assert (first.denial_hindrance(), during.denial_hindrance()) == (None, inventory_module.UNREADABLE)
    assert gpus(during) == 8
    assert (rig.look().denial_hindrance(), gpus(rig.look())) == (None, 16)


def broken(raised: type[Exception]) -> Callable[..., None]:
    def unpacked(_data: object) -> None:
        raise raised("half a file")

    return unpacked


def test_files_that_are_damaged_never_end_the_looks(rig: Rig) -> None:
    """Three bytes of each version are others than the agent wrote."""
    rng = random.Random(11)
    rig.list_all(node("a"))
    rig.look()
    seen = set()
    for number in range(300):
        rig.put(node("a", str(number % 7 + 1)))
        rig.now += 1
        rig.feed.step()
        newest = max(rig.folder.glob("inventory-nodes-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]))
        content = bytearray(newest.read_bytes())
        for _ in range(3):
            content[rng.randrange(16, len(content))] = rng.randrange(256)
        newest.write_bytes(content)
        rig.inventory.look()
        current = rig.inventory.current()
        assert current is not None
        seen.add(current.complete.reason)
    assert inventory_module.UNREADABLE in seen


def test_a_pool_of_a_million_nodes_is_one_without_a_known_limit(rig: Rig) -> None:
    pool = {"name": "p", "allocatable": {"cpu": "8", "memory": "1e40"}, "nodeCountMax": 1_000_000}
    rig.cluster = Cluster.model_validate({"nodePools": [pool]})
    rig.list_all(node("a"))

    found = rig.look()

    assert found.has_endless_pool
    assert len(found.nodes) < 10_000


def test_an_agent_that_starts_again_removes_what_the_former_published(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()

    Files(rig.folder)

    assert rig.files() == []


def test_devices_are_part_of_it_and_a_slice_that_is_gone_too(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.put_slice("a", "d0", "d1")
    first = rig.look()
    rig.put_slice("a", "d0")
    second = rig.look()

    assert isinstance(first.devices, DeviceInventory)
    assert isinstance(second.devices, DeviceInventory)
    assert [one.name for one in first.devices.devices()] == ["d0", "d1"]
    assert [one.name for one in second.devices.devices()] == ["d0"]
    assert first.version != second.version


def test_without_the_watch_of_slices_it_is_incomplete(rig: Rig) -> None:
    """Devices that nobody watches may have come; a cluster without the resource has none."""
    rig.list_all(node("a"))
    assert rig.look().complete.holds

    rig.feed.unsynced("ResourceSlice", "gone")
    broken = rig.look()
    rig.feed.not_served("ResourceSlice", "not served")

    assert broken.complete.reason == "the agent does not watch ResourceSlice objects at the moment"
    assert rig.look().complete.holds


def test_a_node_that_cannot_be_read_makes_it_incomplete_until_it_can(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()

    rig.feed.put("Node", "", "b", b'{"metadata": {"name": "b", "labels": 5}}')
    broken = rig.look()
    rig.put(node("b"))

    assert broken.complete.reason.startswith('Node "b" cannot be read: ')
    assert rig.look().complete.holds


def test_a_runtime_class_and_a_mapped_resource_reach_the_workers(rig: Rig) -> None:
    rig.list_all(node("a"))
    overhead = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "1"}}}
    rig.feed.put("RuntimeClass", "", "kata", msgspec.json.encode(overhead))
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    rig.feed.put("DeviceClass", "", "gpu", msgspec.json.encode(device_class))

    snapshot = rig.look()

    assert snapshot.runtime_overheads == {"kata": {"cpu": "1"}}
    assert snapshot.is_mapped("example.com/gpu") == "gpu"


def test_a_new_version_has_the_tables_that_requests_asked_for(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    tables.domain_kinds(rig.look(), Question.NEVER, ("rack",), ("rack",))

    rig.put(node("b", "4"))

    assert ("kinds", Question.NEVER, ("rack",), ("rack",)) in rig.look().prepared


def test_what_was_seen_a_moment_ago_ends_denials_before_its_version_is_made(rig: Rig) -> None:
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"))
    before = rig.look()

    rig.put(node("a", "16"))
    at_once = rig.inventory.current()
    rig.put_pod("p", "a")
    rig.feed.replace_kind("Node", [("", "a", stored(node("a", "16")))])
    rig.feed.step()  # Pods may be due, the nodes are not yet
    still = rig.inventory.current()
    rig.now += 1
    rig.feed.step()
    published = rig.inventory.current()
    after = rig.look()

    assert before.denial_hindrance() is None
    assert {str(one and one.denial_hindrance()) for one in (at_once, still, published)} == {CHANGED}
    assert (after.denial_hindrance(), gpus(after)) == (None, 16)


@pytest.mark.parametrize("away", [{"unschedulable": True}, {}])
def test_heartbeats_cordons_and_pods_end_no_denials(rig: Rig, away: dict[str, Any]) -> None:
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"))
    rig.pods.replace_kind("Pod", [])
    rig.look()

    rig.put({**node("a", resourceVersion="2"), "spec": away})
    rig.put_pod("p", "a")
    rig.now += 3
    rig.feed.step()
    current = rig.inventory.current()

    assert current is not None
    assert current.denial_hindrance() == (CHANGED if away else None)  # another version, which the next look takes up
    assert rig.look().denial_hindrance() is None


# ---- high-water marks ------------------------------------------------------------------------------------------------
def written(rig: Rig) -> Marks:
    """What the leader writes, as the next agent reads it."""
    marks = rig.feed.marks()
    assert marks is not None
    return decoded(encoded(marks, rig.now))


def test_until_the_marks_are_loaded_it_is_incomplete(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()
    rig.restart(None)
    rig.list_all(node("a"))

    waiting = rig.look()
    rig.feed.cannot_load("the ConfigMap cannot be read")
    refused = rig.look()
    unknown = rig.feed.marks()
    rig.feed.load(Marks())

    assert waiting.complete.reason == "the high-water marks of nodes and devices are not loaded yet"
    assert refused.complete.reason == "the ConfigMap cannot be read"
    assert unknown is None
    assert rig.look().complete.holds


def test_what_a_node_had_survives_a_restart_for_three_days(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.look()
    rig.put(node("a", "4"))
    rig.look(3600)
    rig.put(node("a", "0"))
    rig.look()

    rig.restart(written(rig))
    rig.list_all(node("a", "0"))
    assert gpus(rig.look()) == 8
    rig.look(MARK_SECONDS - 1800)
    assert gpus(rig.look()) == 4
    rig.look(3600)
    assert gpus(rig.look()) == 0


def test_a_deleted_node_survives_a_restart_for_ten_minutes(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.look()
    rig.feed.delete("Node", "", "b")
    rig.look()

    rig.restart(written(rig))
    rig.list_all(node("a"))
    assert gpus(rig.look(60)) == 16
    rig.look(GONE_SECONDS)
    assert gpus(rig.look()) == 8


def test_a_node_that_comes_back_with_less_may_have_more_again(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    rig.look()
    rig.feed.delete("Node", "", "b")
    rig.look()

    rig.put(node("b", "0"))

    assert gpus(rig.look()) == 16


def test_devices_of_a_slice_that_is_gone_count_for_never_alone(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.put_slice("a", "d0", "d1")
    rig.look()
    rig.feed.delete("ResourceSlice", "", "a")
    rig.look()

    rig.restart(written(rig))
    rig.list_all(node("a"))
    gone = rig.look().devices
    rig.put_slice("a", "d0", "d1")
    back = rig.look().devices

    assert isinstance(gone, DeviceInventory)
    assert isinstance(back, DeviceInventory)
    assert [(one.name, one.is_former) for one in gone.local["a"]] == [("d0", True), ("d1", True)]
    assert [(one.name, one.is_former) for one in back.local["a"]] == [("d0", False), ("d1", False)]
    assert written(rig).slices == {}


def test_a_device_that_a_slice_lost_is_remembered(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.put_slice("a", "d0", "d1")
    rig.look()
    rig.put_slice("a", "d0")

    found = rig.look().devices

    assert isinstance(found, DeviceInventory)
    assert [(one.name, one.is_former) for one in found.local["a"]] == [("d0", False), ("d1", True)]


@pytest.mark.parametrize(("change", "closed"), [(lambda: node("a"), True), (unready, True), (relabelled, False)])
def test_the_ten_minutes_survive_a_restart(rig: Rig, change: Callable[[], dict[str, Any]], closed: bool) -> None:
    """Where nothing that lasts has changed while nobody looked."""
    rig.list_all(node("a"))
    rig.look()
    rig.look(500)
    marks = written(rig)

    rig.restart(marks)
    rig.now += 50
    rig.list_all(change())
    assert not rig.look().closed.holds

    assert rig.look(60).closed.holds is closed


def test_more_than_a_config_map_holds_makes_it_incomplete(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.inventory.marks.ENCODED_BYTES_MAX", 100)
    rig.list_all(node("a"))
    rig.put_slice("a", "d0", "d1")
    rig.look()
    rig.feed.delete("ResourceSlice", "", "a")
    rig.look()
    marks = rig.feed.marks()
    assert marks is not None

    rig.restart(decoded(encoded(marks, rig.now + 3600)))
    rig.list_all(node("a"))

    assert "more nodes and devices changed" in rig.look().complete.reason
    rig.look(MARK_SECONDS)
    assert rig.look().complete.holds


# ---- Pods ------------------------------------------------------------------------------------------------------------
def test_pods_are_for_now_alone(rig: Rig) -> None:
    rig.list_all(node("a"), node("b"))
    first = rig.look()
    rig.pods.replace_kind("Pod", [])
    rig.put_pod("p", "a")
    rig.put_pod("q", "b", "2")
    rig.put_pod("done", "b", "2", phase="Succeeded")

    busy = rig.look(3)

    assert not tables.has_pods(first)
    assert [gpus(busy, question) for question in Question] == [16, 16, 6]
    assert busy.version == first.version
    assert tables.base(busy, Question.NEVER) is tables.base(first, Question.NEVER)


def test_a_pod_that_changes_or_goes_is_counted_as_it_is(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.pods.replace_kind("Pod", [])
    rig.put_pod("p", "a", "8")
    rig.put_pod("q", "a", "0")
    full = rig.look(3)
    rig.put_pod("p", "a", "6")
    resized = rig.look(3)
    rig.pods.delete("Pod", "x", "p")
    left = rig.look(3)
    rig.pods.replace_kind("Pod", [])
    empty = rig.look(3)

    assert [gpus(one, Question.NOT_NOW) for one in (full, resized, left, empty)] == [0, 2, 8, 8]
    assert (tables.has_pods(left), tables.has_pods(empty)) == (True, False)


def test_while_pods_are_not_watched_nothing_is_said_of_now(rig: Rig) -> None:
    """And everything else goes on."""
    rig.list_all(node("a"))
    rig.pods.replace_kind("Pod", [])
    rig.put_pod("p", "a")
    busy = rig.look(3)
    rig.pods.unsynced("Pod", "gone")
    broken = rig.look(3)

    assert (tables.has_pods(busy), tables.has_pods(broken)) == (True, False)
    assert broken.complete.holds
    assert len(rig.files()) == 2  # the nodes, and the Pods of the version before


def test_pods_that_come_all_the_time_make_a_version_now_and_then(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.pods.replace_kind("Pod", [])
    rig.look()
    rig.put_pod("p", "a", "1")
    first = rig.look(3)
    rig.put_pod("q", "a", "1")

    assert rig.look(0.5) is first
    assert gpus(rig.look(3), Question.NOT_NOW) == 6


def test_lower_priorities_can_be_thought_away(rig: Rig) -> None:
    rig.list_all(node("a"))
    rig.pods.replace_kind("Pod", [])
    rig.put_pod("low", "a", "5", priority=1)
    rig.put_pod("high", "a", "2", priority=9)
    busy = rig.look(3)

    left = {priority: tables.without_lower_priority(busy, priority) for priority in (0, 1, 2, 9, 10)}

    assert {priority: gpus(found, Question.NOT_NOW) for priority, found in left.items() if found is not None} == {
        0: 1,
        1: 1,
        2: 6,
        9: 6,
        10: 8,
    }
    assert [tables.has_lower_priority(busy, priority) for priority in (1, 2)] == [False, True]
