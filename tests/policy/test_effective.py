"""What applies in a namespace."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webhook.policy.effective import EffectivePolicy, resolved_gates
from webhook.policy.load import LoadedPolicies
from webhook.policy.model import GATE_DEPENDENCIES, GATES, NamespaceScope, Policy, Subjects
from webhook.verdict import Action

DENY, WARN, AUDIT = Action.DENY, Action.WARN, Action.AUDIT


def policies(**spec: object) -> LoadedPolicies:
    head = {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}}
    return LoadedPolicies(Policy.model_validate({**head, "spec": spec}))


def effective(namespace: str = "team-a", **spec: object) -> EffectivePolicy:
    return policies(**spec).effective(namespace, {})


# -- rules --------------------------------------------------------------------------------------------------------
def test_a_rule_nobody_mentions_acts_as_it_does_by_default() -> None:
    assert effective().action("WAS101", WARN) is WARN
    assert effective().action("WAS101", None) is None


def test_the_policy_says_what_a_rule_does() -> None:
    policy = effective(rules={"WAS101": {"action": "Deny"}, "WAS102": {"action": "Off"}, "WAS103": {}})

    assert policy.action("WAS101", WARN) is DENY
    assert policy.action("WAS102", DENY) is None
    assert policy.action("WAS103", WARN) is WARN


def test_a_later_override_wins_in_its_namespaces_only() -> None:
    overrides = [
        {"name": "a", "scope": {"namespaces": ["team-*"]}, "rules": {"WAS101": {"action": "Audit"}}},
        {"name": "b", "scope": {"namespaces": ["team-a"]}, "rules": {"WAS101": {"action": "Off"}}},
    ]
    spec = {"rules": {"WAS101": {"action": "Deny"}}, "overrides": overrides}

    assert effective("team-a", **spec).action("WAS101", WARN) is None
    assert effective("team-b", **spec).action("WAS101", WARN) is AUDIT
    assert effective("web", **spec).action("WAS101", WARN) is DENY


@pytest.mark.parametrize(
    ("cap", "actions"), [(None, [DENY, WARN, AUDIT]), ("Warn", [WARN, WARN, AUDIT]), ("Audit", [AUDIT, AUDIT, AUDIT])]
)
def test_action_max_caps_what_is_on_and_switches_nothing_on(cap: str | None, actions: list[Action]) -> None:
    policy = effective(actionMax=cap, rules={"WAS104": {"action": "Off"}})

    assert [policy.action("WAS101", default) for default in (DENY, WARN, AUDIT)] == actions
    assert policy.action("WAS104", DENY) is None
    assert policy.action("WAS105", None) is None


def test_an_override_replaces_action_max_in_its_namespaces() -> None:
    overrides = [{"name": "pilot", "scope": {"namespaces": ["pilot"]}, "actionMax": "Deny"}]
    spec = {"actionMax": "Warn", "overrides": overrides}

    assert effective("pilot", **spec).action("WAS101", DENY) is DENY
    assert effective("team-a", **spec).action("WAS101", DENY) is WARN


def test_mutations_are_off_until_somebody_switches_them_on() -> None:
    overrides = [{"name": "o", "scope": {"namespaces": ["team-a"]}, "mutations": {"WAS902": True, "WAS901": False}}]
    spec = {"mutations": {"WAS901": True}, "overrides": overrides}

    assert not effective().mutation_enabled("WAS901")
    assert effective("team-b", **spec).mutation_enabled("WAS901")
    assert not effective("team-a", **spec).mutation_enabled("WAS901")
    assert effective("team-a", **spec).mutation_enabled("WAS902")


# -- exemptions ---------------------------------------------------------------------------------------------------
EXEMPTION = {
    "name": "old", "owner": "alice", "reason": "r", "expires": "2026-06-01", "rules": ["WAS101"],
    "scope": {"namespaces": ["team-a"]}, "objects": ["train-*"], "kinds": ["Job"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "kind", "name", "now", "covered"),
    [
        ("WAS101", "Job", "train-1", datetime(2026, 5, 31, 23, 59, tzinfo=UTC), True),
        ("WAS101", "Job", "train-1", datetime(2026, 6, 1, 0, 0, tzinfo=UTC), False),
        ("WAS102", "Job", "train-1", datetime(2026, 5, 1, tzinfo=UTC), False),
        ("WAS101", "Pod", "train-1", datetime(2026, 5, 1, tzinfo=UTC), False),
        ("WAS101", "Job", "other", datetime(2026, 5, 1, tzinfo=UTC), False),
    ],
)
def test_an_exemption_covers_what_it_names_until_it_ends(
    rule: str, kind: str, name: str, now: datetime, covered: bool
) -> None:
    found = effective(exemptions=[EXEMPTION]).exemption(rule, kind, name, now)

    assert (found is not None) is covered


def test_an_exemption_ends_by_utc_wherever_the_clock_stands() -> None:
    from datetime import timedelta, timezone

    east = timezone(timedelta(hours=9))
    policy = effective(exemptions=[EXEMPTION])

    assert policy.exemption("WAS101", "Job", "train-1", datetime(2026, 6, 1, 8, 59, tzinfo=east)) is not None
    assert policy.exemption("WAS101", "Job", "train-1", datetime(2026, 6, 1, 9, 0, tzinfo=east)) is None


def test_an_exemption_of_another_namespace_does_not_count() -> None:
    policy = effective("team-b", exemptions=[EXEMPTION])

    assert policy.exemption("WAS101", "Job", "train-1", datetime(2026, 5, 1, tzinfo=UTC)) is None


# -- gates ----------------------------------------------------------------------------------------------------------
def test_a_gate_is_what_was_declared_or_follows_or_unknown() -> None:
    policy = effective(cluster={"featureGates": {"CompositePodGroup": True, "WorkloadWithJob": False}})

    assert policy.gate("CompositePodGroup") is True
    assert policy.gate("TopologyAwareWorkloadScheduling") is True, "CompositePodGroup needs it"
    assert policy.gate("GenericWorkload") is True
    assert policy.gate("WorkloadWithJob") is False
    assert policy.gate("DRAWorkloadResourceClaims") is None


def test_without_generic_workload_no_gate_is_on() -> None:
    assert resolved_gates({"GenericWorkload": False}) == dict.fromkeys(GATES, False)


def test_every_dependency_names_gates_there_are_and_is_complete() -> None:
    for gate, needed in GATE_DEPENDENCIES.items():
        assert {gate, *needed} <= set(GATES)
        for name in needed:
            assert set(GATE_DEPENDENCIES.get(name, ())) <= set(needed)


# -- who and where --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("user", "trusted"),
    [
        ("system:serviceaccount:kube-system:job-controller", True),
        ("system:serviceaccount:kube-system:replicaset-controller", True),
        ("system:kube-controller-manager", True),
        ("system:node:worker-1", True),
        ("system:serviceaccount:team-a:job-controller", False),
        ("system:serviceaccount:kube-system:default", False),
        ("alice", False),
    ],
)
def test_built_in_controllers_are_trusted_by_name(user: str, trusted: bool) -> None:
    assert effective().trusts(user) is trusted


def test_the_garbage_collector_is_known_also_under_a_shared_identity() -> None:
    assert effective().is_system("system:serviceaccount:kube-system:generic-garbage-collector")
    assert effective().is_system("system:kube-controller-manager")
    assert not effective().is_system("system:serviceaccount:kube-system:job-controller")


def test_features_are_allowed_everywhere_until_a_list_says_where() -> None:
    assert effective().feature_allowed("job_scheduling")
    assert effective(features={"jobScheduling": {"namespaces": ["team-a"]}}).feature_allowed("job_scheduling")
    assert not effective("b", features={"jobScheduling": {"namespaces": ["team-a"]}}).feature_allowed("job_scheduling")
    assert not effective().feature_allowed("admin_access_claims"), "nowhere by default"


def test_freeze_by_cluster_and_by_namespace() -> None:
    assert not effective().frozen
    assert effective(freeze={"cluster": True}).frozen
    assert effective(freeze={"scope": {"namespaces": ["team-a"]}}).frozen
    assert not effective("b", freeze={"scope": {"namespaces": ["team-a"]}}).frozen


def test_tiers_by_class() -> None:
    tiers = [{"name": "gold", "priorityClasses": ["g1", "g2"]}, {"name": "silver", "priorityClasses": ["s"]}]
    policy = effective(tiers=tiers, defaultTier="gold", overrides=[
        {"name": "o", "scope": {"namespaces": ["cheap"]}, "defaultTier": "silver", "unknownPriorityClass": "deny"}
    ])  # fmt: skip
    cheap = policies(**policy.spec.model_dump(by_alias=True)).effective("cheap", {})

    assert policy.tier_of("g2") is policy.tiers[0]
    assert policy.tier_of("other") is None
    assert (policy.default_tier, policy.unknown_priority_class) == ("gold", "allow")
    assert (cheap.default_tier, cheap.unknown_priority_class) == ("silver", "deny")


def test_subjects_by_user_group_and_service_account() -> None:
    policy = effective()
    subjects = Subjects(users=("alice",), groups=("ml-*",), service_accounts=("ci:*",))

    assert policy.subjects_hold(None, "anybody", [])
    assert policy.subjects_hold(subjects, "alice", [])
    assert policy.subjects_hold(subjects, "bob", ["x", "ml-team"])
    assert policy.subjects_hold(subjects, "system:serviceaccount:ci:bot", [])
    assert not policy.subjects_hold(subjects, "system:serviceaccount:other:bot", ["x"])
    assert not policy.subjects_hold(Subjects(), "alice", ["ml-team"]), "given but empty: nobody"


def test_guarded_resources_and_schedulers() -> None:
    policy = effective(cluster={"schedulers": ["default-scheduler", "gang"]})

    assert policy.guards_resource("nvidia.com/mig-1g.10gb")
    assert not policy.guards_resource("cpu")
    assert policy.knows_scheduler(None)
    assert policy.knows_scheduler("gang")
    assert not policy.knows_scheduler("volcano")


# -- labels ---------------------------------------------------------------------------------------------------------
def selector(*expressions: dict[str, object], **labels: str) -> dict[str, object]:
    return {"namespaceSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


@pytest.mark.parametrize(
    ("scope", "labels", "holds"),
    [
        (selector(team="ml"), {"team": "ml"}, True),
        (selector(team="ml"), {"team": "web"}, False),
        (selector(team="ml"), {}, False),
        (selector(), {}, True),
        (selector({"key": "a", "operator": "In", "values": ["x", "y"]}), {"a": "y"}, True),
        (selector({"key": "a", "operator": "In", "values": ["x"]}), {}, False),
        (selector({"key": "a", "operator": "NotIn", "values": ["x"]}), {}, True),
        (selector({"key": "a", "operator": "NotIn", "values": ["x"]}), {"a": "x"}, False),
        (selector({"key": "a", "operator": "Exists"}), {"a": ""}, True),
        (selector({"key": "a", "operator": "DoesNotExist"}), {"a": ""}, False),
        (selector({"key": "a", "operator": "Exists"}, team="ml"), {"a": ""}, False),
        ({"namespaces": ["team-a"], **selector(team="ml")}, {}, True),
        ({}, {"team": "ml"}, False),
    ],
)
def test_scopes_by_label_as_kubernetes_selects(scope: dict[str, object], labels: dict[str, str], holds: bool) -> None:
    policy = EffectivePolicy(policies().policy, "v", "team-a", labels)

    assert policy.scope_holds(NamespaceScope.model_validate(scope)) is holds


def test_labels_are_asked_for_only_where_a_scope_selects_by_them() -> None:
    by_label = {"namespaceSelector": {"matchLabels": {"team": "ml"}}}
    exemption = {**EXEMPTION, "scope": by_label}

    assert not policies().needs_labels
    assert not policies(exemptions=[EXEMPTION]).needs_labels
    for spec in (
        {"exemptions": [exemption]},
        {"overrides": [{"name": "o", "scope": by_label}]},
        {"tiers": [{"name": "gold", "priorityClasses": ["g"], "scope": by_label}]},
        {"features": {"sharedClaims": by_label}},
        {"freeze": {"scope": by_label}},
    ):
        assert policies(**spec).needs_labels, spec


def test_an_effective_policy_is_built_once_per_namespace_and_labels() -> None:
    plain = policies()
    by_label = policies(freeze={"scope": {"namespaceSelector": {"matchLabels": {"team": "ml"}}}})

    assert plain.effective("a", {"x": "y"}) is plain.effective("a", {})
    assert plain.effective("a", {}) is not plain.effective("b", {})
    assert by_label.effective("a", {"team": "ml"}).frozen
    assert not by_label.effective("a", {}).frozen
    assert by_label.effective("a", {}) is by_label.effective("a", {})
