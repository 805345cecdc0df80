"""Per-index retry deadlock.

## What it checks
A gang Job with `backoffLimitPerIndex` above 0 whose minCount is all of its Pods.

## Why
With `backoffLimitPerIndex` one index may fail for good while the others go on. From then on the Job has one Pod less,
and finished Pods do not count: when another index has to be retried, its new Pod waits for minCount Pods that can no
longer exist, and stays Pending for ever. Without `backoffLimitPerIndex` a Job with a failed Pod is retried or fails
as a whole.

`maxFailedIndexes: 0` ends the Job at the first failed index, and `backoffLimitPerIndex: 0` never retries one: neither
is a fault.

## Fields read
`spec.backoffLimitPerIndex`, `spec.maxFailedIndexes`, `spec.parallelism`, `spec.completions`, minCount

## Allowed
```yaml
spec:
  completionMode: Indexed
  parallelism: 4
  completions: 4
  backoffLimitPerIndex: 2
  maxFailedIndexes: 0
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Denied
```yaml
spec:
  completionMode: Indexed
  parallelism: 4
  completions: 4
  backoffLimitPerIndex: 2     # one index fails for good, then a retry of another waits for 4 Pods
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Fix
Set `maxFailedIndexes: 0`, use `backoffLimit` instead, or set minCount to 1.

## References
pkg/controller/job of 1.37.2; KEP-3850 (backoffLimitPerIndex)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import PodSet
from webhook.rules._gangs import cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS108",
    name="per-index-retry-deadlock",
    summary="a gang of all Pods with backoffLimitPerIndex hangs on the retry after an index failed for good",
    kinds=frozenset({"Job", "CronJob", "JobSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        pod_count = gang.group.pod_count
        if gang.min_count <= 1 or pod_count is None or gang.min_count < pod_count:
            continue
        for pod_set in gang.pod_sets:
            if _retries_after_a_loss(facts, pod_set):
                yield Finding(
                    field=pod_set.backoff_limit_per_index_path or pod_set.path,
                    message=(
                        f"is {pod_set.backoff_limit_per_index}, and minCount is all {gang.min_count} Pods: once one index "
                        "has failed for good, fewer can exist, and the retry of another waits for ever"
                    ),
                    fix='set "maxFailedIndexes" to 0, use "backoffLimit" instead, or set minCount to 1',
                    seen=gang.min_count,
                    limit=pod_count - 1,
                    at_most=cap_on_update(facts, gang),
                )


def _retries_after_a_loss(facts: Facts, pod_set: PodSet) -> bool:
    """More completions than parallelism is WAS107's: other indexes take the place of the lost one for a while."""
    if not pod_set.backoff_limit_per_index or pod_set.backoff_limit_per_index_path is None:
        return False
    if pod_set.completions is not None and pod_set.completions > (pod_set.pod_count_declared or 0):
        return False
    job_spec = FieldPath(pod_set.backoff_limit_per_index_path[:-1])
    return bool(_value_at(facts.raw, job_spec / "maxFailedIndexes") != 0)


def _value_at(raw: Mapping[str, Any], path: FieldPath) -> Any:
    """The value at a path, None where there is none."""
    value: Any = raw
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value
