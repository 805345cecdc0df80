"""The policies that come along, and the schema."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from webhook.admission.known import KNOWN
from webhook.cli.options import SHIPPED
from webhook.policy.effective import EffectivePolicy
from webhook.policy.load import LoadedPolicies, PolicyError, load_policies, parse_policies
from webhook.policy.schema import SCHEMA_FILE, main, schema, schema_text
from webhook.rules.catalogue import CATALOGUE
from webhook.verdict import Action

FOLDER = Path(__file__).parents[2] / "policies"
FILES = sorted(FOLDER.glob("*.yaml"))
# Long before any exemption of the examples ends: they must not warn one day because time went by.
TODAY = date(2027, 1, 1)


def load(name: str) -> LoadedPolicies:
    return load_policies([FOLDER / f"{name}.yaml"], known=KNOWN, today=TODAY)


def effective(name: str, namespace: str = "team-a") -> EffectivePolicy:
    return load(name).effective(namespace, {})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_loads_without_a_warning_and_is_named_as_its_file(file: Path) -> None:
    loaded = load_policies([file], known=KNOWN, today=TODAY)

    assert loaded.warnings == ()
    assert loaded.policy.metadata.name == file.stem


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_stays_sound_with_its_comments_taken_at_their_word(file: Path) -> None:
    """Examples in comments rot: uncomment every one (a line that starts with "#" and a key or list item)."""
    lines = file.read_text().splitlines()
    text = "\n".join(_uncommented(lines))

    parse_policies([(file.name, text.encode())], known=KNOWN, today=TODAY)


def _uncommented(lines: list[str]) -> list[str]:
    """Commented YAML replaces the empty value in the line above it."""
    result: list[str] = []
    for line in lines:
        words = line.strip()
        is_example = words.startswith(("# - ", "#   ", "# excludedNamespaces:"))
        if is_example:
            if result and result[-1].rstrip().endswith((": {}", ": []")):
                result[-1] = result[-1].rstrip()[:-3]
            result.append(line.replace("# ", "", 1))
        else:
            result.append(line)
    return result


def test_the_comments_of_baseline_are_examples_that_the_test_above_sees() -> None:
    text = "\n".join(_uncommented((FOLDER / "baseline.yaml").read_text().splitlines()))
    spec = parse_policies([("baseline.yaml", text.encode())], known=KNOWN, today=TODAY).policy.spec

    assert spec.cluster.feature_gates["WorkloadWithJob"] is True
    assert spec.overrides[0].action_max == "Warn"
    assert spec.exemptions[0].rules == ("WAS103",)
    assert spec.cluster.excluded_namespaces == ("gpu-operator", "nvidia-dra-driver-gpu")


def test_the_shipped_names_of_the_command_line_are_files() -> None:
    assert {f"{name}.yaml" for name in SHIPPED} <= {file.name for file in FILES}


def test_baseline_leaves_every_rule_at_its_default_and_declares_no_gate() -> None:
    policy = effective("baseline")

    assert {rule.META.id: policy.action(rule.META.id, rule.META.default_action) for rule in CATALOGUE} == {
        rule.META.id: rule.META.default_action for rule in CATALOGUE
    }
    assert not load("baseline").policy.spec.cluster.feature_gates
    assert not any(policy.mutation_enabled(mutation) for mutation in KNOWN.mutations)
    assert not policy.feature_allowed("admin_access_claims")


def test_staging_refuses_nothing_and_switches_nothing_off() -> None:
    policy = effective("staging-dry-run")

    for rule in CATALOGUE:
        action = policy.action(rule.META.id, rule.META.default_action)
        assert action is not Action.DENY, rule.META.id
        assert (action is None) is (rule.META.default_action is None), rule.META.id


def test_strict_is_nowhere_softer_than_the_default_and_decides_on_every_rule_that_only_warns() -> None:
    policy = effective("strict")
    mentioned = set(load("strict").policy.spec.rules)
    for rule in CATALOGUE:
        meta = rule.META
        action = policy.action(meta.id, meta.default_action)
        assert action is not None, meta.id
        if meta.default_action is not None:
            assert action.severity >= meta.default_action.severity, meta.id
        if meta.default_action is not Action.DENY:
            assert meta.id in mentioned, f"policies/strict.yaml must say what {meta.id} does"


def test_strict_keeps_groups_to_controllers_and_its_wranglers() -> None:
    policy = effective("strict")
    for subjects in (
        policy.spec.writers.workloads,
        policy.spec.writers.pod_groups,
        policy.spec.writers.composite_pod_groups,
    ):
        assert subjects is not None
        assert policy.subjects_hold(subjects, "bob", ["gang-wranglers"])
        assert not policy.subjects_hold(subjects, "alice", ["tenants"])


def test_the_tiers_of_the_example() -> None:
    policy = effective("example-tiers")
    tiers = {tier.name: tier for tier in policy.tiers}

    assert list(tiers) == ["gold", "silver", "bronze"]
    assert policy.tier_of("train-silver") is tiers["silver"]
    assert not effective("example-tiers", "team-b").scope_holds(tiers["gold"].scope)
    assert effective("example-tiers", "team-b").scope_holds(tiers["bronze"].scope)
    assert policy.feature_allowed("job_scheduling")
    assert not effective("example-tiers", "team-b").feature_allowed("job_scheduling")
    assert policy.default_tier == "bronze"


# -- schema -----------------------------------------------------------------------------------------------------------
def test_the_schema_is_current() -> None:
    assert (FOLDER / SCHEMA_FILE.name).read_text() == schema_text()


def test_the_schema_says_by_itself_whether_it_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    SCHEMA_FILE.write_text(SCHEMA_FILE.read_text().replace("Deny", "deny"))
    assert main(["--check"]) == 1
    assert main(["--chek"]) == 2


def test_the_schema_as_make_check_runs_it() -> None:
    command = [sys.executable, "-m", "webhook.policy.schema", "--check"]

    assert subprocess.run(command, cwd=FOLDER.parent, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_schema_accepts_the_shipped_policies(file: Path) -> None:
    data = json.loads(json.dumps(YAML(typ="safe", pure=True).load(file.read_text()), default=str))

    jsonschema_rs.validate(schema(), data)


@pytest.mark.parametrize(
    "spec",
    [
        {"rulez": {}},
        {"rules": {"was101": {"action": "Deny"}}},
        {"rules": {"WAS101": {"action": "deny"}}},
        {"cluster": {"featureGates": {"GenericWorklod": True}}},
        {"tiers": [{"name": "gold"}]},
        {"exemptions": [{"name": "e", "rules": ["WAS101"], "scope": {}}]},
        {"action_max": "Warn"},
    ],
)  # fmt: skip
def test_the_schema_and_the_loader_refuse_the_same_shapes(spec: dict[str, object]) -> None:
    document = {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}

    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema(), document)
    with pytest.raises(PolicyError):
        parse_policies([("p.yaml", json.dumps(document).encode())])


def test_the_schema_knows_parts() -> None:
    part = {"apiVersion": "muster.dev/v1alpha1", "kind": "PolicyPart", "metadata": {"name": "p"}, "spec": {"tiers": []}}
    validator = jsonschema_rs.validator_for(schema())

    assert validator.is_valid(part)
    assert not validator.is_valid({**part, "spec": {"rules": {}}})
