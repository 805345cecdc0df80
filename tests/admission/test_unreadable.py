"""An object that a known version of its kind does not allow (WAS100): refused with 422, but never where no rule could."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.cases import NOW, FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.objects.request import UserInfo
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Action, Verdict

GOOD: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}
BAD = {**GOOD, "spec": {"schedulingPolicy": {"gang": {"minCount": "two"}}}}
ALSO_BAD = {**GOOD, "spec": {"schedulingPolicy": {"gang": {"minCount": "three"}}}}


def judged(
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    operation: str = "CREATE",
    *,
    user: str = "alice",
    **policy: Any,
) -> Verdict:
    policies = FixedPolicies(policy_document(policy))
    pipeline = Pipeline(policies=lambda: policies, source=ObjectSetSource([], complete=True), clock=lambda: NOW)
    request = request_for(new, old, operation, UserInfo(username=user))
    return pipeline.judge(request, Phase.VALIDATING, time.monotonic() + 60)


def outcome(verdict: Verdict) -> tuple[str, Action, int, bool]:
    (violation,) = verdict.violations
    return violation.rule, violation.action, verdict.code, verdict.allowed


def test_it_is_refused_with_422_and_the_field() -> None:
    verdict = judged(BAD)

    assert outcome(verdict) == ("WAS100", Action.DENY, 422, False)
    assert verdict.violations[0].line() == (
        "spec.schedulingPolicy.gang.minCount: expected a whole number, found a string, which PodGroup in "
        "scheduling.k8s.io/v1beta1 does not take. Fix: write a whole number [WAS100]"
    )
    assert outcome(judged(BAD, GOOD, "UPDATE")) == ("WAS100", Action.DENY, 422, False)


@pytest.mark.parametrize("cap", [Action.WARN, Action.AUDIT])
def test_a_policy_that_refuses_nothing_does_not_refuse_this(cap: Action) -> None:
    verdict = judged(BAD, actionMax=str(cap))

    assert outcome(verdict) == ("WAS100", cap, 200, True)
    assert any("[WAS100]" in warning for warning in verdict.warnings) is (cap is Action.WARN)


def test_the_cap_of_an_override_counts_in_its_namespaces_only() -> None:
    override = {"name": "pilot", "actionMax": "Warn"}

    assert judged(BAD, overrides=[{**override, "scope": {"namespaces": ["team-a"]}}]).allowed
    assert not judged(BAD, overrides=[{**override, "scope": {"namespaces": ["team-b"]}}]).allowed


def test_what_a_trusted_controller_makes_is_not_refused() -> None:
    verdict = judged(BAD, user="system:serviceaccount:kube-system:job-controller")

    assert outcome(verdict) == ("WAS100", Action.WARN, 200, True)


def test_what_is_stored_like_that_can_still_be_changed_and_deleted() -> None:
    assert outcome(judged(ALSO_BAD, BAD, "UPDATE")) == ("WAS100", Action.WARN, 200, True)
    assert outcome(judged(None, BAD, "DELETE")) == ("WAS100", Action.WARN, 200, True)
