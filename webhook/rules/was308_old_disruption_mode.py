"""A disruptionMode in a shape that 1.37 does not know.

## What it checks
`disruptionMode` written as the string of 1.36 (`Pod`, `PodGroup`), with its names as members (`{podGroup: {}}`), with
both members at once, or with none, anywhere in a Workload, PodGroup, CompositePodGroup or a Job's `spec.scheduling`.
Only `muster review` can see it: the API server refuses each of them.

## Why
Until 1.36 the field was a string; 1.37 has a struct with exactly one of `single: {}` and `all: {}`. The string is
answered with 400 "cannot unmarshal string", the unknown member is dropped and leaves an empty struct, and both that and
two members are refused.

## Fields read
Every `disruptionMode` of the object's groups.

## Allowed
```yaml
kind: PodGroup
spec: {schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {all: {}}}
```

## Denied
```yaml
kind: PodGroup
spec: {schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: PodGroup}
```

## Fix
`Pod` becomes `{single: {}}`, `PodGroup` becomes `{all: {}}`.

## References
CHANGELOG-1.37 (disruptionMode is a struct); k8s.io/api v0.37.2 scheduling/v1beta1 DisruptionMode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.rules._jobs import JOB_HOLDERS, job_parts
from webhook.rules._rewrite import compact, modern, modern_mode, raw_at
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS308",
    name="old-disruption-mode",
    summary="disruptionMode in the shape of 1.36, with two members or with none",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}) | JOB_HOLDERS,
    also_checked_by_apiserver=True,
    review_only=True,
)

_MEMBERS = frozenset({"single", "all"})


def check(facts: Facts) -> Iterator[Finding]:
    for field, value in _modes(facts):
        if isinstance(value, Mapping) and len(value) == 1 and _MEMBERS.issuperset(value):
            continue
        meant = modern_mode(value)
        shown = f'"{value}"' if isinstance(value, str) else compact_or_type(value)
        yield Finding(
            field=field,
            message=(
                f"is {shown}: since 1.37 it is an object with exactly one of {quoted(_MEMBERS)}, and the API server refuses "
                "anything else"
            ),
            fix=f"write disruptionMode: {compact(meant)}" if meant else _CHOICE,
            seen=value,
            limit="exactly one of single, all",
            rewrite=modern(facts.raw) if meant and facts.kind in ("Workload", "PodGroup") else None,
        )


_CHOICE = (
    'write {"single": {}} (was "Pod") where the loss of one Pod is fine, or {"all": {}} (was "PodGroup") where all stop'
)


def compact_or_type(value: Any) -> str:
    """The value as JSON where it is short, else what it is."""
    shown = compact(value) if isinstance(value, Mapping) else None
    return shown or f"a {type(value).__name__}"


def _modes(facts: Facts) -> Iterator[tuple[FieldPath, Any]]:
    if facts.kind in JOB_HOLDERS:
        for part in job_parts(facts.obj):
            scheduling = raw_at(facts.raw, part.scheduling_path)
            if isinstance(scheduling, Mapping):
                yield from _mode(scheduling, part.scheduling_path)
        return
    spec = facts.raw.get("spec")
    if isinstance(spec, Mapping):
        yield from _mode(spec, SPEC)
        yield from _templates(spec, SPEC)


def _mode(at: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if at.get("disruptionMode") is not None:
        yield path / "disruptionMode", at["disruptionMode"]


def _templates(spec: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    stack = [(spec, path)]
    while stack:
        at, where = stack.pop()
        for key in ("compositePodGroupTemplates", "podGroupTemplates"):
            items = at.get(key)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                if isinstance(item, Mapping):
                    inner = (where / key).at(index)
                    yield from _mode(item, inner)
                    stack.append((item, inner))
