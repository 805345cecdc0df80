"""The server's TLS context, renewed when the certificate files change.

Kubernetes mounts a Secret as a directory whose files are links through `..data`, and swaps that one link when the
Secret changes. `stat` follows links, so a swap shows as another inode. Other writers replace two files one after the
other, so a look may fall between them: a certificate and a key that do not match. The rule: a new pair is taken only
when it loads and matches, and until then the old pair goes on serving.

policy-server (which this follows) waits until both files have changed. Here a matching pair is enough, because a
certificate may be renewed for the same key (cert-manager's `rotationPolicy: Never`), and where it is not in a Secret
the key file then never changes.
"""

import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

CHECK_SECONDS_MIN: Final = 1.0
"""Seconds between two looks at the files: two stat calls a second, whatever the rate of connections."""

_Signature = tuple[tuple[int, int, int, int], ...]


class CertificateError(ValueError):
    """A certificate or key that cannot be used; the text names the files and the cause."""


@dataclass(frozen=True, slots=True)
class ReloadState:
    """What readiness and metrics show. `loads` counts successful loads (1 after the start). `error` says why the files
    as they are now are not in use; None when they are."""

    loads: int
    error: str | None


def server_context(cert_file: str | Path, key_file: str | Path) -> ssl.SSLContext:
    """A TLS 1.2+ server context for a certificate chain and its key (PEM files), offering http/1.1 by ALPN.

    Raises CertificateError when the files cannot be read, are not PEM, are encrypted, or do not match.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Renegotiation (TLS 1.2) lets a peer make us do handshakes for nothing; no client of ours needs it.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # kube-apiserver keeps no session cache: tickets would be two records of every handshake for nobody.
    context.num_tickets = 0
    try:
        context.load_cert_chain(cert_file, key_file, password=_refuse_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(f"certificate {cert_file} with key {key_file}: {_reason(error)}") from error
    return context


class ReloadingContext:
    """Callable that returns the server's current ssl.SSLContext; safe to call from any thread, once per connection.

    The first load happens in the constructor and raises CertificateError. Later errors keep the old context and show in
    `state`; `on_change` is told each new state once (it must be quick and must not raise). A context handed out is never
    changed, so open connections keep the certificate they began with.
    """

    def __init__(
        self,
        cert_file: str | Path,
        key_file: str | Path,
        *,
        check_seconds: float = CHECK_SECONDS_MIN,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[ReloadState], None] | None = None,
    ) -> None:
        self._paths = (str(cert_file), str(key_file))
        self._check_seconds = check_seconds
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._context = server_context(*self._paths)
        self._state = ReloadState(loads=1, error=None)
        self._check_at = clock() + check_seconds

    @property
    def state(self) -> ReloadState:
        """The outcome of the newest look at the files."""
        return self._state

    def __call__(self) -> ssl.SSLContext:
        """The context for a new connection. Looks at the files at most once in `check_seconds`; never raises."""
        if self._clock() >= self._check_at and self._lock.acquire(blocking=False):
            # Only one caller looks; the others go on with the context there is.
            try:
                self._check_at = self._clock() + self._check_seconds
                self._check()
            finally:
                self._lock.release()
        return self._context

    def _check(self) -> None:
        try:
            signature = self._signature()
            if signature == self._seen:
                self._set_state(ReloadState(self._state.loads, None))
                return
            context = server_context(*self._paths)
            # Changed again while it was read: what we hold may be a mixture; look again next time.
            if self._signature() != signature:
                return
        except CertificateError as error:
            # Not marked as seen: the next look tries again, for the other half of the pair may be on its way without
            # changing what we saw (clocks with coarse ticks give two writes one modification time).
            self._set_state(ReloadState(self._state.loads, str(error)))
            return
        self._seen, self._context = signature, context
        self._set_state(ReloadState(self._state.loads + 1, None))

    def _set_state(self, state: ReloadState) -> None:
        changed, self._state = state != self._state, state
        if changed and self._on_change is not None:
            self._on_change(state)

    def _signature(self) -> _Signature:
        try:
            stats = [os.stat(path) for path in self._paths]  # noqa: PTH116  # follows links, on purpose
        except OSError as error:
            raise CertificateError(
                f"certificate {self._paths[0]} with key {self._paths[1]}: {_reason(error)}"
            ) from error
        return tuple((stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def _refuse_password() -> NoReturn:
    # Without this OpenSSL asks for a password on the terminal and the process hangs.
    raise ValueError("the key is encrypted; give an unencrypted one")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if isinstance(error, ssl.SSLError):
        return f"not a usable PEM pair ({error.reason or error})"
    return str(error)
