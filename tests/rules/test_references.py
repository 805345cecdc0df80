"""Rules on references and claims (WAS2xx) beyond their fixtures: what is not known, what is stale, what is hostile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Builder
from tests.support.cases import (
    NAMESPACE,
    RULES,
    Case,
    FixedPolicies,
    load_case,
    pipeline_for,
    policy_document,
    request_for,
)
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.facts.source import Absent, Answer, Found, Query, Unknown
from webhook.objects.claims import device_class_alternatives, device_classes, device_count, has_admin_access
from webhook.objects.fieldpath import ROOT
from webhook.objects.request import UserInfo
from webhook.objects.words import nearest
from webhook.plan.model import PlannedClaim
from webhook.rules._claims import compare
from webhook.rules._names import quoted
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

DENY_CASES = [load_case(path) for path in sorted(RULES.glob("WAS2*/deny/*.yaml"))]
# These can say nothing of the object alone; the others of the family may (a Job holds both its claims and its group's).
NEED_ANSWERS = {f"WAS{number}" for number in (202, 203, 206, 207, 208, 209, 211, 213, 214, 215, 216, 217, 218, 222)}


class Nothing:
    """A source that can answer nothing: the cluster is not reachable."""

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        return Unknown("the API server did not answer")


class Changing:
    """A cache that lags: the first answers come from `cached`, live reads from `live`."""

    def __init__(self, cached: list[dict[str, Any]], live: list[dict[str, Any]]) -> None:
        self._cached = ObjectSetSource(cached, complete=True, default_namespace=NAMESPACE)
        self._live = ObjectSetSource(live, complete=True, default_namespace=NAMESPACE)

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        return (self._live if fresh else self._cached).ask(query)


class Ladder:
    """Every CompositePodGroup exists and has another one above it, for ever."""

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        if query.is_list:
            return Found(())
        if query.kind != "CompositePodGroup":
            return Absent()
        name = f"c{int(query.name[1:]) + 1}"
        return Found({"metadata": {"name": query.name}, "spec": {"parentCompositePodGroupName": name}})


def pipeline(source: Any, policy: Mapping[str, Any] | None = None) -> Pipeline:
    policies = FixedPolicies(policy_document(policy or {}))
    return Pipeline(policies=lambda: policies, source=source)


def judge(source: Any, raw: dict[str, Any], user: str = "alice") -> Verdict:
    return pipeline(source).judge(request_for(raw, None, user=UserInfo(username=user)), Phase.VALIDATING)


def member(priority: int) -> dict[str, Any]:
    pod = Builder("v1", "Pod", "w-0", {"containers": [{"name": "main", "image": "pause:3.10"}]})
    pod.spec["schedulingGroup"] = {"podGroupName": "train"}
    pod.spec["priority"] = priority
    return pod.dict()


def pod_group(priority: int) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": priority, "priorityClassName": "gold"}
    return Builder("scheduling.k8s.io/v1beta1", "PodGroup", "train", spec).dict()


@pytest.mark.parametrize("case", DENY_CASES, ids=str)
def test_what_is_not_known_breaks_no_rule(case: Case) -> None:
    """Without answers, no rule that needs one says anything."""
    verdict = replace(pipeline_for(case), source=Nothing()).judge(case.request(), case.phase)

    assert not NEED_ANSWERS & {violation.rule for violation in verdict.violations}


@pytest.mark.parametrize("case", DENY_CASES, ids=str)
def test_a_trusted_controller_is_warned_at_most(case: Case) -> None:
    """A denied child would leave its parent stuck in silence."""
    request = request_for(
        case.new,
        case.old,
        case.operation,
        UserInfo(username="system:serviceaccount:kube-system:job-controller"),
    )

    assert pipeline_for(case).judge(request, case.phase).denials == []


def test_a_denial_needs_a_live_answer() -> None:
    """The cache still holds the old PodGroup; the live read finds the new one, which fits."""
    source = Changing(cached=[pod_group(1000)], live=[pod_group(100)])

    assert judge(source, member(100)).violations == []


def test_a_live_answer_confirms_the_denial() -> None:
    """The other side of the same coin: cache and cluster agree."""
    source = Changing(cached=[pod_group(1000)], live=[pod_group(1000)])

    assert [violation.rule for violation in judge(source, member(100)).denials] == ["WAS211"]


def test_an_endless_chain_of_parents_ends() -> None:
    """A hostile or broken tree is followed a few steps, and then it is unknown, never an error of ours."""
    source = Ladder()
    spec = {
        "schedulingPolicy": {"basic": {}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "parentCompositePodGroupName": "c0",
    }
    composite = Builder("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "c999", spec).dict()

    verdict = judge(source, composite)

    assert [violation for violation in verdict.violations if violation.rule in ("WAS209", "WAS210")] == []
    assert any("composites above each other" in unknown.reason for unknown in verdict.unknowns)


def test_group_below_an_endless_chain_is_unknown() -> None:
    """A Pod whose PodGroup hangs below such a chain has no root to be compared with."""

    class Below(Ladder):
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            if query.kind == "PodGroup" and query.name == "train":
                raw = pod_group(1000)
                raw["spec"]["parentCompositePodGroupName"] = "c0"
                return Found(raw)
            return super().ask(query, fresh=fresh, deadline=deadline)

    assert judge(Below(), member(100)).denials == []


# -- claims -----------------------------------------------------------------------------------------------------------
def claim(name: str, *, template: str | None = None, object_name: str | None = None) -> PlannedClaim:
    return PlannedClaim(
        name=name, resource_claim_name=object_name, resource_claim_template_name=template, path=ROOT / name
    )


GROUP = (claim("gpu", template="t1"), claim("data", object_name="set"))


@pytest.mark.parametrize(
    ("pod_claims", "fields", "unused"),
    [
        ((), [], ["gpu", "data"]),
        ((claim("gpu", template="t1"),), [], ["data"]),
        ((claim("gpu", template="t1"), claim("data", object_name="set")), [], []),
        ((claim("gpu", template="t2"),), ["resourceClaimTemplateName"], ["data"]),
        ((claim("gpu", object_name="t1"),), ["resourceClaimName"], ["data"]),
        ((claim("gpus", template="t1"),), ["name"], ["data"]),
        ((claim("set", object_name="set"),), ["name"], ["gpu"]),
        ((claim("scratch", template="t9"),), [], ["gpu", "data"]),
        ((claim("gpu", template="t1"), claim("mine", template="t1")), [], ["data"]),
        ((claim("gpu"),), [], ["gpu", "data"]),
        ((claim("gpu", template="t2"), claim("gpus", template="t1")), ["resourceClaimTemplateName", "name"], ["data"]),
    ],
)
def test_compare(pod_claims: tuple[PlannedClaim, ...], fields: list[str], unused: list[str]) -> None:
    """Exact, near and unrelated claims; which field differs; what the Pod leaves out."""
    misses, left = compare(pod_claims, GROUP)

    assert [miss.field for miss in misses] == fields
    assert [entry.name for entry in left] == unused


CLAIMS = st.lists(
    st.builds(
        claim,
        st.sampled_from(["gpu", "gpus", "data", "x"]),
        template=st.sampled_from([None, "t1", "t2"]),
        object_name=st.sampled_from([None, "set", "t1"]),
    ),
    max_size=4,
    unique_by=lambda entry: entry.name,
)


@given(pod_claims=CLAIMS, group_claims=CLAIMS)
def test_compare_never_blames_an_exact_match(pod_claims: list[PlannedClaim], group_claims: list[PlannedClaim]) -> None:
    """An exact match is in neither list, and nothing is both nearly used and unused."""
    misses, unused = compare(pod_claims, group_claims)

    exact = {entry.key for entry in pod_claims} & {entry.key for entry in group_claims}
    assert not exact & {miss.pod.key for miss in misses}
    assert not exact & {miss.group.key for miss in misses}
    assert not exact & {entry.key for entry in unused}
    assert not {miss.group.key for miss in misses} & {entry.key for entry in unused}


def spec(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"requests": list(requests)}}


@pytest.mark.parametrize(
    ("claim_spec", "count"),
    [
        (spec({"exactly": {"deviceClassName": "a"}}), 1),
        (spec({"exactly": {"deviceClassName": "a", "count": 4}}, {"exactly": {"deviceClassName": "b"}}), 5),
        (spec({"exactly": {"deviceClassName": "a", "allocationMode": "All"}}), None),
        (spec({"firstAvailable": [{"deviceClassName": "a"}]}, {"exactly": {"deviceClassName": "b"}}), None),
        (spec({"exactly": {"deviceClassName": "a", "adminAccess": True}}), None),
        (spec({"deviceClassName": "a", "count": 2}), 2),
        (spec({"exactly": {"deviceClassName": "a", "count": "two"}}), None),
        ({}, None),
        ({"devices": "none"}, None),
        ({"devices": {"requests": ["x", None]}}, None),
    ],
)
def test_device_count(claim_spec: dict[str, Any], count: int | None) -> None:
    """How many devices one claim allocates; None where the spec does not fix it or cannot be read."""
    assert device_count(claim_spec) == count


def test_what_a_claim_asks_for() -> None:
    """Classes of plain requests and of alternatives, and adminAccess, in one spec."""
    asked = spec(
        {"exactly": {"deviceClassName": "a", "adminAccess": True}},
        {"exactly": {"deviceClassName": "a"}},
        {"firstAvailable": [{"deviceClassName": "b"}, {"deviceClassName": "c"}]},
    )

    assert device_classes(asked) == ["a"]
    assert device_class_alternatives(asked) == [["b", "c"]]
    assert has_admin_access(asked)
    assert not has_admin_access(spec({"exactly": {"adminAccess": "true"}}))


# -- names ------------------------------------------------------------------------------------------------------------
def test_nearest_is_near_or_none() -> None:
    """A slip of the pen is found, another word is not, and a name is never its own neighbour."""
    assert nearest("trian", ["train", "serve"]) == "train"
    assert nearest("zzz", ["train", "serve"]) is None
    assert nearest("train", ["train"]) is None
    assert nearest("h20O", ["h100", "h200"]) == "h200"
    assert nearest("gpu", ["cpu"]) is None
    assert nearest("MUSTER_FOO", ["MUSTER_BIND", "MUSTER_POLICY"]) is None


def test_quoted_lists_ten() -> None:
    """Long lists end with a count."""
    assert quoted(f"n{index:02}" for index in range(12)).endswith('"n09" and 2 more')
    assert quoted([], nothing="none") == "none"


def test_what_is_not_known_is_told() -> None:
    """What could not be looked up is in the verdict, with its reason, for the audit log and for `review`."""
    verdict = judge(Nothing(), member(100))

    told = {unknown.rule for unknown in verdict.unknowns}
    assert {"WAS206", "WAS211"} <= told
    assert verdict.denials == []
