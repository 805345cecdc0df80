"""More members than fit together.

## What it checks
Whether all Pods of a gang fit where minCount of them do, and whether all groups that the object makes (the replicas of
a LeaderWorkerSet) fit at the same time. With LeaderWorkerSet's exclusive topology, whether there are as many domains as
groups.

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
from webhook.inventory.tables import node_table
from webhook.objects.fieldpath import METADATA
from webhook.objects.words import plural
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import story
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS509",
    name="more-members-than-domain",
    summary="minCount fits, all Pods or groups of the object together do not",
    kinds=KINDS,
    default_action=Action.WARN,
)


# LeaderWorkerSet v0.8.0, api/leaderworkerset/v1: its controller adds Pod affinity and anti-affinity over this key.
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def check(facts: Facts) -> Iterator[Finding]:
    yield from _exclusive(facts)
    for fault in faults(facts, META.id):
        root = fault.demand.root
        if fault.found is None:
            yield Finding(
                field=root.path,
                seen=root.copies,
                limit=fault.amount,
                message=f'of the {root.copies} groups of "{facts.name or facts.kind}" only {fault.amount} fit on the nodes at the same '
                "time: the others wait until one ends",
                fix=f"run at most {plural(fault.amount, 'group')}, or expect them one after another",
                at_most=Action.WARN,
            )
            continue
        why = fault.found.explanation
        head = story(fault.found)
        larger = ", or allow a larger domain" if why.topology else ""
        yield Finding(
            field=root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            # The demand that was judged is that of all members, not of minCount.
            message=f"{head.replace(' needs ', ' has ', 1)}: it starts with fewer, and the rest stays Pending",
            fix=f"run at most {plural(why.holds, why.unit.removesuffix('s'))}{larger}",
            at_most=Action.WARN,
            excess=fault.excess,
        )


def _exclusive(facts: Facts) -> Iterator[Finding]:
    """Groups that each want a domain of their own, and fewer domains than groups."""
    key = facts.metadata.annotation(_EXCLUSIVE)
    replicas = max((pod_set.replicas or 0 for pod_set in facts.plan.all_pod_sets()), default=0)
    if not key or facts.inventory is None or facts.requester.trusted:
        return
    domains = node_table(facts.inventory).label_values(key)
    if len(domains) < replicas and not facts.inventory.pools:
        yield Finding(
            field=METADATA / "annotations" / _EXCLUSIVE,
            seen=replicas,
            limit=len(domains),
            message=f'each of the {replicas} groups of "{facts.name}" takes a "{key}" of its own, and nodes have '
            f"{len(domains)}: the others wait",
            fix=f"run at most {plural(len(domains), 'group')}, or use a smaller domain"
            if domains
            else "use a label that nodes have",
            at_most=Action.WARN,
            excess=replicas - len(domains),
        )
