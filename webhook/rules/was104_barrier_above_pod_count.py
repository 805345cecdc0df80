"""Barrier above the Pods that can exist.

## What it checks
A gang whose application waits for more Pods (`torchrun --nnodes`, `PET_NNODES`, `NNODES`, `muster.dev/barrier`), or
for more processes than its Pods can run (`mpirun -np` with a known number per Pod), than the object can ever have.

## Why
The gang starts, takes its accelerators, and the application waits for members that no controller will make, until a
timeout of its own ends it. kube-scheduler places such a gang, and another object may bring the rest of the application,
so this warns. Where a Job with a gang of its own says a number of Pods, a policy (strict, for example) may deny it;
where Pods only name a group, or where the number counts processes, it never does.

When the rest of the application really comes from another object, say with `muster.dev/barrier` how many Pods this one
has: it overrules what the command line says.

## Fields read
command, args and env of the containers, `metadata.annotations[muster.dev/barrier]`, the number of Pods

## Allowed
```yaml
parallelism: 8
scheduling: {schedulingPolicy: {gang: {}}}
template: {spec: {containers: [{command: [torchrun, "--nnodes=4:8", train.py]}]}}
```

## Denied
```yaml
parallelism: 4
scheduling: {schedulingPolicy: {gang: {}}}       # a warning
template: {spec: {containers: [{command: [torchrun, --nnodes=8, train.py]}]}}
```

## Fix
Raise the number of Pods, or correct the number that the application is told.

## References
torchrun (torch.distributed.run); case R08
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import plural
from webhook.plan.annotations import BARRIER
from webhook.plan.barrier import Barrier, BarrierKind
from webhook.rules._barriers import Waiting, waiting
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS104",
    name="barrier-above-pod-count",
    summary="the application waits for more Pods than can ever exist",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted or facts.metadata.controller() is not None:
        return  # a part of something larger, which was judged as a whole
    for gang in gangs(facts):
        found = waiting(facts, gang)
        if not isinstance(found, Waiting) or not found.whole:
            continue
        least = _least_pods(found.barrier)
        if least is not None and least > found.units[0]:
            yield _finding(facts, gang, found, least)


def _least_pods(barrier: Barrier) -> int | None:
    """The fewest Pods that this barrier can be reached with; None where that is not plain (WAS106 has WORLD_SIZE)."""
    if barrier.kind is BarrierKind.PODS:
        return barrier.minimum
    if barrier.kind is BarrierKind.PROCESSES and barrier.processes_per_pod:
        return min(-(-barrier.minimum // count) for count in barrier.processes_per_pod)
    return None


def _finding(facts: Facts, gang: Gang, found: Waiting, least: int) -> Finding:
    pod_count = found.units[0]
    plain = found.barrier.kind is BarrierKind.PODS and not gang.shared
    return Finding(
        field=found.barrier.path,
        message=(
            f'{found.barrier.text} waits for {plural(least, "Pod")}, and "{gang.pod_sets[0].pod_count_path}" allows {pod_count}: '
            "they hold nodes and wait unless others bring the rest"
        ),
        fix=f'wait for {pod_count}, run {plural(least, "Pod")}, or annotate {BARRIER}: "{pod_count}" if others do',
        seen=least,
        limit=pod_count,
        excess=least - pod_count,
        at_most=cap_on_update(facts, gang) if plain else Action.WARN,
    )
