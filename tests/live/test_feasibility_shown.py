"""What must be shown of feasibility: an impossible gang on a real control plane, without Muster and with it.

The short form has 200 nodes, the long one (`make prove`) 5,120 of at least 8 kB, and writes docs/feasibility-shown.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders import job
from tests.cases.support import kubectl_create, let_in
from tests.cluster.client import STRATEGIC_PATCH
from tests.cluster.cluster import RACK_LABEL, Cluster, NodeSpec, _in_parallel, rack_nodes
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import Muster
from tests.support.cases import policy_document

NODES_PER_RACK = 16
DOCUMENT = Path(__file__).parents[2] / "docs" / "feasibility-shown.md"
Start = Callable[[ControlPlaneOptions], ControlPlane]

_TEXT = """# An impossible gang, without Muster and with it

Recorded on {date} by tests/live/test_feasibility_shown.py (`make prove`): kube-scheduler 1.37.2, {nodes} nodes of {node_bytes} bytes in
{racks} racks of 16, one gang Job of 17 Pods with 8 GPUs each in one rack, on {cores} cores shared with other work (load average {load:.0f}).

Without Muster the Job is stored. In {watched:.0f} s kube-scheduler tried its group {attempts:.0f} times and spent {seconds:.1f} s of its one scheduling
thread on it ({each:.2f} s each); all 17 Pods stayed Pending:

```
{without}
```

With Muster, kubectl says:

```
{with_muster}
```

and the scheduler's attempts were {before:.0f} before and {after:.0f} after, {watched:.0f} s later. The same Job with 16 Pods is admitted, and all 16 are bound.

| measured in the same run | |
|---|---|
| from the start of `muster serve` to the first capacity denial | {ready:.1f} s |
| memory of all processes of the replica (sum of PSS) | {memory:.0f} MiB |
| the denial, as kubectl waits for it, kubectl's own start included | {kubectl_ms:.0f} ms |
| agent, while {storm_count} node heartbeats came in {storm_seconds:.1f} s | {agent_share:.0f} % of a core |
"""


@dataclass
class Shown:
    """What one run saw."""

    without: str
    with_muster: str
    attempts: float
    seconds: float
    watched: float
    before: float
    after: float
    ready: float
    memory: float
    kubectl_ms: float


def gang(count: int) -> dict[str, Any]:
    made = job("train").parallelism(count).completions(count).gang().disruption("all").gpu(8).topology(RACK_LABEL)
    raw = made.dict()
    del raw["metadata"]["namespace"]
    return raw


def attempts(cluster: Cluster) -> tuple[float, float]:
    """(attempts on groups, seconds spent on them)."""
    return (
        cluster.metric("kube-scheduler", "scheduler_podgroup_schedule_attempts_total"),
        cluster.metric("kube-scheduler", "scheduler_podgroup_scheduling_algorithm_duration_seconds_sum"),
    )


def show(cluster: Cluster, directory: Path, watched: float, while_serving: Callable[[Muster], None]) -> Shown:
    """Plays both halves; the nodes are there already."""
    plain, guarded = cluster.new_namespace("plain"), cluster.new_namespace("guarded")
    let_in(cluster, plain)
    let_in(cluster, guarded)

    start_attempts, start_seconds = attempts(cluster)
    without = kubectl_create(cluster, plain, gang(17))
    cluster.wait_for(lambda: len(cluster.pods(plain)) == 17, 60, "17 Pods")
    time.sleep(watched)
    end_attempts, end_seconds = attempts(cluster)
    assert not cluster.bound_pods(plain)
    assert end_attempts > start_attempts
    pending = cluster.kubectl("get", "pods", "-n", plain, "--no-headers").stdout.splitlines()
    cluster.api.delete(f"/apis/batch/v1/namespaces/{plain}/jobs/train", {"propagationPolicy": "Foreground"})
    cluster.api.delete(f"/api/v1/namespaces/{plain}/pods", gracePeriodSeconds=0)
    cluster.wait_for(lambda: not cluster.pods(plain), 60, "the Pods of the first half to be gone")

    policy = policy_document({"cluster": {"inventoryClosed": "true"}})
    muster = Muster(cluster, directory, workers=2, inventory=True)
    with muster:
        started = time.monotonic()
        muster.start(policy)
        cluster.wait_for(lambda: refusal(cluster, guarded), 60, "Muster to know the nodes")
        ready = time.monotonic() - started
        before = attempts(cluster)[0]
        asked = time.monotonic()
        refused = kubectl_create(cluster, guarded, gang(17), check=False)
        kubectl_ms = (time.monotonic() - asked) * 1000
        time.sleep(watched)
        after = attempts(cluster)[0]
        assert refused.returncode != 0
        assert not cluster.pods(guarded)
        kubectl_create(cluster, guarded, gang(16))
        cluster.wait_for(lambda: len(cluster.bound_pods(guarded)) == 16, 60, "the gang that fits")
        memory = muster.memory_mib()
        while_serving(muster)
    return Shown(
        without=without.stdout + "\n".join([*pending[:2], f"({len(pending)} Pods)"]),
        with_muster=refused.stderr.strip(),
        attempts=end_attempts - start_attempts,
        seconds=end_seconds - start_seconds,
        watched=watched,
        before=before,
        after=after,
        ready=ready,
        memory=memory,
        kubectl_ms=kubectl_ms,
    )


def refusal(cluster: Cluster, namespace: str) -> bool:
    """Does a dry run of the impossible gang come back denied?"""
    answer = cluster.api_as("alice").create(gang(17), namespace, dryRun="All")
    return answer.status == 403 and "WAS501" in str(answer.body.get("message"))


def options() -> ControlPlaneOptions:
    return ControlPlaneOptions(
        disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition"), flow_control=False
    )


def test_an_impossible_gang_is_refused_before_the_scheduler_tries_it(
    start_control_plane: Start, tmp_path: Path
) -> None:
    """200 nodes: without Muster the scheduler tries again and again, with it never."""
    cluster = start_control_plane(options())
    cluster.create_nodes(rack_nodes(13, NODES_PER_RACK)[:200])

    shown = show(cluster, tmp_path, 3, lambda _: None)

    assert shown.after == shown.before
    assert (
        f'gang "train" needs 17 Pods of nvidia.com/gpu: 8 in one {RACK_LABEL}; the best, "rack-0", holds 16'
        in shown.with_muster
    )
    assert "minCount <= 16" in shown.with_muster


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_5120_nodes(start_control_plane: Start, tmp_path: Path) -> None:
    """The recorded form."""
    cluster = start_control_plane(options())
    filler = {f"filler.example.com/{i}": "x" * 200 for i in range(34)}
    specs = [
        NodeSpec(spec.name, labels=spec.labels, allocatable=spec.allocatable, annotations=filler)
        for spec in rack_nodes(320, NODES_PER_RACK)
    ]
    cluster.create_nodes(specs)
    node_bytes = len(cluster.api.text("/api/v1/nodes/rack-0-0"))
    storm: dict[str, float] = {}

    shown = show(cluster, tmp_path, 10, lambda muster: storm.update(heartbeats(cluster, muster, specs)))

    assert node_bytes >= 8000
    assert shown.after == shown.before
    DOCUMENT.write_text(
        _TEXT.format(
            **vars(shown),
            **storm,
            date=datetime.now(UTC).date().isoformat(),
            nodes=f"{len(specs):,}",
            node_bytes=f"{node_bytes:,}",
            racks=320,
            cores=os.cpu_count(),
            load=os.getloadavg()[1],
            each=shown.seconds / shown.attempts,
        )
    )
    assert shown.ready < 60


def heartbeats(cluster: Cluster, muster: Muster, specs: list[NodeSpec]) -> dict[str, float]:
    """Every node says once that it is alive; what that costs the agent."""

    def beat(spec: NodeSpec) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]}}
        cluster.api.patch(f"/api/v1/nodes/{spec.name}/status", patch, STRATEGIC_PATCH).expect()

    time.sleep(2)
    start, cpu = time.monotonic(), muster.agent_cpu_seconds()
    _in_parallel(beat, specs)
    time.sleep(2)
    seconds = time.monotonic() - start
    share = (muster.agent_cpu_seconds() - cpu) / seconds
    return {"storm_count": len(specs), "storm_seconds": seconds, "agent_share": share * 100}
