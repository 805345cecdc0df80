"""Edges of the helpers behind WAS301 to WAS407 that one fixture each would not show."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import job, pod_group, pod_group_template, workload
from tests.support.cases import NOW, FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.quantity import Quantity
from webhook.objects.read import read
from webhook.policy.match import in_scope
from webhook.policy.model import LabelSelector, NamespaceScope, Subjects
from webhook.rules._pod_quotas import Match, counts, is_best_effort, usage
from webhook.rules._rewrite import modern, modern_mode
from webhook.rules._words import quoted, scope_words, subject_words
from webhook.rules.was306_crd_drops_field import keeps
from webhook.rules.was316_frozen import growth, resumed
from webhook.sources.folder import ObjectSetSource

Raw = dict[str, Any]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(
        ["spec", "podGroups", "podGroupTemplates", "compositePodGroupTemplates", "podGroupTemplateRef", "workload",
         "policy", "disruptionMode", "name", "scheduling", "template", "schedulingConstraints", "topology", "workloadRef"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


# ---- rewriting ------------------------------------------------------------------------------------------------
def test_a_workload_of_1_35_gets_templates() -> None:
    """v1alpha1 called them podGroups, with `policy` inside."""
    old = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
        "status": {"anything": 1},
    }

    assert modern(old) == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}}]},
    }


def test_disruption_modes_deep_in_the_tree_are_rewritten() -> None:
    """Templates nest."""
    leaf = {"name": "a", "disruptionMode": "Pod"}
    old = {"kind": "Workload", "spec": {"compositePodGroupTemplates": [{"podGroupTemplates": [leaf]}]}}

    new = modern(old)

    assert new["spec"]["compositePodGroupTemplates"][0]["podGroupTemplates"][0]["disruptionMode"] == {"single": {}}
    assert leaf["disruptionMode"] == "Pod"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Pod", {"single": {}}),
        ("PodGroup", {"all": {}}),
        ("pod", None),
        ({"pod": {}}, {"single": {}}),
        ({"podGroup": {}}, {"all": {}}),
        ({"podGroup": {}, "all": {}}, {"all": {}}),
        ({"podGroup": {}, "single": {}}, None),
        ({"pod": {}, "podGroup": {}}, None),
        ({"all": {}}, None),
        ({}, None),
        (7, None),
    ],
)
def test_old_modes(old: Any, new: Raw | None) -> None:
    """Only what has one meaning is rewritten."""
    assert modern_mode(old) == new


@given(st.dictionaries(st.sampled_from(["kind", "apiVersion", "spec", "metadata"]), JSON))
def test_rewriting_never_raises_changes_nothing_in_place_and_is_idempotent(raw: Raw) -> None:
    """Whatever stands in a manifest."""
    before = copy.deepcopy(raw)

    once = modern(raw)

    assert raw == before
    assert modern(once) == once


# ---- review on any shape --------------------------------------------------------------------------------------
@given(st.sampled_from(["PodGroup", "Workload", "CompositePodGroup", "Job", "CronJob", "JobSet", "Pod"]), JSON)
def test_no_rule_raises_on_any_shape(kind: str, spec: Any) -> None:
    """422 for what cannot be read, a verdict for all else; a RuleError would be our bug."""
    versions = {"Pod": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}
    api_version = versions.get(kind, "scheduling.k8s.io/v1alpha3")
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    policies = FixedPolicies(policy_document({"features": {"jobScheduling": {}, "topologyConstraints": {}}}))
    pipeline = Pipeline(policies=lambda: policies, source=ObjectSetSource([], complete=True), clock=lambda: NOW)

    assert pipeline.judge(request_for(raw, None), Phase.REVIEW).code in (200, 403, 422)


# ---- CRD schemas ----------------------------------------------------------------------------------------------
FIELD = FieldPath.of("spec", "jobs", 0, "scheduling")


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [
        ({"items": {"properties": {"scheduling": {"type": "object"}}}}, True),
        ({"items": {"properties": {"template": {}}}}, False),
        ({"items": {"x-kubernetes-preserve-unknown-fields": True}}, True),
        ({"items": {"additionalProperties": {"type": "string"}}}, True),
        ({"type": "array"}, False),
        ("not a schema", False),
    ],
)
def test_what_a_structural_schema_keeps(jobs: Any, kept: bool) -> None:
    """Pruning of apiextensions/v1."""
    assert keeps({"properties": {"spec": {"properties": {"jobs": jobs}}}}, FIELD) is kept


# ---- freeze ---------------------------------------------------------------------------------------------------
def test_growth_names_each_field_once() -> None:
    """A minCount that is left out follows parallelism and is not named beside it."""
    small, large = job().parallelism(2).gang().plan(), job().parallelism(4).gang().plan()

    assert [(str(field), old, new) for field, old, new in growth(small, large)] == [("spec.parallelism", 2, 4)]
    assert list(growth(large, small)) == []
    assert list(growth(small, small)) == []


def test_a_larger_min_count_is_growth() -> None:
    """It can hold back the Pods that a running gang recreates."""
    before, after = pod_group().gang(2).plan(), pod_group().gang(3).plan()

    assert [(old, new) for _, old, new in growth(before, after)] == [(2, 3)]


def test_a_resume_is_named_once_and_only_if_it_was_suspended() -> None:
    """Suspending is always open."""
    held, running = job().gang().suspend().plan(), job().gang().suspend(False).plan()

    assert [str(field) for field in resumed(held, running)] == ["spec.suspend"]
    assert list(resumed(running, held)) == []
    assert list(resumed(running, running)) == []


# ---- quotas ---------------------------------------------------------------------------------------------------
def pod_spec(**spec: Any) -> core.PodSpec:
    return read({"containers": [{"name": "a"}], **spec}, core.PodSpec)


GPU_ONLY = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
WITH_CPU = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    ("scope", "spec", "match"),
    [
        ("Terminating", {"activeDeadlineSeconds": 60}, Match.YES),
        ("Terminating", {}, Match.NO),
        ("NotTerminating", {}, Match.YES),
        ("NotTerminating", {"activeDeadlineSeconds": 60}, Match.NO),
        ("BestEffort", WITH_CPU, Match.NO),
        ("BestEffort", GPU_ONLY, Match.MAYBE),
        ("NotBestEffort", GPU_ONLY, Match.MAYBE),
        ("NotBestEffort", WITH_CPU, Match.YES),
        ("CrossNamespacePodAffinity", {}, Match.MAYBE),
        ("VolumeAttributesClass", {}, Match.NO),
    ],
)
def test_scopes(scope: str, spec: Raw, match: Match) -> None:
    """podMatchesScopeFunc of 1.37.2; MAYBE where a LimitRange or an affinity term decides."""
    assert counts(core.ResourceQuotaSpec(scopes=(scope,)), pod_spec(**spec), "") is match


@pytest.mark.parametrize(
    ("operator", "values", "class_name", "match"),
    [
        ("In", ["gold"], "gold", Match.YES),
        ("In", ["gold"], "tin", Match.NO),
        ("In", ["gold"], "", Match.NO),
        ("NotIn", ["gold"], "gold", Match.NO),
        ("NotIn", ["gold"], "", Match.YES),
        ("Exists", [], "gold", Match.YES),
        ("Exists", [], "", Match.NO),
        ("DoesNotExist", [], "", Match.YES),
        ("DoesNotExist", [], "gold", Match.NO),
        ("In", ["gold"], None, Match.MAYBE),
    ],
)
def test_priority_class_scope(operator: str, values: list[str], class_name: str | None, match: Match) -> None:
    """A label selector on the class; a Pod without one has no such label."""
    item = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = core.ResourceQuotaSpec(scope_selector={"matchExpressions": [item]})

    assert counts(quota, pod_spec(), class_name) is match


def test_all_scopes_must_match() -> None:
    """scopes and scopeSelector are taken together."""
    quota = core.ResourceQuotaSpec(scopes=("NotTerminating", "BestEffort"))

    assert counts(quota, pod_spec(**WITH_CPU), "") is Match.NO


def test_best_effort_looks_at_cpu_and_memory_only() -> None:
    """A Pod that asks for a GPU alone is BestEffort (ComputePodQOS)."""
    assert is_best_effort(pod_spec(**GPU_ONLY))
    assert not is_best_effort(pod_spec(**WITH_CPU))
    assert not is_best_effort(pod_spec(resources={"limits": {"memory": "1Gi"}}))


def test_usage_has_the_names_of_hard() -> None:
    """podComputeUsageHelper: both names for cpu, only requests.* for extended resources."""
    amounts = {"cpu": Quantity.parse("1"), "nvidia.com/gpu": Quantity.parse(8), "hugepages-2Mi": Quantity.parse("4Mi")}

    assert set(usage(amounts)) == {
        "pods", "count/pods", "cpu", "requests.cpu", "requests.nvidia.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi",
    }  # fmt: skip


# ---- words ----------------------------------------------------------------------------------------------------
def test_long_lists_are_cut() -> None:
    """At most ten names."""
    assert quoted(f"n{i:02}" for i in range(12)).endswith('"n09" and 2 more')
    assert quoted([]) == ""


def test_scopes_and_subjects_in_words() -> None:
    """A limit is named as an admin wrote it."""
    selector = NamespaceScope(namespaces=("a",), namespace_selector=LabelSelector(match_labels={"x": "y"}))

    assert scope_words(None) == "every namespace"
    assert scope_words(NamespaceScope()) == "no namespace"
    assert scope_words(selector) == '"a" or namespaces with the labels of its namespaceSelector'
    assert subject_words(Subjects(users=("alice",), groups=("ml",))) == 'users "alice"; groups "ml"'
    assert subject_words(Subjects()) == "nobody"
    assert in_scope(selector, "b", {"x": "y"})


def test_a_twin_workload_with_generated_name_is_no_twin_of_itself() -> None:
    """WAS313 compares by name; an object that has none yet has no stored twin."""
    one = workload("train").controller("JobSet", "train", "jobset.x-k8s.io").template(pod_group_template("w", 1)).dict()
    policies = FixedPolicies(policy_document({}))
    pipeline = Pipeline(policies=lambda: policies, source=ObjectSetSource([], complete=True), clock=lambda: NOW)

    verdict = pipeline.judge(request_for(one, None), Phase.VALIDATING)

    assert [violation.rule for violation in verdict.violations if violation.rule == "WAS313"] == []


@pytest.mark.parametrize(("group", "kind", "rules"), [("batch", "Job", []), ("jobset.x-k8s.io", "JobSet", ["WAS313"])])
def test_two_workloads_of_a_job_are_not_said_to_be_followed(group: str, kind: str, rules: list[str]) -> None:
    """The Job controller follows neither of a Job's, which WAS138 says; both texts at once would contradict each other."""
    made = [workload(name).controller(kind, "train", group).template(pod_group_template("w", 1)) for name in "ab"]
    source = ObjectSetSource([made[0].dict()], complete=True)
    policies = FixedPolicies(policy_document({}))
    pipeline = Pipeline(policies=lambda: policies, source=source, clock=lambda: NOW)

    verdict = pipeline.judge(request_for(made[1].dict(), None), Phase.VALIDATING)

    assert [violation.rule for violation in verdict.violations] == rules
