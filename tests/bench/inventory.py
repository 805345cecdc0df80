"""`python -m tests.bench.inventory`: what the live inventory of one replica costs.

Starts `muster serve` with two workers over a server that lists and watches 5,120 Nodes of 8 kB (tests/bench/listserver.py), and
prints: seconds until /readyz says yes and until every answer knows the nodes, memory per process (PSS, shared pages divided
among those who share them), the agent's processor time in a heartbeat storm with the requests' latency before and during
it, and how long a change of one node takes to reach the answers. `--slices 10240` adds devices, `--pods 20480` running Pods,
`--claims 5000` claims that hold eight devices each, a tenth of which then give them back and take them again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.http import _cpu_seconds
from tests.bench.listserver import NODES_PER_RACK, RACK
from tests.edge.reviews import review
from tests.live.muster import _free_port, _status_kib
from webhook.tls.issue import ensure_development_certificates

NODE_COUNT = 5120
STORM_SECONDS = 10.0
GIVE_UP_SECONDS = 180.0
SURE_COUNT = 12
"""So many answers in a row, each on a connection of its own: both workers have given some."""


def gang(pod_count: int) -> bytes:
    """A Job of whole nodes that wants one rack."""
    container = {"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {
        "parallelism": pod_count,
        "completions": pod_count,
        "completionMode": "Indexed",
        "scheduling": {
            "schedulingPolicy": {"gang": {"minCount": pod_count}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a"}, "spec": spec}
    return json.dumps(review(job)).encode()


@dataclass
class Replica:
    """A running `muster serve`. started: when its first process was."""

    port: int
    pid: int
    started: float
    context: ssl.SSLContext
    ca: Path

    def is_ready(self) -> bool:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"https://localhost:{self.port}/readyz", context=self.context, timeout=2) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def judge(self, body: bytes) -> str:
        """The answer's words: "" where it was admitted without any; a reason where nobody answered."""
        request = urllib.request.Request(
            f"https://localhost:{self.port}/validate/submit?timeout=5s",
            data=body,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=10) as answer:
                response = json.loads(answer.read())["response"]
        except OSError as error:
            return f"no answer: {error}"
        return "; ".join([*response.get("warnings", ()), (response.get("status") or {}).get("message") or ""])

    def pids(self) -> dict[str, list[int]]:
        """By role: supervisor, arbiter, worker, agent."""
        found: dict[str, list[int]] = {"supervisor": [self.pid], "arbiter": [], "worker": [], "agent": []}
        for child in _children(self.pid):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found["agent" if b"agent" in words else "arbiter"].append(child)
        for arbiter in found["arbiter"]:
            found["worker"] += _children(arbiter)
        return found


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(what: Callable[[], bool], since: float) -> float:
    """Seconds from `since` until it is so."""
    while not what():
        if time.monotonic() - since > GIVE_UP_SECONDS:
            raise RuntimeError("it does not come to be")
        time.sleep(0.05)
    return time.monotonic() - since


@contextlib.contextmanager
def list_server(directory: Path, *counts: int) -> Iterator[str]:
    """Its URL; the kubeconfig is in the directory. counts: of nodes, slices, Pods, claims."""
    command = [sys.executable, "-m", "tests.bench.listserver", str(directory), *map(str, counts)]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: (directory / "url").exists() and bool((directory / "url").read_text()), time.monotonic())
        yield (directory / "url").read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def replica(directory: Path, kubeconfig: Path) -> Iterator[Replica]:
    """`muster serve` with two workers and a policy that calls the inventory closed."""
    certificates = ensure_development_certificates(directory / "certs")
    policy = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "bench"},
        "spec": {"cluster": {"inventoryClosed": True}},
    }
    (directory / "policy.yaml").write_text(json.dumps(policy))
    port = _free_port()
    command = [sys.executable, "-m", "webhook.cli.main", "serve", "--bind", f"127.0.0.1:{port}"]
    command += ["--policy", str(directory / "policy.yaml"), "--kubeconfig", str(kubeconfig), "--workers", "2"]
    command += ["--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key)]
    context = ssl.create_default_context(cafile=str(certificates.ca))
    with (directory / "serve.log").open("wb") as log:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ})
        try:
            yield Replica(port, process.pid, started, context, certificates.ca)
        finally:
            process.terminate()
            process.wait(40)


def _latencies(one: Replica, directory: Path, seconds: float) -> subprocess.Popen[bytes]:
    (directory / "body.json").write_bytes(gang(NODES_PER_RACK))
    words = [str(one.port), str(one.ca), str(directory / "body.json"), "2", str(seconds)]
    return subprocess.Popen([sys.executable, "-m", "tests.bench.load", *words], stdout=subprocess.PIPE)


def _words(load: subprocess.Popen[bytes]) -> str:
    out, _ = load.communicate()
    result = json.loads(out)
    p50, p99 = (statistics.quantiles(result["latencies"], n=100)[index] * 1000 for index in (49, 98))
    return f"{len(result['latencies'])} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms, {result['bad']} not admitted"


def measure(
    node_count: int, slice_count: int = 0, pod_count: int = 0, claim_count: int = 0, *, storms: bool = True
) -> None:
    """One replica from its start to its end; prints what was measured."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        directory = Path(name)
        (directory / "api").mkdir()
        with list_server(directory / "api", node_count, slice_count, pod_count, claim_count) as url:
            load = os.getloadavg()[0]
            with replica(directory, directory / "api" / "kubeconfig") as one:
                counts = f"{node_count} nodes, {slice_count} slices, {pod_count} Pods, {claim_count} claims"
                print(f"{counts}, load average {load:.1f}")
                _measure_start(one)
                if storms:
                    time.sleep(3)
                    _measure_storm(one, directory, url, node_count)
                if storms and claim_count:
                    _measure_claims(one, directory, url, claim_count // 10)


def _measure_start(one: Replica) -> None:
    print(f"  ready after {wait_for(one.is_ready, one.started):.1f} s", flush=True)
    too_many = gang(NODES_PER_RACK + 1)

    def knows() -> bool:
        return all("WAS501" in one.judge(too_many) for _ in range(SURE_COUNT))

    print(f"  every answer knows the nodes after {wait_for(knows, one.started):.1f} s", flush=True)
    processor = {role: sum(map(_cpu_seconds, pids)) for role, pids in one.pids().items()}
    print("  processor seconds so far: " + ", ".join(f"{role} {spent:.1f}" for role, spent in processor.items()))
    _print_memory(one)


def _print_memory(one: Replica) -> None:
    memory = {
        role: [_status_kib(pid, "smaps_rollup", "Pss:") / 1024 for pid in pids] for role, pids in one.pids().items()
    }
    total = sum(sum(each) for each in memory.values())
    parts = ", ".join(f"{role} {' + '.join(f'{mib:.0f}' for mib in each)}" for role, each in memory.items())
    print(f"  PSS {total:.0f} MiB: {parts}", flush=True)


def _poster(directory: Path, url: str) -> Callable[[str], None]:
    server = ssl.create_default_context(cafile=str(directory / "api" / "certs" / "ca.crt"))

    def post(path: str) -> None:
        urllib.request.urlopen(urllib.request.Request(url + path, method="POST"), context=server, timeout=120).read()

    return post


def _measure_claims(one: Replica, directory: Path, url: str, claim_count: int) -> None:
    """Claims that come and go all the time."""
    post = _poster(directory, url)
    pids = {role: found for role, found in one.pids().items() if role in ("agent", "worker")}
    load = _latencies(one, directory, STORM_SECONDS)
    before = {role: sum(map(_cpu_seconds, found)) for role, found in pids.items()}
    started = time.monotonic()
    post(f"/claims?updates={2 * claim_count}&seconds={STORM_SECONDS}")
    took = time.monotonic() - started
    print(f"  requests while claims come and go: {_words(load)}")
    spent = {role: (sum(map(_cpu_seconds, found)) - before[role]) / took for role, found in pids.items()}
    print(
        f"  {claim_count} claims gave devices back and took them in {took:.1f} s: agent {spent['agent']:.1%} of a core, "
        f"workers {spent['worker']:.1%}, requests included"
    )
    load = _latencies(one, directory, STORM_SECONDS)
    before_workers = sum(map(_cpu_seconds, pids["worker"]))
    print(f"  requests afterwards: {_words(load)}")
    print(
        f"  workers for these: {(sum(map(_cpu_seconds, pids['worker'])) - before_workers) / STORM_SECONDS:.1%} of a core"
    )
    _print_memory(one)


def _measure_storm(one: Replica, directory: Path, url: str, node_count: int) -> None:
    post = _poster(directory, url)
    (agent,) = one.pids()["agent"]

    def spent(seconds: float) -> float:
        before = _cpu_seconds(agent)
        time.sleep(seconds)
        return _cpu_seconds(agent) - before

    print(f"  agent, nothing happens: {spent(5) / 5:.1%} of a core")
    print(f"  requests before: {_words(_latencies(one, directory, STORM_SECONDS))}", flush=True)
    load = _latencies(one, directory, STORM_SECONDS)
    before, started = _cpu_seconds(agent), time.monotonic()
    post(f"/storm?updates={node_count}&seconds={STORM_SECONDS}")
    took = time.monotonic() - started
    print(f"  requests in the storm: {_words(load)}")
    time.sleep(1)
    print(f"  {node_count} heartbeats in {took:.1f} s: agent {(_cpu_seconds(agent) - before) / took:.1%} of a core")
    workers = one.pids()["worker"]
    before, busy = _cpu_seconds(agent), sum(map(_cpu_seconds, workers))
    post("/change")
    time.sleep(4)
    print(
        f"  one node changed: agent {_cpu_seconds(agent) - before:.2f} s of processor time, "
        f"workers {sum(map(_cpu_seconds, workers)) - busy:.2f} s"
    )
    _print_memory(one)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=NODE_COUNT)
    parser.add_argument("--slices", type=int, default=0)
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--claims", type=int, default=0)
    options = parser.parse_args()
    measure(options.nodes, options.slices, options.pods, options.claims)


if __name__ == "__main__":
    main()
