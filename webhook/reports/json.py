"""A review as JSON: one entry per object."""

from __future__ import annotations

import json
from typing import Any

from webhook.reports.entry import Review, ReviewEntry


def render(review: Review) -> str:
    """Shape: {policy, undeclaredGates, objects: [{file, line, kind, namespace, name, allowed, violations, unknowns, patch}], passedOver,
    unreadable}. Each violation has rule, action, field, line, reason, seen, limit, message, fix.
    A line of unreadable is null where the whole file is meant."""
    document = {
        "policy": review.policy,
        "undeclaredGates": list(review.undeclared_gates),
        "objects": [_entry(entry) for entry in review.entries],
        "passedOver": dict(sorted(review.passed_over.items())),
        "unreadable": [{"file": bad.file, "line": bad.line, "message": bad.message} for bad in review.unreadable],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _entry(entry: ReviewEntry) -> dict[str, Any]:
    verdict = entry.verdict.as_dict()
    violations = [
        {**violation, "line": line} for violation, line in zip(verdict["violations"], entry.lines, strict=True)
    ]
    return {
        "file": entry.file,
        "line": entry.line,
        "kind": entry.kind,
        "apiVersion": entry.api_version,
        "namespace": entry.namespace,
        "name": entry.name,
        **verdict,
        "violations": violations,
    }
