"""The composition root: all real parts, put together as in a worker."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.edge.reviews import answer, pod, review
from webhook.settings import load_settings
from webhook.tls.reload import ReloadState
from webhook.wsgi import build, check

POLICY = """\
apiVersion: muster.dev/v1alpha1
kind: Policy
metadata: {name: test}
spec:
  rules:
    WAS101: {action: %s}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "group.yaml").write_text(
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: pg, namespace: team-a}\n"
        "spec: {schedulingPolicy: {gang: {minCount: 1}}}\n"
    )
    return tmp_path


def settings(folder: Path, **more: Any) -> Any:
    return load_settings(source=f"folder:{folder / 'facts'}", log_format="text", **more)


def impossible_job() -> dict[str, Any]:
    """8 Pods at once, 4 ever: WAS101."""
    spec = {
        "parallelism": 8,
        "completions": 4,
        "scheduling": {"schedulingPolicy": {"gang": {}}},
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
    }
    return pod("train") | {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


def test_a_folder_is_the_cluster(folder: Path) -> None:
    """A member Pod of a group that is there is admitted, an impossible Job is refused."""
    app = build(settings(folder))

    assert answer(app, review(pod(schedulingGroup={"podGroupName": "pg"})))["allowed"] is True
    response = answer(app, review(impossible_job()))
    assert response["allowed"] is False
    assert "[WAS101]" in response["status"]["message"]


def test_health_version_and_metrics_are_there(folder: Path) -> None:
    """All routes of a worker."""
    client = build(settings(folder)).test_client()

    assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/version", "/metrics")] == [200] * 4
    assert client.get("/version").get_json()["version"]


def test_a_changed_policy_is_followed_and_a_bad_one_is_not(folder: Path, capfdbinary: Any) -> None:
    """Without a restart; a bad file keeps the old policy and shows in the metrics."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY % "Deny")
    client = (app := build(settings(folder, policy=(policy,)))).test_client()
    first = answer(app, review(impossible_job()))
    assert first["allowed"] is False

    def rewrite(text: str) -> None:
        policy.write_text(text)
        os.utime(policy, ns=(time.time_ns(), time.time_ns()))
        time.sleep(1.05)  # the files are looked at once a second

    rewrite(POLICY % "Warn")
    second = answer(app, review(impossible_job()))
    rewrite(POLICY % "Wran")
    third = answer(app, review(impossible_job()))

    assert second["allowed"] is True
    assert second["auditAnnotations"]["policy"] != first["auditAnnotations"]["policy"]
    assert third["auditAnnotations"]["policy"] == second["auditAnnotations"]["policy"]
    assert b'muster_reload_failing{what="policy"} 1.0' in client.get("/metrics").data
    log = capfdbinary.readouterr().out
    assert b"policy reloaded" in log
    assert b"policy unusable" in log
    assert b"Wran" in log


def test_certificate_reloads_reach_the_metrics(folder: Path) -> None:
    """The TLS context tells whoever listens."""
    listeners: list[Any] = []
    client = build(settings(folder), listeners.append).test_client()

    for tell in listeners:
        tell(ReloadState(loads=1, error="the key does not belong to the certificate"))

    assert b'muster_reload_failing{what="certificate"} 1.0' in client.get("/metrics").data


def test_check_says_what_is_wrong_before_anything_starts(folder: Path) -> None:
    """With the file and the line."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY % "Deny")
    assert check(settings(folder, policy=(policy,))) == []

    policy.write_text(POLICY % "Nope")
    (problem,) = check(settings(folder, policy=(policy,)))
    assert "policy.yaml" in problem
    assert "Nope" in problem

    (folder / "facts" / "bad.yaml").write_text("a: [\n")
    (problem,) = check(settings(folder))
    assert "bad.yaml" in problem
