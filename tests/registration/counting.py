"""A webhook that admits everything and remembers what reached it, and a way to register it on a real API server."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import trustme

from tests.cluster.client import object_path, wait_for
from tests.cluster.cluster import Cluster

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """One request that reached the webhook. path: of the entry, for example ``/validate/submit``."""

    path: str
    operation: str
    resource: str
    sub_resource: str
    namespace: str
    name: str
    user: str


class CountingWebhook:
    """An HTTPS server on a free port of 127.0.0.1, in threads of its own. Use it in a ``with`` block."""

    def __init__(self) -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        self._seen: list[tuple[str, Seen]] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self), context)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, generation: str) -> str:
        """Of one registration: what reached it is kept apart by this part of the path."""
        return f"https://127.0.0.1:{self._server.server_port}/{generation}"

    def take(self, path: str, review: JsonObject) -> JsonObject:
        """Remembers an AdmissionReview and answers it."""
        request = review["request"]
        generation, _, entry = path.partition("?")[0].removeprefix("/").partition("/")
        seen = Seen(
            path="/" + entry,
            operation=request["operation"],
            resource=request["resource"]["resource"],
            sub_resource=request.get("subResource", ""),
            namespace=request.get("namespace", ""),
            name=request.get("name", ""),
            user=request["userInfo"]["username"],
        )
        with self._lock:
            self._seen.append((generation, seen))
        return {**review, "request": None, "response": {"uid": request["uid"], "allowed": True}}

    def seen(self, generation: str) -> list[Seen]:
        with self._lock:
            return [seen for name, seen in self._seen if name == generation]

    def forget(self) -> None:
        with self._lock:
            self._seen.clear()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext
    ) -> None:
        super().__init__(address, handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake belongs to the connection's thread: in the accepting one an idle client would stop all."""
        with (
            contextlib.suppress(ssl.SSLError, OSError),
            self._context.wrap_socket(request, server_side=True) as wrapped,
        ):
            super().finish_request(wrapped, client_address)


def _handler(webhook: CountingWebhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(webhook.take(self.path, review)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


@contextlib.contextmanager
def registered(cluster: Cluster, configurations: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """The configurations on the API server, removed at the end."""
    created = []
    try:
        for configuration in configurations:
            cluster.api.create(configuration).expect()
            created.append(object_path(configuration))
        yield
    finally:
        for path in created:
            cluster.api.delete(path).expect(200, 404)


def wait_until_called(cluster: Cluster, webhook: CountingWebhook, generation: str, namespace: str) -> None:
    """The API server learns of a configuration by its own watch: asks with dry runs until it has."""

    def called() -> bool:
        cluster.api.create(pod_group(f"probe-{secrets.token_hex(4)}"), namespace, dryRun="All").expect()
        return bool(webhook.seen(generation))

    wait_for(called, 30, "the API server to call the webhook")


def pod_group(name: str) -> JsonObject:
    """Always worth a look."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
