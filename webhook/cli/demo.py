"""`muster demo`: a running webhook over a folder of objects, and what it says of the gangs in examples/.

Everything a cluster would see is real: TLS with a certificate made for it, gunicorn processes, AdmissionReviews over
HTTPS. Only the cluster is a folder.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.cli.review import read_inputs, request_for
from webhook.objects.request import UserInfo
from webhook.objects.words import plural
from webhook.sources.manifests import Manifest
from webhook.tls.issue import CertificatePaths, ensure_development_certificates

START_SECONDS_MAX = 60.0
TENANT = UserInfo(username="alice", groups=("tenants", "system:authenticated"))


@dataclass(frozen=True)
class Answer:
    """What came back for one manifest. lines: the denial's lines or the warnings."""

    manifest: Manifest
    allowed: bool
    lines: tuple[str, ...]


def demo(
    examples: Annotated[Path | None, typer.Option(help="folder with cluster/, gangs/ and policy.yaml")] = None,
    port: Annotated[int, typer.Option(help="0: any free port")] = 0,
    directory: Annotated[Path, typer.Option(help="for certificates; made if missing")] = Path(".demo"),
    once: Annotated[bool, typer.Option("--once", help="stop after the table instead of serving on")] = False,
) -> None:
    """Start a webhook over a folder of objects, post the gangs of examples/ to it, and show what a tenant reads."""
    folder = examples or Path(__file__).parents[2] / "examples"
    if not (folder / "gangs").is_dir():
        print(f"{folder} holds no gangs/: run this in a checkout, or give --examples", file=sys.stderr)
        raise typer.Exit(2)
    manifests, unreadable = read_inputs([str(folder / "gangs")])
    for bad in unreadable:
        print(bad, file=sys.stderr)
    try:
        certificates = ensure_development_certificates(directory / "certs")
        log = (directory / "serve.log").open("wb")
    except OSError as error:
        where = error.filename or directory
        print(f"{where}: cannot be written: {error.strerror}; give a folder by --directory", file=sys.stderr)
        raise typer.Exit(2) from None
    port = port or _free_port()
    console = Console()
    # A supervisor stops us by SIGTERM: the same as Ctrl-C, so that the server goes down with us. SIGINT too, since
    # shells start what they put into the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    server = _start(folder, certificates, port, log)
    try:
        _wait_until_ready(server, certificates, port)
        answers = [_ask(manifest, certificates, port) for manifest in manifests]
        _show(console, answers)
        if not once:
            _say_how_to_try(console, certificates, port)
            server.wait()
    except KeyboardInterrupt:
        console.print("stopping")
    finally:
        server.terminate()
        server.wait(timeout=30)
    raise typer.Exit(2 if unreadable else 0)


def _start(folder: Path, certificates: CertificatePaths, port: int, log: BufferedWriter) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "webhook.cli.main", "serve", "--bind", f"127.0.0.1:{port}"]
    command += ["--source", f"folder:{folder / 'cluster'}", "--policy", str(folder / "policy.yaml")]
    command += ["--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key), "--workers", "2"]
    # A session of its own: Ctrl-C reaches this process first, which then stops the server in order.
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _connect(certificates: CertificatePaths, port: int) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)


def _wait_until_ready(server: subprocess.Popen[bytes], certificates: CertificatePaths, port: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            connection = _connect(certificates, port)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass  # not listening yet
        time.sleep(0.1)
    print(f"the server did not start; see {certificates.cert.parent.parent / 'serve.log'}", file=sys.stderr)
    raise typer.Exit(1)


def _ask(manifest: Manifest, certificates: CertificatePaths, port: int) -> Answer:
    request = msgspec.structs.replace(request_for(manifest.raw, "default", TENANT), uid=str(uuid.uuid4()))
    body = msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": msgspec.to_builtins(request)}
    )
    connection = _connect(certificates, port)
    connection.request("POST", "/validate/submit?timeout=5s", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    response: dict[str, Any] = json.loads(reply.read())["response"]
    connection.close()
    lines = tuple((response.get("status") or {}).get("message", "").splitlines()) if not response["allowed"] else ()
    return Answer(
        manifest, bool(response["allowed"]), (*lines, *(f"Warning: {w}" for w in response.get("warnings") or ()))
    )


def _show(console: Console, answers: list[Answer]) -> None:
    table = Table(title="does this gang pass muster?", show_lines=True, expand=True)
    table.add_column("manifest", ratio=2, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("what the tenant reads", ratio=5, overflow="fold")
    for answer in answers:
        raw = answer.manifest.raw
        metadata = raw.get("metadata") or {}
        name = (
            f"{Path(answer.manifest.file).name}\n{raw.get('kind')} {metadata.get('namespace')}/{metadata.get('name')}"
        )
        warned = answer.allowed and bool(answer.lines)
        word, style = ("denied", "red") if not answer.allowed else ("admitted", "yellow" if warned else "green")
        table.add_row(name, Text(word, style=style), Text("\n".join(answer.lines)))
    console.print(table)
    denied = sum(not answer.allowed for answer in answers)
    warned_count = sum(answer.allowed and bool(answer.lines) for answer in answers)
    admitted = f"{len(answers) - denied} admitted" + (f" ({warned_count} with warnings)" if warned_count else "")
    console.print(f"{plural(len(answers), 'object')} posted: {admitted}, {denied} denied")


def _say_how_to_try(console: Console, certificates: CertificatePaths, port: int) -> None:
    console.print(
        f"\nServing https://127.0.0.1:{port} (CA: {certificates.ca}). For your own manifest:\n"
        "  .venv/bin/muster review FILE --policy examples/policy.yaml\n"
        "For a real Kubernetes 1.37 with Muster registered: make cluster. Ctrl-C stops.",
        soft_wrap=True,
    )
