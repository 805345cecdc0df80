"""The agent beats only while all that it watches with is alive."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from webhook import agent
from webhook.cluster.inventory_feed import InventoryFeed


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


def test_an_api_server_that_is_away_does_not(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(2.5, stop.set).start()

    agent.run(tmp_path, kubeconfig(tmp_path), stop)
