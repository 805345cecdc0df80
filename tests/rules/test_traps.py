"""WAS121 to WAS140: what is not known, names as the API server makes them, quotas as it counts them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders as b
from tests.support.cases import Case, load_cases, pipeline_for
from webhook.facts.source import Answer, Query, Unknown
from webhook.objects.core import ObjectMeta, ResourceQuota
from webhook.objects.read import read
from webhook.rules._quotas import object_limits
from webhook.rules._traps import generated_base, gets_own_group

CASES = [case for case in load_cases() if "WAS121" <= case.rule <= "WAS140"]
# These rest on nothing but the object, or on the two classes that are always there.
OBJECT_ALONE = {"WAS121", "WAS122", "WAS123", "WAS129", "WAS131"}
POD_GROUPS = "count/podgroups.scheduling.k8s.io"


class Nothing:
    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        return Unknown("the API server does not answer")


@pytest.mark.parametrize("case", [case for case in CASES if not case.allow], ids=str)
def test_what_is_not_known_is_never_denied(case: Case) -> None:
    """Without answers only what the object itself, or a system class, proves is left."""
    pipeline = replace(pipeline_for(case), source=Nothing())

    verdict = pipeline.judge(case.request(), case.phase, time.monotonic() + 60)

    found = {violation.rule for violation in verdict.violations if violation.rule == case.rule}
    system_class = "system-cluster-critical" in str(case.obj) or "system-node-critical" in str(case.obj)
    own_word = case.rule in OBJECT_ALONE or (case.rule == "WAS126" and system_class)
    assert own_word or not any(violation.rule == case.rule for violation in verdict.denials)
    # A rule that says nothing says why, unless the question it would ask comes after one that is open.
    assert found or {unknown.rule for unknown in verdict.unknowns}


@given(
    st.text("abcdefghijklmnop0123456789.-", min_size=1, max_size=80),
    st.text("bcdfghjklmn2456789", min_size=5, max_size=5),
)
def test_a_generated_name_is_told_from_a_chosen_one(base: str, suffix: str) -> None:
    """The API server cuts the base to 58 and adds 5."""
    made = ObjectMeta(name=base[:58] + suffix, generate_name=base)

    assert generated_base(made) == base
    assert generated_base(ObjectMeta(generate_name=base)) == base
    assert generated_base(ObjectMeta(name="x" + made.name, generate_name=base)) is None
    assert generated_base(ObjectMeta(name=made.name)) is None


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (b.job("train"), True),
        (b.job("train").gang(), True),
        (b.job("train").scheduling_group("own"), False),
        (b.job("train").managed_by("kueue.x-k8s.io/multikueue"), False),
        (b.job("train").managed_by("kubernetes.io/job-controller"), True),
        (b.job("train").owner("JobSet", "set"), False),
        (b.job("train").owner("JobSet", "set").group_template("workers"), False),
        (b.job("train").owner("JobSet", "set", controller=False), True),
    ],
)
def test_who_gets_a_group_of_its_own(job: b.Job, expected: bool) -> None:
    """getManagementMode of the Job controller: a root Job whose Pods name no group, and whose manager is built in."""
    assert gets_own_group(job.typed()) is expected


def quota(spec: dict[str, object], status: dict[str, object] | None = None) -> ResourceQuota:
    raw = {"metadata": {"name": "q"}, "spec": spec, **({"status": status} if status else {})}
    return read(raw, ResourceQuota)


@pytest.mark.parametrize(
    ("given_quota", "expected"),
    [
        (quota({"hard": {POD_GROUPS: "2"}}), [(2, None)]),
        (quota({"hard": {POD_GROUPS: "2"}}, {"hard": {POD_GROUPS: "1"}, "used": {POD_GROUPS: "1"}}), [(2, 1)]),
        (quota({"hard": {POD_GROUPS: "1"}}, {"hard": {POD_GROUPS: "2"}, "used": {POD_GROUPS: "1"}}), [(2, 1)]),
        (quota({"hard": {"pods": "2"}}, {"hard": {POD_GROUPS: "0"}, "used": {POD_GROUPS: "0"}}), []),
        (quota({"hard": {POD_GROUPS: "1k"}}, {"hard": {POD_GROUPS: "1k"}, "used": {POD_GROUPS: 1001}}), [(1000, -1)]),
        (quota({"hard": {POD_GROUPS: "many"}}), []),
        (quota({"hard": {"pods": "0"}}), []),
        (quota({"hard": {POD_GROUPS: "0"}, "scopes": ["NotTerminating"]}), []),
        (
            quota({"hard": {POD_GROUPS: "0"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}),
            [],
        ),
    ],
)
def test_object_limits(given_quota: ResourceQuota, expected: list[tuple[int, int | None]]) -> None:
    """The larger of spec and status counts, as long as the spec names it: the status follows; scopes are about Pods only; what is unreadable proves nothing."""
    limits = list(object_limits((given_quota,), POD_GROUPS))

    assert [(limit.hard, limit.remaining) for limit in limits] == expected
