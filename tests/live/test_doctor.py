"""`muster doctor` against real control planes: one with everything on and Muster registered, one as it comes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cluster.client import object_path
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.cluster.processes import free_ports
from tests.live.muster import Muster, running
from webhook.cli.main import app
from webhook.policy.model import GATES

Findings = dict[str, list[dict[str, str]]]
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"
ALL_ON = ", ".join(f"{gate}: true" for gate in GATES)


def doctor(cluster: Cluster, *words: str | Path, user: str = "admin", exit_code: int) -> Findings:
    """The findings by check."""
    command = ["doctor", "--kubeconfig", cluster.kubeconfig(user), "-o", "json", *words]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert result.exit_code == exit_code, result.output
    found: Findings = {}
    for finding in json.loads(result.stdout)["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return found


def states(findings: Findings) -> dict[str, set[str]]:
    return {check: {finding["state"] for finding in found} for check, found in findings.items()}


def said(findings: Findings, check: str) -> str:
    return "\n".join(finding["message"] for finding in findings[check])


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(HEAD + f"spec: {{cluster: {{featureGates: {{{ALL_ON}}}}}}}")
    return path


@pytest.fixture
def cluster(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> ControlPlane:
    return start_control_plane(ControlPlaneOptions())


@pytest.fixture
def muster(cluster: ControlPlane, policy: Path, tmp_path: Path) -> Iterator[Muster]:
    with running(cluster, tmp_path) as muster:
        apply(cluster, muster, policy)
        yield muster


def apply(cluster: ControlPlane, muster: Muster, policy: Path) -> None:
    """As an admin does it: the tests' own registration has one entry more."""
    command = ["registration", "apply", "--policy", policy, "--kubeconfig", cluster.kubeconfig()]
    command += ["--url", f"https://127.0.0.1:{muster.port}", "--ca-file", muster.certificates.ca]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert result.exit_code == 0, result.output


def test_a_cluster_that_is_what_the_policy_says(cluster: ControlPlane, muster: Muster, policy: Path) -> None:
    found = doctor(cluster, "--policy", policy, exit_code=0)

    assert {state for of_check in states(found).values() for state in of_check} == {"ok"}, found
    assert "Kubernetes v1.37.2" in said(found, "api")
    assert "served in v1beta1 and v1alpha3, with composites" in said(found, "was-apis")
    assert {finding["message"].split(":")[0] for finding in found["gates"]} == set(GATES)
    assert "is what the policy renders" in said(found, "registration")
    assert "verifies as 127.0.0.1, and ends in" in said(found, "tls")
    assert 'judges namespace "default"' in said(found, "calls")
    assert cluster.api.get("/apis/batch/v1/jobs").expect()["items"] == [], "nothing is stored"


def test_what_is_wrong_with_objects_of_the_cluster(cluster: ControlPlane, muster: Muster, policy: Path) -> None:
    """Each fault in a cluster that is well otherwise."""
    namespace = cluster.new_namespace()
    muster.unregister()
    polite = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "polite"}}
    never = {**polite, "value": 0, "globalDefault": True, "preemptionPolicy": "Never"}
    # The API server calls an entry that is gone for a moment longer, and WAS141 refuses this class.
    cluster.wait_for(lambda: cluster.api.create(never).ok, 20, "the registration to be forgotten")
    apply(cluster, muster, policy)
    hard = {"count/podgroups.scheduling.k8s.io": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    cluster.api.create(quota, namespace).expect()
    cluster.api.create(stranger()).expect()

    found = doctor(cluster, "--policy", policy, exit_code=1)

    wrong = {check: of_check for check, of_check in states(found).items() if of_check != {"ok"}}
    assert wrong == {"default-class": {"fail"}, "group-quotas": {"fail"}, "pod-mutators": {"warn"}}, found
    assert '"polite" has preemptionPolicy "Never": no new Job that names no class gets a Pod' in said(
        found, "default-class"
    )
    assert f'"{namespace}/none"' in said(found, "group-quotas")
    assert '"stranger/pods.example.com"' in said(found, "pod-mutators")
    assert "deployments" not in said(found, "pod-mutators")


def test_what_is_wrong_with_the_registration(
    cluster: ControlPlane, muster: Muster, policy: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(HEAD + f"spec: {{guardedResources: [example.com/npu], cluster: {{featureGates: {{{ALL_ON}}}}}}}")

    assert 'the entry "submit.muster.dev" differs in matchConditions' in said(
        doctor(cluster, "--policy", other, exit_code=1), "registration"
    )

    second = cluster.api.get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster").expect()
    second["metadata"] = {"name": "muster-again"}
    cluster.api.create(second).expect()
    found = doctor(cluster, "--policy", policy, exit_code=1)
    assert 'by several ValidatingWebhookConfigurations: "muster", "muster-again"' in said(found, "registration")
    cluster.api.delete(object_path(second)).expect()

    muster.kill()
    found = doctor(cluster, "--policy", policy, exit_code=1)
    assert states(found)["registration"] == {"ok"}
    assert "is not reached from here" in said(found, "tls")
    assert "the API server does not reach Muster" in said(found, "calls")

    muster.unregister()
    found = doctor(cluster, "--policy", policy, exit_code=1)
    assert "nothing is judged" in said(found, "registration")
    assert "tls" not in found


def test_a_ca_bundle_that_did_not_sign_the_certificate(
    cluster: ControlPlane, muster: Muster, policy: Path, tmp_path: Path
) -> None:
    with Muster(cluster, tmp_path / "another") as another:  # never started: its own CA is all that is wanted
        command = ["registration", "apply", "--policy", policy, "--kubeconfig", cluster.kubeconfig()]
        command += ["--url", f"https://127.0.0.1:{muster.port}", "--ca-file", another.certificates.ca]
        assert CliRunner().invoke(app, [str(word) for word in command]).exit_code == 0

        found = doctor(cluster, "--policy", policy, exit_code=1)

    assert states(found)["registration"] == {"ok"}
    assert "does not verify as 127.0.0.1" in said(found, "tls")


def test_a_cluster_as_it_comes_against_a_policy_that_says_otherwise(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], policy: Path
) -> None:
    stock = start_control_plane(ControlPlaneOptions(feature_gates={}, runtime_config={}))

    found = doctor(stock, "--policy", policy, exit_code=1)
    assert states(found)["gates"] == {"fail"}
    assert len(found["gates"]) == len(GATES)
    assert "off in kube-apiserver, declared on in the policy" in said(found, "gates")
    assert "this cluster has no PodGroups" in said(found, "was-apis")
    assert states(doctor(stock, exit_code=1))["gates"] == {"ok"}, "not declared, and off"


def test_gates_that_the_policy_does_not_declare(cluster: ControlPlane) -> None:
    found = doctor(cluster, exit_code=1)

    assert states(found)["gates"] == {"warn"}
    assert "on in kube-apiserver, not declared in the policy" in said(found, "gates")


def test_who_may_read_nothing_is_told_so(cluster: ControlPlane, policy: Path) -> None:
    """Nothing is claimed to be well that was not seen."""
    found = doctor(cluster, "--policy", policy, user="alice", exit_code=0)

    unseen = {check for check, of_check in states(found).items() if "warn" in of_check}
    assert unseen == {"gates", "registration", "default-class", "group-quotas", "tier-quotas", "pod-mutators"}, found
    assert "RBAC" in said(found, "group-quotas")
    assert 'User "alice" cannot create resource' in said(found, "gates")


def test_no_cluster_is_a_finding_and_no_kubeconfig_is_wrong_usage(tmp_path: Path) -> None:
    runner = CliRunner()
    kubeconfig = tmp_path / "config"
    server = f"https://127.0.0.1:{free_ports(1)[0]}"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )

    nobody = runner.invoke(app, ["doctor", "--kubeconfig", str(kubeconfig)])
    assert nobody.exit_code == 1
    assert "no --policy" in nobody.stderr
    assert f"fail  api  no answer from {server}" in nobody.stdout
    for command in (["doctor"], ["inventory", "export"], ["registration", "apply"]):
        told = runner.invoke(app, [*command, "--kubeconfig", str(tmp_path / "none")])
        assert told.exit_code == 2, command
        assert "no such file" in told.stderr
    for text in ("just words", "a: [1", "- 1"):
        (tmp_path / "wrong").write_text(text)
        told = runner.invoke(app, ["doctor", "--kubeconfig", str(tmp_path / "wrong")])
        assert told.exit_code == 2, text
        assert "is no kubeconfig" in told.stderr
    assert runner.invoke(app, ["doctor", "--kubeconfig", str(kubeconfig), "--connect", "muster"]).exit_code == 2


def stranger() -> dict[str, Any]:
    """Matches Pods with one entry and Deployments with another, and calls nobody who answers."""

    def entry(name: str, group: str, resource: str) -> dict[str, Any]:
        rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        return {
            "name": f"{name}.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "never", "expression": f"object.metadata.name == '{secrets.token_hex(8)}'"}],
            "rules": [rule],
            "sideEffects": "None",
        }

    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "stranger"},
        "webhooks": [entry("pods", "", "pods"), entry("deployments", "apps", "deployments")],
    }
