"""A trap of 1.37 found while the rules were written: a plain Job with evictionResponders never starts.

With WorkloadWithJob on, the Job controller puts the Pods of every root Job into a PodGroup; the API server refuses a
Pod that has both schedulingGroup and evictionResponders.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.builders import job
from tests.cluster.controlplane import WAS_GATES, ControlPlane, ControlPlaneOptions
from tests.live.muster import running

RESPONDERS = [{"name": "example.com/drain", "priority": 1000}]


def test_eviction_responders(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], tmp_path: Path
) -> None:
    """Without Muster only events tell of it; with Muster the Job is refused with the reason."""
    gates = {**WAS_GATES, "EvictionRequestAPI": True}
    cluster = start_control_plane(ControlPlaneOptions(feature_gates=gates))
    namespace = cluster.new_namespace("eviction")
    cluster.grant("alice", namespace)
    raw = job("plain").set("spec.template.spec.evictionResponders", RESPONDERS).namespace(namespace).dict()

    cluster.api.create(raw, namespace).expect(201)
    message = cluster.wait_for(lambda: failed_create(cluster, namespace), 30, "a FailedCreate event")
    assert "schedulingGroup: Forbidden: may not be set when evictionResponders is set" in message
    assert cluster.pods(namespace) == []

    with running(cluster, tmp_path):
        answer = cluster.api_as("alice").create({**raw, "metadata": {"name": "second"}}, namespace)

    assert answer.status == 403
    assert "[WAS321]" in answer.body["message"]


def failed_create(cluster: ControlPlane, namespace: str) -> str:
    events = cluster.api.get(f"/api/v1/namespaces/{namespace}/events").expect()["items"]
    return next((event["message"] for event in events if event["reason"] == "FailedCreate"), "")
