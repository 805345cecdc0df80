"""Parent cycle.

## What it checks
The chain of `parentCompositePodGroupName` must end at a root. A composite that names itself, two that name each other,
or a group below such a ring never reach one.

## Why
The scheduler of 1.37 looks for the root of a Pod's tree before anything else. In a ring there is none: it writes a log
line and leaves all Pods below it Pending for ever, without a condition or an event. The field is immutable, so the ring
stays until one of its members is deleted. It is denied at the object that closes it, or joins it.

## Fields read
`spec.parentCompositePodGroupName`; the CompositePodGroups above

## Allowed
```yaml
# CompositePodGroup "root" has no parent
kind: CompositePodGroup
metadata: {name: racks}
spec: {parentCompositePodGroupName: root}
```

## Denied
```yaml
# CompositePodGroup "root" has parent "racks"
kind: CompositePodGroup
metadata: {name: racks}
spec: {parentCompositePodGroupName: root}
```

## Fix
Leave the parent of one member out: that one is the root.

## References
KEP-4671, CompositePodGroup (alpha in 1.37); pkg/scheduler/backend/queue/workload_forest.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import SPEC
from webhook.rules._groups import ancestors
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS210",
    name="parent-cycle",
    summary="the parents of a group form a ring",
    kinds=frozenset({"PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    gate="CompositePodGroup",
)


def check(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.groups:
        own_name = facts.name if facts.kind == "CompositePodGroup" else ""
        above = ancestors(facts, group.parent_name, own_name)
        if not above.cycle:
            continue
        ring = " -> ".join(f'"{name}"' for name in above.cycle)
        yield Finding(
            field=SPEC / "parentCompositePodGroupName",
            message=(
                f"the parents form a ring ({ring}): kube-scheduler finds no root and leaves all Pods below it Pending for "
                "ever, without a condition or an event"
            ),
            fix="leave the parent out here, which makes this one the root, or name another"
            if own_name in above.cycle
            else "name another parent, or create one of the ring again without a parent",
            seen=group.parent_name,
        )
