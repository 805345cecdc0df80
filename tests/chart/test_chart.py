"""The chart: what it renders to, and that it says the same as `muster`."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.chart.conftest import CHART, Helm, JsonObject, Template, of_kind, only, template_words
from webhook.admission.known import KNOWN
from webhook.cli.options import SHIPPED
from webhook.cluster.inventory_kinds import INVENTORY_KINDS, USE_KINDS
from webhook.cluster.marks_map import CONFIG_MAP
from webhook.objects.kinds import KINDS
from webhook.policy.load import LoadedPolicies, load_policies
from webhook.registration.render import ServiceRef, Target, render_webhook_configurations
from webhook.settings import PREFIX, Settings

ROOT = CHART.parents[1]
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"


def configurations(objects: list[JsonObject]) -> list[JsonObject]:
    """Without what is Helm's own in the metadata."""
    found = of_kind(objects, "ValidatingWebhookConfiguration") + of_kind(objects, "MutatingWebhookConfiguration")
    return [{**obj, "metadata": {"name": obj["metadata"]["name"]}} for obj in found]


def by_muster(policies: LoadedPolicies, **target: Any) -> list[JsonObject]:
    return render_webhook_configurations(policies.policy, Target(**target))


def shipped(name: str) -> LoadedPolicies:
    return load_policies([ROOT / "policies" / f"{name}.yaml"], known=KNOWN)


def ca_bundle(objects: list[JsonObject]) -> str:
    return str(only(objects, "Secret")["data"]["ca.crt"])


# -- the same registration ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SHIPPED)
def test_the_chart_and_muster_register_the_same(template: Template, name: str) -> None:
    objects = template(policy={"name": name})
    client = ServiceRef(namespace="muster-system", name="muster")

    assert configurations(objects) == by_muster(shipped(name), client=client, ca_bundle=ca_bundle(objects))


def test_they_do_in_another_namespace_with_other_values_too(template: Template) -> None:
    objects = template(
        "gate", "zz-ops", registration={"failurePolicy": "Ignore", "timeoutSeconds": 3}, policy={"name": "strict"}
    )
    expected = by_muster(
        shipped("strict"),
        client=ServiceRef(namespace="zz-ops", name="gate-muster"),
        ca_bundle=ca_bundle(objects),
        own_namespace="zz-ops",
        name="gate-muster",
        failure_policy="Ignore",
        timeout_seconds=3,
    )

    assert configurations(objects) == expected


def test_a_policy_of_ones_own_brings_its_registration_along(template: Template, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        HEAD
        + "spec: {tiers: [{name: gold, priorityClasses: [g]}], mutations: {WAS901: true}, rules: {WAS101: {action: Off}}}\n"
    )
    registration = tmp_path / "registration.yaml"
    command = [sys.executable, "-m", "webhook.cli.main", "registration", "render", "--policy", str(policy)]
    registration.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    files = {"policy.text": policy, "policy.registration": registration}
    objects = template(files=files, policy={"name": "custom"})

    client = ServiceRef(namespace="muster-system", name="muster")
    expected = by_muster(load_policies([policy], known=KNOWN), client=client, ca_bundle=ca_bundle(objects))
    assert configurations(objects) == expected
    assert [obj["kind"] for obj in expected] == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]


@pytest.mark.parametrize("missing", ["policy.text", "policy.registration"])
def test_a_policy_of_ones_own_without_its_registration_is_refused(
    helm_command: Helm, tmp_path: Path, missing: str
) -> None:
    """Else objects of its tiers would pass Muster by, and nobody would know."""
    path = tmp_path / "file.yaml"
    path.write_text(HEAD)
    files = {key: path for key in ("policy.text", "policy.registration") if key != missing}
    result = helm_command(*template_words("muster", "muster-system", files, {"policy": {"name": "custom"}}))

    assert result.returncode != 0
    assert "policy.name is custom: give" in result.stderr


def test_the_registration_can_be_left_to_muster(template: Template) -> None:
    assert configurations(template(registration={"enabled": False})) == []


# -- policy -----------------------------------------------------------------------------------------------------------
def test_the_config_map_holds_files_that_muster_reads_as_it_will_find_them(template: Template, tmp_path: Path) -> None:
    part = HEAD.replace("Policy", "PolicyPart") + "spec: {tiers: [{name: gold, priorityClasses: [g]}]}\n"
    maps = of_kind(template(policy={"name": "strict", "parts": {"team-a.yaml": part}}), "ConfigMap")
    (data,) = (one["data"] for one in maps if one["metadata"]["name"] == "muster-policy")
    for name, text in data.items():
        (tmp_path / name).write_text(text)

    loaded = load_policies([tmp_path], known=KNOWN).policy.spec
    assert [tier.name for tier in loaded.tiers] == ["gold"]
    assert loaded.rules == shipped("strict").policy.spec.rules


def test_what_the_chart_holds_of_the_repository_is_current() -> None:
    assert _generator().main(["--check"]) == 0


def test_the_generator_notices_what_is_stale_missing_or_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = _generator()
    generated = dict.fromkeys((tmp_path / "policies" / "a.yaml", tmp_path / "registration" / "a.yaml"), "text")
    monkeypatch.setattr(generator, "FILES", tmp_path)
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    monkeypatch.setattr(generator, "generated", lambda: generated)

    assert generator.main(["--check"]) == 1
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    (tmp_path / "policies" / "a.yaml").write_text("edited by hand")
    (tmp_path / "policies" / "old.yaml").write_text("")
    assert generator.main(["--check"]) == 1
    assert "policies/old.yaml is not current" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    assert generator.main(["--what"]) == 2


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("chart_generator", ROOT / "charts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- certificates -------------------------------------------------------------------------------------------------------
def test_the_generated_certificate_is_the_one_the_api_server_will_accept(template: Template) -> None:
    objects = template("gate", "ops")
    secret = only(objects, "Secret")
    pem = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    authority = x509.load_pem_x509_certificate(pem["ca.crt"])
    certificate = x509.load_pem_x509_certificate(pem["tls.crt"])

    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gate-muster.ops.svc" in names.get_values_for_type(x509.DNSName)
    assert only(objects, "Service")["metadata"]["name"] == "gate-muster"
    (configuration,) = configurations(objects)
    assert {webhook["clientConfig"]["caBundle"] for webhook in configuration["webhooks"]} == {secret["data"]["ca.crt"]}
    assert _mounted_secret(objects) == secret["metadata"]["name"]


def test_with_cert_manager_it_fills_in_the_bundle(template: Template) -> None:
    objects = template("gate", "ops", tls={"mode": "certManager"})
    certificate = next(obj for obj in of_kind(objects, "Certificate") if not obj["spec"].get("isCA"))
    configuration = only(objects, "ValidatingWebhookConfiguration")

    assert of_kind(objects, "Secret") == []
    assert "gate-muster.ops.svc" in certificate["spec"]["dnsNames"]
    assert certificate["spec"]["secretName"] == _mounted_secret(objects)
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"ops/{certificate['metadata']['name']}"
    }
    assert all("caBundle" not in webhook["clientConfig"] for webhook in configuration["webhooks"])
    assert {obj["metadata"]["name"] for obj in of_kind(objects, "Issuer")} == {
        "gate-muster-selfsigned",
        "gate-muster-ca",
    }


def test_the_chain_of_cert_manager_is_the_one_of_certs(template: Template) -> None:
    """certs/cert-manager.yaml says why each setting is as it is; the chart must not drift from it."""
    import yaml

    by_hand = [doc for doc in yaml.safe_load_all((ROOT / "certs" / "cert-manager.yaml").read_text()) if doc]
    objects = template(tls={"mode": "certManager"})
    by_chart = [obj for obj in objects if obj["apiVersion"] == "cert-manager.io/v1"]

    def specs(docs: list[JsonObject]) -> dict[tuple[str, str], JsonObject]:
        return {(doc["kind"], doc["metadata"]["name"]): doc["spec"] for doc in docs}

    assert specs(by_chart) == specs(by_hand)


def test_an_issuer_there_is_makes_no_other(template: Template) -> None:
    issuer = {"name": "corp", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    objects = template(tls={"mode": "certManager", "certManager": {"issuerRef": issuer}})

    assert of_kind(objects, "Issuer") == []
    assert only(objects, "Certificate")["spec"]["issuerRef"] == issuer


def test_a_secret_of_ones_own_needs_its_bundle(template: Template, helm_command: Helm) -> None:
    tls = {"mode": "existingSecret", "secretName": "mine", "caBundle": "Q0E="}
    objects = template(tls=tls)
    (configuration,) = configurations(objects)

    assert of_kind(objects, "Secret") == []
    assert _mounted_secret(objects) == "mine"
    assert {webhook["clientConfig"]["caBundle"] for webhook in configuration["webhooks"]} == {"Q0E="}

    result = helm_command(*template_words("muster", "muster-system", None, {"tls": {**tls, "caBundle": ""}}))
    assert result.returncode != 0
    assert "give tls.caBundle" in result.stderr


def _mounted_secret(objects: list[JsonObject]) -> str:
    volumes = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    return next(str(volume["secret"]["secretName"]) for volume in volumes if "secret" in volume)


# -- the Pod ------------------------------------------------------------------------------------------------------------
def test_every_variable_is_a_setting_and_every_path_is_mounted(template: Template) -> None:
    container = only(template(), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]

    assert {name.removeprefix(PREFIX).lower() for name in values} <= set(Settings.model_fields)
    for path in (value for value in values.values() if value and value.startswith("/")):
        assert any(path == mount or path.startswith(mount + "/") for mount in mounts), path
    assert all("subPath" not in mount for mount in container["volumeMounts"])


def test_the_pod_passes_the_restricted_profile(template: Template) -> None:
    """pod-security.kubernetes.io/enforce: restricted, field by field."""
    spec = only(template(), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} <= {"configMap", "secret", "emptyDir"}
    assert spec["enableServiceLinks"] is False, "MUSTER_PORT and the like would look like settings"


def test_two_replicas_and_probes_over_tls(template: Template) -> None:
    objects = template()
    deployment = only(objects, "Deployment")["spec"]
    container = deployment["template"]["spec"]["containers"][0]

    assert deployment["replicas"] == 2
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "https", "scheme": "HTTPS"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "https", "scheme": "HTTPS"}
    assert of_kind(template(replicas=1), "PodDisruptionBudget") == []


def test_muster_may_read_exactly_the_kinds_it_knows(template: Template) -> None:
    objects = template()
    granted = {
        (group, resource)
        for rule in only(objects, "ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    books = {("muster.dev", "tierquotas"), ("muster.dev", "tierquotas/status"), ("", "events")}
    assert granted == {(kind.group, kind.plural) for kind in (*KINDS, *INVENTORY_KINDS, *USE_KINDS.values())} | books
    verbs = {tuple(rule["verbs"]): rule["resources"] for rule in only(objects, "ClusterRole")["rules"]}
    assert verbs.pop(("update",)) == ["tierquotas/status"]
    assert verbs.pop(("create",)) == ["events"]
    assert set(verbs) == {("get", "list", "watch")}


def test_the_high_water_marks_are_the_leaders_and_only_they(template: Template) -> None:
    """One ConfigMap by name, without content that an upgrade would write over, and no right to make another."""
    objects = template()
    (marks,) = (one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == CONFIG_MAP)
    (rule,) = (rule for rule in only(objects, "Role")["rules"] if rule["resources"] == ["configmaps"])

    assert not marks.keys() & {"data", "binaryData"}
    assert (rule["resourceNames"], rule["verbs"]) == ([CONFIG_MAP], ["get", "patch"])


# -- values -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "values",
    [
        {"replica": 3},
        {"policy": {"name": "lax"}},
        {"registration": {"failurePolicy": "fail"}},
        {"registration": {"timeoutSeconds": 31}},
        {"tls": {"mode": "none"}},
        {"server": {"worker": 2}},
        {"policy": {"name": "baseline", "parts": {"policy.yaml": "x"}}},
        {"policy": {"name": "baseline", "parts": {"a.txt": "x"}}},
        {"image": {"repository": "muster", "digest": "latest"}},
    ],
    ids=json.dumps,
)
def test_values_that_mean_nothing_are_refused(helm_command: Helm, values: JsonObject) -> None:
    result = helm_command(*template_words("muster", "muster-system", None, values))

    assert result.returncode != 0
    assert "values don't meet the specifications of the schema" in result.stderr


def test_every_value_is_in_the_schema() -> None:
    import yaml

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert set(values) == set(schema["properties"]) - {"global"}


def test_the_chart_is_for_the_kubernetes_it_knows(helm_command: Helm) -> None:
    words = ["1.36.4" if word == "1.37.2" else word for word in template_words("muster", "muster-system", None, {})]
    result = helm_command(*words)

    assert result.returncode != 0
    assert "requires kubeVersion: >=1.37.0-0" in result.stderr


def test_lint_finds_nothing(helm_command: Helm) -> None:
    result = helm_command("lint", "--strict", CHART)

    assert result.returncode == 0, result.stdout
