"""A load generator in a process of its own: keep-alive TLS connections, each with one request under way at a time.

One thread and one selector: a client that waits costs the server nothing, and a light client leaves it its core.
`python -m tests.bench.load PORT CA_FILE BODY_FILE CONNECTIONS SECONDS` prints a JSON line.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/validate/submit?timeout=5s"


@dataclass(slots=True)
class Load:
    """The outcome: answers in `seconds`, each one's latency in seconds, and how many were no good."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    bad_count: int = 0


@dataclass(slots=True)
class _Caller:
    sock: ssl.SSLSocket
    sent: float = 0.0
    buffer: bytearray = field(default_factory=bytearray)


def run(port: int, ca_file: Path, body: bytes, connection_count: int, seconds: float) -> Load:
    """Sends `body` again and again for that long. An answer is good if it is 200 and admits."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: kube-apiserver-admission\r\n"
    head += f"Accept: application/json, */*\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    data = head.encode() + body
    context = ssl.create_default_context(cafile=str(ca_file))
    load = Load()
    with selectors.DefaultSelector() as selector:
        for _ in range(connection_count):
            plain = socket.create_connection(("127.0.0.1", port))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller = _Caller(context.wrap_socket(plain, server_hostname="localhost"))
            selector.register(caller.sock, selectors.EVENT_READ, caller)
            _send(caller, data)
        started = time.perf_counter()
        while (now := time.perf_counter()) - started < seconds:
            for key, _ in selector.select(1.0):
                caller = key.data
                # One recv takes a whole TLS record, and an answer is one record.
                caller.buffer += caller.sock.recv(65536)
                good = _complete(caller.buffer)
                if good is None:
                    continue
                load.latencies.append(time.perf_counter() - caller.sent)
                load.bad_count += not good
                caller.buffer.clear()
                _send(caller, data)
        load.seconds = now - started
        for key in list(selector.get_map().values()):
            key.data.sock.close()
    return load


def _send(caller: _Caller, data: bytes) -> None:
    caller.sent = time.perf_counter()
    caller.sock.sendall(data)


def _complete(buffer: bytearray) -> bool | None:
    """Is the answer a good one; None while it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    start = buffer.lower().find(b"content-length:", 0, end)
    size = int(bytes(buffer[start + 15 : buffer.find(b"\r\n", start)]))
    if len(buffer) < end + 4 + size:
        return None
    return buffer.startswith(b"HTTP/1.1 200 ") and b'"allowed":true' in buffer.replace(b": ", b":")


if __name__ == "__main__":
    result = run(
        int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]).read_bytes(), int(sys.argv[4]), float(sys.argv[5])
    )
    print(json.dumps({"seconds": result.seconds, "latencies": result.latencies, "bad": result.bad_count}))
