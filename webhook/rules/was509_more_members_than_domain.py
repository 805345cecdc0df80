"""More members than fit together.

## What it checks
Whether all Pods of a gang fit where minCount of them do, and whether all groups that the object makes (the replicas of
a LeaderWorkerSet) fit at the same time.

## Why
kube-scheduler 1.37 keeps all Pods of a group in one domain of its topology key, also those beyond minCount: what does
not fit there stays Pending, while other domains are empty. The application runs smaller than written, or waits for
ranks that never come.

## Fields read
minCount, the number of Pods, `schedulingConstraints.topology[0].key`, `replicas`; the inventory

## Allowed
```yaml
parallelism: 2
scheduling: {schedulingPolicy: {gang: {minCount: 2}}}
```

## Denied
```yaml
parallelism: 8      # the best domain holds 4
scheduling: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Fix
Run as many as fit, or allow a larger domain.

## References
pkg/scheduler/schedule_one_podgroup.go (1.37.2); case R114
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import story
from webhook.rules._names import plural
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS509",
    name="more-members-than-domain",
    summary="minCount fits, all Pods or groups of the object together do not",
    kinds=KINDS,
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        root = fault.demand.root
        if fault.found is None:
            yield Finding(
                field=root.path,
                seen=root.copies,
                limit=fault.amount,
                message=f'of the {root.copies} groups of "{facts.name or facts.kind}", {fault.amount} fit on the nodes at the same '
                "time; the others wait until one ends",
                fix=f"run at most {plural(fault.amount, 'group')}, or expect them one after another",
                at_most=Action.WARN,
            )
            continue
        head, _ = story(fault.found)
        yield Finding(
            field=root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            message=f"the group can start with fewer, but all of it never runs: {head}",
            fix="run as many Pods as fit, or allow a larger domain",
            at_most=Action.WARN,
            excess=fault.excess,
        )
