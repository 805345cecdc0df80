"""A new submission while the cluster or the namespace is frozen.

## What it checks
While the policy's `freeze` holds for the namespace: a person creates a Workload, PodGroup or CompositePodGroup, a Job
with a gang, topology constraint or shared claims, or anything whose Pods name a PodGroup; or changes one so that it
asks for more Pods, a larger minCount, or resumes from suspension. Shrinking, deleting, metadata, plain Jobs and what
trusted controllers make for admitted owners pass.

## Why
Before an upgrade or while a fault is looked for, nothing new may start, and what runs must not be hurt: its Pods are
recreated by controllers, its minCount may be lowered, and plain Jobs go on in their basic groups.

## Fields read
The groups of the object; Pod counts, minCounts and suspension, old and new.

## Allowed
```yaml
kind: Job            # a plain Job, also while frozen
spec: {parallelism: 4, completions: 4}
```

## Denied
```yaml
kind: Job            # policy: freeze: {cluster: true, reason: upgrade to 1.38}
spec: {scheduling: {schedulingPolicy: {gang: {}}}}
```

## Fix
Submit it again when the freeze has ended.

## References
Muster's policy, `freeze`.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.facts.use import submits
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import GangPlan
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS316",
    name="frozen",
    summary="a new Workload-Aware Scheduling submission while the cluster or namespace is frozen",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if not facts.policy.frozen or facts.requester.trusted or not submits(facts.plan):
        return
    freeze = facts.policy.spec.freeze
    where = "the cluster" if freeze.cluster else f'namespace "{facts.namespace}"'
    reason = f" ({freeze.reason})" if freeze.reason else ""
    old_plan = facts.old_plan
    if facts.operation is Operation.CREATE or (old_plan is not None and not submits(old_plan)):
        yield Finding(
            field=SPEC,
            message=f"{where} is frozen{reason}: no new gangs are taken in, while what runs goes on",
            fix="submit it again when the freeze has ended",
            seen=str(facts.operation),
        )
    elif old_plan is not None:
        for field, before, after in growth(old_plan, facts.plan):
            yield Finding(
                field=field,
                message=f"{where} is frozen{reason}: what runs may shrink, not grow, and this grows from {before} to {after}",
                fix=f"keep {before} until the freeze has ended",
                seen=after,
                limit=before,
            )
        for field in resumed(old_plan, facts.plan):
            yield Finding(
                field=field,
                message=f"{where} is frozen{reason}: a suspended gang is not started, while what runs goes on",
                fix="keep it suspended until the freeze has ended",
                seen="running",
                limit="suspended",
            )


def growth(before: GangPlan, after: GangPlan) -> Iterator[tuple[FieldPath, int, int]]:
    """What an UPDATE makes larger: (field, old, new). What is unknown on either side is no growth."""
    old_counts = {(pod_set.path, pod_set.role): pod_set.pod_count for pod_set in before.all_pod_sets()}
    for pod_set in after.all_pod_sets():
        old_count = old_counts.get((pod_set.path, pod_set.role), 0)
        if old_count is not None and pod_set.pod_count is not None and pod_set.pod_count > old_count:
            yield pod_set.pod_count_path, old_count, pod_set.pod_count
    minimums = {group.path: group.min_count for group in before.leaf_groups()}
    for group in after.leaf_groups():
        minimum = minimums.get(group.path)
        if not group.min_count_explicit or group.min_count is None or minimum is None:
            continue  # a minCount that is left out follows the Pod count
        if group.min_count > minimum:
            yield group.min_count_path, minimum, group.min_count


def resumed(before: GangPlan, after: GangPlan) -> Iterator[FieldPath]:
    """`spec.suspend`, once, where Pods that were held back are no longer."""
    if any(p.suspended for p in before.all_pod_sets()) and not any(p.suspended for p in after.all_pod_sets()):
        yield SPEC / "suspend"
