"""`muster serve` as a process: starts, serves over TLS, follows its settings, and stops clean."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.edge.reviews import pod, review
from webhook.cli.serve import environment
from webhook.settings import load_settings
from webhook.tls.issue import CertificatePaths, ensure_development_certificates

pytestmark = pytest.mark.processes

HANG_SECONDS = 60.0
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def serving(*arguments: str, log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """`muster serve`, killed at the end where the test has not stopped it."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "webhook.cli.main", "serve", *arguments],
            stdout=stream,
            stderr=stream,
            cwd=ROOT,
            env={**os.environ, **environ},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANG_SECONDS)


def request(port: int, certificates: CertificatePaths, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request; waits until the server is there."""
    context = ssl.create_default_context(cafile=str(certificates.ca))
    give_up = time.monotonic() + HANG_SECONDS
    while True:
        client = http.client.HTTPSConnection("localhost", port, context=context, timeout=HANG_SECONDS)
        try:
            client.request(method, path, body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            return answer.status, answer.read()
        except ConnectionError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        finally:
            client.close()


def test_serves_a_folder_and_stops_clean(tmp_path: Path) -> None:
    """TLS, verdict, log line, metrics of all workers, exit 0, nothing left behind."""
    certificates = ensure_development_certificates(tmp_path / "certs")
    (tmp_path / "facts").mkdir()
    (tmp_path / "tmp").mkdir()
    port = free_port()
    options = ("--bind", f"127.0.0.1:{port}", "--source", f"folder:{tmp_path / 'facts'}", "--workers", "2")
    options += ("--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
    with serving(*options, log=tmp_path / "log", TMPDIR=str(tmp_path / "tmp")) as process:
        for _ in range(8):
            status, body = request(port, certificates, "POST", "/validate/submit", json.dumps(review(pod())).encode())
            assert status == 200
            assert json.loads(body)["response"]["allowed"] is True
        scrapes = [request(port, certificates, "GET", "/metrics")[1] for _ in range(4)]
        process.send_signal(signal.SIGTERM)

        assert process.wait(HANG_SECONDS) == 0
    counts = {re.search(rb"muster_admission_requests_total\{.*\} (\S+)", scrape)[1] for scrape in scrapes}  # type: ignore[index]
    assert counts == {b"8.0"}
    log = (tmp_path / "log").read_text()
    assert log.count('"event":"admission"') == 8
    assert "Traceback" not in log
    assert list((tmp_path / "tmp").iterdir()) == []


def test_supervises_the_agent_beside_gunicorn(tmp_path: Path) -> None:
    """With the cluster as source; an API server that is not there stops nothing, and neither does a dead agent."""
    certificates = ensure_development_certificates(tmp_path / "certs")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        textwrap.dedent(
            f"""
            apiVersion: v1
            kind: Config
            clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{free_port()}"}}}}]
            contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
            users: [{{name: u, user: {{token: t}}}}]
            current-context: c
            """
        )
    )
    port = free_port()
    options = ("--bind", f"127.0.0.1:{port}", "--kubeconfig", str(kubeconfig), "--workers", "1")
    options += ("--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
    with serving(*options, log=tmp_path / "log", TMPDIR=str(tmp_path)) as process:
        body = json.dumps(review(pod(schedulingGroup={"podGroupName": "pg"}))).encode()
        status, answer = request(port, certificates, "POST", "/validate/submit?timeout=5s", body)
        assert status == 200
        assert json.loads(answer)["response"]["allowed"] is True  # unknown never denies
        first = agent_of(process.pid)
        os.kill(first, signal.SIGKILL)
        give_up = time.monotonic() + HANG_SECONDS
        while agent_of(process.pid) in (0, first):
            assert time.monotonic() < give_up, (tmp_path / "log").read_text()
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)

        assert process.wait(HANG_SECONDS) == 0
    assert "agent ended with -9, starts again in 1 s" in (tmp_path / "log").read_text()
    assert agent_of(process.pid) == 0


def agent_of(parent: int) -> int:
    """The process ID of the agent that this `muster serve` started, 0 if there is none."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, ppid = status.parent.name, status.read_text().rpartition(")")[2].split()[1]
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(ppid) == parent and b"agent" in words:
            return int(pid)
    return 0


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "words"),
    [
        (["--bind", "nowhere"], {}, 2, "MUSTER_BIND"),
        ([], {"MUSTER_THREDS": "3"}, 2, 'did you mean "MUSTER_THREADS"?'),
        (["--source", "folder:{tmp}", "--policy", "{tmp}/policy.yaml"], {}, 1, "policy.yaml"),
        ([], {"KUBERNETES_SERVICE_HOST": ""}, 1, "outside a Pod give --kubeconfig FILE, or --source folder:PATH"),
        (["--kubeconfig", "{tmp}/policy.yaml"], {}, 1, "no cluster to serve: {tmp}/policy.yaml: Invalid kube-config"),
    ],
)
def test_refuses_to_start(tmp_path: Path, arguments: list[str], environ: dict[str, str], code: int, words: str) -> None:
    """One plain line instead of workers that die in a loop; nothing left behind."""
    (tmp_path / "policy.yaml").write_text("kind: Policy\n")
    (tmp_path / "tmp").mkdir()
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    with serving(*given, log=tmp_path / "log", TMPDIR=str(tmp_path / "tmp"), **environ) as process:
        assert process.wait(HANG_SECONDS) == code

    log = (tmp_path / "log").read_text()
    assert words.format(tmp=tmp_path) in log
    assert "Traceback" not in log
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_of_our_name_where_it_is_started_is_not_run(tmp_path: Path) -> None:
    """`python -m` looks there first, and "webhook" is a name that others use, too."""
    (tmp_path / "webhook").mkdir()
    (tmp_path / "webhook" / "__init__.py").write_text("raise SystemExit('somebody else')\n")
    muster = str(Path(sys.executable).with_name("muster"))

    ended = subprocess.run(
        [muster, "serve"], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_SECONDS
    )

    assert ended.returncode == 1
    assert "no cluster to serve" in ended.stderr
    assert "somebody else" not in ended.stderr


def test_settings_survive_the_way_to_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of `serve` get their settings by environment: the same ones."""
    (tmp_path / "a.yaml").touch()
    settings = load_settings(
        policy=(tmp_path / "a.yaml", tmp_path),
        source=f"folder:{tmp_path}",
        snapshot_dir=tmp_path,
        threads=3,
        bind="[::]:1",
    )

    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)

    assert load_settings() == settings
