"""Changes -> the smallest JSON Patch (RFC 6902). What is already so is left out, so mutating twice patches once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.mutations.meta import Change
from webhook.objects.fieldpath import FieldPath

_MISSING = object()


def to_patch(raw: Mapping[str, Any], changes: Iterable[Change]) -> tuple[list[dict[str, Any]], list[str]]:
    """(operations, notes). Missing parent objects are added as ``{}`` first; null parents count as missing."""
    operations: list[dict[str, Any]] = []
    notes: list[str] = []
    made: set[FieldPath] = set()
    for change in changes:
        current = _at(raw, change.path)
        if current == change.value and current is not _MISSING:
            continue
        for depth in range(1, len(change.path)):
            parent = FieldPath(change.path[:depth])
            if parent not in made and _at(raw, parent) in (_MISSING, None):
                operations.append({"op": "add", "path": parent.pointer(), "value": {}})
                made.add(parent)
        operation = "add" if current is _MISSING else "replace"
        operations.append({"op": operation, "path": change.path.pointer(), "value": change.value})
        if change.note and change.note not in notes:
            notes.append(change.note)
    return operations, notes


def _at(raw: Any, path: FieldPath) -> Any:
    for part in path:
        if isinstance(raw, Mapping):
            raw = raw.get(part, _MISSING)
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            return _MISSING
        if raw is _MISSING:
            return _MISSING
    return raw
