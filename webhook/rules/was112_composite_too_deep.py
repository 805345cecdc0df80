"""Composite tree too deep.

## What it checks
How many CompositePodGroups stand one above the other over a PodGroup: above the object by
`parentCompositePodGroupName`, below a new CompositePodGroup by those that name it already, and in a Workload by the
nesting of its templates (the API
server checks that too).

## Why
The scheduler of 1.37 walks at most 4 levels. Three composites and the PodGroup are safe. With 4 composites the tree
is placed, unless the topmost has a topology key: then every attempt ends in SchedulerError "exceeded maximum
hierarchy depth".
With 5 or more the Pods stay Pending for ever, without condition and event. The API server checks templates, and never
the live groups.

## Fields read
`spec.parentCompositePodGroupName` of the group and of its parents, `spec.schedulingConstraints` of the topmost, the
templates of a Workload

## Allowed
```yaml
# CompositePodGroups a > b > c
kind: PodGroup
spec: {parentCompositePodGroupName: c, ...}
```

## Denied
```yaml
# CompositePodGroups a > b > c > d > e
kind: PodGroup
spec: {parentCompositePodGroupName: e, ...}
```

## Fix
Leave a level out. The parent of a group cannot be changed: create the groups again under a higher one.

## References
k8s.io/api v0.37.2 scheduling/v1alpha3 WorkloadMaxTreeDepth; pkg/scheduler/framework/plugins/helper/podgroup.go and
pkg/scheduler/backend/cache/cache.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import CompositeGroup, Group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS112",
    name="composite-too-deep",
    summary="more composite groups above one another than the scheduler walks",
    kinds=frozenset({"PodGroup", "CompositePodGroup", "Workload"}),
    operations=frozenset({"CREATE"}),
    gate="CompositePodGroup",
)

_SAFE = 3  # composites over a leaf; WorkloadMaxTreeDepth 4 counts the leaf too
_WALKED = 4  # placed only while the topmost has no topology key

Composites = list[core.CompositePodGroup]


def check(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.obj, core.Workload):
        yield from _templates(facts)
    elif isinstance(facts.obj, core.PodGroup | core.CompositePodGroup):
        yield from _live(facts, facts.obj)


def _live(facts: Facts, obj: core.PodGroup | core.CompositePodGroup) -> Iterator[Finding]:
    above = _above(facts, obj.spec.parent_composite_pod_group_name)
    if above is None:
        return
    tree = list(above)
    if isinstance(obj, core.CompositePodGroup):
        tree = [*_deepest_below(facts, obj.metadata.name), obj, *above]
    if len(tree) <= _SAFE:
        return
    keyed = bool(_topology_key(tree[-1]))
    proven = len(tree) > _WALKED or keyed
    if len(tree) > _WALKED:
        outcome = "Pods below them stay Pending for ever, without a condition or an event"
    elif keyed:
        outcome = (
            'with a topology key on the topmost each attempt ends in SchedulerError "exceeded maximum hierarchy depth"'
        )
    else:
        outcome = "Pods below them are placed only while the topmost has no topology key"
    names = " > ".join(f'"{composite.metadata.name}"' for composite in reversed(tree))
    levels = len(tree) - _SAFE
    yield Finding(
        field=SPEC / "parentCompositePodGroupName" if above else SPEC,
        message=f"{len(tree)} CompositePodGroups above one another ({names}), and 1.37 is safe with {_SAFE}: {outcome}",
        fix=f"leave {levels} level{'s' if levels > 1 else ''} out: create the groups again, a parent cannot be changed",
        seen=len(tree),
        limit=_SAFE,
        at_most=Action.DENY if proven else Action.WARN,
    )


def _above(facts: Facts, name: str | None) -> Composites | None:
    """The parents, nearest first, as far as they exist; None for a cycle (another rule's)."""
    found: Composites = []
    seen: set[str] = set()
    while name:
        if name in seen or name == (facts.name if facts.kind == "CompositePodGroup" else None):
            return None
        seen.add(name)
        parent = facts.surroundings.composite_pod_group(facts.namespace, name).value
        # One more than is walked is as bad as twenty: no need to follow a hostile chain to its end.
        if parent is None or len(found) > _WALKED:
            break
        found.append(parent)
        name = parent.spec.parent_composite_pod_group_name
    return found


def _deepest_below(facts: Facts, name: str) -> Composites:
    """The longest chain of existing composites under `name`, deepest first. Parents may come after their children."""
    listed = facts.surroundings.composite_pod_groups(facts.namespace).value or ()
    children: dict[str, Composites] = {}
    for composite in listed:
        if parent := composite.spec.parent_composite_pod_group_name:
            children.setdefault(parent, []).append(composite)
    chain: Composites = []
    level = [[child] for child in children.get(name, [])]
    while level and len(chain) <= _WALKED:
        chain = level[0]
        level = [[below, *path] for path in level for below in children.get(path[0].metadata.name, [])]
    return chain


def _topology_key(composite: core.CompositePodGroup) -> str | None:
    constraints = composite.spec.scheduling_constraints
    items = (constraints.topology if constraints else None) or ()
    return items[0].key if items else None


def _templates(facts: Facts) -> Iterator[Finding]:
    """Composite templates nested deeper than 3: also refused by the API server, so this shows in review."""
    for depth, path in _too_deep(facts.plan.groups, 1):
        yield Finding(
            field=path,
            message=f"is a composite template at level {depth}, and the API server of 1.37 takes {_SAFE} levels",
            fix="leave a level out",
            seen=depth,
            limit=_SAFE,
        )


def _too_deep(groups: tuple[Group, ...], depth: int) -> Iterator[tuple[int, FieldPath]]:
    """The first template of each branch that is too deep. The plan's own depth is bounded."""
    for group in groups:
        if not isinstance(group, CompositeGroup):
            continue
        if depth > _SAFE:
            yield depth, group.path
        else:
            yield from _too_deep(group.children, depth + 1)
