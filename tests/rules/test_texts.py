"""Every text that a fixture draws out of the rules, word for word, in one file: a change of wording is reviewed as a
diff. ``UPDATE_GOLDENS=1 pytest tests/rules/test_texts.py`` writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.cases import Case, judge, load_cases
from webhook.edge.response import violation_warnings
from webhook.facts.model import Phase
from webhook.rules.catalogue import BY_ID
from webhook.verdict import Action

GOLDEN = Path(__file__).parent / "texts.golden"
DENIES = [case for case in load_cases() if not case.allow]
DENIAL_LENGTH_MAX = 500
"""A person reads one denial as one paragraph; the wire would take 1,023 bytes."""

# The path of a JobSet's annotation alone has 97 characters, and the controllerRef has to be written out; the fields
# that 1.37 has at a place are listed.
LONG_BY_NATURE = {"WAS305", "WAS306", "WAS309", "WAS312"}


def lines() -> list[str]:
    """One for each violation of a fixture's own rule: fixture | action | field | message | fix."""
    return [
        f"{case} | {found.action} | {found.field} | {found.message} | {found.fix}"
        for case in DENIES
        for found in judge(case).violations
        if found.rule == case.rule
    ]


def test_texts_are_as_reviewed() -> None:
    """If the new words are right: ``UPDATE_GOLDENS=1``, and look at the diff."""
    now = lines()
    if os.environ.get("UPDATE_GOLDENS"):
        GOLDEN.write_text("".join(f"{line}\n" for line in now))
    before = GOLDEN.read_text().splitlines()

    assert [line for line in now if line not in before] == []
    assert [line for line in before if line not in now] == []


@pytest.mark.parametrize("case", DENIES, ids=str)
def test_a_person_can_read_it(case: Case) -> None:
    """A denial is a paragraph. A warning is sent whole or in two parts (a denial that a policy lowers: in three), and
    nothing of it is cut."""
    for found in judge(case).violations:
        if found.rule != case.rule:
            continue
        assert len(found.line()) <= DENIAL_LENGTH_MAX, found.line()
        if case.phase is Phase.REVIEW:
            continue  # what only `muster review` finds is printed, not sent
        warnings = list(violation_warnings(found))
        assert len(warnings) <= (2 if found.action is Action.WARN else 3), warnings
        assert [text for text in warnings if "..." in text and "..." not in found.line()] == []


def test_what_warns_out_of_the_box_fits_one_warning() -> None:
    """Most warnings of rules that warn by default need no second half: those that do are known."""
    long = {
        case.rule
        for case in DENIES
        for found in judge(case).violations
        if found.rule == case.rule
        and BY_ID[case.rule].META.default_action is Action.WARN
        and len(list(violation_warnings(found))) > 1
    }

    assert long <= LONG_BY_NATURE, long - LONG_BY_NATURE


def test_one_is_no_plural() -> None:
    """ "1 Pods" is what a machine says."""
    nouns = "Pods|Jobs|groups|nodes|devices|claims|templates|levels|objects|roles|completions"

    assert [line for line in lines() if re.search(rf"\b1 (other |child |more )?({nouns})\b", line)] == []
