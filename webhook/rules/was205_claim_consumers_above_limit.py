"""Claim consumers above limit.

## What it checks
How many Pods of one object reference the same ResourceClaim by name and not through their group: at most 256 of them
can hold it at a time.

## Why
A claim's `status.reservedFor` has room for 256 entries. Each Pod takes one; a PodGroup takes one for all its Pods. The
257th Pod stays Pending until another one ends, and a gang that needs all of them at once never starts. It warns, since
finished Pods make room.

## Fields read
The Pods' `resourceClaims[].resourceClaimName`, the group's `resourceClaims`, the number of Pods

## Allowed
```yaml
spec:
  parallelism: 300
  scheduling:
    schedulingPolicy: {basic: {}}
    resourceClaims: [{name: shared, resourceClaimName: dataset}]
  template: {spec: {resourceClaims: [{name: shared, resourceClaimName: dataset}]}}
```

## Denied
```yaml
spec:
  parallelism: 300
  template: {spec: {resourceClaims: [{name: shared, resourceClaimName: dataset}]}}
```

## Fix
Reference the claim through the group (`spec.scheduling.resourceClaims` of a Job, `spec.resourceClaims` of a PodGroup,
with the same name), or run at most 256 of these Pods at a time.

## References
k8s.io/api resource/v1 ResourceClaimReservedForMaxSize; KEP-5194; case R79
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import PlannedClaim, PodSet
from webhook.rules._claims import CONSUMER_COUNT_MAX
from webhook.rules._groups import views
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS205",
    name="claim-consumers-above-limit",
    summary="more than 256 Pods reserve one ResourceClaim, each for itself",
    kinds=frozenset({"Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    counts: dict[str, int] = {}
    paths: dict[str, FieldPath] = {}
    unknown: dict[str, str] = {}
    for pod_set, group_count, group_claims, why in _pod_sets(facts):
        for claim in pod_set.claims:
            name = claim.resource_claim_name
            if name is None or claim.key in {own.key for own in group_claims}:
                continue
            counts[name] = counts.get(name, 0) + (pod_set.pod_count or 0) * group_count
            paths.setdefault(name, claim.path / "resourceClaimName")
            if why is not None:
                unknown[name] = why
    for name, count in counts.items():
        if count <= CONSUMER_COUNT_MAX:
            continue
        if name in unknown:
            yield Unresolved(field=paths[name], reason=f"whether the group has this claim: {unknown[name]}")
        else:
            yield _finding(paths[name], name, count)


def _pod_sets(facts: Facts) -> Iterator[tuple[PodSet, int, tuple[PlannedClaim, ...], str | None]]:
    """Each Pod set, how often it exists, its group's claims, and why these are not known."""
    dropped = facts.gate("DRAWorkloadResourceClaims") is False
    for leaf, looked in views(facts):
        group_claims = looked.value.claims if looked.value is not None and not dropped else ()
        for pod_set in leaf.pod_sets:
            yield pod_set, 1 if leaf.group_count is None else leaf.group_count, group_claims, looked.unknown
    for pod_set in facts.plan.pod_sets:
        yield pod_set, 1, (), None


def _finding(path: FieldPath, name: str, count: int) -> Finding:
    return Finding(
        field=path,
        message=(
            f'{count} Pods reserve "{name}", each for itself, and {CONSUMER_COUNT_MAX} can: the rest stays Pending '
            "until others end"
        ),
        fix=f"list it in the group's resourceClaims, or run only {CONSUMER_COUNT_MAX}",
        seen=count,
        limit=CONSUMER_COUNT_MAX,
        excess=count - CONSUMER_COUNT_MAX,
        at_most=Action.WARN,
    )
