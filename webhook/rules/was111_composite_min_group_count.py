"""Composite min group count.

## What it checks
`minGroupCount` of a composite group against its children: the child templates of a composite template in a Workload,
the groups that a controller's plan fixes, and, in `muster review --complete`, the groups of the set that name a
CompositePodGroup as their parent.

## Why
A composite gang starts only when minGroupCount of its children can be placed together, and 1.37 writes no condition
and no event while it waits. Child templates are not children: three PodGroups of one template count as three, so
templates alone
are worth a warning. Where it is fixed how many groups there will be, too large a minGroupCount never starts.

## Fields read
`schedulingPolicy.gang.minGroupCount`, the child templates, `spec.parentCompositePodGroupName` of the groups in the
set

## Allowed
```yaml
compositePodGroupTemplates:
- name: all
  schedulingPolicy: {gang: {minGroupCount: 1}}
  podGroupTemplates: [{name: head, ...}, {name: workers, ...}]
```

## Denied
```yaml
compositePodGroupTemplates:
- name: all
  schedulingPolicy: {gang: {minGroupCount: 3}}      # a warning: two templates may still make three groups
  podGroupTemplates: [{name: head, ...}, {name: workers, ...}]
```

## Fix
Set minGroupCount to the number of groups there will be. On a CompositePodGroup it cannot be changed later.

## References
k8s.io/api v0.37.2 scheduling/v1alpha3 CompositePodGroup; case R20
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.words import plural
from webhook.plan.model import CompositeGroup, GroupOrigin
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS111",
    name="composite-min-group-count",
    summary="a composite group wants more groups than it has",
    kinds=frozenset({"Workload", "CompositePodGroup", "JobSet", "LeaderWorkerSet"}),
    gate="CompositePodGroup",
)


def check(facts: Facts) -> Iterator[Finding]:
    for composite in facts.plan.composite_groups():
        if composite.min_group_count is None:
            continue
        group_count, proven = _group_count(facts, composite)
        if group_count is not None and composite.min_group_count > group_count:
            yield _finding(composite, composite.min_group_count, group_count, proven)


def _group_count(facts: Facts, composite: CompositeGroup) -> tuple[int | None, bool]:
    """How many child groups are in sight, and is that all there will be?"""
    if composite.origin is not GroupOrigin.ITSELF:
        return len(composite.children), composite.children_known
    if not facts.complete_set:
        return None, False
    leaves = facts.surroundings.pod_groups(facts.namespace).value
    inner = facts.surroundings.composite_pod_groups(facts.namespace).value
    if leaves is None or inner is None:
        return None, False
    children: list[core.PodGroup | core.CompositePodGroup] = [*leaves, *inner]
    count = sum(child.spec.parent_composite_pod_group_name == composite.name for child in children)
    # Nobody waits in a composite without children.
    return (count or None), True


def _finding(composite: CompositeGroup, min_group_count: int, group_count: int, proven: bool) -> Finding:
    if proven:
        what = f"only {plural(group_count, 'group')} {'has' if group_count == 1 else 'have'} it as parent: none of them ever starts, and no event says so"
        fix = f"set it to {group_count} or less, or add groups"
    else:
        what = f"the composite has {plural(group_count, 'child template')}: unless one makes several groups, none ever starts, without an event"
        fix = f"set it to {group_count} if each template makes one group"
    return Finding(
        field=composite.min_group_count_path,
        message=f"is {min_group_count}, and {what}",
        fix=fix,
        seen=min_group_count,
        limit=group_count,
        excess=min_group_count - group_count,
        at_most=Action.DENY if proven else Action.WARN,
    )
