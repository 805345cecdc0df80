"""The live FactSource against a real API server: found, absent, unknown; the agent's store; a vanished API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from webhook.agent import STORE_FILE, run
from webhook.cluster.connection import Connection
from webhook.cluster.source import ClusterSource
from webhook.cluster.store import StoreReader
from webhook.facts.source import Absent, Answer, Found, Query, Unknown


def pod_group(name: str, min_count: int = 2) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    }


def soon() -> float:
    return time.monotonic() + 10


def until(probe: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if probe():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within 30 s: {what}")


@pytest.fixture
def live(control_plane: Cluster) -> ClusterSource:
    return ClusterSource(Connection(control_plane.kubeconfig()), None)


@pytest.fixture
def agent(control_plane: Cluster, tmp_path: Path) -> Iterator[StoreReader]:
    """A running agent (in a thread), and a reader of what it stores."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(tmp_path, control_plane.kubeconfig(), stop))
    thread.start()
    reader = StoreReader(tmp_path / STORE_FILE)
    until(lambda: reader.synced("PodGroup") is True, "PodGroups listed")
    yield reader
    stop.set()
    thread.join(timeout=20)


def create(control_plane: Cluster, namespace: str, obj: dict[str, Any]) -> None:
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    control_plane.api.post(path, obj).expect(201)


def test_found_and_absent_are_told_apart(live: ClusterSource, control_plane: Cluster, namespace: str) -> None:
    """A 404 for an object is a confirmed absence; a list of nothing is Found(())."""
    create(control_plane, namespace, pod_group("here"))

    found = live.ask(Query("PodGroup", namespace, "here"), fresh=True, deadline=soon())
    absent = live.ask(Query("PodGroup", namespace, "gone"), fresh=True, deadline=soon())
    empty = live.ask(Query("Workload", namespace, ""), fresh=True, deadline=soon())

    assert isinstance(found, Found)
    assert found.value["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}  # type: ignore[call-overload]
    assert absent == Absent()
    assert empty == Found(())


def test_a_resource_that_is_not_served_is_unknown(live: ClusterSource, namespace: str) -> None:
    """No JobSet CRD is installed here under this name: nobody can say that an object of it is absent."""
    answer = live.ask(Query("LeaderWorkerSet", namespace, "x"), fresh=True, deadline=soon())

    # Another test of the run may have installed the CRD; then the absence is confirmed.
    assert isinstance(answer, Unknown | Absent)
    if isinstance(answer, Unknown):
        assert "not serve" in answer.reason


def test_no_time_left_is_unknown(live: ClusterSource, namespace: str) -> None:
    """The request's deadline bounds every lookup."""
    answer = live.ask(Query("PodGroup", namespace, "x"), fresh=True, deadline=time.monotonic() - 1)

    assert answer == Unknown(f"PodGroup {namespace}/x could not be looked up: no time left in this request")


def test_rbac_refusal_is_unknown(control_plane: Cluster, namespace: str) -> None:
    """What Muster may not read is not absent."""
    source = ClusterSource(Connection(control_plane.service_account_kubeconfig(namespace, "without-rights")), None)

    answer = source.ask(Query("PodGroup", namespace, "x"), fresh=True, deadline=soon())

    assert isinstance(answer, Unknown)
    assert "RBAC" in answer.reason


def test_the_store_follows_creates_updates_and_deletes(
    agent: StoreReader, control_plane: Cluster, namespace: str
) -> None:
    """What the agent saw is there without a read of the API server; what it did not see is read live."""
    source = ClusterSource(Connection(control_plane.kubeconfig()), agent)
    query = Query("PodGroup", namespace, "train")

    assert source.ask(query, fresh=False, deadline=soon()) == Absent()

    create(control_plane, namespace, pod_group("train", 3))
    until(lambda: agent.get(*query) is not None, "the PodGroup in the store")
    cached = source.ask(query, fresh=False, deadline=time.monotonic() - 1)  # no time for a live read
    assert isinstance(cached, Found)

    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/train"
    control_plane.api.delete(path)
    until(lambda: agent.get(*query) is None, "the PodGroup out of the store")
    assert source.ask(query, fresh=False, deadline=soon()) == Absent()


def test_lists_come_from_the_store_by_namespace(agent: StoreReader, control_plane: Cluster, namespace: str) -> None:
    """A namespace's list holds nothing of another's; the store's list equals the live one."""
    create(control_plane, namespace, pod_group("a"))
    create(control_plane, namespace, pod_group("b"))
    source = ClusterSource(Connection(control_plane.kubeconfig()), agent)
    query = Query("PodGroup", namespace, "")

    def names(answer: Answer) -> list[str]:
        assert isinstance(answer, Found)
        return [item["metadata"]["name"] for item in answer.value]  # type: ignore[index]

    until(lambda: len(agent.all("PodGroup", namespace) or ()) == 2, "both in the store")
    assert names(source.ask(query, fresh=False, deadline=soon())) == ["a", "b"]
    assert names(source.ask(query, fresh=True, deadline=soon())) == ["a", "b"]


def test_a_vanished_api_server_is_unknown_and_quick_the_second_time(tmp_path: Path, control_plane: Cluster) -> None:
    """Nobody answers: Unknown, never Absent; the next lookup does not wait for the same silence again."""
    dead = tmp_path / "dead.kubeconfig"
    dead.write_text(control_plane.kubeconfig().read_text().replace(control_plane.server, "https://127.0.0.1:1"))
    source = ClusterSource(Connection(dead), None)

    first = source.ask(Query("PodGroup", "x", "y"), fresh=True, deadline=soon())
    second = source.ask(Query("PodGroup", "x", "y"), fresh=True, deadline=soon())

    assert isinstance(first, Unknown)
    assert "did not answer" in first.reason
    assert isinstance(second, Unknown)
    assert "a moment ago" in second.reason


def test_an_agent_that_died_is_not_believed(
    tmp_path: Path, control_plane: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without heartbeats the store has no word, however recent it looks."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(tmp_path, control_plane.kubeconfig(), stop))
    thread.start()
    reader = StoreReader(tmp_path / STORE_FILE)
    until(lambda: reader.synced("PriorityClass") is True, "PriorityClasses listed")
    assert reader.get("PriorityClass", "", "system-node-critical") is not None
    stop.set()
    thread.join(timeout=20)

    monkeypatch.setattr("webhook.cluster.store.HEARTBEAT_SECONDS_MAX", -1.0)

    assert reader.synced("PriorityClass") is None
    assert reader.get("PriorityClass", "", "system-node-critical") is None
    assert reader.all("PriorityClass", "") is None
