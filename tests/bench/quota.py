"""`python -m tests.bench.quota`: creating Jobs under one hot TierQuota, with three replicas, beside ResourceQuota.

One API server, no controllers, no scheduler, the same Jobs from the same 50 clients, in turns within one run:

- `ResourceQuota`: a plain object count, `count/jobs.batch`, no webhook: what kube-apiserver's own quota costs;
- `TierQuota`: each Job is charged by Muster, three replicas behind one address;
- `judged only`: the same without any TierQuota: what the call of the webhook and the rules cost, and the ledger does not;
- `ledger alone`: the same number of charges from three ledgers with as many threads, without a webhook call, against the same
  API server, while the replicas' leader counts: charges per second.

The machine does everything at once: clients, API server, etcd and Muster. The ratio is the result, not the rates. Where the
cores are the limit it follows from the processor time that each Job takes, which is printed too and is less noisy.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

from tests.builders import GPU, resource_quota
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import cpu_seconds
from tests.live.quota_cluster import Replicas, books, gold, persistent, quota

CLIENT_COUNT = 50
JOB_COUNT = 600
TURN_COUNT = 3
REPLICA_COUNT = 3


@dataclass(frozen=True)
class Turn:
    """One load: creations per second, the latency of a creation in ms, and ms of processor time per Job: of Kubernetes (API
    server and etcd), of Muster, and of clients and front, which are this process."""

    rate: float
    p50: float
    p99: float
    kubernetes: float
    muster: float
    clients: float


@dataclass(frozen=True)
class Charges:
    """Charges per second, and the time of one in ms."""

    rate: float
    p50: float
    p99: float


def load(cluster: ControlPlane, replicas: Replicas | None, namespace: str, job_count: int = JOB_COUNT) -> Turn:
    clients = [cluster.api_as(f"user-{number}", ("system:masters",)) for number in range(4)]
    took: list[float] = []
    statuses: Counter[int] = Counter()

    def one(number: int) -> None:
        raw = gold(f"j-{number}").dict()
        started = time.monotonic()
        statuses[persistent(clients[number % 4], raw, namespace, 60).status] += 1
        took.append((time.monotonic() - started) * 1000)

    before = processor_ms(cluster, replicas)
    started = time.monotonic()
    with ThreadPoolExecutor(CLIENT_COUNT) as threads:
        list(threads.map(one, range(job_count)))
    seconds = time.monotonic() - started
    spent = [(now - then) / job_count for now, then in zip(processor_ms(cluster, replicas), before, strict=True)]
    assert statuses == {201: job_count}, statuses
    return Turn(job_count / seconds, *percentiles(took), *spent)


def processor_ms(cluster: ControlPlane, replicas: Replicas | None) -> tuple[float, float, float]:
    """Of Kubernetes, of Muster, and of this process, since each was started."""
    muster = sum(member.cpu_seconds() for member in replicas.members) if replicas is not None else 0.0
    return sum(map(cpu_seconds, cluster.pids().values())) * 1000, muster * 1000, time.process_time() * 1000


def percentiles(values: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


def judged(log: Path) -> list[float]:
    """Milliseconds that Muster's own request log gives for judging a created Job, the charge included."""
    return [
        float(json.loads(line)["judge_ms"])
        for line in log.read_text(errors="replace").splitlines()
        if line.startswith("{") and '"kind":"Job"' in line and '"operation":"CREATE"' in line
    ]


def counter(replicas: Replicas, name: str) -> float:
    """A counter, over all replicas."""
    texts = [member.get("/metrics")[1].decode() for member in replicas.members]
    return sum(float(value) for text in texts for value in re.findall(rf"^{name}_total (\S+)$", text, re.MULTILINE))


def run(directory: Path) -> None:
    options = ControlPlaneOptions(
        controllers=None, scheduler=False, flow_control=False, directory=directory / "control-plane"
    )
    turns: dict[str, list[Turn]] = {"ResourceQuota": [], "TierQuota": [], "judged only": []}
    with ControlPlane(options) as cluster:
        _plain(cluster, None)
        with Replicas(cluster, directory / "replicas", REPLICA_COUNT) as replicas:
            _charged(cluster, replicas, "warm")
            counts = dict.fromkeys(("rounds", "conflicts"), 0.0)
            times: list[float] = []
            alone: list[Charges] = []
            for turn in range(TURN_COUNT):
                before = {name: counter(replicas, f"muster_quota_{name}") for name in counts}
                known = len(judged(replicas.registration.log))
                turns["TierQuota"].append(_charged(cluster, replicas, f"hot-{turn}"))
                counts = {
                    name: counts[name] + counter(replicas, f"muster_quota_{name}") - before[name] for name in counts
                }
                times += judged(replicas.registration.log)[known:]
                alone.append(_ledger_alone(cluster, f"alone-{turn}"))
                turns["judged only"].append(load(cluster, replicas, cluster.new_namespace("judged")))
                replicas.registration.unregister()
                turns["ResourceQuota"].append(_plain(cluster, replicas))
                replicas.registration.register()
    report(turns, counts, percentiles(times), alone)


def _plain(cluster: ControlPlane, replicas: Replicas | None) -> Turn:
    """ResourceQuota has no controller here to fill in its status: that is done by hand."""
    namespace = cluster.new_namespace("plain")
    hard = {"count/jobs.batch": "100000"}
    cluster.api.create(resource_quota("count", **hard).namespace(namespace).dict(), namespace).expect(201)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/count/status"
    status = {"status": {"hard": hard, "used": {"count/jobs.batch": "0"}}}
    cluster.api.patch(path, status).expect(200)
    time.sleep(2)  # the API server reads quotas from its own cache, and lets Jobs pass that come before it
    turn = load(cluster, replicas, namespace)
    used = cluster.api.get(path).expect()["status"]["used"]["count/jobs.batch"]
    assert used == str(JOB_COUNT), used
    return turn


def _charged(cluster: ControlPlane, replicas: Replicas, name: str) -> Turn:
    namespace = cluster.new_namespace(name)
    with quota(cluster, namespace, [namespace], {GPU: 100_000}):
        return load(cluster, replicas, namespace)


def _ledger_alone(cluster: ControlPlane, name: str) -> Charges:
    namespace = cluster.new_namespace(name)
    with quota(cluster, namespace, [namespace], {GPU: 100_000}), contextlib.ExitStack() as stack:
        words = [str(cluster.kubeconfig()), "gold", namespace, str(CLIENT_COUNT // REPLICA_COUNT)]
        command = [sys.executable, "-m", "tests.bench.charges", *words, str(JOB_COUNT // REPLICA_COUNT)]
        ledgers = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(REPLICA_COUNT)
        ]
        for ledger in ledgers:
            assert ledger.stdout is not None
            assert ledger.stdout.readline() == "ready\n"
        started = time.monotonic()
        for ledger in ledgers:
            assert ledger.stdin is not None
            ledger.stdin.write("go\n")
            ledger.stdin.flush()
        took = [ms for ledger in ledgers for ms in json.loads(ledger.stdout.readline())["took_ms"]]  # type: ignore[union-attr]
        seconds = time.monotonic() - started
        for ledger in ledgers:
            assert ledger.wait(30) == 0  # it ends when all that it charged is in the books
        reserved = books(cluster, namespace)["reserved"][GPU]
        assert int(reserved) == JOB_COUNT + REPLICA_COUNT, reserved
    return Charges(len(took) / seconds, *percentiles(took))


def report(
    turns: dict[str, list[Turn]], counts: dict[str, float], charge: tuple[float, float], alone: list[Charges]
) -> None:
    print(f"{CLIENT_COUNT} clients, {JOB_COUNT} Jobs a turn, {TURN_COUNT} turns each, {REPLICA_COUNT} replicas")
    middle = {
        name: {field.name: statistics.median(getattr(turn, field.name) for turn in found) for field in fields(Turn)}
        for name, found in turns.items()
    }
    base = middle["ResourceQuota"]
    for name, found in turns.items():
        one = middle[name]
        rates = [turn.rate for turn in found]
        spent = one["kubernetes"] + one["muster"] + one["clients"]
        print(
            f"{name:>14}: {one['rate']:4.0f} Jobs/s ({min(rates):.0f} to {max(rates):.0f}), ratio {one['rate'] / base['rate']:.2f}; "
            f"create p50 {one['p50']:.0f} ms, p99 {one['p99']:.0f} ms; processor {spent:.1f} ms a Job "
            f"(Kubernetes {one['kubernetes']:.1f}, Muster {one['muster']:.1f}, clients {one['clients']:.1f})"
        )
    rate, p50, p99 = (
        statistics.median(values) for values in zip(*((c.rate, c.p50, c.p99) for c in alone), strict=True)
    )
    print(
        f"  ledger alone: {rate:4.0f} charges/s, ratio {rate / base['rate']:.2f}; charge p50 {p50:.0f} ms, p99 {p99:.0f} ms, "
        f"{CLIENT_COUNT // REPLICA_COUNT * REPLICA_COUNT} at a time"
    )
    rounds = max(1.0, counts["rounds"])
    print("          goal: a ratio of at least 0.50 with a TierQuota, p99 of judge and charge under 250 ms")
    print(f"  judge+charge: p50 {charge[0]:.0f} ms, p99 {charge[1]:.0f} ms in Muster")
    print(
        f"        ledger: {TURN_COUNT * JOB_COUNT / rounds:.1f} charges a round, {100 * counts['conflicts'] / rounds:.0f} % of rounds in conflict"
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        run(Path(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
