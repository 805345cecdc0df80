"""Manifests of retired versions and shapes, rewritten for 1.37.

Sources: k8s.io/api scheduling/v1alpha1 (1.35) and v1alpha2 (1.36) types; CHANGELOG-1.37 (`podGroupTemplateRef` became
`workloadRef`, `disruptionMode` became a struct).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.objects.fieldpath import FieldPath
from webhook.objects.read import OLD_DISRUPTION_MODES

Raw = dict[str, Any]

API_VERSION = "scheduling.k8s.io/v1beta1"
_OLD_MEMBERS = {"pod": "single", "podGroup": "all"}
_SHOWN_BYTES_MAX = 420


def modern(raw: Mapping[str, Any]) -> Raw:
    """A new object as 1.37 wants it: apiVersion, references, templates and disruption modes; without status and what
    the API server fills in. What needs no change is kept as it is. Never raises, whatever the types are."""
    result: Raw = {key: _copy(value) for key, value in raw.items() if key not in ("status", "apiVersion")}
    result = {"apiVersion": API_VERSION, **result}
    spec = result.get("spec")
    if isinstance(spec, dict):
        if raw.get("kind") == "Workload":
            _workload(spec)
        else:
            _pod_group(spec)
    return result


def modern_mode(value: Any) -> Raw | None:
    """The struct for an old disruptionMode (the string, or a struct with the old names), None if it is not old."""
    if isinstance(value, str):
        word = OLD_DISRUPTION_MODES.get(value)
        return {word: {}} if word else None
    if isinstance(value, Mapping):
        words = {_OLD_MEMBERS[key] for key in value if key in _OLD_MEMBERS}
        if len(words) == 1 and not ({"single", "all"} & set(value)) - words:
            return {words.pop(): {}}
    return None


def compact(value: Mapping[str, Any]) -> str | None:
    """One line of JSON that fits a message, or None where it is too long."""
    text = json.dumps(value, separators=(", ", ": "))
    return text if len(text.encode()) <= _SHOWN_BYTES_MAX else None


def raw_at(raw: Any, path: FieldPath) -> Any:
    """What stands at the path in a raw object, None where there is nothing or the shape is another one."""
    for part in path:
        if isinstance(raw, Mapping):
            raw = raw.get(str(part))
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            return None
    return raw


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _workload(spec: Raw) -> None:
    groups = spec.pop("podGroups", None)
    if isinstance(groups, list) and "podGroupTemplates" not in spec:
        spec["podGroupTemplates"] = [_template_of(group) for group in groups]
    _templates(spec)


def _template_of(group: Any) -> Any:
    """v1alpha1 `podGroups[]` had `policy` where 1.37 has `schedulingPolicy`."""
    if not isinstance(group, dict) or "policy" not in group:
        return group
    return {("schedulingPolicy" if key == "policy" else key): value for key, value in group.items()}


def _templates(spec: Raw) -> None:
    for key in ("podGroupTemplates", "compositePodGroupTemplates"):
        items = spec.get(key)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                _mode(item)
                _templates(item)


def _pod_group(spec: Raw) -> None:
    reference = spec.pop("podGroupTemplateRef", None)
    workload = reference.get("workload") if isinstance(reference, dict) else None
    if isinstance(workload, dict) and "workloadRef" not in spec:
        names = {"workloadName": workload.get("workloadName"), "templateName": workload.get("podGroupTemplateName")}
        spec["workloadRef"] = {key: value for key, value in names.items() if value is not None}
    _mode(spec)


def _mode(item: Raw) -> None:
    mode = modern_mode(item.get("disruptionMode"))
    if mode is not None:
        item["disruptionMode"] = mode
