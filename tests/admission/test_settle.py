"""Rounds: a rule runs again only where its questions were open, and that changes no verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from tests.edge.reviews import finding, pod, review, rule
from tests.support.cases import NOW, Case, FixedPolicies, load_cases, pipeline_for, policy_document
from webhook.admission.evaluate import active, evaluate
from webhook.admission.pipeline import Pipeline
from webhook.facts.gather import ROUND_COUNT_MAX, ask_all
from webhook.facts.model import Facts, Phase
from webhook.facts.source import Absent, Answer, Query, Unknown
from webhook.facts.surroundings import Surroundings
from webhook.objects.read import ShapeError
from webhook.objects.request import AdmissionRequest
from webhook.verdict import Finding, Unresolved, Violation

REQUEST = msgspec.convert(review(pod())["request"], AdmissionRequest)
FAR = 1e12


class Asked:
    """A source in which nothing exists, that remembers each question."""

    def __init__(self) -> None:
        self.questions: list[tuple[Query, bool]] = []

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        self.questions.append((query, fresh))
        return Absent()


class Chain:
    """A rule that follows a chain of Workloads, one more with each answer, and counts its runs."""

    def __init__(self, length: int, *, denies: bool = False) -> None:
        self.length, self.denies, self.run_count = length, denies, 0

    def run(self, facts: Facts) -> Iterable[Finding | Unresolved]:
        self.run_count += 1
        for index in range(self.length):
            looked = facts.surroundings.workload(facts.namespace, f"w{index}")
            if looked.unknown:
                yield Unresolved(reason=looked.unknown)
                return
        if self.denies:
            yield finding()


def pipeline(source: Asked, *chains: Chain) -> Pipeline:
    rules = tuple(rule(f"WAS80{index}", chain.run) for index, chain in enumerate(chains))
    policies = FixedPolicies(policy_document({}))
    return Pipeline(policies=lambda: policies, source=source, catalogue=rules, clock=lambda: NOW)


def test_only_rules_with_open_questions_run_again() -> None:
    """The first asks nothing, the second twice, the third three times."""
    source, chains = Asked(), [Chain(0), Chain(2), Chain(3)]

    verdict = pipeline(source, *chains).judge(REQUEST, Phase.VALIDATING)

    assert [chain.run_count for chain in chains] == [1, 3, 4]
    assert [query.name for query, _ in source.questions] == ["w0", "w1", "w2"]
    assert verdict.allowed
    assert not verdict.unknowns  # "not looked up yet" is no result


def test_findings_keep_the_order_of_the_catalogue() -> None:
    """Whichever rule was settled last."""
    verdict = pipeline(Asked(), Chain(3, denies=True), Chain(0, denies=True), Chain(1, denies=True)).judge(
        REQUEST, Phase.VALIDATING
    )

    assert [violation.rule for violation in verdict.violations] == ["WAS800", "WAS801", "WAS802"]


def test_everything_a_denial_rests_on_is_asked_again_live() -> None:
    """What the settled rules asked in earlier rounds included."""
    source = Asked()

    pipeline(source, Chain(1), Chain(3, denies=True)).judge(REQUEST, Phase.VALIDATING)

    assert [query.name for query, fresh in source.questions if fresh] == ["w0", "w1", "w2"]


def test_an_answer_that_stays_unknown_settles_a_rule() -> None:
    """Unknown is an answer; only a question nobody answered yet is open."""

    class Silent(Asked):
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            super().ask(query, fresh=fresh, deadline=deadline)
            return Unknown("the API server did not answer")

    chain = Chain(2)
    verdict = pipeline(Silent(), chain).judge(REQUEST, Phase.VALIDATING)

    assert chain.run_count == 2
    assert [unknown.reason for unknown in verdict.unknowns] == ["the API server did not answer"]


def test_what_a_pod_names_is_looked_up_once_and_beforehand() -> None:
    """Its group, its class, its claim template; no rule needs a second run for them."""
    named = pod(
        schedulingGroup={"podGroupName": "pg"},
        priorityClassName="gold",
        resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}, {"name": "d", "resourceClaimName": "own"}],
    )
    source = Asked()
    request = msgspec.convert(review(named)["request"], AdmissionRequest)

    pipeline(source).judge(request, Phase.VALIDATING)

    assert [str(query) for query, _ in source.questions] == [
        "PodGroup team-a/pg",
        "PriorityClass gold",
        "ResourceClaimTemplate team-a/t",
    ]


CASES = [case for case in load_cases() if case.phase is Phase.VALIDATING]


def naive(case: Case) -> list[Violation]:
    """All rules anew in every round, nothing looked up beforehand: what docs/decisions/0002 says in its plainest form."""
    judge = pipeline_for(case)
    facts = judge._facts(case.request(), Phase.VALIDATING, judge._policy(case.request(), FAR))
    rules = active(tuple(judge.catalogue), facts.policy, facts.kind, facts.operation, facts.subresource, facts.phase)
    known: dict[Query, Answer] = {}
    for _ in range(ROUND_COUNT_MAX):
        surroundings = Surroundings(known)
        results: dict = {}
        evaluate(rules, replace(facts, surroundings=surroundings), results)
        if not surroundings.missing:
            return [violation for found, _ in results.values() for violation in found]
        known |= ask_all(judge.source, surroundings.missing, fresh=False, deadline=FAR)
    raise AssertionError("never settles")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rounds_change_no_finding(case: Case) -> None:
    """On every fixture of every rule: the same findings as from running all rules in every round."""
    judge = pipeline_for(case)
    try:
        facts = judge._facts(case.request(), Phase.VALIDATING, judge._policy(case.request(), FAR))
    except ShapeError:
        pytest.skip("unreadable on purpose: no rule runs")

    settled = judge._settle(facts, time.monotonic() + 60, fresh=False)[0]

    assert settled == naive(case)
