"""`muster registration render` and `apply`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import Result
from typer.testing import CliRunner

from tests.cluster.cluster import Cluster
from webhook.cli.registration import app
from webhook.policy.load import default_policies
from webhook.registration.keep import is_current, updated
from webhook.registration.render import ServiceRef, Target, render_webhook_configurations

HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"
DEFAULT = Target(client=ServiceRef(namespace="muster-system", name="muster"))


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def rendered(*words: str | Path) -> list[dict[str, Any]]:
    result = run("render", *words)
    assert result.exit_code == 0, result.output
    items: list[dict[str, Any]] = yaml.safe_load(result.stdout)["items"]
    return items


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(path)
    return path


@pytest.fixture
def mutating_policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + "spec: {overrides: [{name: o, scope: {namespaces: [a]}, mutations: {WAS901: true}}]}")
    return path


# -- render -----------------------------------------------------------------------------------------------------------
def test_render_prints_what_the_renderer_makes() -> None:
    expected = render_webhook_configurations(default_policies().policy, DEFAULT)

    assert rendered() == expected
    assert json.loads(run("render", "-o", "json").stdout)["items"] == expected
    assert "&id" not in run("render").stdout, "no aliases, which Helm and people would have to follow"


def test_render_takes_the_installation_from_its_options(ca_file: Path) -> None:
    (configuration,) = rendered(
        "--service", "ops/gate:8443", "--ca-file", ca_file, "--namespace", "ops", "--name", "gate",
        "--failure-policy", "Ignore", "--timeout-seconds", "3", "--policy", "strict",
    )  # fmt: skip
    submit = configuration["webhooks"][0]

    assert configuration["metadata"]["name"] == "gate"
    assert submit["clientConfig"]["service"] == {
        "namespace": "ops",
        "name": "gate",
        "port": 8443,
        "path": "/validate/submit",
    }
    assert base64.b64decode(submit["clientConfig"]["caBundle"]) == ca_file.read_bytes()
    assert (submit["failurePolicy"], submit["timeoutSeconds"]) == ("Ignore", 3)
    assert "ops" in submit["namespaceSelector"]["matchExpressions"][0]["values"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--service", "muster"], '--service "muster" must be NAMESPACE/NAME'),
        (["--service", "a/b:https"], '--service "a/b:https" must be NAMESPACE/NAME'),
        (["--url", "http://127.0.0.1"], '--url "http://127.0.0.1" must start with https://'),
        (["--ca-file", "missing.pem"], "--ca-file missing.pem: No such file"),
        (["--ca-file", __file__], "holds no PEM certificate"),
        (["--policy", "missing.yaml"], "missing.yaml: cannot be read: No such file"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(words: list[str], message: str) -> None:
    result = run("render", *words)

    assert result.exit_code == 2
    assert message in result.stderr


# -- what an update keeps ---------------------------------------------------------------------------------------------
def stored(bundle: str) -> dict[str, Any]:
    (configuration,) = render_webhook_configurations(default_policies().policy, DEFAULT)
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundle
    annotations = {"cert-manager.io/inject-ca-from": "muster-system/muster-tls"}
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    configuration["metadata"] = {
        "name": "muster", "resourceVersion": "7", "uid": "u", "annotations": annotations, "labels": labels,
        "managedFields": [{}],
    }  # fmt: skip
    return configuration


def test_an_update_keeps_the_words_of_others_and_the_injected_bundle() -> None:
    wanted = updated(stored("Q0E="), render_webhook_configurations(default_policies().policy, DEFAULT)[0])

    assert wanted["metadata"]["resourceVersion"] == "7"
    assert wanted["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert "managedFields" not in wanted["metadata"]
    assert {webhook["clientConfig"]["caBundle"] for webhook in wanted["webhooks"]} == {"Q0E="}
    assert is_current(stored("Q0E="), wanted)


def test_a_bundle_that_is_given_wins_over_the_stored_one() -> None:
    target = Target(client=DEFAULT.client, ca_bundle="TkVX")
    wanted = updated(stored("Q0E="), render_webhook_configurations(default_policies().policy, target)[0])

    assert {webhook["clientConfig"]["caBundle"] for webhook in wanted["webhooks"]} == {"TkVX"}
    assert not is_current(stored("Q0E="), wanted)


def test_a_new_entry_takes_the_bundle_of_its_neighbours() -> None:
    old = stored("Q0E=")
    del old["webhooks"][2]
    wanted = updated(old, render_webhook_configurations(default_policies().policy, DEFAULT)[0])

    assert wanted["webhooks"][2]["clientConfig"]["caBundle"] == "Q0E="
    assert not is_current(old, wanted)


# -- apply ------------------------------------------------------------------------------------------------------------
def test_apply_creates_updates_and_removes(
    control_plane: Cluster, tmp_path: Path, ca_file: Path, mutating_policy: Path
) -> None:
    """On a real API server, which fills in defaults: a second apply must find nothing to do."""
    name = "apply-test"
    common = ["--name", name, "--kubeconfig", control_plane.kubeconfig()]
    path = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/" + name
    validating, mutating = path.format("validating"), path.format("mutating")

    def apply(*words: str | Path) -> list[str]:
        result = run("apply", *common, *words)
        assert result.exit_code == 0, result.output
        return [line.rpartition("/")[2].partition(" ")[2] for line in result.stdout.splitlines()]

    try:
        assert apply("--dry-run", "--ca-file", ca_file) == ["created", "not needed"]
        assert control_plane.api.get(validating).status == 404
        assert apply("--ca-file", ca_file, "--policy", mutating_policy) == ["created", "created"]
        assert apply("--ca-file", ca_file, "--policy", mutating_policy) == ["unchanged", "unchanged"]
        assert apply("--policy", mutating_policy) == ["unchanged", "unchanged"], "the stored bundle is kept"
        assert apply("--policy", mutating_policy, "--timeout-seconds", "3") == ["updated", "updated"]
        assert apply("--policy", "baseline") == ["updated", "deleted"]
        assert control_plane.api.get(mutating).status == 404
        webhooks = control_plane.api.get(validating).expect()["webhooks"]
        assert {webhook["clientConfig"]["caBundle"] for webhook in webhooks} == {
            base64.b64encode(ca_file.read_bytes()).decode()
        }
    finally:
        for left in (validating, mutating):
            control_plane.api.delete(left).expect(200, 404)


def test_apply_says_what_the_api_server_says(control_plane: Cluster) -> None:
    kubeconfig = control_plane.kubeconfig("alice")
    result = run("apply", "--kubeconfig", kubeconfig)

    assert result.exit_code == 1
    assert "the API server answered 403" in result.stderr
    assert 'User "alice" cannot get resource' in result.stderr


def test_apply_without_a_cluster_says_where_it_looked(tmp_path: Path) -> None:
    result = run("apply", "--kubeconfig", tmp_path / "none")

    assert result.exit_code == 2
    assert str(tmp_path / "none") in result.stderr
