"""disruptionMode all on a basic group.

## What it checks
A PodGroup or a podGroupTemplate of a Workload with the basic policy and `disruptionMode: {all: {}}`.

## Why
Basic starts the Pods one by one, so each of them is of use alone; `all` lets a preemption take every one of them at
once. The API of Job refuses the pair, the ones of Workload and PodGroup accept it: usually the gang was forgotten.

## Fields read
`schedulingPolicy`, `disruptionMode`.

## Allowed
```yaml
kind: PodGroup
spec: {schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {all: {}}}
```

## Denied
```yaml
kind: PodGroup
spec: {schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}}
```

## Fix
Write the gang, or leave `disruptionMode` out.

## References
k8s.io/component-helpers v0.37.2 scheduling workloadbuilder Validate (Job only).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import DisruptionModeKind, PolicyKind
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS320",
    name="basic-with-all",
    summary="disruptionMode all on a basic group: started one by one, preempted all at once",
    kinds=frozenset({"Workload", "PodGroup"}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.leaf_groups():
        if group.policy is PolicyKind.BASIC and group.disruption_mode is DisruptionModeKind.ALL:
            yield Finding(
                field=group.disruption_mode_path,
                message=(
                    '"all" lets one preemption take every Pod, while the basic policy starts them one by one: 1.37 refuses '
                    "this in a Job and accepts it in a group"
                ),
                fix="set schedulingPolicy to a gang, or leave disruptionMode out",
                seen="all",
                limit="single",
            )
