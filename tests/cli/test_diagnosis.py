"""What `muster doctor` makes of raw objects, where a real cluster would take long to show it."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.cli import diagnosis
from webhook.cli.diagnosis import State
from webhook.policy.model import GATES, Policy
from webhook.registration.render import ServiceRef, Target, render_webhook_configurations

TARGET = Target(client=ServiceRef(namespace="ops", name="gate", port=8443), own_namespace="ops", name="gate")


def policy(**spec: Any) -> Policy:
    return Policy.model_validate(
        {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}
    )


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team-a"}, **fields}


# -- gates ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("declared", "told", "state"),
    [
        (True, True, State.OK),
        (False, False, State.OK),
        (None, False, State.OK),
        (None, True, State.WARN),
        (False, True, State.WARN),
        (True, False, State.FAIL),
        (True, "nobody may ask", State.WARN),
        (None, "nobody may ask", State.WARN),
    ],
)
def test_only_a_gate_that_is_on_in_the_policy_alone_fails(
    declared: bool | None, told: bool | str, state: State
) -> None:
    """Then rules refuse what this cluster never does; the other way round they are only too quiet."""
    gates = {} if declared is None else {"GenericWorkload": declared}
    by_gate = {
        finding.message.partition(":")[0]: finding
        for finding in diagnosis.gates(policy(cluster={"featureGates": gates}), {"GenericWorkload": told})
    }

    assert by_gate.keys() == set(GATES)
    assert by_gate["GenericWorkload"].state is state
    assert bool(by_gate["GenericWorkload"].fix) is (state is not State.OK)


def test_a_gate_that_follows_from_a_declared_one_counts_as_declared() -> None:
    declared = policy(cluster={"featureGates": {"CompositePodGroup": True}})
    told = dict.fromkeys(GATES, True)
    by_gate = {finding.message.partition(":")[0]: finding.state for finding in diagnosis.gates(declared, told)}

    assert by_gate["TopologyAwareWorkloadScheduling"] is State.OK
    assert by_gate["WorkloadWithJob"] is State.WARN


# -- versions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("minor", "state"), [("37", State.OK), ("37+", State.OK), ("36", State.WARN), ("38", State.WARN)]
)
def test_another_minor_version_is_a_warning(minor: str, state: State) -> None:
    version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}

    assert diagnosis.api_version(version, "https://here").state is state


GROUPS = frozenset({"workloads", "podgroups"})


@pytest.mark.parametrize(
    ("served", "keeps_groups", "state"),
    [
        ({"v1beta1": GROUPS}, True, State.OK),
        ({"v1alpha3": GROUPS}, True, State.FAIL),
        ({}, True, State.FAIL),
        ({}, False, State.WARN),
        ({}, "nobody may ask", State.WARN),
    ],
)
def test_a_gate_that_is_on_without_its_api_fails(served: Any, keeps_groups: bool | str, state: State) -> None:
    assert [finding.state for finding in diagnosis.served_apis(served, keeps_groups=keeps_groups)] == [state]


# -- registration -----------------------------------------------------------------------------------------------------
def stored(**spec: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(validating, mutating) as the API server holds them, with a bundle that somebody filled in."""
    configurations = render_webhook_configurations(policy(**spec), TARGET)
    for configuration in configurations:
        for entry in configuration["webhooks"]:
            entry["clientConfig"]["caBundle"] = "Q0E="
    return configurations[:1], configurations[1:]


def words(validating: Any, mutating: Any, **spec: Any) -> list[tuple[State, str]]:
    found = diagnosis.registration(policy(**spec), validating, mutating, None)
    return [(finding.state, finding.message) for finding in found]


def test_what_the_policy_renders_for_the_same_place_is_well() -> None:
    on = {"mutations": {"WAS901": True}}

    assert [state for state, _ in words(*stored())] == [State.OK]
    assert [state for state, _ in words(*stored(**on), **on)] == [State.OK, State.OK]


def test_each_difference_is_named() -> None:
    validating, mutating = stored(mutations={"WAS901": True})
    entries = validating[0]["webhooks"]
    entries[0]["rules"] = entries[0]["rules"][1:]
    entries[0]["objectSelector"] = {"matchLabels": {"judge": "me"}}
    entries[1]["clientConfig"]["service"]["port"] = 443
    entries[2]["name"] = "mine.example.com"

    differences = [
        'ValidatingWebhookConfiguration: the entry "controllers.muster.dev" differs in clientConfig',
        'the entry "mine.example.com" is none of the policy\'s',
        'the entry "submit.muster.dev" differs in objectSelector, rules',
        'the entry "traps.muster.dev" is missing',
    ]
    assert words(validating, mutating) == [
        (State.FAIL, "; ".join(differences)),
        (State.FAIL, 'MutatingWebhookConfiguration: the entry "mutate.muster.dev" is none of the policy\'s'),
    ]
    assert words(stored()[0], [], mutations={"WAS901": True})[1] == (
        State.FAIL,
        "MutatingWebhookConfiguration: the policy renders one and there is none",
    )


def test_nobody_registered_and_registered_twice() -> None:
    validating, _ = stored()

    assert [state for state, _ in words([], [])] == [State.FAIL]
    assert [state for state, _ in words(validating * 2, [])] == [State.FAIL]
    assert diagnosis.ours([*validating, named("x", webhooks=[{"name": "x.example.com"}])]) == validating


def test_the_place_is_read_back_from_what_is_stored() -> None:
    validating, _ = stored()
    by_url = render_webhook_configurations(policy(), Target(client="https://127.0.0.1:8443", failure_policy="Ignore"))[
        0
    ]
    target = diagnosis.target_of(by_url, None)

    assert diagnosis.target_of(validating[0], None) == TARGET
    assert target is not None
    assert (target.client, target.own_namespace, target.failure_policy) == (
        "https://127.0.0.1:8443",
        "muster-system",
        "Ignore",
    )
    assert diagnosis.target_of(named("x", webhooks=[]), None) is None


# -- what stops Jobs --------------------------------------------------------------------------------------------------
ON = {"PodGroupPreemptionPolicy": True, "WorkloadWithJob": True}
POLITE = named("polite", globalDefault=True, preemptionPolicy="Never")


@pytest.mark.parametrize(
    ("classes", "told", "state"),
    [
        ([], ON, State.OK),
        ([named("gold", globalDefault=True, preemptionPolicy="PreemptLowerPriority")], ON, State.OK),
        ([named("polite", preemptionPolicy="Never")], ON, State.OK),
        ([POLITE], ON, State.FAIL),
        ([POLITE], {**ON, "WorkloadWithJob": False}, State.WARN),
        ([POLITE], {**ON, "PodGroupPreemptionPolicy": False}, State.WARN),
        ([POLITE], {}, State.WARN),
    ],
)
def test_the_default_class(classes: Any, told: Any, state: State) -> None:
    assert diagnosis.default_class(classes, told).state is state


@pytest.mark.parametrize(
    ("hard", "told", "state"),
    [
        ({"count/podgroups.scheduling.k8s.io": "5", "pods": "0"}, ON, State.OK),
        ({"count/podgroups.scheduling.k8s.io": "0"}, ON, State.FAIL),
        ({"count/workloads.scheduling.k8s.io": "0k"}, ON, State.FAIL),
        ({"count/workloads.scheduling.k8s.io": "0"}, {}, State.WARN),
    ],
)
def test_quotas_that_allow_no_group(hard: Any, told: Any, state: State) -> None:
    assert diagnosis.group_quotas([named("q", spec={"hard": hard}), named("empty")], told).state is state


# -- who else changes Pods --------------------------------------------------------------------------------------------
def rule(group: str = "", resource: str = "pods", operation: str = "CREATE") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}


ISTIO = named("istio", webhooks=[{"name": "inject.istio.io", "rules": [rule()]}])


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("additive", State.WARN),
        ("none", State.FAIL),
        ("dry-run", State.OK),
        ([{"name": "inject.istio.io", "mayChange": ["spec.containers"]}], State.OK),
        ([{"name": "istio", "mayChange": []}], State.OK),
        ([{"name": "linkerd", "mayChange": []}], State.WARN),
    ],
)
def test_another_mutator_against_what_the_policy_says(said: Any, state: State) -> None:
    finding = diagnosis.pod_mutators(policy(cluster={"podMutators": said}), [ISTIO], [])

    assert finding.state is state
    assert '"istio/inject.istio.io"' in finding.message


@pytest.mark.parametrize("rules", [[rule("*", "*")], [rule("", "*/*", "*")], [rule("apps", "pods"), rule()]])
def test_wildcards_match_pods(rules: Any) -> None:
    policies = [named("map", spec={"matchConstraints": {"resourceRules": rules}})]

    assert '"map"' in diagnosis.pod_mutators(policy(), [], policies).message


@pytest.mark.parametrize("rules", [[], [rule("apps", "*")], [rule("", "pods/status")], [rule(operation="UPDATE")]])
def test_rules_that_match_no_new_pod(rules: Any) -> None:
    entries = [{"name": "x", "rules": rules}, {"name": "mutate.muster.dev", "rules": [rule()]}]

    assert diagnosis.pod_mutators(
        policy(cluster={"podMutators": "none"}), [named("x", webhooks=entries)], []
    ).state is (State.OK)


# -- TierQuotas -------------------------------------------------------------------------------------------------------
def test_a_tier_quota_of_no_tier_is_told() -> None:
    tiers = policy(tiers=[{"name": "gold", "priorityClasses": ["train-gold"]}])
    right = named("a", spec={"tier": "gold", "hard": {"pods": 1}})
    lost = named("b", spec={"tier": "glod", "hard": {"pods": 1}})

    assert diagnosis.tier_quotas(tiers, []).state is State.OK
    assert diagnosis.tier_quotas(tiers, [right]).state is State.OK
    found = diagnosis.tier_quotas(tiers, [right, lost])
    assert found.state is State.WARN
    assert 'limit nothing: "b"; the policy has no tier "glod"' in found.message
    assert '"a"' not in found.message
    assert "gold" in found.fix
    assert diagnosis.tier_quotas(policy(), [right]).fix.endswith("the policy declares none")
