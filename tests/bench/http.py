"""`python -m tests.bench.http`: the whole path of a Pod review over HTTPS, as a ratio to a bare Flask view.

Both servers run gunicorn with our worker class, one worker of 8 threads and TLS, and are loaded in turn by 16 keep-alive
connections from another process, in short interleaved rounds: only figures of one run compare, and only as a ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.reviews import body, member_pod, world
from webhook.tls.issue import ensure_development_certificates

CONNECTION_COUNT = 16
GOAL = 0.6
START_SECONDS_MAX = 30.0
SERVERS = {"bare": "bare Flask view", "full": "Muster, full path"}


@dataclass
class Series:
    """What one server did, per round."""

    rates: list[float] = field(default_factory=list)
    cpu_microseconds: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    bad_count: int = 0

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def compare(round_count: int, seconds: float) -> dict[str, Series]:
    """Runs both servers and loads them in turn."""
    series = {which: Series() for which in SERVERS}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        directory = Path(name)
        certificates = ensure_development_certificates(directory / "certs")
        (directory / "facts").mkdir()
        for index, raw in enumerate(world()):
            (directory / "facts" / f"{index:03}.json").write_text(json.dumps(raw))
        (directory / "body.json").write_bytes(body(member_pod()))
        with contextlib.ExitStack() as stack:
            servers = {which: stack.enter_context(_server(which, directory)) for which in SERVERS}

            def load(which: str, for_seconds: float) -> None:
                port, pid = servers[which]
                words = (port, certificates.ca, directory / "body.json", CONNECTION_COUNT, for_seconds)
                _load(series[which], pid, [str(word) for word in words])

            for which in SERVERS:
                load(which, 1.0)
                series[which] = Series()  # the first second warms up
            for index in range(round_count):
                for which in SERVERS if index % 2 == 0 else reversed(SERVERS):
                    load(which, seconds)
    return series


def _load(series: Series, pid: int, words: list[str]) -> None:
    before = _cpu_seconds(pid)
    done = subprocess.run([sys.executable, "-m", "tests.bench.load", *words], stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    series.rates.append(len(result["latencies"]) / result["seconds"])
    series.cpu_microseconds.append((_cpu_seconds(pid) - before) / len(result["latencies"]) * 1e6)
    series.latencies += result["latencies"]
    series.bad_count += result["bad"]


@contextlib.contextmanager
def _server(which: str, directory: Path) -> Iterator[tuple[int, int]]:
    """A server process; gives its port and the process ID of its one worker."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.server", which, str(port), str(directory)], stdout=subprocess.DEVNULL
    )
    try:
        give_up = time.monotonic() + START_SECONDS_MAX
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"the {which} server did not start")
            time.sleep(0.1)
        time.sleep(1.0)  # gunicorn listens before its worker has built the application
        yield port, _child_of(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_SECONDS_MAX)


def _child_of(parent: int) -> int:
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


def _cpu_seconds(pid: int) -> float:
    """User and system time so far. Unlike the rate it does not suffer from what else the machine is doing."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    options = parser.parse_args()
    series = compare(options.rounds, options.seconds)
    ratios = [full / bare for bare, full in zip(series["bare"].rates, series["full"].rates, strict=True)]
    table = Table(
        title=f"Pod review of {len(body(member_pod())):,} bytes, {os.cpu_count()} cores, {options.rounds} rounds"
    )
    for column in (
        "server",
        "requests/s, median",
        "slowest - fastest",
        "CPU µs each",
        "p50 ms",
        "p99 ms",
        "not admitted",
    ):
        table.add_column(column, justify="left" if column == "server" else "right")
    for which, title in SERVERS.items():
        one = series[which]
        cpu = f"{statistics.median(one.cpu_microseconds):,.0f}"
        spread = f"{min(one.rates):,.0f} - {max(one.rates):,.0f}"
        p50, p99 = one.percentile_ms(0.5), one.percentile_ms(0.99)
        table.add_row(
            title, f"{statistics.median(one.rates):,.0f}", spread, cpu, f"{p50:.1f}", f"{p99:.1f}", str(one.bad_count)
        )
    Console().print(table)
    ratio = statistics.median(ratios)
    cpu_ratio = statistics.median(series["bare"].cpu_microseconds) / statistics.median(series["full"].cpu_microseconds)
    print(f"ratio: {ratio:.2f} (rounds: {', '.join(f'{one:.2f}' for one in ratios)}); goal: at least {GOAL}")
    print(f"ratio by CPU time: {cpu_ratio:.2f}")
    return 1 if any(one.bad_count for one in series.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
