"""World size mismatch.

## What it checks
A gang whose containers set `WORLD_SIZE` (or a JAX number of processes): it must be the number of Pods, or the number
of Pods times the processes of each (`--nproc-per-node`, or the devices that a Pod asks for).

## Why
The name is used for both, so both are right. A number that matches neither means that the application waits for
members that nobody starts, or that it dies on its first collective operation, after it has taken its accelerators.
How many processes
a Pod runs is read from what the object says and may be something else, so this is a warning.

A value that comes from a ConfigMap, a fieldRef or a shell variable is not known and no fault. What contradicts itself
is reported as not checked.

## Fields read
env, command, args and resources of the containers, the number of Pods

## Allowed
```yaml
parallelism: 2
scheduling: {schedulingPolicy: {gang: {}}}
template:
  spec:
    containers:
    - resources: {limits: {nvidia.com/gpu: 4}}
      env: [{name: WORLD_SIZE, value: "8"}]     # or "2"
```

## Denied
```yaml
parallelism: 2
scheduling: {schedulingPolicy: {gang: {}}}
template:
  spec:
    containers:
    - resources: {limits: {nvidia.com/gpu: 4}}
      env: [{name: WORLD_SIZE, value: "16"}]    # a warning
```

## Fix
Correct the number, or say with `muster.dev/barrier` how many Pods the application waits for.

## References
torch.distributed environment initialisation; case R07
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.annotations import BARRIER
from webhook.plan.barrier import BarrierKind, BarrierUnknown
from webhook.rules._barriers import Waiting, waiting
from webhook.rules._gangs import cap_on_update, gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS106",
    name="world-size-mismatch",
    summary="WORLD_SIZE is neither the number of Pods nor of their processes",
    kinds=frozenset({"Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted:
        return
    for gang in gangs(facts):
        found = waiting(facts, gang)
        if isinstance(found, BarrierUnknown):
            # A person can mend a contradiction or an annotation; a ConfigMap is simply not read here.
            warn = bool(found.sizes) or BARRIER in found.reason
            yield Unresolved(reason=found.reason, field=found.path, warn=warn)
        elif found is not None and found.whole and found.barrier.kind is BarrierKind.EITHER:
            yield from _mismatch(found, cap_on_update(facts, gang))


def _mismatch(found: Waiting, at_most: Action) -> Iterator[Finding]:
    barrier, pod_count = found.barrier, found.units[0]
    if any(barrier.fits(unit) is not False for unit in found.units):
        return
    processes = [pod_count * count for count in barrier.processes_per_pod or ()]
    counts = " nor ".join(str(count) for count in dict.fromkeys(processes))
    yield Finding(
        field=barrier.path,
        message=(
            f'"{barrier.text}" is neither {pod_count} (the Pods) nor {counts} (their processes): the application waits '
            "for members that nobody starts, or ends at once"
        ),
        fix=f'set it to {processes[-1] if processes else pod_count}, or annotate {BARRIER}: "{pod_count}"',
        seen=barrier.minimum,
        limit=[pod_count, *processes],
        at_most=at_most,
    )
