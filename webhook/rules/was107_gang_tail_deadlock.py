"""Gang tail deadlock.

## What it checks
A Job whose gang needs more than one Pod and whose `completions` are more than its `parallelism`. And a suspended Job
that is resumed with less work left than minCount.

## Why
minCount is not lowered when the work runs out, and finished Pods no longer count. When Pods end together, the last
ones that the Job controller makes are fewer than minCount: they stay Pending for ever, next to a Job that looks
almost
done. It goes well as long as Pods end one by one, so this is a warning and no proof. A resumed Job starts from zero:
what is left has to reach minCount.

## Fields read
`spec.parallelism`, `spec.completions`, `spec.suspend`, `spec.scheduling.schedulingPolicy.gang.minCount`, the named
PodGroup's minCount, `status.succeeded`

## Allowed
```yaml
spec:
  parallelism: 4
  completions: 4
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Denied
```yaml
spec:
  parallelism: 4
  completions: 5        # the fifth Pod may be alone, and minCount is 4
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Fix
Make `completions` equal to `parallelism`, or set minCount to 1. On a running Job, lower minCount: it is the way out.

## References
pkg/controller/job/job_scheduling_manager.go of 1.37.2 (syncGangMinCount); case R02
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.words import plural
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS107",
    name="gang-tail-deadlock",
    summary="the last Pods of a Job are fewer than its gang's minCount",
    kinds=frozenset({"Job", "CronJob", "JobSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        if gang.min_count <= 1:
            continue
        resumed = _resumed_with_too_little(facts, gang)
        yield from resumed or _more_completions(facts, gang)


def _more_completions(facts: Facts, gang: Gang) -> Iterator[Finding]:
    of_group = f" of {gang.title}" if gang.shared else ""
    for pod_set in gang.pod_sets:
        completions, parallelism = pod_set.completions, pod_set.pod_count_declared
        if completions is None or parallelism is None or completions <= parallelism or parallelism == 0:
            continue
        yield Finding(
            field=pod_set.completions_path or pod_set.pod_count_path,
            message=(
                f"{completions} completions with {plural(parallelism, 'Pod')} at a time: when Pods end together, fewer than "
                f"minCount {gang.min_count} may be left, and 1.37 starts none of them: the Job hangs just before its end"
            ),
            fix=f"set completions to {parallelism}, or minCount{of_group} to 1",
            seen=completions,
            limit=parallelism,
            at_most=cap_on_update(facts, gang),
        )


def _resumed_with_too_little(facts: Facts, gang: Gang) -> list[Finding]:
    """Resume of a Job that was suspended after some of its work was done."""
    new, old = facts.obj, facts.old
    if not isinstance(new, core.Job) or not isinstance(old, core.Job) or new.spec.suspend or not old.spec.suspend:
        return []
    succeeded = (new.status or old.status or {}).get("succeeded")
    completions, parallelism = new.spec.completions, gang.pod_sets[0].pod_count_declared
    if not isinstance(succeeded, int) or completions is None or parallelism is None:
        return []
    left = min(parallelism, completions - succeeded)
    if left <= 0 or left >= gang.min_count:
        return []
    where = f"minCount of {gang.title}" if gang.shared else f'"{gang.group.min_count_path}"'
    return [
        Finding(
            field=SPEC / "suspend",
            reason="resumed with less work than min count",
            message=(
                f"{succeeded} of {completions} completions are done, so the resumed Job makes {plural(left, 'Pod')}, and its "
                f"gang starts with minCount {gang.min_count}: they stay Pending for ever"
            ),
            fix=f"lower {where} to {left} {'first' if gang.shared else 'in the same step'}",
            seen=left,
            limit=gang.min_count,
            at_most=Action.WARN if gang.shared else gang.at_most,
        )
    ]
