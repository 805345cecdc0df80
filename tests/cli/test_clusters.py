"""Commands that need a cluster, where there is none: which one was meant, and why it is none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from typer.testing import CliRunner

from webhook.cli.main import app
from webhook.cluster.connection import ConfigError, Connection, why_unanswered

COMMANDS = [["doctor", "-p", "strict"], ["inventory", "export"], ["registration", "apply", "-p", "strict"]]


def kubeconfig(server: str, *, current: str = "x") -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": current,
    }
    return json.dumps(document)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file; give --kubeconfig FILE, or set KUBECONFIG"),
        ("a: b: c", "is no kubeconfig: not YAML at line 1"),
        ("- a\n", "is no kubeconfig"),
        (kubeconfig("https://127.0.0.1:1", current="y"), "Expected object with name y"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, command: list[str], content: str | None, why: str
) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)

    result = CliRunner().invoke(app, [*command, "--kubeconfig", str(file)])

    assert result.exit_code == 2
    assert result.stderr.startswith("no cluster to ")
    assert f"{file}: " in result.stderr
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["inventory", "export", "--kubeconfig", str(tmp_path)])

    assert f"{tmp_path}: is a folder; give --kubeconfig FILE" in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_cluster_that_does_not_answer_is_named_with_the_reason(tmp_path: Path, command: list[str]) -> None:
    """Who has five clusters wants to know which one, and whether it is down or shut off."""
    file = tmp_path / "config"
    file.write_text(kubeconfig("https://127.0.0.1:1"))

    result = CliRunner().invoke(app, [*command, "--kubeconfig", str(file)])

    assert result.exit_code == (2 if command[0] == "inventory" else 1)
    assert "https://127.0.0.1:1" in result.output
    assert "did not answer (connection refused)" in result.output
    assert "note:" not in result.output


def test_outside_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ConfigError, match="this is no Pod with a service account"):
        Connection(None)


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port that says this to whoever comes, or nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.recv(1)
                client.sendall(answer or b"")
                client.close()

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])


def asked(url: str) -> str:
    """Why nobody answers there."""
    with pytest.raises((urllib3.exceptions.HTTPError, OSError)) as caught:
        urllib3.PoolManager().request("GET", url, retries=False, timeout=0.3)
    return why_unanswered(caught.value)


def test_why_nobody_answers_is_said_in_words() -> None:
    """ "NewConnectionError" is a name in Python."""
    with listening(None) as port:
        assert asked(f"http://127.0.0.1:{port}/") == "timed out"
    with listening(b"HTTP/1.1 400 no\r\n\r\n") as port:
        assert asked(f"https://127.0.0.1:{port}/") == "TLS: wrong version number"
    assert asked("https://127.0.0.1:1/") == "connection refused"
    assert asked("https://nobody.invalid/") == "its name cannot be resolved"
