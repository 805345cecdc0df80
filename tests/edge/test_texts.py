"""Message, warnings and audit annotation: what they say, how long they may be, which characters they may hold."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.edge.reviews import pod, review
from webhook.edge.response import (
    ANNOTATION_BYTES_MAX,
    LINE_BYTES_MAX,
    LINE_COUNT_MAX,
    WARNING_LENGTH_MAX,
    WARNINGS_LENGTH_MAX,
    admission_review,
    plain,
)
from webhook.facts.model import Phase
from webhook.objects.fieldpath import FieldPath
from webhook.objects.request import AdmissionRequest
from webhook.verdict import Action, Unresolved, Verdict, Versions, Violation

REQUEST = msgspec.convert(review(pod("train"))["request"], AdmissionRequest)
VERSIONS = Versions(policy="v1", policy_name="baseline")


def violation(
    rule: str = "WAS101",
    message: str = "is 8, limit 4",
    fix: str = "set it to 4",
    field: str = "spec.x",
    action: Action = Action.DENY,
) -> Violation:
    return Violation(rule=rule, action=action, field=field, reason="fake", seen=8, limit=4, message=message, fix=fix)


def respond(verdict: Verdict, request: AdmissionRequest = REQUEST) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(admission_review(request, verdict, Phase.VALIDATING))["response"]
    return response


def denied(*violations: Violation, request: AdmissionRequest = REQUEST) -> dict[str, Any]:
    status: dict[str, Any] = respond(Verdict(violations=violations, code=403, versions=VERSIONS), request)["status"]
    return status


def warned(*violations: Violation, **more: Any) -> list[str]:
    return list(respond(Verdict(violations=violations, **more)).get("warnings", []))


# ---- the message ------------------------------------------------------------------------------------------------
def test_one_violation_is_one_line() -> None:
    """No header: kubectl's own prefix is long enough."""
    assert denied(violation())["message"] == "spec.x: is 8, limit 4. Fix: set it to 4 [WAS101]"


def test_several_violations_get_a_header() -> None:
    """How many, of what, by which policy, then one line each, in the order of the rules."""
    message = denied(violation(), violation("WAS201", field="spec.y"))["message"]

    assert message.split("\n") == [
        '2 rules deny Pod team-a/train (policy "baseline"):',
        "spec.x: is 8, limit 4. Fix: set it to 4 [WAS101]",
        "spec.y: is 8, limit 4. Fix: set it to 4 [WAS201]",
    ]


def test_one_rule_in_several_places() -> None:
    """A rule that finds two faults is one rule."""
    message = denied(violation(), violation(field="spec.y"))["message"]

    assert message.startswith('1 rule denies Pod team-a/train in 2 places (policy "baseline"):\n')


def test_warnings_are_not_in_the_message() -> None:
    """What only warns does not look like a reason of the denial, and is still shown."""
    response = respond(
        Verdict(violations=(violation(), violation("WAS102", action=Action.WARN)), code=403, versions=VERSIONS)
    )

    assert response["status"]["message"] == "spec.x: is 8, limit 4. Fix: set it to 4 [WAS101]"
    assert response["warnings"] == ["spec.x: is 8, limit 4. Fix: set it to 4 [WAS102]"]
    assert len(response["status"]["details"]["causes"]) == 1


def test_deletecollection_and_generated_names_in_the_header() -> None:
    """The object is named even where the request does not."""
    nameless = msgspec.structs.replace(REQUEST, name="")
    generated = msgspec.structs.replace(nameless, object={"metadata": {"generateName": "train-"}})
    two = (violation(), violation("WAS201"))

    assert " Pod team-a/train (" in denied(*two, request=nameless)["message"]
    assert " Pod team-a/train-* (" in denied(*two, request=generated)["message"]


def test_many_violations_are_counted_not_listed() -> None:
    """An answer has an end."""
    status = denied(*(violation(field=f"spec.f{index}") for index in range(LINE_COUNT_MAX + 5)))

    lines = status["message"].split("\n")
    assert len(lines) == LINE_COUNT_MAX + 2
    assert lines[0].startswith(f"1 rule denies Pod team-a/train in {LINE_COUNT_MAX + 5} places")
    assert lines[-1] == "and 5 more"
    assert len(status["details"]["causes"]) == LINE_COUNT_MAX


def test_a_long_line_is_cut_and_keeps_its_rule() -> None:
    """Under 1 KiB in UTF-8, whatever the characters."""
    for char in ("x", "ü", "語", "🚀"):
        line = denied(violation(message=f"{char * 50} " * 100))["message"]

        assert len(line.encode()) <= LINE_BYTES_MAX
        assert len(line.encode()) > LINE_BYTES_MAX // 2
        assert line.endswith("... [WAS101]")


def test_429_has_its_notes_as_message() -> None:
    """Try again: the reason is the message, nothing is a warning."""
    response = respond(Verdict(code=429, retry_after_seconds=1, notes=('quota "gold" is contended',)))

    assert response["status"] == {
        "status": "Failure",
        "message": 'quota "gold" is contended',
        "reason": "TooManyRequests",
        "code": 429,
        "details": {"name": "train", "kind": "Pod", "retryAfterSeconds": 1},
    }
    assert "warnings" not in response


def test_notes_of_nothing_visible_are_no_message() -> None:
    """An empty line would say nothing at all."""
    status = respond(Verdict(notes=("\x1f", "\u200b"), code=403, versions=VERSIONS))["status"]

    assert status["message"] == "refused by Muster"


def test_a_rules_word_outweighs_try_again() -> None:
    """Who would repeat the request would only meet the rule."""
    status = respond(Verdict(code=429, retry_after_seconds=1, violations=(violation(),)))["status"]

    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert "retryAfterSeconds" not in status["details"]


# ---- warnings ---------------------------------------------------------------------------------------------------
def test_a_long_warning_becomes_two_and_loses_no_way_out() -> None:
    """First what is wrong, then what to change; both carry the rule."""
    first, second = warned(violation(message="is wrong " * 60, fix="write it right", action=Action.WARN))

    assert first.startswith("spec.x: is wrong is wrong")
    assert first.endswith("wrong... [WAS101]")
    assert second == "spec.x: Fix: write it right [WAS101]"
    assert max(len(first), len(second)) <= WARNING_LENGTH_MAX


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            f"needs 5 Pods; {'holds ' * 35}4; stays Pending",
            ["needs 5 Pods; holds", "stays Pending. Fix: write it right"],
        ),
        (f'names ("a; b", {"c; " * 73}d); is lost', ['names ("a; b", c;', "is lost. Fix: write it right"]),
        (f"{'is so ' * 30}cpu: 96: {'1.37 waits ' * 12}", ["is so", "1.37 waits"]),
    ],
)
def test_a_long_warning_is_parted_between_clauses(message: str, parts: list[str]) -> None:
    """Not inside quotes, brackets and amounts; every part has the field and the rule, and no word is lost."""
    said = warned(violation(message=message, fix="write it right", action=Action.WARN))

    bodies = [text.removeprefix("spec.x: ").removesuffix(" [WAS101]") for text in said]
    assert [body[: len(part)] for body, part in zip(bodies, parts, strict=True)] == parts
    words = [re.sub("[;:.]", "", text).split() for text in (" ".join(bodies), f"{message} Fix write it right")]
    assert words[0] == words[1]


def test_an_endless_word_is_cut_too() -> None:
    """A word longer than a warning has no word boundary."""
    (note,) = warned(notes=("x" * 1000,))

    assert note == "x" * (WARNING_LENGTH_MAX - 3) + "..."


def test_many_warnings_end_in_a_number() -> None:
    """Under 4,096 together; the rest is counted."""
    warnings = warned(*(violation(field=f"spec.f{index}", action=Action.WARN) for index in range(300)))

    assert sum(map(len, warnings)) <= WARNINGS_LENGTH_MAX
    assert warnings[-1] == f"and {301 - len(warnings)} more warnings; the audit log has the whole verdict"
    assert len(warnings) > 80


def test_equal_warnings_are_said_once() -> None:
    """The API server would drop them anyway, and the number of the rest would be wrong."""
    assert len(warned(violation(action=Action.WARN), violation(action=Action.WARN))) == 1


def test_only_unknowns_that_warn_are_shown() -> None:
    """Unknown admits; the tenant hears of it where the rule says so."""
    unknowns = (
        Unresolved(reason="the API server did not answer", field=FieldPath.of("spec"), warn=True, rule="WAS201"),
        Unresolved(reason="quiet", rule="WAS202"),
    )

    assert warned(unknowns=unknowns) == ["spec: not checked: the API server did not answer [WAS201]"]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb",
        "a\r\nWarning: 299 - forged",
        "a\x00b",
        "a\x1b[31mred",
        "a\x7fb",
        "a\x9bb",
        "a\u2028b",
        "a\u202eb",
        "a\u200bb",
    ],
)
def test_characters_that_forge_or_hide_become_spaces(text: str) -> None:
    """The API server drops a warning that holds a control character, and a terminal obeys it."""
    (line,) = warned(notes=(text,))

    assert line.isprintable()
    assert line.startswith("a ")


def test_other_characters_stay() -> None:
    """A name is a name."""
    assert plain('„Ünïcode" 語 🚀 \\') == '„Ünïcode" 語 🚀 \\'


TEXTS = st.text(st.characters(codec="utf-8"), max_size=400) | st.text(max_size=40)
VIOLATIONS = st.builds(
    violation,
    rule=st.sampled_from(["WAS101", "WAS999"]),
    message=TEXTS,
    fix=TEXTS,
    field=TEXTS,
    action=st.sampled_from(list(Action)),
)


@given(
    violations=st.lists(VIOLATIONS, max_size=60),
    notes=st.lists(TEXTS, max_size=10),
    code=st.sampled_from([200, 403, 422, 429]),
)
def test_limits_hold_for_any_text(violations: list[Violation], notes: list[str], code: int) -> None:
    """Whatever a rule says: what the API server would drop or cut never leaves us, and the answer is valid JSON."""
    verdict = Verdict(violations=violations, notes=notes, code=code, versions=VERSIONS)

    raw = admission_review(REQUEST, verdict, Phase.VALIDATING)

    response = json.loads(raw.decode("utf-8"))["response"]
    warnings = response.get("warnings", [])
    assert all(0 < len(text) <= WARNING_LENGTH_MAX for text in warnings)
    assert sum(map(len, warnings)) <= WARNINGS_LENGTH_MAX
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for text in warnings for char in text)
    assert response["allowed"] is verdict.allowed
    assert len(response["auditAnnotations"].get("verdict", "").encode()) <= ANNOTATION_BYTES_MAX
    if not response["allowed"]:
        for line in response["status"]["message"].split("\n"):
            assert 0 < len(line.encode()) <= LINE_BYTES_MAX
            assert line.isprintable()


# ---- audit ------------------------------------------------------------------------------------------------------
class Odd:
    """A measured value that JSON has no word for."""

    def __str__(self) -> str:
        return "8Gi"


def test_a_measured_value_of_any_type_is_written() -> None:
    """`seen` and `limit` are whatever a rule measured."""
    odd = Violation(
        rule="WAS101",
        action=Action.AUDIT,
        field="spec.x",
        reason="r",
        seen=Odd(),
        limit={"a": frozenset({1})},
        message="m",
        fix="f",
    )

    verdict = json.loads(respond(Verdict(violations=(odd,)))["auditAnnotations"]["verdict"])

    assert verdict["violations"][0]["seen"] == "8Gi"
    assert verdict["violations"][0]["limit"] == {"a": [1]}


def test_a_huge_verdict_is_cut_in_the_audit_log() -> None:
    """Bounded, still JSON, says that and how much is missing."""
    many = [violation(field=f"spec.f{index}", message="m" * 500) for index in range(200)]

    text = respond(Verdict(violations=many, code=403))["auditAnnotations"]["verdict"]

    verdict = json.loads(text)
    assert len(text.encode()) <= ANNOTATION_BYTES_MAX
    assert verdict["truncated"] is True
    assert verdict["violationCount"] == 200
    assert verdict["violations"][0] == {"rule": "WAS101", "action": "Deny", "field": "spec.f0"}
