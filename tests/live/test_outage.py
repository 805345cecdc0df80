"""Never the outage: idle connections, a dead Muster, a killed Muster, an API server that restarts."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.builders import job
from tests.cluster.client import Response
from tests.cluster.cluster import Cluster
from tests.live.muster import Muster, running


@pytest.fixture
def muster(control_plane: Cluster, tmp_path: Path) -> Iterator[Muster]:
    with running(control_plane, tmp_path) as muster:
        yield muster


def pod_group(name: str) -> dict[str, Any]:
    """An object that always reaches Muster."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}},
    }


def create_all(cluster: Cluster, namespace: str, names: list[str], parallel: int) -> list[Response]:
    """Creates PodGroups, `parallel` at a time, each thread with a connection of its own; the answers."""

    def create(name: str) -> Response:
        return cluster.api.create(pod_group(name), namespace)

    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(create, names))


def test_idle_connections_hold_up_nobody(muster: Muster, control_plane: Cluster, namespace: str) -> None:
    """64 connections that say nothing (half of them after their TLS handshake), and 32 parallel creates through the
    real API server: with stock gunicorn gthread some fail at the 5 s timeout, here none does."""
    context = ssl.create_default_context(cafile=str(muster.certificates.ca))
    with contextlib.ExitStack() as stack:
        for index in range(64):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", muster.port)))
            if index % 2:
                stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

        answers = create_all(control_plane, namespace, [f"group-{index}" for index in range(320)], parallel=32)

    failed = [answer.body for answer in answers if answer.status != 201]
    assert failed == []


def test_with_muster_dead_ordinary_work_goes_on(
    muster: Muster, control_plane: Cluster, namespace: str, nodes: Any
) -> None:
    """failurePolicy Fail is in force and nobody answers: plain Jobs and Pods start, only what Muster guards waits."""
    nodes(1)
    muster.kill()

    plain = job("plain").dict()
    plain["metadata"]["namespace"] = namespace
    control_plane.api.create(plain, namespace).expect(201)
    refused = control_plane.api.create(pod_group("guarded"), namespace)

    assert refused.status == 500
    assert "failed calling webhook" in refused.body["message"]
    control_plane.wait_for(lambda: control_plane.bound_pods(namespace), 60, "the plain Job's Pod to be bound")


def test_a_replacement_serves_at_once(muster: Muster, control_plane: Cluster, namespace: str) -> None:
    """Killed with SIGKILL and started again on the same port: requests that found nobody fail, later ones do not."""
    muster.kill()
    assert control_plane.api.create(pod_group("lost"), namespace).status == 500

    muster._spawn()

    assert control_plane.api.create(pod_group("found"), namespace).status == 201
