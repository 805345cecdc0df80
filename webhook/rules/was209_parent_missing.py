"""Parent missing.

## What it checks
`parentCompositePodGroupName` of a PodGroup or CompositePodGroup, and every parent above it: each must exist.

## Why
The scheduler of 1.37 holds all Pods of a tree back until it has seen the whole chain up to the root. With a parent
missing they stay Pending for ever, without a condition or an event, and the parent's name cannot be changed. A parent
may legally be created later, so this warns.

## Fields read
`spec.parentCompositePodGroupName`; the CompositePodGroups of the namespace

## Allowed
```yaml
# CompositePodGroup "train" exists
spec:
  parentCompositePodGroupName: train
```

## Denied
```yaml
# CompositePodGroup "train" exists
spec:
  parentCompositePodGroupName: trian
```

## Fix
Correct the name, or create the CompositePodGroup.

## References
KEP-4671, CompositePodGroup (alpha in 1.37); pkg/scheduler/backend/queue/workload_forest.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import SPEC
from webhook.objects.words import nearest
from webhook.rules._groups import ancestors
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS209",
    name="parent-missing",
    summary="a CompositePodGroup above a group does not exist",
    kinds=frozenset({"PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="CompositePodGroup",
)

_AT = SPEC / "parentCompositePodGroupName"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for group in facts.plan.groups:
        own_name = facts.name if facts.kind == "CompositePodGroup" else ""
        above = ancestors(facts, group.parent_name, own_name)
        if above.unknown is not None:
            yield Unresolved(field=_AT, reason=f"whether the parents exist: {above.unknown}")
        if above.missing is not None:
            who = "" if not above.found else f', the parent of "{above.found[-1].metadata.name}",'
            yield Finding(
                field=_AT,
                message=(
                    f'no CompositePodGroup "{above.missing}"{who} in namespace "{facts.namespace}"'
                    f"{_hint(facts, above.missing)}: until it exists all Pods below stay Pending without an event"
                ),
                fix="correct the name or create it",
                seen=above.missing,
            )


def _hint(facts: Facts, name: str) -> str:
    if facts.surroundings.pod_group(facts.namespace, name).value is not None:
        return " (it is a PodGroup; a parent is a CompositePodGroup)"
    existing = facts.surroundings.composite_pod_groups(facts.namespace).value or ()
    near = nearest(name, [composite.metadata.name for composite in existing if composite.metadata.name != facts.name])
    return f' (nearest: "{near}")' if near else ""
