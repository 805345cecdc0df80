"""`python -m tests.bench.scheduler`: the engine beside the real kube-scheduler, same gang, same nodes, same run.

An impossible gang of 17 Pods in a rack of 16 nodes, on 5,120 nodes in 320 racks: what one attempt costs kube-scheduler
1.37.2 (its own metric `scheduler_podgroup_scheduling_algorithm_duration_seconds`), and what one decision with its
explanation costs Muster.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from tests.bench.feasibility import timed
from tests.cluster.cluster import RACK_LABEL, Cluster, rack_nodes
from tests.cluster.controlplane import ControlPlane
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, LeafDemand, PodDemand
from webhook.feasibility.result import Infeasible
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Snapshot

NODES_PER_RACK = 16
ATTEMPT_COUNT = 5
_METRIC = "scheduler_podgroup_scheduling_algorithm_duration_seconds"


def gang(member_count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(PodGroup, Pods), one rack for all."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": member_count}},
            "schedulingConstraints": {"topology": [{"key": RACK_LABEL}]},
        },
    }
    container = {"name": "c", "image": "pause:3.10", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"restartPolicy": "Never", "schedulingGroup": {"podGroupName": "train"}, "containers": [container]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"train-{index}"}, "spec": spec}
        for index in range(member_count)
    ]
    return group, pods


def scheduler_seconds(cluster: Cluster, member_count: int) -> float:
    """Mean seconds of one attempt, over at least ATTEMPT_COUNT attempts."""
    namespace = cluster.new_namespace("bench")
    before = [cluster.metric("kube-scheduler", f"{_METRIC}_{part}") for part in ("sum", "count")]
    group, pods = gang(member_count)
    cluster.api.create(group, namespace).expect(201)
    for pod in pods:
        cluster.api.create(pod, namespace).expect(201)

    def attempts() -> float:
        return cluster.metric("kube-scheduler", f"{_METRIC}_count") - before[1]

    cluster.wait_for(lambda: attempts() >= ATTEMPT_COUNT, 240, f"{ATTEMPT_COUNT} attempts of kube-scheduler")
    return (cluster.metric("kube-scheduler", f"{_METRIC}_sum") - before[0]) / attempts()


def engine_milliseconds(snapshot: Snapshot, member_count: int, runs: int) -> tuple[float, float, float]:
    """p50, p99, and p99 of cpu time, of one prepared decision, explanation included."""
    pod = PodDemand(count=member_count, request=(("nvidia.com/gpu", 8),))
    demand = Demand(name="train", root=LeafDemand(needed=member_count, topology_key=RACK_LABEL, pods=(pod,)))
    assert isinstance(evaluate(demand, snapshot), Infeasible)
    return timed(lambda: evaluate(demand, snapshot), runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--racks", type=int, default=320)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    with ControlPlane() as cluster:
        print(f"creating {given.racks * NODES_PER_RACK} nodes", file=sys.stderr)
        cluster.create_nodes(rack_nodes(given.racks, NODES_PER_RACK))
        raws = cluster.api.get("/api/v1/nodes").expect(200)["items"]
        begin = time.perf_counter()
        snapshot = build([{**raw, "apiVersion": "v1", "kind": "Node"} for raw in raws], Settings())
        print(f"snapshot of {len(raws)} nodes built in {time.perf_counter() - begin:.2f} s", file=sys.stderr)
        theirs = scheduler_seconds(cluster, NODES_PER_RACK + 1)
    p50, p99, cpu = engine_milliseconds(snapshot, NODES_PER_RACK + 1, given.runs)
    print(f"kube-scheduler, one attempt on {len(raws):,} nodes: {theirs * 1e3:.0f} ms")
    print(
        f"Muster, one decision with its explanation: p50 {p50:.3f} ms, p99 {p99:.3f} ms (p99 on the core {cpu:.3f} ms)"
    )
    print(f"ratio (p50): {theirs * 1e3 / p50:,.0f} times cheaper")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
