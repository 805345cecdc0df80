"""The chart on a real API server: installed by Helm, upgraded, and what its ServiceAccount may do."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.chart.conftest import CHART, Helm
from tests.cluster.client import JsonObject
from tests.cluster.cluster import Cluster
from tests.registration.counting import pod_group
from webhook.cluster.connection import Connection
from webhook.cluster.marks_map import MarksMap
from webhook.inventory.marks import Marks
from webhook.objects.kinds import KINDS

RELEASE = "muster"


@pytest.fixture
def installed(control_plane: Cluster, helm_command: Helm) -> Iterator[str]:
    """The namespace of a release. No kubelet: its Pods never run, and with failurePolicy Fail that is a dead Muster."""
    namespace = f"muster-{secrets.token_hex(4)}"
    environment = {"KUBECONFIG": str(control_plane.kubeconfig())}
    words = [RELEASE, CHART, "--namespace", namespace]
    result = helm_command("install", *words, "--create-namespace", **environment)
    assert result.returncode == 0, result.stderr
    yield namespace
    result = helm_command("uninstall", RELEASE, "--namespace", namespace, **environment)
    assert result.returncode == 0, result.stderr
    control_plane.delete_namespace(namespace)


def configuration(cluster: Cluster) -> JsonObject:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster"
    return cluster.api.get(path).expect()


def test_an_upgrade_keeps_the_certificate_and_takes_the_new_policy(
    control_plane: Cluster, helm_command: Helm, installed: str
) -> None:
    secret_path = f"/api/v1/namespaces/{installed}/secrets/muster-tls"
    before = control_plane.api.get(secret_path).expect()["data"]
    result = helm_command(
        "upgrade", RELEASE, CHART, "--namespace", installed, "--set", "policy.name=strict",
        KUBECONFIG=str(control_plane.kubeconfig()),
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert control_plane.api.get(secret_path).expect()["data"] == before
    webhooks = configuration(control_plane)["webhooks"]
    assert {webhook["clientConfig"]["caBundle"] for webhook in webhooks} == {before["ca.crt"]}
    config_map = control_plane.api.get(f"/api/v1/namespaces/{installed}/configmaps/muster-policy").expect()
    assert "name: strict" in config_map["data"]["policy.yaml"]


def test_the_high_water_marks_are_written_by_muster_and_kept_by_an_upgrade(
    control_plane: Cluster, helm_command: Helm, installed: str
) -> None:
    """With the rights that the chart gives, and a compare-and-swap."""
    marks = Marks(nodes={"a": {"nvidia.com/gpu": ((8, 1.0),)}})
    store = MarksMap(Connection(control_plane.service_account_kubeconfig(installed, RELEASE)), installed)
    empty, version = store.read()
    assert (empty, store.write(marks, version)) == (Marks(), True)
    assert store.write(Marks(), version) is False  # somebody wrote in between

    words = ["upgrade", RELEASE, CHART, "--namespace", installed, "--set", "policy.name=strict"]
    result = helm_command(*words, KUBECONFIG=str(control_plane.kubeconfig()))

    assert result.returncode == 0, result.stderr
    assert store.read()[0] == marks


def test_muster_can_be_installed_and_scaled_while_it_is_dead(
    control_plane: Cluster, installed: str, namespace: str
) -> None:
    """Its own namespace never waits for it, and neither does an ordinary Pod; a group does."""
    deployment = f"/apis/apps/v1/namespaces/{installed}/deployments/muster"
    control_plane.wait_for(
        lambda: not control_plane.api.create(pod_group("g"), namespace, dryRun="All").ok, 30, "the entry to be called"
    )

    for replicas in (0, 1):
        control_plane.api.patch(deployment, {"spec": {"replicas": replicas}}).expect()
        control_plane.wait_for(
            lambda replicas=replicas: len(control_plane.pods(installed)) == replicas, 60, f"{replicas} Pods of Muster"
        )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}}
    control_plane.api.create({**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}}, namespace).expect()
    control_plane.api.create(pod_group("own"), installed).expect()


def test_the_service_account_may_read_what_muster_reads_and_nothing_else(
    control_plane: Cluster, installed: str
) -> None:
    user = f"system:serviceaccount:{installed}:muster"

    def may(verb: str, group: str, resource: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
        }
        answer = control_plane.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).expect()
        return bool(answer["status"]["allowed"])

    read = ("get", "list", "watch")
    written = ("create", "update", "patch", "delete")
    assert [kind.plural for kind in KINDS if not all(may(verb, kind.group, kind.plural) for verb in read)] == []
    assert [kind.plural for kind in KINDS if any(may(verb, kind.group, kind.plural) for verb in written)] == []
    assert not any(may(verb, "", "secrets") for verb in read)


def test_every_object_is_one_the_api_server_takes_as_it_is(
    control_plane: Cluster, helm_command: Helm, namespace: str
) -> None:
    """Strict validation: no field is unknown to 1.37."""
    words = ["template", "strict", CHART, "--namespace", namespace, "--kube-version", "1.37.2"]
    text = helm_command(*words, "--set", "policy.name=strict").stdout
    result = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text, check=False)

    assert result.returncode == 0, result.stderr
