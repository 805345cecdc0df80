"""Scheduling gates on members of a gang.

## What it checks
Pods of a gang with `schedulingGates`.

## Why
A gated Pod counts when the scheduler of 1.37 asks whether minCount Pods exist, and it does not count when it asks
whether minCount Pods can be placed. So the gang waits until somebody has taken the gates off minCount of its Pods, and
its members without gates wait with it; the group has no condition meanwhile. Whoever set the gate usually takes it off,
so this only warns.

## Fields read
`schedulingGates` of the Pod template; minCount

## Allowed
```yaml
spec:
  schedulingGroup: {podGroupName: train}
```

## Denied
```yaml
spec:
  schedulingGroup: {podGroupName: train}
  schedulingGates: [{name: example.com/data-staged}]
```

## Fix
See that the gates go, or suspend the Job instead.

## References
pkg/scheduler/framework/plugins/gangscheduling of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import plural
from webhook.plan.model import PodSet
from webhook.rules._gangs import gangs
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS131",
    name="gated-member",
    summary="members of a gang have scheduling gates, and the whole gang waits for them",
    kinds=frozenset({"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        for pod_set in gang.pod_sets:
            gates = _gates(pod_set)
            if gates:
                yield Finding(
                    field=pod_set.spec_path / "schedulingGates",
                    message=(
                        f"{quoted(gates)} holds Pods of {gang.title} back: in 1.37 none starts, without a condition, "
                        f"until {plural(gang.min_count, 'Pod')} (minCount) {'has' if gang.min_count == 1 else 'have'} no gate"
                    ),
                    fix="see that something takes the gates off" + _instead(facts),
                    seen=gates,
                    limit=gang.min_count,
                )


def _instead(facts: Facts) -> str:
    return f", or suspend the {facts.kind} instead" if facts.kind in ("Job", "CronJob", "JobSet") else ""


def _gates(pod_set: PodSet) -> list[str]:
    return sorted({gate.name for gate in pod_set.template.spec.scheduling_gates or ()})
