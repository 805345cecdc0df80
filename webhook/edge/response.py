"""Verdict -> bytes. The only place that makes answers: AdmissionReviews, and a `v1` Status for HTTP errors.

What a person sees of a denial, by kubectl's source (kubectl v0.37.2, pkg/cmd/util/helpers.go, checkErr):

- reason Forbidden or TooManyRequests: `Error from server (Forbidden): ... denied the request: <status.message>`. Causes
  are not printed, so the message holds every line.
- reason Invalid: `The <details.kind> "<details.name>" is invalid: <cause.field>: <cause.message>`, one line per cause.
  The message is *not* printed, so the causes hold the whole text too.

So message and causes say the same. A cause's `reason` is the rule's ID: kubectl does not print it, and a program has a
stable word to act on. `kubectl edit` prints details.kind, details.name and the causes for either reason.

Warnings travel as HTTP headers. The API server drops one that holds a control character or is not UTF-8 (apimachinery,
NewWarningHeader), drops repetitions, and once all warnings of a request (other webhooks' too) pass 4,096 characters cuts
each to 256 (apiserver, filters/warning.go). Other characters pass unchanged, but clients that read headers as Latin-1
garble them, so nothing here adds any: a cut is marked by "...", not by an ellipsis character.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from webhook.facts.model import Phase
from webhook.objects.request import AdmissionRequest
from webhook.verdict import Action, Unresolved, Verdict, Violation

LINE_BYTES_MAX: Final = 1023
"""Each violation's line in `status.message`, in UTF-8: under 1 KiB (design: Verdicts)."""

LINE_COUNT_MAX: Final = 32
"""Violations spelled out in one answer: 32 KiB of text at most, far below what the API server reads of an answer."""

WARNING_LENGTH_MAX: Final = 255
"""Characters of one warning: below the 256 to which the API server cuts."""

WARNINGS_LENGTH_MAX: Final = 4095
"""Characters of all warnings together: below the 4,096 at which it begins to cut."""

ANNOTATION_BYTES_MAX: Final = 16 * 1024
"""The verdict in the audit log. Audit backends cut whole events (100 KiB and more) and would lose more than this."""

_REASONS: Final = {403: "Forbidden", 422: "Invalid", 429: "TooManyRequests"}
_HTTP_REASONS: Final = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_TAG = re.compile(r" \[WAS\d{3}\]\Z")
_AMOUNT = re.compile(r"(?!1\.37 )\d")


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Absent and default are the same on the wire; fields without a default are always written."""


class _Cause(_Wire, frozen=True):
    reason: str
    message: str
    field: str = ""


class _Details(_Wire, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[_Cause, ...] = ()
    retry_after_seconds: int | None = None


class _Status(_Wire, frozen=True):
    status: str
    message: str
    reason: str
    code: int
    details: _Details | None = None
    kind: str | None = None
    api_version: str | None = None


class _Response(_Wire, frozen=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Review(_Wire, frozen=True):
    api_version: str
    kind: str
    response: _Response


# `seen` and `limit` of a violation are whatever a rule measured; what JSON has no word for is written as text.
_ENCODER = msgspec.json.Encoder(enc_hook=str)


def admission_review(request: AdmissionRequest, verdict: Verdict, phase: Phase) -> bytes:
    """The AdmissionReview that answers `request`. A patch is sent in the mutating phase only, and never an empty one:
    the API server refuses a validating answer that has one, and a patchType without a patch."""
    patch = verdict.patch if phase is Phase.MUTATING and verdict.allowed else ()
    response = _Response(
        uid=request.uid,
        allowed=verdict.allowed,
        status=None if verdict.allowed else _denial(request, verdict),
        patch=base64.b64encode(_ENCODER.encode(patch)).decode("ascii") if patch else None,
        patch_type="JSONPatch" if patch else None,
        audit_annotations=_audit_annotations(verdict),
        warnings=_warnings(verdict),
    )
    return _ENCODER.encode(_Review("admission.k8s.io/v1", "AdmissionReview", response))


def http_error(status: int, message: str, uid: str = "") -> bytes:
    """The body of an HTTP error: a `v1` Status, which Kubernetes clients can read. uid: the request's, where known."""
    return _ENCODER.encode(
        _Status(
            status="Failure",
            message=message,
            reason=_HTTP_REASONS.get(status, "Unknown"),
            code=status,
            details=_Details(uid=uid) if uid else None,
            kind="Status",
            api_version="v1",
        )
    )


# ---- denials ----------------------------------------------------------------------------------------------------
def _denial(request: AdmissionRequest, verdict: Verdict) -> _Status:
    denials = verdict.denials
    # A rule's word outweighs "try again": who repeats the request would only meet the rule. Never below 400.
    code = verdict.code if verdict.code in _REASONS and (verdict.code != 429 or not denials) else 403
    return _Status(
        status="Failure",
        message=_message(request, verdict, denials),
        reason=_REASONS[code],
        code=code,
        details=_Details(
            name=request.display_name,
            group=request.kind.group,
            kind=request.kind.kind,
            causes=tuple(
                _Cause(reason=denial.rule, field=denial.field, message=_cut_bytes(denial.text()))
                for denial in denials[:LINE_COUNT_MAX]
            ),
            retry_after_seconds=verdict.retry_after_seconds if code == 429 else None,
        ),
    )


def _message(request: AdmissionRequest, verdict: Verdict, denials: Sequence[Violation]) -> str:
    if not denials:
        return _cut_bytes("; ".join(filter(None, map(plain, verdict.notes)))) or "refused by Muster"
    lines = [_cut_bytes(denial.line()) for denial in denials[:LINE_COUNT_MAX]]
    if len(denials) > LINE_COUNT_MAX:
        lines.append(f"and {len(denials) - LINE_COUNT_MAX} more")
    if len(denials) == 1:
        return lines[0]
    return "\n".join([_header(request, verdict, denials), *lines])


def _header(request: AdmissionRequest, verdict: Verdict, denials: Sequence[Violation]) -> str:
    rules = len({denial.rule for denial in denials})
    who = f"{rules} rules deny" if rules > 1 else "1 rule denies"
    places = "" if rules == len(denials) else f" in {len(denials)} places"
    where = "/".join(filter(None, (request.namespace, request.display_name)))
    policy = f' (policy "{verdict.versions.policy_name}")' if verdict.versions.policy_name else ""
    return _cut_bytes(f"{who} {request.kind.kind} {where}{places}{policy}") + ":"


# ---- warnings ---------------------------------------------------------------------------------------------------
def _warnings(verdict: Verdict) -> list[str] | None:
    if not verdict.violations and not verdict.unknowns and not verdict.notes and not verdict.patch_notes:
        return None
    texts = list(dict.fromkeys(filter(None, map(plain, _warning_texts(verdict)))))
    total = 0
    for index, text in enumerate(texts):
        rest = f"and {len(texts) - index} more warnings; the audit log has the whole verdict"
        total += len(text)
        last = index == len(texts) - 1
        if total + (0 if last else len(rest)) > WARNINGS_LENGTH_MAX:
            return [*texts[:index], rest]
    return texts or None


def _warning_texts(verdict: Verdict) -> Iterable[str]:
    """Most telling first: what rules found, what was changed, what was not checked."""
    for violation in verdict.violations:
        if violation.action is Action.WARN:
            yield from violation_warnings(violation)
    notes = verdict.notes if verdict.allowed or verdict.denials else ()  # else they are the message
    for note in (*verdict.patch_notes, *notes):
        yield _cut(note, WARNING_LENGTH_MAX)
    for unknown in verdict.unknowns:
        if unknown.warn:
            yield _cut(_unknown_text(unknown), WARNING_LENGTH_MAX)


def violation_warnings(violation: Violation) -> Iterable[str]:
    """One warning; where that would be cut, as many as its clauses need (two, with the texts of the catalogue and names
    of usual length). Each begins with the field and ends with the rule's ID, and the last one has the way out."""
    where = plain(f"{violation.field}: ") if violation.field else ""
    tag = f" [{violation.rule}]"
    shorter = f"{where}{plain(violation.message)}; {plain(violation.fix)}{tag}"
    for line in (plain(violation.line()), shorter):
        if len(line) <= WARNING_LENGTH_MAX:
            yield line
            return
    room = WARNING_LENGTH_MAX - len(where) - len(tag)
    packed = ""
    for joint, clause in _clauses(plain(violation.message), plain(violation.fix), room):
        if packed and len(packed) + len(joint) + len(clause) > room:
            yield _cut(f"{where}{packed}{tag}", WARNING_LENGTH_MAX)
            packed = clause
        else:
            packed = f"{packed}{joint}{clause}" if packed else clause
    yield _cut(f"{where}{packed}{tag}", WARNING_LENGTH_MAX)


def _clauses(message: str, fix: str, room: int) -> Iterable[tuple[str, str]]:
    """(what joins it to the one before, clause) for all of it. Apart at "; ", and what is still too long at ": "."""
    clauses = [("; ", clause) for clause in _split(message, "; ")]
    for joint, clause in (*clauses, (". ", f"Fix: {fix}")):
        if len(clause) <= room:
            yield joint, clause
            continue
        first, *rest = _split(clause, ": ")
        yield joint, first
        for part in rest:
            yield ": ", part


def _split(text: str, joint: str) -> list[str]:
    """Apart at each `joint` outside quotes and brackets; not at one before an amount ("cpu: 96")."""
    depth, quoted, start = 0, False, 0
    found: list[str] = []
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char in "([{") - (char in ")]}")
            after = index + len(joint)
            if depth <= 0 and text.startswith(joint, index) and not _AMOUNT.match(text, after):
                found.append(text[start:index])
                start = after
    return [*found, text[start:]]


def _unknown_text(unknown: Unresolved) -> str:
    where = f"{unknown.field}: " if unknown.field else ""
    tail = f" [{unknown.rule}]" if unknown.rule else ""
    return f"{where}not checked: {unknown.reason}{tail}"


# ---- audit ------------------------------------------------------------------------------------------------------
def _audit_annotations(verdict: Verdict) -> dict[str, str] | None:
    """`verdict` only where there is something to say: absent, it is "allowed, nothing found"."""
    annotations = {}
    if verdict.violations or verdict.unknowns or verdict.notes or verdict.patch:
        annotations["verdict"] = _verdict_text(verdict)
    if verdict.versions.policy:
        annotations["policy"] = verdict.versions.policy
    if verdict.short_circuit:
        annotations["short-circuit"] = verdict.short_circuit
    return annotations or None


def _verdict_text(verdict: Verdict) -> str:
    whole = _ENCODER.encode(verdict.as_dict())
    if len(whole) <= ANNOTATION_BYTES_MAX:
        return whole.decode()
    short = {
        "allowed": verdict.allowed,
        "truncated": True,
        "violationCount": len(verdict.violations),
        "violations": [
            {"rule": violation.rule, "action": str(violation.action), "field": _cut(violation.field, 100)}
            for violation in verdict.violations[:LINE_COUNT_MAX]
        ],
        "unknownCount": len(verdict.unknowns),
    }
    return _ENCODER.encode(short).decode()


# ---- text -------------------------------------------------------------------------------------------------------
def plain(text: str) -> str:
    """One line that a terminal and an HTTP header can carry: control characters, line ends, invisible and
    direction-changing characters and lone surrogates become a space. Object texts are strangers' input."""
    if text.isprintable():
        return text
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _cut(text: str, length_max: int) -> str:
    """At most `length_max` characters, cut at a word and marked; a rule's tag at the end stays."""
    text = plain(text)
    if len(text) <= length_max:
        return text
    match = _TAG.search(text)
    tail = f"...{match[0]}" if match else "..."
    head = text[: length_max - len(tail)]
    word = head.rfind(" ", length_max // 2)
    return (head if word < 0 else head[:word]).rstrip(" ,;:") + tail


def _cut_bytes(text: str) -> str:
    """At most LINE_BYTES_MAX bytes of UTF-8."""
    text = plain(text)
    length_max = LINE_BYTES_MAX
    while len(text.encode()) > LINE_BYTES_MAX:
        text = _cut(text, length_max)
        length_max -= max(1, (len(text.encode()) - LINE_BYTES_MAX) // 4)
    return text


def to_json(value: Any) -> bytes:
    """Any small JSON answer (health, version)."""
    return _ENCODER.encode(value)
