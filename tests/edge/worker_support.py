"""A real gunicorn server for tests/edge/test_worker.py, and a client that can be as slow or silent as it likes.

Run as a program it is the server: `python worker_support.py '{"worker": "muster", "bind": "127.0.0.1:0", ...}'`.
Everything is on loopback.
"""

import builtins
import contextlib
import dataclasses
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from webhook.edge.worker import (
    RECEIVED_KEY,
    WAITING_KEY,
    MusterApplication,
    MusterThreadWorker,
    gunicorn_options,
)
from webhook.tls.issue import CertificatePaths
from webhook.tls.reload import ReloadingContext

HANG_SECONDS = 60.0
"""The bound of everything that must not hang: far above what a loaded machine needs, and no measure of speed."""


class QuickWorker(MusterThreadWorker):
    """The same worker with limits that a test can wait for."""

    HANDSHAKE_SECONDS_MAX = 1.5
    HEAD_SECONDS_MAX = 1.5
    BODY_SECONDS_MAX = 2.0
    RESPONSE_SECONDS_MAX = 1.0


class SmallWorker(MusterThreadWorker):
    """Room for few connections and few bytes."""

    CONNECTION_COUNT_MAX = 16
    BUFFERED_BYTES_MAX = 4 * 1024 * 1024


WORKERS: dict[str, Any] = {
    "muster": MusterThreadWorker,
    "quick": QuickWorker,
    "small": SmallWorker,
    "stock": "gunicorn.workers.gthread.ThreadWorker",
}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes] | list[bytes]:
    """`/echo` answers what it saw as JSON; the others do what their names say."""
    query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
    match environ["PATH_INFO"]:
        case "/boom":
            raise getattr(builtins, query["kind"])("secret detail")
        case "/unread":
            body = b""
        case "/hold":
            Path(query["mark"]).touch()
            time.sleep(float(query["seconds"]))
            body = environ["wsgi.input"].read()
        case "/large":
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", query["bytes"])])
            return [b"x" * int(query["bytes"])]
        case "/stream":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return iter([b"one ", b"two ", b"three"])
        case _:
            body = environ["wsgi.input"].read()
    answer = json.dumps(
        {
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "path": environ["PATH_INFO"],
            "client_port": environ["REMOTE_PORT"],
            "scheme": environ["wsgi.url_scheme"],
            "age": time.monotonic() - environ.get(RECEIVED_KEY, time.monotonic()),
            "waiting": environ.get(WAITING_KEY),
            "pid": os.getpid(),
        }
    ).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


def serve(settings: dict[str, Any]) -> None:
    """The program: run gunicorn until it is stopped."""
    worker = settings.pop("worker")
    if worker != "stock" and settings.get("certfile"):
        settings["context_factory"] = ReloadingContext(settings["certfile"], settings["keyfile"], check_seconds=0.0)
    MusterApplication(lambda: application, gunicorn_options(**settings) | {"worker_class": WORKERS[worker]}).run()


@dataclasses.dataclass
class Server:
    """A running server: where it listens, whom its clients trust, its log."""

    process: subprocess.Popen[bytes]
    port: int
    certificates: CertificatePaths
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def tcp(self, timeout_seconds: float = HANG_SECONDS) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_seconds)

    def tls(self, timeout_seconds: float = HANG_SECONDS) -> ssl.SSLSocket:
        return self.context().wrap_socket(self.tcp(timeout_seconds), server_hostname="localhost")

    def client(self, timeout_seconds: float = HANG_SECONDS) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout_seconds, context=self.context())

    def post(self, path: str = "/echo", body: bytes = b"{}", timeout_seconds: float = HANG_SECONDS) -> dict[str, Any]:
        """One request on its own connection. Raises OSError or http.client.HTTPException when it fails."""
        client = self.client(timeout_seconds)
        try:
            client.request("POST", path, body)
            answer = client.getresponse()
            if answer.status != 200:
                raise http.client.HTTPException(f"{answer.status} {answer.reason}")
            return dict(json.loads(answer.read()))
        finally:
            client.close()

    def post_in_parallel(self, count: int, timeout_seconds: float = HANG_SECONDS) -> list[BaseException | None]:
        """What became of `count` requests sent at once: None, or the error."""

        def one(_: int) -> BaseException | None:
            try:
                self.post(timeout_seconds=timeout_seconds)
            except (OSError, http.client.HTTPException) as error:
                return error
            return None

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def stop(self, seconds: float = HANG_SECONDS) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            time.sleep(1.0)
            self.process.kill()
            raise


@contextlib.contextmanager
def running(
    directory: Path, certificates: CertificatePaths, worker: str = "muster", *, threads: int = 8, **settings: Any
) -> Iterator[Server]:
    """A server in its own process with one worker; stopped at the end."""
    log_file = directory / "gunicorn.log"
    settings = {
        "worker": worker,
        "bind": "127.0.0.1:0",
        "workers": 1,
        "threads": threads,
        "certfile": str(certificates.cert),
        "keyfile": str(certificates.key),
        **settings,
    }
    with log_file.open("wb") as log:
        # A home of its own, so that a test can see what gunicorn leaves there.
        environment = {**os.environ, "HOME": str(directory)}
        environment.pop("XDG_RUNTIME_DIR", None)
        command = [sys.executable, __file__, json.dumps(settings)]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    server = Server(process, 0, certificates, log_file)
    try:
        server.port = _port(server)
        yield server
    finally:
        server.stop()


def _port(server: Server) -> int:
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until and server.process.poll() is None:
        found = re.search(r"Listening at: https?://127\.0\.0\.1:(\d+)", server.log)
        if found:
            return int(found[1])
        time.sleep(0.02)
    raise AssertionError(f"gunicorn did not start:\n{server.log}")


def read_answers(sock: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """`count` answers (status, body) in sequence from one connection.

    Send first, then read: Python 3.11 locks nothing when one thread reads from a TLS connection and another writes to it,
    and once in some hundred times the reader is told of an end that nobody sent.
    """
    file = sock.makefile("rb")
    answers = []
    for _ in range(count):
        status = int(file.readline().split()[1])
        size = 0
        while (line := file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        answers.append((status, file.read(size)))
    return answers


def until_closed(sock: socket.socket, piece: bytes = b"", every_seconds: float = 0.1) -> bytes:
    """Send `piece` again and again until the server closes; all it said meanwhile. Fails after HANG_SECONDS."""
    said = b""
    sock.settimeout(every_seconds)
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until:
        try:
            if piece:
                sock.sendall(piece)
            data = sock.recv(4096)
            if not data:
                return said
            said += data
        except TimeoutError:
            continue
        except OSError:
            return said
    raise AssertionError(f"still open after {HANG_SECONDS} s; server said {said!r}")


def in_background(target: Callable[[], Any]) -> "tuple[threading.Thread, list[Any]]":
    """Start `target` in a thread; its result or error is appended to the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(target())
        except Exception as error:  # noqa: BLE001  # the test looks at it
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
