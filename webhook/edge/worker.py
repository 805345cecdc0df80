"""The gunicorn worker Muster runs in, and the settings it runs with.

Why an own worker: stock gunicorn 27 gthread over TLS freezes. It gives a connection to a pool thread as soon as one byte
has come (for TLS that byte is the ClientHello) and the thread then waits without limit for the handshake, the request
head and the body. Go clients, kube-apiserver among them, open TLS connections in advance and keep them silent: as many
of them as there are threads stop the worker. A close also lingers up to 2 s, and does so in the accept loop.

The rule here is one sentence: **a pool thread runs complete requests and nothing else.** Everything that depends on the
peer (handshake, head, body, lingering close) is done by the event loop on non-blocking sockets, each stage with a
deadline, so a silent or slow peer costs one file descriptor and its bytes, never a thread.

    accept -> HANDSHAKE -> IDLE -> HEAD -> BODY -> a pool thread -> IDLE (keep-alive) or LINGER -> closed

The loop reads until the TLS layer itself asks for more, and looks at the bytes it already holds before it goes back to
the poller: bytes that OpenSSL has decrypted do not make a socket readable.

Only requests with a Content-Length (or without a body) are served; `Transfer-Encoding: chunked` is answered 411. The
API server always sends a length, and one framing less is one class of attacks less.
"""

import contextlib
import enum
import errno
import io
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from gunicorn import sock as gunicorn_sock
from gunicorn.app.base import BaseApplication
from gunicorn.http import wsgi
from gunicorn.http.body import LengthReader
from gunicorn.http.errors import NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

RECEIVED_KEY: Final = "muster.received"
"""WSGI environ: time.monotonic() in seconds when the first byte of the request was read. A deadline counts from here,
because the API server's clock was already running while the request waited for a thread."""

WAITING_KEY: Final = "muster.waiting"
"""WSGI environ: how many complete requests waited for a pool thread when this one started (0 or more). The edge answers
"overload" by it."""

# Errors of accept() that mean "out of file descriptors or memory": they pass, so the worker must not die of them.
_ACCEPT_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_PASSING: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPROTO})


class Stage(enum.Enum):
    """What the loop waits for on a connection; a connection in a pool thread or closed has none of them."""

    NEW = "new"
    HANDSHAKE = "handshake"
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    LINGER = "linger"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(slots=True, eq=False)
class Connection:
    """One accepted connection. Owned by the event loop, except while `stage` is RUNNING: then by one pool thread.

    `client` and `server` are socket addresses. `buffer` holds decrypted bytes not yet part of a request.
    `received` and `deadline` are time.monotonic() seconds.
    """

    sock: socket.socket
    client: Any
    server: Any
    parser: Any
    buffer: bytearray = field(default_factory=bytearray)
    scanned: int = 0
    request: Any = None
    body_size: int = 0
    received: float = 0.0
    deadline: float = 0.0
    stage: Stage = Stage.NEW
    events: int = 0


class Lookups:
    """gunicorn's settings, each looked up once: they do not change in a worker, and gunicorn's own look-up, two calls and
    two searches, is made some twenty times for each request."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(self._cfg, name)
        return value


class PeerGoneError(Exception):
    """The peer went away or does not read. Told apart from an OSError of the application, which is a 500."""


class MusterResponse(wsgi.Response):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's response, without the Server header (it names the software and its version to anyone who asks) and
    with head and body in one write: one TLS record and one system call per answer instead of two."""

    headers_sent: bool
    _head = b""

    def default_headers(self) -> list[str]:
        return [line for line in super().default_headers() if not line.startswith("Server:")]

    def send_headers(self) -> None:
        if self.headers_sent:
            return
        lines = self.default_headers()
        lines.extend(f"{name}: {value}\r\n" for name, value in self.headers)
        self._head = ("".join(lines) + "\r\n").encode("latin-1")
        self.headers_sent = True

    def _emit_body(self, data: bytes) -> None:
        self._flush(b"%X\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def close(self) -> None:
        self.send_headers()
        self._flush(b"0\r\n\r\n" if self.chunked else b"")

    def _flush(self, data: bytes) -> None:
        data, self._head = self._head + data, b""
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise PeerGoneError(str(error)) from error


class MusterThreadWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gthread that never lends a thread to a peer that is silent or slow. Limits are per worker process.

    Sizes are bytes, durations seconds. `cfg.keepalive` is the idle limit; `cfg.worker_connections` is not used.
    """

    alive: bool  # base.Worker's: False once the worker is to stop

    # Go's TLSHandshakeTimeout is 10 s: a peer that is still not done after that has given up itself.
    HANDSHAKE_SECONDS_MAX: ClassVar[float] = 10.0
    # A webhook's head is under 1 KiB and comes in one packet; 10 s is only for a bad network.
    HEAD_SECONDS_MAX: ClassVar[float] = 10.0
    # timeoutSeconds of a webhook is at most 30: a body that takes longer has nobody waiting for its answer.
    BODY_SECONDS_MAX: ClassVar[float] = 30.0
    # Per write to a peer that does not read. A thread is waiting here, so this is short: an answer is a few KiB and
    # fits into the socket's buffer, only a peer that reads nothing at all ever gets here.
    RESPONSE_SECONDS_MAX: ClassVar[float] = 5.0
    # After an answer with "Connection: close": time for the peer to read it before a reset could destroy it.
    LINGER_SECONDS_MAX: ClassVar[float] = 2.0
    # A stopping worker keeps idle connections this long: a request may be on its way on one of them.
    STOP_IDLE_SECONDS_MAX: ClassVar[float] = 2.0
    # kube-apiserver keeps at most 25 idle connections per webhook and API server; 512 leaves room for a burst and
    # stays far below the usual limit of 1,024 file descriptors.
    CONNECTION_COUNT_MAX: ClassVar[int] = 512
    # Request line and header fields together. Go's own limit on the other side of a proxy is 1 MiB; the API server
    # sends some 300 bytes.
    HEAD_BYTES_MAX: ClassVar[int] = 64 * 1024
    # The API server accepts 3 MiB per object and sends at most two of them (object, oldObject) and options: 7 MiB must
    # pass. The edge has its own, exact limit; this one bounds memory.
    BODY_BYTES_MAX: ClassVar[int] = 8 * 1024 * 1024
    # All requests held in memory (being read, waiting, running): eight of the largest, thousands of usual ones.
    BUFFERED_BYTES_MAX: ClassVar[int] = 64 * 1024 * 1024
    # One recv(). A TLS record is at most 16 KiB, so a call never leaves part of a record behind in OpenSSL.
    RECV_BYTES: ClassVar[int] = 64 * 1024
    # How much one connection may read before the others get their turn.
    TURN_BYTES_MAX: ClassVar[int] = 512 * 1024
    # A wrong caBundle fails every handshake; one line per this many seconds is enough to find it.
    TLS_LOG_SECONDS_MIN: ClassVar[float] = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # One queue per stage. All entries of a queue have the same time limit, so its order is the order of deadlines.
        self._waiting: dict[Stage, dict[Connection, None]] = {
            stage: {} for stage in (Stage.HANDSHAKE, Stage.IDLE, Stage.HEAD, Stage.BODY, Stage.LINGER)
        }
        self._seconds_max = {
            Stage.HANDSHAKE: self.HANDSHAKE_SECONDS_MAX,
            Stage.IDLE: float(self.cfg.keepalive or self.HEAD_SECONDS_MAX),
            Stage.HEAD: self.HEAD_SECONDS_MAX,
            Stage.BODY: self.BODY_SECONDS_MAX,
            Stage.LINGER: self.LINGER_SECONDS_MAX,
        }
        self._lookups = Lookups(self.cfg)
        self._buffered_bytes = 0
        self._running_count = 0
        self._accept_not_before = 0.0
        self._idle_until: float | None = None
        self._tls_logged = -self.TLS_LOG_SECONDS_MIN

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:  # noqa: ARG003  # gunicorn's signature
        """Refuse settings this worker would silently ignore. Raises RuntimeError, which ends gunicorn with a message."""
        if cfg.protocol != "http" or cfg.proxy_protocol != "off" or cfg.http2_cleartext != "off":
            raise RuntimeError("MusterThreadWorker speaks HTTP/1.1 only: no uwsgi, PROXY protocol or HTTP/2")

    # The loop -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until told to stop, then let requests in flight finish within `graceful_timeout`."""
        self.poller.register(self.method_queue.fileno(), selectors.EVENT_READ, self.method_queue.run_callbacks)
        self.set_accept_enabled(True)
        while self.alive and self.is_parent_alive():
            self._turn()
        self._stop()

    def _turn(self) -> None:
        self.notify()
        now = time.monotonic()
        if self.alive and not self._accepting and now >= self._accept_not_before and self._has_room():
            self.set_accept_enabled(True)
        firsts = [next(iter(queue)).deadline for queue in self._waiting.values() if queue]
        # At least once a second: the arbiter watches the heartbeat, and we watch whether the arbiter lives.
        self.wait_for_and_dispatch_events(timeout=min([1.0, *(max(0.0, first - now) for first in firsts)]))
        self._expire(time.monotonic())

    def _stop(self) -> None:
        self.alive = False  # still set when the arbiter died
        now = time.monotonic()
        deadline = now + self.cfg.graceful_timeout
        # What the kernel has already accepted for us is served; what comes later is refused at once by a closed
        # listener, so that the client tries another replica, instead of hanging in a backlog nobody empties.
        for listener in self.sockets:
            listener.setblocking(False)
            for _ in range(self.CONNECTION_COUNT_MAX - self.nr_conns):
                if not self.accept(listener):
                    break
        self.set_accept_enabled(False)
        for listener in self.sockets:
            listener.close()
        self._idle_until = now + self.STOP_IDLE_SECONDS_MAX
        for stage in (Stage.HANDSHAKE, Stage.IDLE):
            for conn in self._waiting[stage]:
                conn.deadline = min(conn.deadline, self._idle_until)
        while self.nr_conns > 0 and time.monotonic() < deadline:
            self._turn()
        for queue in self._waiting.values():
            for conn in list(queue):
                self._close(conn)
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()

    def _expire(self, now: float) -> None:
        for stage, queue in self._waiting.items():
            while queue and (conn := next(iter(queue))).deadline <= now:
                if stage in (Stage.HEAD, Stage.BODY):
                    self.log.info("Request from %s not complete after %.0f s", conn.client, self._seconds_max[stage])
                    self._refuse(conn, "408 Request Timeout")
                else:
                    self._close(conn)

    # Accepting ------------------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self.nr_conns < self.CONNECTION_COUNT_MAX or any(self._waiting.values())

    def _evict(self) -> None:
        """Close the waiting connection that is missed least.

        Without it, as many silent or slow connections as the limit would lock the API server out until they expire.
        """
        unused = (conn for conn in self._waiting[Stage.IDLE] if conn.parser.req_count == 0)
        firsts = [next(iter(self._waiting[stage]), None) for stage in (Stage.HANDSHAKE, Stage.HEAD, Stage.BODY)]
        # The one that has kept us waiting longest: an honest peer is through these stages in milliseconds.
        slow = [conn for conn in (*firsts, next(unused, None)) if conn is not None]
        slowest = min(slow, key=lambda conn: conn.deadline - self._seconds_max[conn.stage], default=None)
        lingering, used = (next(iter(self._waiting[stage]), None) for stage in (Stage.LINGER, Stage.IDLE))
        victim = lingering or slowest or used
        if victim is not None:
            self._close(victim)

    def accept(self, listener: socket.socket) -> bool:
        """Take one connection from a listener. False when there was none or no room for it; raises nothing a peer can
        cause."""
        if not self._has_room():
            self.set_accept_enabled(False)
            return False
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in _ACCEPT_EXHAUSTED:
                self.log.error("Cannot accept a connection: %s", error)
                self._evict()
                self._accept_not_before = time.monotonic() + 0.1
                self.set_accept_enabled(False)
            elif error.errno not in _ACCEPT_PASSING:
                raise
            return False
        if self.nr_conns >= self.CONNECTION_COUNT_MAX:
            self._evict()
        sock.setblocking(False)
        # The parser gets each request's head from us and never reads by itself: its source is empty.
        conn = Connection(sock, client, listener.getsockname(), RequestParser(self._lookups, (), client))
        self.nr_conns += 1
        self._guarded(self._open, conn)
        return True

    def _open(self, conn: Connection) -> None:
        if self.cfg.is_ssl:
            context: ssl.SSLContext = gunicorn_sock.ssl_context(self.cfg)
            conn.sock = context.wrap_socket(conn.sock, server_side=True, do_handshake_on_connect=False)
        self._enter(conn, Stage.HANDSHAKE if self.cfg.is_ssl else Stage.IDLE)

    # One connection ---------------------------------------------------------------------------------------------------

    def _enter(self, conn: Connection, stage: Stage) -> None:
        """Wait for the peer, in this stage and no longer than it allows."""
        if conn.stage in self._waiting:
            del self._waiting[conn.stage][conn]
        conn.stage = stage
        conn.deadline = time.monotonic() + self._seconds_max[stage]
        if self._idle_until is not None and stage in (Stage.HANDSHAKE, Stage.IDLE):
            conn.deadline = min(conn.deadline, self._idle_until)
        self._waiting[stage][conn] = None
        self._watch(conn, selectors.EVENT_READ)

    def _leave(self, conn: Connection, stage: Stage) -> None:
        """The loop no longer waits for this connection."""
        if conn.stage in self._waiting:
            del self._waiting[conn.stage][conn]
        conn.stage = stage
        self._watch(conn, 0)

    def _watch(self, conn: Connection, events: int) -> None:
        if conn.events == events:
            return
        if not events:
            self.poller.unregister(conn.sock)
        elif conn.events:
            self.poller.modify(conn.sock, events, partial(self._on_ready, conn))
        else:
            self.poller.register(conn.sock, events, partial(self._on_ready, conn))
        conn.events = events

    def _close(self, conn: Connection) -> None:
        if conn.stage is Stage.CLOSED:
            return
        try:
            self._leave(conn, Stage.CLOSED)
        finally:
            self._release(len(conn.buffer))
            conn.buffer.clear()
            self.nr_conns -= 1
            _say_goodbye(conn.sock)
            with contextlib.suppress(OSError):
                conn.sock.close()

    def _guarded(self, step: Callable[[Connection], None], conn: Connection) -> None:
        """Run one step of a connection in the loop. Whatever happens to it ends this connection, not the worker."""
        try:
            step(conn)
        except ssl.SSLError as error:
            self._log_tls_error(conn, error)
            self._close(conn)
        except OSError as error:
            self.log.debug("Connection from %s lost: %s", conn.client, error)
            self._close(conn)
        except Exception:  # a bug of ours must not stop the loop for all other connections
            self.log.exception("Error on a connection from %s", conn.client)
            self._close(conn)

    def _log_tls_error(self, conn: Connection, error: ssl.SSLError) -> None:
        # "unknown ca" here is how a wrong caBundle in the webhook configuration shows on our side.
        now = time.monotonic()
        if isinstance(error, ssl.SSLEOFError) or now - self._tls_logged < self.TLS_LOG_SECONDS_MIN:
            self.log.debug("TLS with %s failed: %s", conn.client, error)
        else:
            self._tls_logged = now
            self.log.warning("TLS with %s failed: %s", conn.client, error)

    def _on_ready(self, conn: Connection, _sock: Any) -> None:
        self._guarded(self._advance, conn)

    def _advance(self, conn: Connection) -> None:
        if conn.stage is Stage.LINGER:
            self._drain(conn)
        elif conn.stage in self._waiting and (conn.stage is not Stage.HANDSHAKE or self._handshake(conn)):
            self._receive(conn)

    def _handshake(self, conn: Connection) -> bool:
        try:
            conn.sock.do_handshake()  # type: ignore[attr-defined]  # an SSLSocket in this stage
        except ssl.SSLWantReadError:
            self._watch(conn, selectors.EVENT_READ)
            return False
        except ssl.SSLWantWriteError:
            self._watch(conn, selectors.EVENT_WRITE)
            return False
        self._enter(conn, Stage.IDLE)
        return True

    def _receive(self, conn: Connection) -> None:
        """Read what has come and start the request when it is complete. Never waits."""
        turn_bytes = 0
        while not self._take_request(conn):
            if conn.stage not in (Stage.IDLE, Stage.HEAD, Stage.BODY):
                return
            # Leaving is safe only with nothing left in the TLS layer: such bytes would not wake the poller.
            if turn_bytes >= self.TURN_BYTES_MAX and not _pending_bytes(conn.sock):
                return
            try:
                data = conn.sock.recv(self.RECV_BYTES)
            except (ssl.SSLWantReadError, BlockingIOError):
                self._watch(conn, selectors.EVENT_READ)
                return
            except ssl.SSLWantWriteError:
                self._watch(conn, selectors.EVENT_WRITE)
                return
            if not data:
                self._close(conn)
                return
            turn_bytes += len(data)
            conn.buffer += data
            self._buffered_bytes += len(data)
            while self._buffered_bytes > self.BUFFERED_BYTES_MAX:
                self.log.warning("Requests in memory exceed %d bytes, refusing one", self.BUFFERED_BYTES_MAX)
                # The slowest body first: who fills the memory and sends no more must not push out everybody else.
                victim = next(iter(self._waiting[Stage.BODY]), conn)
                self._refuse(victim, "503 Service Unavailable")
                if victim is conn:
                    return

    def _take_request(self, conn: Connection) -> bool:
        """Start the request at the front of the buffer. False when it is not complete (or the connection is over).

        One that is there as a whole goes from IDLE to RUNNING: only what is missing is waited for, in HEAD or BODY.
        """
        if conn.stage is Stage.IDLE:
            if not conn.buffer:
                return False
            conn.received = time.monotonic()
            conn.scanned = 0
        if conn.stage in (Stage.IDLE, Stage.HEAD):
            size = _head_size(conn.buffer, conn.scanned)
            if size == 0:
                conn.scanned = max(0, len(conn.buffer) - 3)
                if len(conn.buffer) > self.HEAD_BYTES_MAX:
                    self._refuse(conn, "431 Request Header Fields Too Large")
                elif conn.stage is Stage.IDLE:
                    self._enter(conn, Stage.HEAD)
                return False
            if not self._parse_head(conn, size):
                return False
        elif conn.stage is not Stage.BODY:
            return False
        if len(conn.buffer) < conn.body_size:
            if conn.stage is not Stage.BODY:
                self._enter(conn, Stage.BODY)
            return False
        # The bytes behind the body stay: they are the next, pipelined request.
        conn.request.body = io.BytesIO(bytes(memoryview(conn.buffer)[: conn.body_size]))
        del conn.buffer[: conn.body_size]
        self._leave(conn, Stage.RUNNING)
        self._running_count += 1
        self.enqueue_req(conn)
        return True

    def _parse_head(self, conn: Connection, size: int) -> bool:
        """Parse the request head of `size` bytes at the front of the buffer; False when it was refused."""
        conn.parser.unreader.unread(bytes(memoryview(conn.buffer)[:size]))
        del conn.buffer[:size]
        self._release(size)
        try:
            request = next(conn.parser)
        except (StopIteration, NoMoreData):
            self._close(conn)
            return False
        except Exception as error:  # noqa: BLE001  # gunicorn's parse errors have no common base; it answers 4xx, or 500 and a log
            self.handle_error(None, conn.sock, conn.client, error)
            self._linger(conn)
            return False
        reader = request.body.reader
        if not isinstance(reader, LengthReader):
            self._refuse(conn, "411 Length Required")
            return False
        if reader.length > self.BODY_BYTES_MAX:
            self._refuse(conn, "413 Content Too Large")
            return False
        if request._expected_100_continue:  # noqa: SLF001  # gunicorn would send it only when the application starts
            request._expected_100_continue = False  # noqa: SLF001
            if len(conn.buffer) < reader.length:
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        conn.request = request
        conn.body_size = reader.length
        return True

    def _release(self, size: int) -> None:
        self._buffered_bytes -= size

    # Ending a connection ----------------------------------------------------------------------------------------------

    def _refuse(self, conn: Connection, status: str) -> None:
        """Answer without the application, then close. Best effort: a peer that cannot take it just sees the close."""
        text = status.encode() + b"\n"
        head = (
            f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        try:
            conn.sock.send(head.encode() + text)
        except OSError as error:
            self.log.debug("Could not answer %s to %s: %s", status, conn.client, error)
        self._linger(conn)

    def _linger(self, conn: Connection) -> None:
        """Half-close and swallow what still comes, so that unread bytes do not turn into a reset that destroys the
        answer (RFC 9112, section 9.6). gunicorn does this too, but waits for it in the accept loop."""
        self._release(len(conn.buffer))
        conn.buffer.clear()
        _say_goodbye(conn.sock)
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
            return
        self._enter(conn, Stage.LINGER)

    def _drain(self, conn: Connection) -> None:
        for _ in range(self.TURN_BYTES_MAX // self.RECV_BYTES):
            try:
                data = conn.sock.recv(self.RECV_BYTES)
            except (ssl.SSLWantReadError, BlockingIOError):
                return
            if not data:
                self._close(conn)
                return

    # Requests ---------------------------------------------------------------------------------------------------------

    def handle(self, conn: Connection) -> bool:
        """Run one complete request. In a pool thread; returns whether the connection can take another one."""
        try:
            conn.sock.settimeout(self.RESPONSE_SECONDS_MAX)
            return self.handle_request(conn.request, conn)
        except PeerGoneError as error:
            self.log.debug("Could not answer %s: %s", conn.client, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the last resort: logged, answered 500
            self.handle_error(conn.request, conn.sock, conn.client, error)
        return False

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Call the application and write its answer. Raises PeerGoneError, and what the application raises as long as
        nothing of the answer has been sent."""
        started = time.monotonic()
        response, environ = wsgi.create(
            req, conn.sock, conn.client, conn.server, self._lookups, response_class=MusterResponse
        )
        environ["wsgi.multithread"] = True
        environ[RECEIVED_KEY] = conn.received
        environ[WAITING_KEY] = max(0, self._running_count - self.cfg.threads)
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("Restarting the worker after %d requests", self.nr)
            self.alive = False
        if not self.alive or not self.cfg.keepalive:
            response.force_close()
        chunks: Any = ()
        try:
            chunks = self.wsgi(environ, response.start_response)
            for chunk in chunks:
                response.write(chunk)
            response.close()
        except PeerGoneError:
            raise
        except Exception:  # half an answer is on the wire: a second one would corrupt it
            if not response.headers_sent:
                raise
            self.log.exception("Error after the answer had begun")
            return False
        finally:
            self.log.access(response, req, environ, timedelta(seconds=time.monotonic() - started))
            if hasattr(chunks, "close"):
                chunks.close()
        return not response.should_close()

    def finish_request(self, conn: Connection, fs: "Future[bool]") -> None:
        """Take a connection back from its thread. In the loop."""
        self._running_count -= 1
        self._release(conn.body_size)
        conn.request, conn.body_size = None, 0
        self._guarded(
            self._reuse if not fs.cancelled() and fs.exception() is None and fs.result() else self._hang_up, conn
        )

    def _reuse(self, conn: Connection) -> None:
        conn.sock.setblocking(False)
        self._enter(conn, Stage.IDLE)
        # Not back to the poller yet: the next request may already be in the buffer or decrypted in the TLS layer.
        self._receive(conn)

    def _hang_up(self, conn: Connection) -> None:
        conn.sock.setblocking(False)
        self._linger(conn)


def _head_size(buffer: bytearray, start: int) -> int:
    """Size in bytes of the complete request head at the front of the buffer, 0 when its end has not come.

    A bare LF LF counts as an end too, so that the parser can refuse it now instead of a timeout later.
    """
    end = buffer.find(b"\r\n\r\n", start)
    if end >= 0:
        return end + 4
    end = buffer.find(b"\n\n", start)
    return end + 2 if end >= 0 else 0


def _pending_bytes(sock: socket.socket) -> int:
    return sock.pending() if isinstance(sock, ssl.SSLSocket) else 0


def _say_goodbye(sock: socket.socket) -> None:
    """Send the TLS close_notify on a non-blocking socket, if that is possible now; never waits or raises."""
    if isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0:
        # Want-read (their close_notify has not come), or the peer is gone.
        with contextlib.suppress(OSError, ValueError):
            sock.unwrap()


# Running gunicorn -------------------------------------------------------------------------------------------------------


def gunicorn_options(
    *,
    bind: str,
    workers: int,
    threads: int,
    certfile: str | None = None,
    keyfile: str | None = None,
    context_factory: Callable[[], ssl.SSLContext] | None = None,
    worker_tmp_dir: str | None = None,
    graceful_seconds: int = 25,
    idle_seconds: int = 120,
    log_level: str = "info",
    **overrides: Any,
) -> dict[str, Any]:
    """The gunicorn settings Muster runs with, as `{setting: value}`.

    `bind` is "address:port". `context_factory` is called for every new connection and must be cheap (webhook.tls.reload);
    without it gunicorn loads `certfile` and `keyfile` from disk each time. Without both files the server speaks plain
    HTTP. `worker_tmp_dir` must be on memory where the root file system is a disk or read-only (an emptyDir with medium
    Memory): the heartbeat is a file there, and a slow disk would look like a dead worker. `overrides` are further gunicorn
    settings (logger_class, hooks of the server and the worker; `pre_request` and `post_request` are not called). Raises ValueError when only one of the two files is given.
    """
    if (certfile is None) != (keyfile is None):
        raise ValueError("certfile and keyfile belong together: give both or neither")
    options: dict[str, Any] = {
        "bind": bind,
        "workers": workers,
        "threads": threads,
        "worker_class": MusterThreadWorker,
        "worker_tmp_dir": worker_tmp_dir,
        # Below the 30 s a Pod gets to stop, with a preStop sleep of a few seconds before it.
        "graceful_timeout": graceful_seconds,
        # Above the 90 s after which Go closes an idle connection: if we closed first, a POST could cross our close, and
        # Go does not repeat a POST.
        "keepalive": idle_seconds,
        # Heartbeat of the event loop, which never waits; requests in threads do not hold it up.
        "timeout": 30,
        # The application is built in the worker: nothing may start a thread before the fork.
        "preload_app": False,
        # gunicorn 27 would open a control socket below $HOME, which is read-only or missing in a container.
        "control_socket_disable": True,
        # The API server sends some ten short header fields and a path with one query parameter.
        "limit_request_line": 4094,
        "limit_request_fields": 64,
        "limit_request_field_size": 8190,
        # The same parser wherever Muster runs, whether or not an optional C parser is installed.
        "http_parser": "python",
        # The API server is the client, not a proxy: there is no header by which anyone says more than others, so that
        # nobody's address need be looked up in a list.
        "forwarded_allow_ips": "*",
        "forwarder_headers": "",
        "secure_scheme_headers": {},
        "loglevel": log_level,
        "accesslog": None,
        "proc_name": "muster",
    }
    if certfile is not None:
        options |= {"certfile": certfile, "keyfile": keyfile}
    if context_factory is not None:
        factory = context_factory
        options["ssl_context"] = lambda _config, _default: factory()
    return options | overrides


class MusterApplication(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn for one WSGI application: `MusterApplication(factory, gunicorn_options(...)).run()`.

    `factory` is called once in each worker, after the fork. `run` returns only by SystemExit. No command line,
    environment variable or gunicorn.conf.py is read. Unknown or invalid settings end the process with a message (exit 1).
    """

    def __init__(self, factory: "Callable[[], WSGIApplication]", options: dict[str, Any]) -> None:
        self._factory = factory
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> "WSGIApplication":
        return self._factory()
