"""PriorityClass that never preempts, for a group that does not say so.

## What it checks
With the gate PodGroupPreemptionPolicy on: the PriorityClass of a group that the Job controller makes must not have
`preemptionPolicy: Never`. Without a class name the global default class counts. The same for a Workload's template, a
PodGroup and a CompositePodGroup that do not say `preemptionPolicy: Never` themselves.

## Why
A PodGroup's policy is filled with PreemptLowerPriority before the Priority plugin looks at it, and the plugin then
refuses a class that says Never. The Job controller copies the class from the Pod template and never writes a policy:
it makes the Workload, cannot make the PodGroup and tries for ever. The Job has no Pod, no condition and no event.
With a global default class of this kind no Job of the cluster that names no class of its own starts.

A Workload's template only warns: who makes a group of it by hand may write the policy.

## Fields read
`priorityClassName` of the Job's Pod template, or of the Workload template behind a child Job; `preemptionPolicy` of
groups and templates; PriorityClasses

## Allowed
```yaml
kind: Job
# PriorityClass "gold" has preemptionPolicy: PreemptLowerPriority
spec: {template: {spec: {priorityClassName: gold}}}
```

## Denied
```yaml
kind: Job
# PriorityClass "gold-never" has preemptionPolicy: Never
spec: {template: {spec: {priorityClassName: gold-never}}}
```

## Fix
Use a class that preempts. Or make a PodGroup of your own with `preemptionPolicy: Never` and the same class, and let
the Job's Pods name it by `schedulingGroup`.

## References
SetDefaults of scheduling v1beta1 and plugin/pkg/admission/priority/admission.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.plan.model import GroupOrigin
from webhook.rules._priorities import class_of
from webhook.rules._traps import MadeGroup, made_groups
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS125",
    name="priority-class-never-preempts",
    summary="a group's PriorityClass never preempts and the group does not say so: 1.37 refuses the group",
    kinds=frozenset({"Job", "CronJob", "JobSet", "Workload", "PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    gate="PodGroupPreemptionPolicy",
)

_NEVER = "Never"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for made in made_groups(facts):
        if made.preemption_policy == _NEVER:
            continue
        looked = class_of(facts, made.class_name)
        if looked.unknown is not None:
            what = f'PriorityClass "{made.class_name}"' if made.class_name else "the global default PriorityClass"
            yield Unresolved(reason=f"the preemption policy of {what}: {looked.unknown}", field=made.field)
        elif looked.value is not None and looked.value.preemption_policy == _NEVER:
            yield _finding(made, looked.value)


def _finding(made: MadeGroup, priority_class: core.PriorityClass) -> Finding:
    name = priority_class.metadata.name
    default = "" if made.class_name else " (the global default)"
    return Finding(
        field=made.field,
        message=(
            f'gets PriorityClass "{name}"{default} with preemptionPolicy "{_NEVER}", which its group does not have: '
            f"in 1.37 {made.effect}"
        ),
        fix=_fix(made),
        seen=_NEVER,
        limit="PreemptLowerPriority",
        at_most=made.at_most,
    )


def _fix(made: MadeGroup) -> str:
    if made.group.origin is GroupOrigin.ITSELF:
        return f'write preemptionPolicy: "{_NEVER}" here, or use a class that preempts'
    if made.group.origin is GroupOrigin.TEMPLATE:
        return "use a class that preempts"  # a child Job's group does not get the template's preemptionPolicy
    return (
        f'use a class that preempts, or name in the Pods\' schedulingGroup a PodGroup of your own with "{_NEVER}" and this '
        "class"
    )
