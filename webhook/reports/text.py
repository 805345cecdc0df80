"""A review as text: like a compiler's messages, the worst first in each object, with a last line that counts."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from webhook.objects.words import plural
from webhook.reports.entry import Review, ReviewEntry, Unreadable
from webhook.verdict import Action, Violation

_LABEL = {Action.DENY: "denied", Action.WARN: "warning", Action.AUDIT: "audit"}


def render(review: Review, *, verbose: bool = False) -> str:
    """verbose: also objects without a remark, audit findings, and what could not be checked."""
    judged = {entry.file for entry in review.entries}
    lines = [_unreadable(bad, judged) for bad in review.unreadable]
    for entry in review.entries:
        lines += _entry(entry, verbose)
    lines.append(_summary(review))
    if review.lowering_gates:
        lines.append(
            f'some of these only warn because policy "{review.policy}" does not declare cluster.featureGates '
            f"{', '.join(review.lowering_gates)}: a cluster where they are on would deny more"
        )
    return "\n".join(lines)


def _unreadable(bad: Unreadable, judged: AbstractSet[str]) -> str:
    """judged: files of which something was judged."""
    return f"{bad}; only this part of the file is not judged" if bad.line and bad.file in judged else str(bad)


def _entry(entry: ReviewEntry, verbose: bool) -> Iterator[str]:
    remarks = list(_remarks(entry, verbose))
    if not remarks and not verbose:
        return
    name = f"{entry.namespace}/" if entry.namespace else ""
    name += entry.name or "(generated name)"
    word = "admitted" if entry.verdict.allowed else "DENIED"
    yield f"{entry.file}:{entry.line}: {entry.kind} {name}: {word}"
    yield from remarks


def _remarks(entry: ReviewEntry, verbose: bool) -> Iterator[str]:
    ranked = sorted(zip(entry.verdict.violations, entry.lines, strict=True), key=lambda pair: -pair[0].action.severity)
    for violation, line in ranked:
        if violation.action is not Action.AUDIT or verbose:
            yield from _violation(violation, line)
    for note in (*entry.verdict.patch_notes, *entry.verdict.notes):
        yield f"  note: {note}"
    if entry.rewritten is not None:
        yield "  rewritten for 1.37: see --output json"
    for unknown in entry.verdict.unknowns:
        if unknown.warn or verbose:
            where = f"{unknown.field}: " if unknown.field else ""
            yield f"  not checked: {where}{unknown.reason} [{unknown.rule}]"


def _violation(violation: Violation, line: int) -> Iterator[str]:
    field = f"{violation.field}: " if violation.field else ""
    yield f"  line {line}: {_LABEL[violation.action]}: {field}{violation.message} [{violation.rule}]"
    yield f"    fix: {violation.fix}"


def _summary(review: Review) -> str:
    denied = sum(not entry.verdict.allowed for entry in review.entries)
    warned = sum(entry.verdict.allowed and bool(entry.verdict.warnings) for entry in review.entries)
    admitted = len(review.entries) - denied
    text = f'{plural(len(review.entries), "object")} judged by policy "{review.policy}": {admitted} admitted'
    text += f" ({warned} with warnings)" if warned else ""
    text += f", {denied} denied"
    if review.passed_over:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(review.passed_over.items()))
        text += f"; passed over: {kinds}"
    if review.unreadable:
        text += f"; {plural(len(review.unreadable), 'place')} unreadable, so this is no pass (exit 2)"
    return text
