"""The worker on real gunicorn processes: silent and slow peers cost no thread, and nothing is lost on the way.

Time limits here separate "hangs" from "does not hang"; none of them measures speed.
"""

import contextlib
import hashlib
import http.client
import json
import random
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.edge.worker_support import (
    HANG_SECONDS,
    Server,
    in_background,
    read_answers,
    running,
    until_closed,
)
from webhook.edge.worker import MusterThreadWorker, gunicorn_options
from webhook.tls.issue import (
    CertificatePaths,
    ensure_development_certificates,
    make_authority,
    make_serving_certificate,
    write_pair,
)

pytestmark = pytest.mark.processes

STOCK_PATIENCE_SECONDS = 3.0
THREADS = 8


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificatePaths:
    return ensure_development_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: CertificatePaths) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("muster"), certificates, threads=THREADS) as server:
        yield server


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, certificates: CertificatePaths) -> Iterator[Server]:
    """The same worker with limits of one to two seconds."""
    with running(tmp_path_factory.mktemp("quick"), certificates, "quick", threads=THREADS, idle_seconds=2) as server:
        yield server


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    """Connections that stay open until the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack


# Silent peers -----------------------------------------------------------------------------------------------------


def test_64_silent_connections_and_32_parallel_requests(server: Server, opened: contextlib.ExitStack) -> None:
    for _ in range(32):
        opened.enter_context(server.tcp())
        opened.enter_context(server.tls())
    assert server.post_in_parallel(32) == [None] * 32


def test_silent_after_the_first_bytes_of_a_handshake(server: Server, opened: contextlib.ExitStack) -> None:
    for _ in range(2 * THREADS):
        opened.enter_context(server.tcp()).sendall(b"\x16\x03\x01")
    assert server.post_in_parallel(4) == [None] * 4


def test_silent_after_half_a_head_and_half_a_body(server: Server, opened: contextlib.ExitStack) -> None:
    for _ in range(THREADS):
        opened.enter_context(server.tls()).sendall(b"POST /echo HTTP/1.1\r\nHost:")
        opened.enter_context(server.tls()).sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
    assert server.post_in_parallel(4) == [None] * 4


def test_the_stock_worker_freezes(tmp_path: Path, certificates: CertificatePaths, opened: contextlib.ExitStack) -> None:
    """Shows that the tests above can fail: with gunicorn's own gthread a request is stuck behind silent connections as
    long as they live, and is answered as soon as they are gone."""
    with running(tmp_path, certificates, "stock", threads=THREADS) as stock:
        assert stock.post()["bytes"] == 2
        silent = [opened.enter_context(stock.tls()) for _ in range(THREADS)]
        # A handshake needs a thread too. Its first answer shows that all eight are now taken, not merely late.
        with pytest.raises(TimeoutError):
            stock.post(timeout_seconds=STOCK_PATIENCE_SECONDS)
        for connection in silent:
            connection.close()
        assert stock.post()["bytes"] == 2


@pytest.mark.prove
def test_the_stock_worker_fails_the_64_and_32(
    tmp_path: Path, certificates: CertificatePaths, opened: contextlib.ExitStack
) -> None:
    with running(tmp_path, certificates, "stock", threads=THREADS, graceful_seconds=2) as stock:
        for _ in range(32):
            opened.enter_context(stock.tcp())
            with contextlib.suppress(TimeoutError):
                opened.enter_context(stock.tls(timeout_seconds=0.2))
        assert None not in stock.post_in_parallel(32, timeout_seconds=STOCK_PATIENCE_SECONDS)
        opened.close()


def test_silent_connections_are_closed_after_their_limit(quick: Server) -> None:
    with quick.tcp() as connected, quick.tls() as handshaken, contextlib.closing(quick.client()) as kept:
        kept.request("GET", "/echo")
        kept.getresponse().read()
        assert until_closed(connected) == b""
        assert until_closed(handshaken) == b""
        assert until_closed(kept.sock) == b""


def test_the_least_missed_connection_makes_room(
    tmp_path: Path, certificates: CertificatePaths, opened: contextlib.ExitStack
) -> None:
    """More silent connections than the worker has room for do not lock out the API server."""
    with running(tmp_path, certificates, "small", threads=2) as small:
        client = opened.enter_context(contextlib.closing(small.client()))
        client.request("GET", "/echo")
        port = json.loads(client.getresponse().read())["client_port"]
        for _ in range(20):
            opened.enter_context(small.tcp())
            opened.enter_context(small.tls())
        assert small.post_in_parallel(4) == [None] * 4
        client.request("GET", "/echo")
        assert json.loads(client.getresponse().read())["client_port"] == port, "a used connection goes last"


# Slow peers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"])
def test_one_byte_at_a_time_is_bounded_and_takes_no_thread(
    quick: Server, opened: contextlib.ExitStack, start: bytes
) -> None:
    slow = []
    for _ in range(2 * THREADS):
        connection = opened.enter_context(quick.tls())
        connection.sendall(start + b"P")
        slow.append(in_background(lambda connection=connection: until_closed(connection, b"P")))  # type: ignore[misc]
    assert quick.post_in_parallel(4) == [None] * 4
    for thread, said in slow:
        thread.join(HANG_SECONDS)
        assert said[0].startswith(b"HTTP/1.1 408 "), said


def test_a_handshake_one_byte_at_a_time_is_bounded(quick: Server) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = quick.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()
    with quick.tcp() as slow:
        started = time.monotonic()
        with contextlib.suppress(OSError):
            for position in range(len(data) - 1):
                slow.sendall(data[position : position + 1])
                time.sleep(0.05)
        until_closed(slow)
        assert time.monotonic() - started < HANG_SECONDS
        assert quick.post()["bytes"] == 2


def test_a_peer_that_does_not_read_its_answer_is_bounded(quick: Server, opened: contextlib.ExitStack) -> None:
    for _ in range(THREADS):
        opened.enter_context(quick.tls()).sendall(b"GET /large?bytes=30000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert quick.post_in_parallel(4) == [None] * 4


def test_a_peer_that_does_not_close_holds_up_nobody(quick: Server, opened: contextlib.ExitStack) -> None:
    """Stock gunicorn lingers for such a peer in its accept loop, two seconds each."""
    for _ in range(2 * THREADS):
        connection = opened.enter_context(quick.tls())
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_answers(connection, 1)[0][0] == 200
    assert quick.post_in_parallel(4) == [None] * 4


# Nothing is lost --------------------------------------------------------------------------------------------------


def test_keep_alive_reuses_the_connection(server: Server) -> None:
    with contextlib.closing(server.client()) as client:
        ports = set()
        for size in (0, 1, 70_000, 2):
            client.request("POST", "/echo", b"y" * size)
            answer = client.getresponse()
            seen = json.loads(answer.read())
            assert (answer.status, seen["bytes"]) == (200, size)
            ports.add(seen["client_port"])
    assert len(ports) == 1


def test_requests_in_one_tls_record_are_all_answered(server: Server) -> None:
    """The bytes of the second to last request are decrypted with the first: the socket never becomes readable again."""
    one = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    with server.tls() as connection:
        connection.sendall(one * 100)
        assert [(status, json.loads(body)["bytes"]) for status, body in read_answers(connection, 100)] == [
            (200, 3)
        ] * 100


def test_a_large_body_and_the_next_request_in_one_write(server: Server) -> None:
    body = bytes(range(256)) * (3 * 1024 * 4)
    head = f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with server.tls() as connection:
        connection.sendall(head + body + b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        first, second = read_answers(connection, 2)
    assert json.loads(first[1])["sha256"] == hashlib.sha256(body).hexdigest()
    assert json.loads(second[1])["bytes"] == 0


def test_a_body_of_7_mib_passes(server: Server) -> None:
    body = hashlib.sha256(b"seed").digest() * (7 * 1024 * 1024 // 32)
    seen = server.post(body=body)
    assert (seen["bytes"], seen["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())


def test_a_body_the_application_does_not_read(server: Server) -> None:
    with contextlib.closing(server.client()) as client:
        for path in ("/unread", "/echo"):
            client.request("POST", path, b"z" * 200_000)
            answer = client.getresponse()
            assert answer.status == 200
            answer.read()


def test_head_and_streamed_answers(server: Server) -> None:
    with contextlib.closing(server.client()) as client:
        client.request("HEAD", "/echo")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        client.request("GET", "/stream")
        answer = client.getresponse()
        assert (answer.read(), answer.getheader("Transfer-Encoding")) == (b"one two three", "chunked")
        client.request("GET", "/echo")
        assert client.getresponse().status == 200


def test_the_application_learns_when_the_request_came(server: Server) -> None:
    seen = server.post()
    assert 0.0 <= seen["age"] < HANG_SECONDS
    assert seen["waiting"] == 0
    assert seen["scheme"] == "https"


def test_no_forwarded_header_is_believed(server: Server) -> None:
    """The API server is the client, and no proxy speaks for it."""
    fields = b"X-Forwarded-Proto: http\r\nX-Forwarded-Protocol: tcp\r\nX-Forwarded-Ssl: off\r\nSCRIPT_NAME: /echo\r\nPATH_INFO: /boom\r\n"
    with server.tls() as connection:
        connection.sendall(b"GET /echo/x HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n")
        status, body = read_answers(connection, 1)[0]
    seen = json.loads(body)
    assert (status, seen["scheme"], seen["path"]) == (200, "https", "/echo/x")


@pytest.mark.parametrize("seed", range(3))
def test_any_split_into_writes_gives_the_same_answers(server: Server, seed: int) -> None:
    """Requests cut at random places, across TLS records and inside them."""
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice([0, 1, 100, 16_384, 20_000])) for _ in range(20)]
    stream = b"".join(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies
    )

    with server.tls() as connection:
        position = 0
        while position < len(stream):
            size = rng.choice([1, 2, 3, 50, 1000, 16_384, 40_000])
            connection.sendall(stream[position : position + size])
            position += size
        answers = read_answers(connection, len(bodies))
    assert [json.loads(body)["sha256"] for _, body in answers] == [hashlib.sha256(body).hexdigest() for body in bodies]


def test_peers_that_vanish_at_any_moment_leave_nothing_behind(tmp_path: Path, certificates: CertificatePaths) -> None:
    request = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"
    with running(tmp_path, certificates, "quick", idle_seconds=2) as server:
        descriptors = Path(f"/proc/{server.post()['pid']}/fd")
        if not descriptors.is_dir():
            pytest.skip("counts open files through /proc")
        until = time.monotonic() + HANG_SECONDS
        before = len(list(descriptors.iterdir()))
        for size in range(len(request) + 1):
            for reset in (False, True):
                plain, tls = server.tcp(), server.tls()
                plain.sendall(request[:size])
                tls.sendall(request[:size])
                for connection in (plain, tls):
                    if reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()
        while len(list(descriptors.iterdir())) > before and time.monotonic() < until:
            time.sleep(0.1)
        assert len(list(descriptors.iterdir())) <= before
        assert server.post_in_parallel(4) == [None] * 4
        assert "Traceback" not in server.log


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n", 431),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET / HTTP/7.3\r\n\r\n", 400),
        (b"\x00\x01\x02\r\n\r\n", 400),
    ],
)
def test_what_is_not_a_request_is_refused_and_closed(server: Server, request_bytes: bytes, status: int) -> None:
    with server.tls() as connection:
        connection.sendall(request_bytes)
        said = until_closed(connection)
    assert said.startswith(f"HTTP/1.1 {status} ".encode()), said
    assert b"Traceback" not in said
    assert server.post()["bytes"] == 2


@pytest.mark.parametrize("kind", ["RuntimeError", "FileNotFoundError", "SystemExit"])
def test_an_error_of_the_application_is_a_500_without_its_text(server: Server, kind: str) -> None:
    with contextlib.closing(server.client()) as client:
        client.request("GET", f"/boom?kind={kind}")
        answer = client.getresponse()
        text = answer.read()
    assert answer.status == 500
    assert b"secret detail" not in text
    assert b"Traceback" not in text
    assert "secret detail" in server.log


def test_expect_100_continue(server: Server) -> None:
    with server.tls() as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert connection.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert read_answers(connection, 1)[0][0] == 200


def test_too_many_bytes_in_memory_are_refused(
    tmp_path: Path, certificates: CertificatePaths, opened: contextlib.ExitStack
) -> None:
    with running(tmp_path, certificates, "small", threads=2) as small:
        connections = [opened.enter_context(small.tls()) for _ in range(8)]
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000001\r\n\r\n"
        for connection in connections:
            # One after the other: of several that come while the server stands still, any may be the first.
            connection.sendall(head)
            assert connection.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for connection in connections:
            connection.sendall(b"x" * 1_000_000)
        # Four such bodies fit: the slowest four made room, and a request that comes now is served.
        for connection in connections[:4]:
            assert b"HTTP/1.1 503 " in until_closed(connection)
        assert small.post(body=b"x" * 2_000_000)["bytes"] == 2_000_000
        for connection in connections[-2:]:
            connection.sendall(b"x")
            assert read_answers(connection, 1)[0][0] == 200
        opened.close()
        assert small.post(body=b"x" * 3_000_000)["bytes"] == 3_000_000, "closed connections give their bytes back"


def test_what_the_server_says_about_itself(server: Server) -> None:
    with contextlib.closing(server.client()) as client:
        client.request("GET", "/echo")
        answer = client.getresponse()
        answer.read()
        assert answer.getheader("Server") is None
        assert isinstance(client.sock, ssl.SSLSocket)
        assert client.sock.selected_alpn_protocol() == "http/1.1"
        assert client.sock.version() == "TLSv1.3"
    old = server.context()
    # Without this level OpenSSL's client side would refuse by itself and the server would not be asked.
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with server.tcp() as connection, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        old.wrap_socket(connection, server_hostname="localhost")


def test_not_tls_and_a_client_that_does_not_trust_us(server: Server) -> None:
    with server.tcp() as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until_closed(plain)
    with server.tcp() as connection, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")
    assert server.post()["bytes"] == 2


# Certificates and stopping ------------------------------------------------------------------------------------------


def test_a_new_certificate_serves_new_connections_without_restart(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = make_authority("test CA", now=now)
    paths = CertificatePaths(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    paths.ca.write_bytes(authority.certificate_pem)
    first, second, third = (make_serving_certificate(authority, dns_names=["localhost"], now=now) for _ in range(3))
    write_pair(first, paths.cert, paths.key)

    def served(server: Server) -> bytes:
        with server.tls() as connection:
            return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"").encode()

    with running(tmp_path, paths) as server, contextlib.closing(server.client()) as kept:
        kept.request("GET", "/echo")
        before = json.loads(kept.getresponse().read())
        assert served(server) == first.certificate_pem
        write_pair(second, paths.cert, paths.key)
        assert served(server) == second.certificate_pem
        paths.cert.write_bytes(third.certificate_pem)  # half of the pair
        assert served(server) == second.certificate_pem
        paths.key.write_bytes(third.key_pem)
        assert served(server) == third.certificate_pem
        kept.request("GET", "/echo")
        after = json.loads(kept.getresponse().read())
        assert (after["pid"], after["client_port"]) == (before["pid"], before["client_port"])


def test_sigterm_lets_a_request_finish(tmp_path: Path, certificates: CertificatePaths) -> None:
    mark = tmp_path / "started"
    with running(tmp_path, certificates) as server, server.tls(), contextlib.closing(server.client()) as kept:
        kept.request("GET", "/echo")
        kept.getresponse().read()
        thread, answers = in_background(lambda: server.post(f"/hold?seconds=2&mark={mark}"))
        until = time.monotonic() + HANG_SECONDS
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert server.stop() == 0
        thread.join(HANG_SECONDS)
        assert isinstance(answers[0], dict), answers
        with pytest.raises(OSError):
            server.tcp()


def test_sigterm_with_silent_and_half_sent_requests_ends(tmp_path: Path, certificates: CertificatePaths) -> None:
    with running(tmp_path, certificates, "quick") as server, server.tcp(), server.tls(), server.tls() as half:
        half.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
        time.sleep(0.2)
        half.sendall(b"2345678")
        assert server.stop() == 0


def test_a_body_finished_while_stopping_is_answered(tmp_path: Path, certificates: CertificatePaths) -> None:
    with running(tmp_path, certificates) as server, server.tls() as slow:
        slow.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert slow.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        slow.sendall(b"ab")
        stopping, codes = in_background(server.stop)
        time.sleep(0.5)
        slow.sendall(b"c")
        assert b"200 OK" in until_closed(slow)
        stopping.join(HANG_SECONDS)
        assert codes == [0]


def test_a_worker_without_its_arbiter_ends(tmp_path: Path, certificates: CertificatePaths) -> None:
    with running(tmp_path, certificates) as server:
        worker = server.post()["pid"]
        server.process.kill()
        server.process.wait()
        until = time.monotonic() + HANG_SECONDS
        while _alive(worker) and time.monotonic() < until:
            time.sleep(0.1)
        assert not _alive(worker)
        assert "Traceback" not in server.log


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# Settings ---------------------------------------------------------------------------------------------------------


def test_the_server_also_speaks_plain_http(tmp_path: Path, certificates: CertificatePaths) -> None:
    with running(tmp_path, certificates, certfile=None, keyfile=None) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_SECONDS)
        with contextlib.closing(client):
            for _ in range(3):
                client.request("POST", "/echo", b"abc")
                assert json.loads(client.getresponse().read())["scheme"] == "http"


def test_options() -> None:
    options = gunicorn_options(bind="127.0.0.1:1", workers=2, threads=8, certfile="c", keyfile="k", loglevel="debug")
    assert options["worker_class"] is MusterThreadWorker
    assert options["control_socket_disable"] is True
    assert options["preload_app"] is False
    assert options["keepalive"] > 90, "longer than Go keeps an idle connection"
    assert options["loglevel"] == "debug"
    with pytest.raises(ValueError, match="both or neither"):
        gunicorn_options(bind="127.0.0.1:1", workers=1, threads=1, certfile="c")


def test_nothing_is_left_in_the_home_directory(tmp_path: Path, certificates: CertificatePaths) -> None:
    """gunicorn 27 would open its control socket there, and a container's home is read-only."""
    with running(tmp_path, certificates, workers=2) as server:
        server.post()
        assert [path.name for path in tmp_path.iterdir()] == ["gunicorn.log"]


def test_an_unknown_setting_ends_with_a_message(tmp_path: Path, certificates: CertificatePaths) -> None:
    with pytest.raises(AssertionError, match="no_such_setting"), running(tmp_path, certificates, no_such_setting=1):
        pass
