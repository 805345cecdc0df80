"""A priority that its class does not give.

## What it checks
A Pod template with `priority` or `preemptionPolicy` other than those of its PriorityClass (without a class: of the
global default class, else 0 and PreemptLowerPriority); a group template of a Workload with another `priority`.

## Why
The API server takes both fields in a template, and refuses each Pod made from it: "the integer value of priority (5)
must not be provided in pod spec". The Job controller copies a Workload template's `priority` into the PodGroup of a
child Job, which is refused in the same way: that Job never gets a Pod, without an event. Priorities come from classes
only, so the two fields say nothing that the class does not say.

Where no class is named and there is no global default class, this warns: one with the right value may still be created
(seen), or other admission may fill a class in. A Workload's template only warns: a group that somebody makes by hand
may leave the number out.

## Fields read
`priority`, `preemptionPolicy`, `priorityClassName` of Pod templates and group templates; PriorityClasses

## Allowed
```yaml
# PriorityClass "gold" has the value 1000
spec: {template: {spec: {priorityClassName: gold}}}
```

## Denied
```yaml
# PriorityClass "gold" has the value 1000
spec: {template: {spec: {priorityClassName: gold, priority: 5}}}
```

## Fix
Leave the field out, and name the class that has the value.

## References
plugin/pkg/admission/priority/admission.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.core import PriorityClass
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import CompositeGroup, GroupOrigin, LeafGroup
from webhook.rules._priorities import PREEMPT_LOWER_PRIORITY, class_of, class_text, pod_cap
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS137",
    name="priority-number-refused",
    summary="a template sets a priority or preemption policy that its PriorityClass does not give: all made of it is refused",
    kinds=frozenset(
        {"Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet", "Workload"}
    ),
    operations=frozenset({"CREATE"}),
)

_POD = "each Pod made of it"
_GROUP = "each PodGroup made of it, so child Jobs get no Pod"


@dataclass(frozen=True, slots=True)
class _Set:
    """A field that is written, and the class it must agree with. what: the class's word for it."""

    field: FieldPath
    class_name: str | None
    value: Any
    what: str
    refused: str
    at_most: Action


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for written in _written(facts):
        looked = class_of(facts, written.class_name)
        if looked.unknown is not None:
            yield Unresolved(
                reason=f"what {class_text(written.class_name)} gives: {looked.unknown}", field=written.field
            )
        elif looked.value is not None:
            given = looked.value.value if written.what == "value" else looked.value.preemption_policy
            given = PREEMPT_LOWER_PRIORITY if given is None else given
            if given != written.value:
                yield _finding(written, given, _cap(facts, written, looked.value))


def _written(facts: Facts) -> Iterator[_Set]:
    for pod_set in facts.plan.all_pod_sets():
        spec, at = pod_set.template.spec, pod_set.spec_path
        if spec.priority is not None:
            yield _Set(at / "priority", spec.priority_class_name, spec.priority, "value", _POD, Action.DENY)
        if spec.preemption_policy is not None:
            policy = spec.preemption_policy
            yield _Set(at / "preemptionPolicy", spec.priority_class_name, policy, "preemptionPolicy", _POD, Action.DENY)
    groups: list[LeafGroup | CompositeGroup] = [*facts.plan.leaf_groups(), *facts.plan.composite_groups()]
    for group in groups:
        if group.origin is GroupOrigin.TEMPLATE and group.priority is not None:
            field = group.path / "priority"
            yield _Set(field, group.priority_class_name, group.priority, "value", _GROUP, Action.WARN)


def _cap(facts: Facts, written: _Set, found: PriorityClass) -> Action:
    """A global default class with the right value may still be created, or other admission fill a class in."""
    if not written.class_name and not found.metadata.name:
        return Action.WARN
    return written.at_most.at_most(pod_cap(facts, "priorityClassName", written.class_name))


def _finding(written: _Set, given: Any, at_most: Action) -> Finding:
    today = " today" if at_most is Action.WARN and written.refused == _POD else ""
    return Finding(
        field=written.field,
        message=(
            f"is {_value(written.value)}, but {_class(written)} {_value(given)}{today}: the API server takes the template "
            f"and refuses {written.refused}"
        ),
        fix=f"leave it out, and name a PriorityClass whose {written.what} is {_value(written.value)}",
        seen=written.value,
        limit=given,
        at_most=at_most,
    )


def _class(written: _Set) -> str:
    return f"{class_text(written.class_name)} gives" if written.class_name else "without a PriorityClass it is"


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
