"""`python -m tests.bench.quota`: creating Jobs under one hot TierQuota, with three replicas, beside ResourceQuota.

One API server, no controllers, no scheduler, the same Jobs from the same 50 clients, in turns within one run:

- `ResourceQuota`: a plain object count, `count/jobs.batch`, no webhook: what kube-apiserver's own quota costs;
- `TierQuota`: each Job is charged by Muster, three replicas behind one address.

The machine does everything at once: clients, API server, etcd and Muster. The ratio is the result, not the rates.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.builders import GPU, resource_quota
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.quota_cluster import Replicas, gold, persistent, quota

CLIENT_COUNT = 50
JOB_COUNT = 600
TURN_COUNT = 3
REPLICA_COUNT = 3


@dataclass(frozen=True)
class Turn:
    """One load: creations per second, and the latency of a creation in ms."""

    rate: float
    p50: float
    p99: float


def load(cluster: Cluster, namespace: str, job_count: int = JOB_COUNT) -> Turn:
    clients = [cluster.api_as(f"user-{number}", ("system:masters",)) for number in range(4)]
    took: list[float] = []
    statuses: Counter[int] = Counter()

    def one(number: int) -> None:
        raw = gold(f"j-{number}").dict()
        started = time.monotonic()
        statuses[persistent(clients[number % 4], raw, namespace, 60).status] += 1
        took.append((time.monotonic() - started) * 1000)

    started = time.monotonic()
    with ThreadPoolExecutor(CLIENT_COUNT) as threads:
        list(threads.map(one, range(job_count)))
    seconds = time.monotonic() - started
    assert statuses == {201: job_count}, statuses
    return Turn(job_count / seconds, *percentiles(took))


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
    with ControlPlane(options) as cluster:
        plain = [_plain(cluster)]
        with Replicas(cluster, directory / "replicas", REPLICA_COUNT) as replicas:
            _charged(cluster, "warm")
            before = {name: counter(replicas, f"muster_quota_{name}") for name in ("rounds", "orders", "conflicts")}
            known = len(judged(replicas.registration.log))
            charged = []
            for turn in range(TURN_COUNT):
                charged.append(_charged(cluster, f"hot-{turn}"))
                replicas.registration.unregister()
                plain.append(_plain(cluster))
                replicas.registration.register()
            counts = {name: counter(replicas, f"muster_quota_{name}") - before[name] for name in before}
            charge = percentiles(judged(replicas.registration.log)[known:])
    report(plain[1:], charged, counts, charge)


def _plain(cluster: Cluster) -> Turn:
    """ResourceQuota has no controller here to fill in its status: that is done by hand."""
    namespace = cluster.new_namespace("plain")
    hard = {"count/jobs.batch": "100000"}
    cluster.api.create(resource_quota("count", **hard).namespace(namespace).dict(), namespace).expect(201)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/count/status"
    status = {"status": {"hard": hard, "used": {"count/jobs.batch": "0"}}}
    cluster.api.patch(path, status).expect(200)
    time.sleep(2)  # the API server reads quotas from its own cache, and lets Jobs pass that come before it
    turn = load(cluster, namespace)
    used = cluster.api.get(path).expect()["status"]["used"]["count/jobs.batch"]
    assert used == str(JOB_COUNT), used
    return turn


def _charged(cluster: Cluster, name: str) -> Turn:
    namespace = cluster.new_namespace(name)
    with quota(cluster, namespace, [namespace], {GPU: 100_000}):
        return load(cluster, namespace)


def report(plain: list[Turn], charged: list[Turn], counts: dict[str, float], charge: tuple[float, float]) -> None:
    print(f"{CLIENT_COUNT} clients, {JOB_COUNT} Jobs a turn, {TURN_COUNT} turns each, {REPLICA_COUNT} replicas")
    for name, turns in (("ResourceQuota", plain), ("TierQuota", charged)):
        rates = [turn.rate for turn in turns]
        p50, p99 = (statistics.median(getattr(turn, field) for turn in turns) for field in ("p50", "p99"))
        print(
            f"{name:>14}: {statistics.median(rates):6.0f} Jobs/s ({min(rates):.0f} to {max(rates):.0f}), "
            f"create p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        )
    ratio = statistics.median(turn.rate for turn in charged) / statistics.median(turn.rate for turn in plain)
    rounds = max(1.0, counts["rounds"])
    print(f"         ratio: {ratio:.2f} (goal: at least 0.50)")
    print(f"  judge+charge: p50 {charge[0]:.0f} ms, p99 {charge[1]:.0f} ms in Muster (goal: p99 under 250 ms)")
    print(
        f"        ledger: {counts['orders'] / rounds:.1f} charges a round, {100 * counts['conflicts'] / rounds:.0f} % of rounds in conflict"
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        run(Path(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
