"""Min count outside the elastic range.

## What it checks
A gang whose application is elastic (`torchrun --nnodes=2:4`, `PET_NNODES=2:4`, `muster.dev/barrier: "2..4"`):
minCount must not be below the smallest nor above the largest number of Pods it runs with. And a gang whose application
has a fixed number of Pods: minCount must not be above it (below it, WAS103 speaks).

## Why
Below the range the gang starts and the application waits, with its accelerators held. Above the range the gang waits
for Pods that the application turns away when they come. Any minCount inside the range is right: training starts with
what is there, and others join.

## Fields read
command, args and env of the containers, `metadata.annotations[muster.dev/barrier]`, minCount

## Allowed
```yaml
parallelism: 4
scheduling: {schedulingPolicy: {gang: {minCount: 2}}}
template: {spec: {containers: [{command: [torchrun, "--nnodes=1:4", train.py]}]}}
```

## Denied
```yaml
parallelism: 4
scheduling: {schedulingPolicy: {gang: {minCount: 1}}}      # a warning
template: {spec: {containers: [{command: [torchrun, "--nnodes=2:4", train.py]}]}}
```

## Fix
Set minCount to the smallest number of Pods that the application starts with.

## References
torchrun (torch.distributed.run), elastic launch; case R05
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.objects.words import plural
from webhook.plan.annotations import PodRange
from webhook.plan.barrier import Barrier
from webhook.rules._barriers import Waiting, range_of, waiting
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS105",
    name="min-count-outside-elastic-range",
    summary="a gang's minCount is outside the range of Pods that the elastic application runs with",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted:
        return
    for gang in gangs(facts):
        found = waiting(facts, gang)
        if not isinstance(found, Waiting) or (wanted := range_of(found)) is None:
            continue
        left_behind = gang.shared and facts.operation is Operation.UPDATE  # WAS115 speaks about that
        below = gang.min_count < wanted.minimum and not found.barrier.is_fixed and not left_behind  # fixed: WAS103
        # A gang of several equal applications has more Pods than each of them.
        above = gang.min_count > wanted.maximum and found.unit in (None, found.units[0])
        if below or above:
            yield _finding(facts, gang, found.barrier, wanted)


def _finding(facts: Facts, gang: Gang, barrier: Barrier, wanted: PodRange) -> Finding:
    below = gang.min_count < wanted.minimum
    outcome = (
        "what starts holds its nodes and waits for more"
        if below
        else "it waits for Pods that the application turns away"
    )
    limit = wanted.minimum if below else wanted.maximum
    where = f"minCount of {gang.title}" if gang.shared else "it"
    size = str(wanted.minimum) if barrier.is_fixed else f"{wanted.minimum} to {wanted.maximum}"
    return Finding(
        field=gang.group.path if gang.shared else gang.group.min_count_path,
        reason="min count above the size of the application" if barrier.is_fixed else None,
        message=(
            f"{gang.title} starts with {plural(gang.min_count, 'Pod')}, and the application runs with {size} "
            f"({barrier.text}): {outcome}"
        ),
        fix=f"set {where} to {'' if barrier.is_fixed else 'a number from '}{size}",
        seen=gang.min_count,
        limit=limit,
        excess=abs(gang.min_count - limit),
        at_most=cap_on_update(facts, gang),
    )
