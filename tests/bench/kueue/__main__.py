"""`make bench-kueue`: the feasibility engine beside the topology check of Kueue v0.17.0, on the same nodes, in one run.

main.go, beside this file, holds the nodes in Kueue's own cache and asks Kueue's own check. The two take turns in short
rounds, so that other work on the machine hits both alike. Kueue's check ends with a sentence, Muster's with its
bottleneck and suggestions that it has tried. "cpu" is the time of the asking thread on a core; Go's collector runs on
other threads and is not counted, to Kueue's advantage. Kueue makes a new snapshot for each scheduling cycle, Muster one
when a node changes: the snapshot has a column of its own and is not part of the check.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.bench.feasibility import NODES_PER_RACK, p50_p99, print_table, rack_gang, samples, uniform
from tests.cluster.build import cache_root, find_go
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Feasible, Infeasible
from webhook.inventory.snapshot import Snapshot

GANG_SIZES = (NODES_PER_RACK + 1, NODES_PER_RACK)  # never fits, fits
ROUND_COUNT = 10
HEAD = [
    "nodes",
    "gang",
    "answer",
    "Kueue check p50, ms",
    "p99",
    "p99 cpu",
    "Kueue snapshot p50, ms",
    "p99",
    "Muster p50, ms",
    "p99",
    "p99 cpu",
    "check / Muster, p50",
    "p99 cpu",
]


def build() -> Path:
    """Compiles main.go; Go's own cache makes the second time short."""
    program = cache_root() / "bench" / "kueue"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [str(find_go(sys.stderr).command), "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    print("building Kueue's check; with a cold Go cache this takes some minutes", file=sys.stderr)
    subprocess.run([*command, "-o", str(program), "."], cwd=Path(__file__).parent, env=environment, check=True)
    return program


class Kueue:
    """One running main.go: a cluster and a gang."""

    def __init__(self, program: Path, node_count: int, gang_size: int) -> None:
        command = [str(program), f"-nodes={node_count}", f"-rack-size={NODES_PER_RACK}", f"-gang={gang_size}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer = self._line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() and kind is None:
            raise RuntimeError(f"main.go ended with code {self._process.returncode}")

    def samples(self, what: str, runs: int) -> tuple[list[float], list[float]]:
        """Milliseconds of each "check" or "snapshot": by the clock, and on a core."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {runs}\n")
        self._process.stdin.flush()
        measured = self._line()
        return measured["wall_ms"], measured["cpu_ms"]

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"main.go ended with code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found


class Series:
    """Timings of one kind of run, over all rounds."""

    def __init__(self, take: Callable[[int], tuple[list[float], list[float]]]) -> None:
        self._take = take
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def round(self, runs: int) -> None:
        wall, cpu = self._take(runs)
        self.wall += wall
        self.cpu += cpu


def compare(program: Path, snapshot: Snapshot, gang_size: int, runs: int) -> list[str]:
    """One row of the table."""
    demand = rack_gang(gang_size)
    with Kueue(program, len(snapshot.nodes), gang_size) as kueue:
        ours = evaluate(demand, snapshot)
        assert isinstance(ours, Feasible | Infeasible), ours
        assert kueue.answer["fits"] == isinstance(ours, Feasible), (kueue.answer, ours)
        check, made, muster = (
            Series(lambda count: kueue.samples("check", count)),
            Series(lambda count: kueue.samples("snapshot", count)),
            Series(lambda count: samples(lambda: evaluate(demand, snapshot), count)),
        )
        kueue.samples("check", 20)
        samples(lambda: evaluate(demand, snapshot), 20)
        for _ in range(ROUND_COUNT):
            check.round(runs // ROUND_COUNT)
            muster.round(runs // ROUND_COUNT)
            made.round(max(runs // ROUND_COUNT // 5, 1))
    (check_p50, check_p99), (made_p50, made_p99), (p50, p99) = (p50_p99(one.wall) for one in (check, made, muster))
    check_cpu, cpu = (p50_p99(one.cpu)[1] for one in (check, muster))
    numbers = [check_p50, check_p99, check_cpu, made_p50, made_p99]
    return [
        f"{len(snapshot.nodes):,}",
        str(gang_size),
        kueue.answer["reason"] or "fits",
        *(f"{number:.1f}" for number in numbers),
        *(f"{number:.3f}" for number in (p50, p99, cpu)),
        f"{check_p50 / p50:,.0f}",
        f"{check_cpu / cpu:,.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, nargs="*", default=[5_120, 20_480])
    given = parser.parse_args()
    program = build()
    rows = [HEAD]
    for node_count in given.nodes:
        snapshot = uniform(node_count)
        rows += [compare(program, snapshot, gang_size, given.runs) for gang_size in GANG_SIZES]
    print_table(rows)


if __name__ == "__main__":
    main()
