"""Child processes with a log file each, a readiness check, and no way to outlive us."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

_LAUNCHER: Final = Path(__file__).with_name("launch.py")
_POLL_SECONDS: Final = 0.05
_LOG_TAIL_LINES: Final = 25


class StartError(RuntimeError):
    """A component did not come up; the message holds the end of its log and where the whole log is."""


class PortTakenError(StartError):
    """Somebody else took the port between our choosing it and the component's binding it."""


class Spawner:
    """Starts children from one thread that lives until `close`.

    The kernel ties a parent-death signal to the *thread* that forked, so a child started from a short-lived thread
    of a test would be killed when that thread ends.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cluster-spawner")

    def spawn(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Starts ``command`` in a session of its own (no Ctrl-C from our terminal), output appended to ``log``."""
        return self._executor.submit(self._spawn, command, log).result()

    def close(self) -> None:
        """Ends the thread. Children that still run are killed by the kernel."""
        self._executor.shutdown()

    @staticmethod
    def _spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
        with log.open("ab") as output:
            return subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class Component:
    """One running program of the control plane."""

    def __init__(self, name: str, command: Sequence[str], log: Path, spawner: Spawner) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._spawner = spawner
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs, else None."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        """True while the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Starts it and returns once ``ready()`` is true.

        Raises:
            PortTakenError: it exited because its port is in use; choose another and try again.
            StartError: it exited, or was not ready in time.
        """
        log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = self._spawner.spawn(self._command, self.log)
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            code = self._process.poll()
            if code is not None:
                kind = PortTakenError if "address already in use" in self._log_since(log_start) else StartError
                raise kind(f"{self.name} exited with code {code} while starting{self._log_tail()}")
            if time.monotonic() >= deadline:
                self.stop(0)
                raise StartError(f"{self.name} was not ready after {timeout_seconds:g} s{self._log_tail()}")
            time.sleep(_POLL_SECONDS)

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM to its process group, SIGKILL after ``grace_seconds``; returns when it is gone. Safe to repeat."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)
            try:
                process.wait(grace_seconds if grace_seconds > 0 else None)
            except subprocess.TimeoutExpired:
                _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        self._process = None

    def _log_since(self, offset: int) -> str:
        with self.log.open("rb") as handle:
            handle.seek(offset)
            return handle.read().decode(errors="replace")

    def _log_tail(self) -> str:
        lines = self._log_since(0).splitlines()[-_LOG_TAIL_LINES:]
        return f"; the end of {self.log}:\n" + "\n".join(lines)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signals the group that ``pid`` leads; a group that is gone already is fine."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def free_ports(count: int) -> list[int]:
    """Different TCP ports on 127.0.0.1 that were free a moment ago."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
