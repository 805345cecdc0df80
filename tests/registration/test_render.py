"""The rendered configurations as text: what needs no API server to be seen."""

from __future__ import annotations

import json

import pytest

from webhook.objects.kinds import KINDS
from webhook.policy.load import default_policies
from webhook.policy.model import Policy
from webhook.registration.conditions import KIND_CONDITIONS, NEVER_ORDINARY
from webhook.registration.expressions import all_of, among, any_of, literal, matches_any, some
from webhook.registration.render import (
    PLANNED,
    TRAP_OPERATIONS,
    ServiceRef,
    Target,
    excluded_namespaces,
    render_webhook_configurations,
    resource_rules,
)

TARGET = Target(client=ServiceRef(namespace="muster-system", name="muster"), ca_bundle="Q0E=")


def policy(**spec: object) -> Policy:
    return Policy.model_validate(
        {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}
    )


def conditions(entry: dict) -> dict[str, str]:
    return {condition["name"]: condition["expression"] for condition in entry["matchConditions"]}


def test_the_entries_for_people_and_for_controllers_are_disjoint_and_differ_in_nothing_else() -> None:
    (configuration,) = render_webhook_configurations(default_policies().policy, TARGET)
    submit, controllers, _ = configuration["webhooks"]
    people, trusted = conditions(submit), conditions(controllers)

    assert people.pop("submitted-by-people") == f"!({trusted.pop('made-by-controllers')})"
    assert people == trusted
    assert (submit["failurePolicy"], controllers["failurePolicy"]) == ("Fail", "Ignore")
    different = {key for key in submit if submit[key] != controllers[key]}
    assert different == {"name", "failurePolicy", "clientConfig", "matchConditions"}


def test_every_entry_says_all_that_the_api_server_would_fill_in_otherwise() -> None:
    on = policy(mutations={"WAS901": True})
    for configuration in render_webhook_configurations(on, TARGET):
        for entry in configuration["webhooks"]:
            assert entry["admissionReviewVersions"] == ["v1"]
            assert entry["sideEffects"] == "NoneOnDryRun"
            assert entry["matchPolicy"] == "Equivalent"
            assert entry["timeoutSeconds"] == 5
            assert entry["clientConfig"]["caBundle"] == "Q0E="
            assert entry["clientConfig"]["service"]["namespace"] == "muster-system"
            assert len(entry["matchConditions"]) <= 64
            assert len(conditions(entry)) == len(entry["matchConditions"])


def test_the_mutating_entry_is_there_only_when_a_mutation_is_on() -> None:
    def kinds(policy: Policy) -> list[str]:
        return [configuration["kind"] for configuration in render_webhook_configurations(policy, TARGET)]

    override = {"name": "o", "scope": {"namespaces": ["a"]}}
    assert kinds(policy()) == ["ValidatingWebhookConfiguration"]
    assert kinds(policy(mutations={"WAS901": False})) == ["ValidatingWebhookConfiguration"]
    assert kinds(policy(mutations={"WAS901": True}))[1:] == ["MutatingWebhookConfiguration"]
    assert kinds(policy(overrides=[{**override, "mutations": {"WAS902": True}}]))[1:] == [
        "MutatingWebhookConfiguration"
    ]


def test_a_mutating_entry_never_fails_and_sees_creations_only() -> None:
    entry = render_webhook_configurations(policy(mutations={"WAS901": True}), TARGET)[1]["webhooks"][0]

    assert entry["failurePolicy"] == "Ignore"
    assert entry["reinvocationPolicy"] == "IfNeeded"
    assert {operation for rule in entry["rules"] for operation in rule["operations"]} == {"CREATE"}


def test_every_planned_kind_is_registered_and_has_a_condition_or_is_never_ordinary() -> None:
    with_condition = {kind for kinds, _ in KIND_CONDITIONS for kind in kinds}
    planned = {kind.kind: kind for kind in KINDS if kind.planned}

    assert with_condition | NEVER_ORDINARY == set(planned)
    assert not with_condition & NEVER_ORDINARY
    registered = {
        (group, plural) for rule in resource_rules() for group in rule["apiGroups"] for plural in rule["resources"]
    }
    assert registered == {(kind.group, kind.plural) for kind in planned.values()}


def test_a_kind_without_a_plan_that_rules_are_about_is_registered_as_a_trap() -> None:
    assert {kind.kind for kind in KINDS if kind.ruled} == set(TRAP_OPERATIONS) - PLANNED


def test_no_subresource_and_no_wildcard_is_registered() -> None:
    for rule in resource_rules():
        assert not any("/" in resource or "*" in resource for resource in rule["resources"])
        assert rule["scope"] == "Namespaced"


TIERS = [{"name": "gold", "priorityClasses": ["train-gold"]}]


def entries_of(**spec: object) -> dict[str, dict]:
    (configuration,) = render_webhook_configurations(policy(**spec), TARGET)
    return {entry["name"]: entry for entry in configuration["webhooks"]}


def subresources(entry: dict) -> list[str]:
    return [resource for rule in entry["rules"] for resource in rule["resources"] if "/" in resource]


def test_a_resize_is_seen_where_there_are_tiers() -> None:
    """Only a quota has to say something on it; an ordinary Pod stays away by the condition on Pods."""
    without, with_tiers = entries_of(), entries_of(tiers=TIERS)

    assert not any(subresources(entry) for entry in without.values())
    assert subresources(with_tiers["submit.muster.dev"]) == ["pods/resize"]
    assert subresources(with_tiers["controllers.muster.dev"]) == ["pods/resize"]
    (rule,) = (rule for rule in with_tiers["submit.muster.dev"]["rules"] if rule["resources"] == ["pods/resize"])
    assert rule["operations"] == ["UPDATE"]


@pytest.mark.parametrize("spec", [{}, {"chargeScale": True}, {"tiers": TIERS}])
def test_a_scale_is_not_seen_unless_the_policy_asks_for_it_and_has_tiers(spec: dict) -> None:
    assert "scale.muster.dev" not in entries_of(**spec)


def test_the_entry_for_scale_fails_open_is_short_and_sees_growth_only() -> None:
    """A Scale does not show whether its object is ordinary."""
    entry = entries_of(tiers=TIERS, chargeScale=True)["scale.muster.dev"]

    assert (entry["failurePolicy"], entry["timeoutSeconds"]) == ("Ignore", 2)
    assert entry["clientConfig"]["service"]["path"] == "/validate/scale"
    assert list(conditions(entry)) == ["grows"]
    assert sorted(subresources(entry)) == [
        "deployments/scale", "leaderworkersets/scale", "replicasets/scale", "statefulsets/scale",
    ]  # fmt: skip
    assert {word for rule in entry["rules"] for word in rule["operations"]} == {"UPDATE"}


def test_only_objects_that_running_pods_depend_on_are_looked_at_when_they_go() -> None:
    deleted = {plural for rule in resource_rules() if "DELETE" in rule["operations"] for plural in rule["resources"]}

    assert deleted == {"workloads", "podgroups", "compositepodgroups"}


def test_excluded_namespaces_are_the_systems_our_own_and_the_policys() -> None:
    assert excluded_namespaces(policy(cluster={"excludedNamespaces": ["drivers"]}), "mine") == [
        "drivers", "kube-node-lease", "kube-public", "kube-system", "mine",
    ]  # fmt: skip
    assert "gpu-operator" in excluded_namespaces(policy(), "muster-system")


def test_a_muster_outside_the_cluster_is_called_by_url() -> None:
    target = Target(client="https://127.0.0.1:8443/", name="local")
    (configuration,) = render_webhook_configurations(policy(), target)

    assert configuration["webhooks"][0]["clientConfig"] == {"url": "https://127.0.0.1:8443/validate/submit"}
    assert configuration["metadata"] == {"name": "local"}


@pytest.mark.parametrize(
    ("gates", "trapped"),
    [
        ({}, ["job-trapped", "priorityclass-trapped"]),
        ({"WorkloadWithJob": True}, ["job-trapped", "priorityclass-trapped"]),
        ({"WorkloadWithJob": False}, ["priorityclass-trapped"]),
        ({"PodGroupPreemptionPolicy": False}, ["job-trapped"]),
        ({"WorkloadWithJob": False, "PodGroupPreemptionPolicy": False}, []),
        ({"GenericWorkload": False}, []),
    ],
)
def test_traps_are_let_in_unless_the_policy_says_that_their_gates_are_off(gates: dict, trapped: list[str]) -> None:
    (configuration,) = render_webhook_configurations(policy(cluster={"featureGates": gates}), TARGET)
    entries = {entry["name"]: entry for entry in configuration["webhooks"]}
    traps = entries.get("traps.muster.dev")

    assert (list(conditions(traps)) if traps else []) == trapped
    assert (len(traps["rules"]) if traps else 0) == len(trapped), "no rule without its condition"
    assert all("> 57" not in json.dumps(entries[name]) for name in ("submit.muster.dev", "controllers.muster.dev"))


def test_the_entry_for_traps_may_fail_and_sees_new_jobs_and_priority_classes_only() -> None:
    (configuration,) = render_webhook_configurations(policy(), TARGET)
    traps = configuration["webhooks"][2]

    assert traps["failurePolicy"] == "Ignore"
    assert [(rule["resources"], rule["operations"], rule["scope"]) for rule in traps["rules"]] == [
        (["jobs"], ["CREATE"], "Namespaced"),
        (["priorityclasses"], ["CREATE", "UPDATE"], "Cluster"),
    ]


def test_without_tiers_and_guarded_resources_no_class_and_no_resource_matters() -> None:
    (configuration,) = render_webhook_configurations(policy(guardedResources=[]), TARGET)
    expression = conditions(configuration["webhooks"][0])["pod-worth-a-look"]

    assert "priorityClassName" not in expression
    assert "limits" not in expression
    assert "schedulingGroup" in expression


def test_rendering_is_the_same_for_the_same_policy_in_another_order() -> None:
    one = policy(tiers=[{"name": "a", "priorityClasses": ["x", "y"]}, {"name": "b", "priorityClasses": ["z"]}])
    two = policy(tiers=[{"name": "b", "priorityClasses": ["z"]}, {"name": "a", "priorityClasses": ["y", "x"]}])

    assert json.dumps(render_webhook_configurations(one, TARGET)) == json.dumps(
        render_webhook_configurations(two, TARGET)
    )


def test_text_is_quoted_for_cel() -> None:
    assert literal("it's") == r"'it\'s'"
    assert literal("a\\b\n\x07") == r"'a\\b\u000a\u0007'"
    assert literal("\U000e0001") == r"'\U000e0001'"


def test_expressions_fold_what_is_always_true_or_false() -> None:
    assert any_of("false", "a", "false") == "a"
    assert any_of("a", "true") == "true"
    assert all_of("a", "false") == "false"
    assert all_of() == "true"
    assert among("x", []) == "false"
    assert matches_any("x", ["*"]) == "true"
    assert some("v", ["o.?a"], "false") == "false"


def test_a_glob_in_two_pieces_cannot_match_with_one_text_for_both() -> None:
    assert matches_any("u", ["a*bc"]) == "(u.startsWith('a') && u.endsWith('bc') && size(u) >= 3)"


def test_what_is_said_twice_is_said_the_same() -> None:
    """Registration may import neither the rules nor the pipeline, so it repeats a few of their facts."""
    from webhook.admission import scope
    from webhook.edge import app
    from webhook.plan import annotations
    from webhook.plan.parts import GROUP_TEMPLATE_ANNOTATION
    from webhook.registration import conditions, render
    from webhook.rules import _traps

    assert conditions._METADATA_THAT_MATTERS == scope._METADATA_THAT_MATTERS
    assert conditions.JOB_NAME_LENGTH_MAX == _traps.JOB_NAME_LENGTH_MAX
    assert GROUP_TEMPLATE_ANNOTATION in conditions.GROUP_ANNOTATIONS
    words = {word for word in vars(annotations).values() if isinstance(word, str) and word.startswith("muster.dev/")}
    assert set(conditions.OWN_ANNOTATIONS) == words
    assert set(render.SYSTEM_NAMESPACES) == scope.SYSTEM_NAMESPACES
    for path in render.PATHS.values():
        assert (path.split("/")[2:] or ["default"])[0] in app._ENTRIES
