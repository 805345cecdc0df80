"""PriorityClass missing.

## What it checks
Every PriorityClass that a Pod template, a group, or the Workload template behind a child Job names must exist.

## Why
The API server refuses a Pod or a PodGroup whose class does not exist, but it looks at neither the Pod template of a
Job nor a Workload's template. With WorkloadWithJob on, the Job controller then makes the Workload, cannot make the
PodGroup, and tries for ever: the Job has no Pod, no condition, and not even an event, which is what 1.36 would have
given. Elsewhere each Pod is refused when its controller makes it.

A class may be created after the objects that name it, in the same `kubectl apply` for example, and then all of it
starts (seen). So this warns, and a policy (strict, for example) may deny it. A Workload's template never does more than
warn: who makes a group of it may name another class.

## Fields read
`priorityClassName` of Pod templates, groups and group templates; PriorityClasses

## Allowed
```yaml
# PriorityClass "gold" exists
spec: {template: {spec: {priorityClassName: gold}}}
```

## Denied
```yaml
# PriorityClass "gold" exists
spec: {template: {spec: {priorityClassName: glod}}}
```

## Fix
Name a class that exists, or have it created first.

## References
plugin/pkg/admission/priority/admission.go and pkg/controller/job/job_scheduling_manager.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import nearest
from webhook.rules._traps import SYSTEM_CLASSES, made_groups, own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS124",
    name="priority-class-missing",
    summary="a Pod template or group names a PriorityClass that does not exist",
    kinds=frozenset(
        {
            "Pod",
            "Job",
            "CronJob",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "JobSet",
            "LeaderWorkerSet",
            "Workload",
            "PodGroup",
            "CompositePodGroup",
        }
    ),
    default_action=Action.WARN,
)

_PODS = "the API server refuses each Pod"


@dataclass(frozen=True, slots=True)
class _Named:
    field: FieldPath
    name: str
    effect: str
    at_most: Action


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for named in _named(facts):
        if named.name in SYSTEM_CLASSES:
            continue  # the API server makes them when it starts
        looked = facts.surroundings.priority_class(named.name)
        if looked.unknown is not None:
            reason = f'whether PriorityClass "{named.name}" exists: {looked.unknown}'
            yield Unresolved(reason=reason, field=named.field)
        elif looked.absent:
            yield _finding(facts, named)


def _named(facts: Facts) -> Iterator[_Named]:
    """Each place once, the Pods' before the groups'."""
    groups = [made for made in made_groups(facts) if made.class_name]
    own = own_group(facts)
    # Where the Job controller makes the group of the same class, the group is what fails first.
    effects = {made.field: made.effect for made in groups if made.group is own}
    seen = set()
    for pod_set in facts.plan.all_pod_sets():
        name = pod_set.template.spec.priority_class_name
        field = pod_set.spec_path / "priorityClassName"
        if name and field not in seen:
            seen.add(field)
            yield _Named(field, name, effects.get(field, _PODS), Action.DENY)
    for made in groups:
        if made.field not in seen:
            seen.add(made.field)
            yield _Named(made.field, made.class_name, made.effect, made.at_most)


def _finding(facts: Facts, named: _Named) -> Finding:
    existing = [item.metadata.name for item in facts.surroundings.priority_classes().value or ()]
    near = nearest(named.name, existing)
    return Finding(
        field=named.field,
        message=f'names PriorityClass "{named.name}", which does not exist: until it does, {named.effect}',
        fix=f'name "{near}", or have it created' if near else "name one that exists, or have it created",
        seen=named.name,
        limit=near,
        at_most=named.at_most,
    )
