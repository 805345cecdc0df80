"""Min count below the application's barrier.

## What it checks
A gang whose application waits for a fixed number of Pods (`torchrun --nnodes=8`, `PET_NNODES`, `WORLD_SIZE`, a JAX or
MPI size, or the annotation `muster.dev/barrier`) must not start with fewer: minCount against that number.

## Why
minCount Pods are started as soon as they fit. An application that waits for more makes no progress until the rest
finds a place; until then it holds its accelerators, and two such gangs that wait for each other's nodes never move.
The rest may well
be placed later, so this is a warning. Lowering minCount of a gang that runs is the way out of a stuck tail and is
never denied.

## Fields read
command, args and env of the containers, `metadata.annotations[muster.dev/barrier]`, minCount

## Allowed
```yaml
parallelism: 8                       # minCount follows: 8
scheduling: {schedulingPolicy: {gang: {}}}
template: {spec: {containers: [{command: [torchrun, --nnodes=8, train.py]}]}}
```

## Denied
```yaml
parallelism: 8
scheduling: {schedulingPolicy: {gang: {minCount: 4}}}      # a warning
template: {spec: {containers: [{command: [torchrun, --nnodes=8, train.py]}]}}
```

## Fix
Set minCount to the number of Pods the application waits for, or leave it out in a Job: then it follows `parallelism`.

## References
KEP-4671 (gang scheduling); case R01, R05, R16
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.objects.words import plural
from webhook.rules._barriers import needed_pods
from webhook.rules._gangs import cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS103",
    name="min-count-below-barrier",
    summary="a gang starts with fewer Pods than the application waits for",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted:
        return  # what a controller makes of an object that was judged already
    for gang in gangs(facts):
        needed = needed_pods(facts, gang)
        if needed is None:
            continue
        wanted, barrier = needed
        left_behind = gang.shared and facts.operation is Operation.UPDATE  # WAS115 speaks about that
        if left_behind or not barrier.is_fixed or gang.min_count >= wanted.minimum:
            continue
        where = f"minCount of {gang.title}" if gang.shared else "minCount"
        later = " again once no Pod is stuck" if facts.operation is Operation.UPDATE else ""
        yield Finding(
            field=gang.group.path if gang.shared else gang.group.min_count_path,
            message=(
                f"{gang.title} starts with {plural(gang.min_count, 'Pod')}, but the application waits for {wanted.minimum} "
                f"({barrier.text}): they hold their nodes and wait for the rest"
            ),
            fix=f"set {where} to {wanted.minimum}{later}, or the application to {gang.min_count}",
            seen=gang.min_count,
            limit=wanted.minimum,
            excess=wanted.minimum - gang.min_count,
            at_most=cap_on_update(facts, gang),
        )
