"""PriorityClass above a group's limit.

## What it checks
The PriorityClass of a group that the Job controller makes, of a Workload's template, a PodGroup or a
CompositePodGroup must have a value of 1000000000 at most: system-cluster-critical and system-node-critical have more.

## Why
A Pod may have a system class, a PodGroup may not. With WorkloadWithJob on, the Job controller copies the class of the
Pod template into the group of every Job that has no controller owner, with or without `spec.scheduling`. It makes the
Workload, cannot make the PodGroup and tries for ever: the Job has no Pod, no condition and no event.

A Workload's template only warns: who makes a group of it may name another class.

## Fields read
`priorityClassName` of the Job's Pod template, or of the Workload template behind a child Job, and of groups and
templates; PriorityClasses

## Allowed
```yaml
kind: Job
spec: {template: {spec: {priorityClassName: gold}}}       # value 1000
```

## Denied
```yaml
kind: Job
spec: {template: {spec: {priorityClassName: system-cluster-critical}}}
```

## Fix
Use a class of your own, with a value of 1000000000 or less. What really needs a system class runs as a Deployment or
DaemonSet, or as the Job of a CronJob: none of them gets a group.

## References
PodGroupSpec.Priority (maximum 1000000000) in k8s.io/api scheduling/v1beta1; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.surroundings import Looked
from webhook.objects import core
from webhook.rules._priorities import class_of
from webhook.rules._traps import PRIORITY_MAX, SYSTEM_CLASSES, made_groups
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS126",
    name="priority-class-above-limit",
    summary="a group's PriorityClass has a value that no group may have: 1.37 refuses the group",
    kinds=frozenset({"Job", "CronJob", "JobSet", "Workload", "PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for made in made_groups(facts):
        if not made.class_name:
            continue  # no class that people may create, so no global default, has such a value
        # The two system classes are always there, with these values.
        known = SYSTEM_CLASSES.get(made.class_name)
        looked = Looked(core.PriorityClass(value=known)) if known else class_of(facts, made.class_name)
        if looked.unknown is not None:
            reason = f'the value of PriorityClass "{made.class_name}": {looked.unknown}'
            yield Unresolved(reason=reason, field=made.field)
        elif looked.value is not None and looked.value.value > PRIORITY_MAX:
            value = looked.value.value
            yield Finding(
                field=made.field,
                message=(
                    f'names PriorityClass "{made.class_name}" with value {value}, and a group may have {PRIORITY_MAX} at most: '
                    f"in 1.37 {made.effect}"
                ),
                fix="use a PriorityClass of a lower value",
                seen=value,
                limit=PRIORITY_MAX,
                at_most=made.at_most,
                excess=value - PRIORITY_MAX,
            )
