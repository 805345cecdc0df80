"""Fixed barrier with disruption mode single.

## What it checks
A gang whose application needs a fixed number of Pods (`torchrun --nnodes=4`, `WORLD_SIZE`, `muster.dev/barrier: "4"`)
and whose disruptionMode is `single`, which is the default.

## Why
With `single` the scheduler of 1.37 may preempt one Pod of the gang, whatever minCount is: minCount acts when a gang
starts, and does not protect it later. An application with a fixed size loses its work with that Pod, while the others
keep their
accelerators and wait. With `all` the gang is taken whole or not at all. An elastic application goes on with fewer, so
it is not meant.

## Fields read
command, args and env of the containers, `metadata.annotations[muster.dev/barrier]`, `disruptionMode` of the Job or
the PodGroup

## Allowed
```yaml
parallelism: 4
scheduling: {schedulingPolicy: {gang: {}}, disruptionMode: {all: {}}}
template: {spec: {containers: [{command: [torchrun, --nnodes=4, train.py]}]}}
```

## Denied
```yaml
parallelism: 4
scheduling: {schedulingPolicy: {gang: {}}}       # a warning
template: {spec: {containers: [{command: [torchrun, --nnodes=4, train.py]}]}}
```

## Fix
Set `disruptionMode: {all: {}}`. It cannot be changed later.

## References
KEP-5710 (workload-aware preemption); case R133
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import DisruptionModeKind
from webhook.rules._barriers import needed_pods
from webhook.rules._gangs import gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS110",
    name="fixed-barrier-single-disruption",
    summary="one Pod of a fixed-size application may be preempted alone",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted:
        return
    for gang in gangs(facts):
        needed = needed_pods(facts, gang)
        if needed is None or gang.disruption_mode is not DisruptionModeKind.SINGLE:
            continue
        pods, barrier = needed
        if not barrier.is_fixed or pods.minimum < 2:
            continue
        yield Finding(
            field=gang.group.path if gang.shared else gang.group.disruption_mode_path,
            message=(
                f"the application needs all {pods.minimum} Pods ({barrier.text}), and disruptionMode single lets "
                "preemption take one of them: the others keep their nodes and wait"
            ),
            fix=f"create {gang.title} again with disruptionMode {{all: {{}}}}"
            if gang.shared
            else "set it to {all: {}}; it cannot be changed later",
            seen="single",
            limit="all",
        )
