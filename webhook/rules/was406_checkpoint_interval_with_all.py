"""A gang that is lost as a whole and checkpoints too rarely.

## What it checks
A gang with `disruptionMode: {all: {}}` whose `muster.dev/checkpoint-interval` is longer than its tier allows
(`tiers[].requires.checkpointIntervalSecondsMax`).

## Why
With `all`, 1.37 preempts every Pod of the gang at once, and all of them fall back to the last checkpoint: 64 Pods with
a checkpoint every four hours may lose 256 Pod hours to one preemption. The tier's admins have set how much that may be.

## Fields read
`disruptionMode`, the annotation `muster.dev/checkpoint-interval`; `tiers` of the policy.

## Allowed
```yaml
kind: Job            # tier gold: requires: {checkpointIntervalSecondsMax: 1800}
metadata: {annotations: {muster.dev/checkpoint-interval: 30m}}
spec:
  scheduling: {schedulingPolicy: {gang: {}}, disruptionMode: {all: {}}}
  template: {spec: {priorityClassName: train-gold}}
```

## Denied
```yaml
kind: Job
metadata: {annotations: {muster.dev/checkpoint-interval: 4h}}
spec:
  scheduling: {schedulingPolicy: {gang: {}}, disruptionMode: {all: {}}}
  template: {spec: {priorityClassName: train-gold}}
```

## Fix
Checkpoint more often and say so, or use a class of a tier that allows the interval.

## References
KEP-5710 (workload-aware preemption); Muster's policy, `tiers[].requires`.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.annotations import CHECKPOINT_INTERVAL
from webhook.plan.model import DisruptionModeKind
from webhook.rules._tiers import annotated_seconds, tier_gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS406",
    name="checkpoint-interval-with-all",
    summary="disruptionMode all with a checkpoint interval longer than the tier allows",
    kinds=frozenset({"Job", "Workload", "PodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding]:
    written = annotated_seconds(facts, CHECKPOINT_INTERVAL)
    if written is None or written.value is None:
        return  # WAS405
    for group, tier in tier_gangs(facts):
        limit = tier.requires.checkpoint_interval_seconds_max
        if limit is None or group.disruption_mode is not DisruptionModeKind.ALL or written.value <= limit:
            continue
        pods = group.pod_count or group.min_count
        of_all = f"all {pods} Pods lose" if (pods or 0) > 1 else "all Pods lose"
        yield Finding(
            field=written.path,
            message=(
                f'disruptionMode all with a checkpoint every "{written.text}": one preemption stops the whole gang, and '
                f'{of_all} up to that much work, where tier "{tier.name}" allows {limit} s'
            ),
            fix=f"checkpoint at least every {limit} s and say so, or use a class of another tier",
            seen=written.text,
            limit=limit,
            excess=int(written.value - limit),
        )
        return
