"""disruptionMode all for a gang with a fixed barrier.

## What it changes
A Job with a gang and no `disruptionMode` gets `{all: {}}` if its application needs exactly the Pods it has (a fixed
`--nnodes`, WORLD_SIZE and the like, or the annotation `muster.dev/barrier`).

## Why
1.37 defaults to `single`: a preemption may take one Pod of a fixed gang. The others stop with it, hold their devices
and wait. With `all` the gang is one victim and frees everything at once.

## Left alone
Elastic gangs, gangs whose size is not known, basic groups (the API refuses `all` there), and a `disruptionMode` that is
written. PodGroups too: the API server has filled in `single` before any webhook, so whether it was meant is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.mutations.meta import Change, MutationMeta
from webhook.objects import core
from webhook.plan.barrier import Barrier, read_barrier
from webhook.plan.model import GroupOrigin, LeafGroup, PolicyKind

META = MutationMeta(
    id="WAS903",
    name="disruption-mode-all",
    summary="disruptionMode all for a gang whose application needs exactly the Pods it has",
    kinds=frozenset({"Job"}),
    gate="WorkloadWithJob",
)


def mutate(facts: Facts) -> Iterator[Change]:
    job = facts.obj
    if not isinstance(job, core.Job) or job.spec.scheduling is None or job.spec.scheduling.disruption_mode is not None:
        return
    for group in facts.plan.leaf_groups():
        if group.origin is not GroupOrigin.CONTROLLER or group.policy is not PolicyKind.GANG:
            continue
        text = _fixed_size(facts, group)
        if text is not None:
            note = (
                f"{group.disruption_mode_path}: set to {{all: {{}}}}, since losing one Pod stops all ({text}) [WAS903]"
            )
            yield Change(path=group.disruption_mode_path, value={"all": {}}, note=note)


def _fixed_size(facts: Facts, group: LeafGroup) -> str | None:
    """What says that the application needs all Pods of the group; None where that is not certain."""
    barrier = read_barrier(group.pod_sets, facts.metadata)
    count = group.pod_count
    if not isinstance(barrier, Barrier) or not barrier.is_fixed or count is None or count < 2:
        return None
    return barrier.text if barrier.reading_for(count) is not None else None
