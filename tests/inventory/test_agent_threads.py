"""The agent beats only while all that it watches with is alive."""

from __future__ import annotations

import json
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.support.cases import FixedPolicies, policy_document
from webhook import agent
from webhook.cluster import watcher
from webhook.cluster.census_feed import Feed
from webhook.cluster.connection import Connection
from webhook.cluster.device_use_feed import CLAIM, DeviceUseFeed
from webhook.cluster.inventory_feed import InventoryFeed
from webhook.cluster.inventory_kinds import USE_KINDS
from webhook.cluster.lease import Lease
from webhook.cluster.watcher import late_threads
from webhook.quota.recount import NoJournal, Recounter


def kubeconfig(folder: Path) -> Path:
    """A cluster where nobody listens."""
    path = folder / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_by_itself_ends_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published would stay as it is for ever, and workers would deny on it as long as the agent beats."""
    stop = threading.Event()

    def step(_feed: InventoryFeed) -> None:
        raise IndexError("a bug of ours")

    monkeypatch.setattr(InventoryFeed, "step", step)
    try:
        with pytest.raises(RuntimeError, match='the thread "inventory" has ended'):
            agent.run(tmp_path, kubeconfig(tmp_path), stop, pods=False)
    finally:
        stop.set()


def test_a_bug_in_what_only_warnings_read_ends_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of, nothing that rests on it is said, and the watch goes on."""
    stop, after, said = threading.Event(), threading.Event(), []
    feed = DeviceUseFeed()
    feed.replace_kind(CLAIM, [])
    runs: list[str] = []

    def run(_watcher: watcher.Watcher) -> None:
        runs.append("once more")
        if len(runs) > 1:
            stop.wait(10)
            return
        raise IndexError("a bug of ours")

    monkeypatch.setattr(watcher.Watcher, "run", run)
    monkeypatch.setattr(watcher, "RETRY_SECONDS_MAX", 0.01)
    connection = Connection(kubeconfig(tmp_path))
    (thread,) = late_threads(connection, [(USE_KINDS[CLAIM], feed)], stop, lambda *words: said.append(words), after)
    thread.start()
    is_early = bool(runs)
    after.set()
    end = time.monotonic() + 10
    while len(runs) < 2 and time.monotonic() < end:
        time.sleep(0.01)

    assert (is_early, thread.is_alive(), len(runs)) == (False, True, 2)
    assert said == [("watch-failed", {"kind": CLAIM, "reason": "IndexError('a bug of ours')"})]
    assert feed.number == 0
    stop.set()
    thread.join(10)


def test_an_api_server_that_is_away_does_not(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(2.5, stop.set).start()

    agent.run(tmp_path, kubeconfig(tmp_path), stop)


class Policies(FixedPolicies):
    version = "1"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["the Lease", "a feed", "the count", "nowhere"])
def test_a_leader_of_the_quotas_that_no_longer_counts_ends_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Else it would keep the Lease, and no reservation of any replica would ever settle."""
    stop = threading.Event()

    def bug(*_: object) -> bool:
        raise IndexError("a bug of ours")

    monkeypatch.setattr(Lease, "is_held", lambda _: True)
    monkeypatch.setattr(Lease, "keep", bug if where == "the Lease" else lambda _, stop: stop.wait())
    monkeypatch.setattr(Recounter, "take_over", lambda _: True)
    monkeypatch.setattr(Recounter, "run_once", bug if where == "the count" else lambda _: True)
    monkeypatch.setattr(Feed, "run", bug if where == "a feed" else lambda feed: feed._stop.wait())
    policies = Policies(policy_document({}))
    quotas = agent.Quotas(
        policies=lambda: policies, namespace="muster-system", reservation_seconds=90.0, journal=NoJournal()
    )
    threading.Timer(4.0, stop.set).start()
    expected: AbstractContextManager[object] = pytest.raises(RuntimeError, match='the thread "quotas" has ended')
    with nullcontext() if where == "nowhere" else expected:
        agent.run(tmp_path, kubeconfig(tmp_path), stop, quotas=quotas, inventory=False)
    stop.set()
