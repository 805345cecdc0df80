"""Keeps the processes of a replica running: gunicorn, without which there is no replica, and the agent beside it.

`python -m webhook.cli.supervise [DIRECTORY]` is what `muster serve` becomes; a directory is removed at the end. It imports
nothing but the standard library, since it lives as long as the replica and does nothing but wait.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

POLL_SECONDS: Final = 0.2
# gunicorn lets requests in flight finish for 25 s (gunicorn_options); a Pod gets 30 s.
STOP_SECONDS_MAX: Final = 28.0
RESTART_SECONDS_MAX: Final = 30.0
# A child that has run this long has started well: the next restart is quick again.
STEADY_SECONDS: Final = 60.0


@dataclass(slots=True)
class Child:
    """essential: its end is the end of all. Others are restarted, after 1, 2, 4, ... 30 s."""

    name: str
    command: Sequence[str]
    essential: bool
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started: float = field(default=0.0, init=False)
    restart_at: float | None = field(default=None, init=False)
    pause_seconds: float = field(default=1.0, init=False)

    def start(self) -> None:
        self.process = subprocess.Popen(self.command)
        self.started, self.restart_at = time.monotonic(), None

    def poll(self) -> int | None:
        return None if self.process is None else self.process.poll()


def run(children: Sequence[Child], report: Callable[[str], None]) -> int:
    """Start all and keep them until SIGTERM, SIGINT or the end of an essential one, whose exit code is returned."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    for child in children:
        child.start()
    code = 0
    while not stopping.wait(POLL_SECONDS):
        ended = next((child for child in children if child.essential and child.poll() is not None), None)
        if ended is not None:
            code = ended.poll() or 0
            report(f"{ended.name} ended with {code}")
            break
        for child in children:
            _revive(child, report)
    stopped = _stop(children)
    return code or stopped


def _revive(child: Child, report: Callable[[str], None]) -> None:
    code = child.poll()
    if child.essential or code is None:
        return
    now = time.monotonic()
    if child.restart_at is None:
        if now - child.started > STEADY_SECONDS:
            child.pause_seconds = 1.0
        child.restart_at = now + child.pause_seconds
        report(f"{child.name} ended with {code}, starts again in {child.pause_seconds:.0f} s")
        child.pause_seconds = min(child.pause_seconds * 2, RESTART_SECONDS_MAX)
    elif now >= child.restart_at:
        child.start()


def _stop(children: Sequence[Child]) -> int:
    """The essential ones first: they still use the others. Returns the first one's bad exit code, if any."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    code = 0
    for child in sorted(children, key=lambda child: not child.essential):
        process = child.process
        if process is None:
            continue
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if child.essential and process.returncode > 0:
            code = code or process.returncode
    return code


def to_stderr(line: str) -> None:
    print(f"muster: {line}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    """The children find their settings in the environment (webhook/cli/serve.py)."""
    this = (sys.executable, "-P", "-m", "webhook.cli.serve")
    children = [
        Child("gunicorn", (*this, "gunicorn"), essential=True),
        Child("agent", (*this, "agent"), essential=False),
    ]
    code = run(children, to_stderr)
    for directory in words:
        shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
