"""Every fixture of every rule at the first height: the pipeline itself, without HTTP."""

from __future__ import annotations

import pytest

from tests.support.cases import Case, judge, load_cases
from webhook.rules.catalogue import BY_ID

CASES = list(load_cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fixture(case: Case) -> None:
    """An allow case breaks no rule at all; a deny case breaks exactly its own, as its header says."""
    verdict = judge(case)

    violations = [v for v in verdict.violations if v.rule not in case.also]
    if case.allow:
        assert [f"{v.rule} {v.action}: {v.line()}" for v in violations] == []
        assert verdict.code == 200
        return
    assert {v.rule for v in violations} == {e["rule"] for e in case.expected}, [v.line() for v in verdict.violations]
    for expected in case.expected:
        rule = BY_ID[expected["rule"]]
        action = expected.get("action", str(rule.META.default_action or "Warn"))
        matches = [v for v in violations if v.rule == expected["rule"] and str(v.action) == action]
        if "field" in expected:
            matches = [v for v in matches if v.field == expected["field"]]
        assert matches, f"expected {expected} with {action}, got {[(v.action, v.field, v.line()) for v in violations]}"


@pytest.mark.parametrize("case", [case for case in CASES if not case.allow], ids=str)
def test_texts_say_what_and_what_to_do(case: Case) -> None:
    """Each text fits a line, says what to change, and blames nobody."""
    for violation in judge(case).violations:
        line = violation.line()
        assert len(line.encode()) < 1024
        assert "\n" not in line
        assert violation.fix
        assert violation.message[:1].islower() or not violation.message[:1].isalpha()
        assert not violation.message.endswith(".")
        assert not {"invalid", "illegal", "please"} & set(line.lower().replace(",", " ").split())
