"""Deleting a Workload or group that is in use.

## What it checks
A DELETE of a Workload, PodGroup or CompositePodGroup while its controller lives and is not finished, while Pods of the
group live, or while groups hang on the composite. Silent for the garbage collector and the namespace controller, in a
namespace that is going, and where the owner is going or gone.

## Why
1.37 does not hold such a delete up (a PodGroup waits for the Pods it has, no longer), and nothing makes the object
again: the next Pods of a Job come without a group and ignore gang, topology and shared claims; Pods that name the group
themselves, and new Pods below a deleted composite, wait for ever.

## Fields read
The object's owner and controllerRef; the Pods, groups and composites of the namespace that name it.

## Allowed
```yaml
kind: PodGroup
metadata: {name: train}      # DELETE; its Pods have ended
```

## Denied
```yaml
kind: PodGroup
metadata: {name: train}      # DELETE; a running Pod names it: a warning
```

## Fix
Delete the Job (or whatever owns it); the group goes with it.

## References
k8s.io/kubernetes v1.37.2 pkg/controller/scheduling/podgroupprotection, pkg/controller/job/job_scheduling_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import ROOT, FieldPath
from webhook.objects.words import plural
from webhook.rules._owners import (
    Owner,
    controller_of,
    controller_ref,
    is_finished,
    is_going,
    namespace_is_going,
)
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS319",
    name="delete-in-use",
    summary="deleting a Workload or group whose Job or Pods live",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}),
    operations=frozenset({"DELETE"}),
    default_action=Action.WARN,
)

_FIELD: FieldPath = ROOT


def _owner_first(owner: Owner) -> str:
    return f"delete {owner} instead: this goes with it"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    obj = facts.obj
    if facts.requester.trusted or facts.metadata.deletion_timestamp is not None or namespace_is_going(facts):
        return
    owner = controller_of(facts.metadata)
    if owner is not None and is_going(facts, owner):
        return
    if isinstance(obj, core.PodGroup):
        yield from _pods(facts, owner)
    elif isinstance(obj, core.CompositePodGroup):
        yield from _children(facts, owner)
    elif isinstance(obj, core.Workload):
        yield from _controller(facts, owner or controller_ref(obj))


def _pods(facts: Facts, owner: Owner | None) -> Iterator[Finding | Unresolved]:
    looked = facts.surroundings.pods(facts.namespace)
    if looked.value is None:
        yield Unresolved(reason=f"whether Pods of the group live: {looked.unknown}", warn=True)
        return
    names = [pod.metadata.name for pod in looked.value if _is_live_member(pod, facts.name)]
    if names:
        yield _finding(
            f"{plural(len(names), 'Pod')} of this group {'has' if len(names) == 1 else 'have'} not ended ({quoted(names)}): 1.37 "
            f"keeps the group until then, and {_later(owner)}",
            fix=_owner_first(owner) if owner is not None else "delete these Pods first, or wait until they have ended",
            seen=len(names),
        )
    elif owner is not None and _works(facts, owner):
        yield _finding(
            f"its controller {owner} still needs this group and does not make it again: its next Pods run one by one, without a group",
            fix=_owner_first(owner),
            seen=str(owner),
        )


def _children(facts: Facts, owner: Owner | None) -> Iterator[Finding | Unresolved]:
    groups = facts.surroundings.pod_groups(facts.namespace)
    composites = facts.surroundings.composite_pod_groups(facts.namespace)
    if groups.value is None or composites.value is None:
        reason = groups.unknown or composites.unknown
        yield Unresolved(reason=f"whether groups hang on this composite: {reason}", warn=True)
        return
    children: list[core.PodGroup | core.CompositePodGroup] = [*groups.value, *composites.value]
    names = [
        child.metadata.name
        for child in children
        if child.spec.parent_composite_pod_group_name == facts.name and child.metadata.deletion_timestamp is None
    ]
    if names:
        yield _finding(
            f"{plural(len(names), 'group')} below this one ({quoted(names)}): 1.37 deletes a composite all the same, and new Pods "
            "of what is below stay Pending for ever, without a condition or an event",
            fix=_owner_first(owner) if owner is not None else f"delete {quoted(names)} first",
            seen=len(names),
        )


def _controller(facts: Facts, owner: Owner | None) -> Iterator[Finding]:
    if owner is not None and _works(facts, owner):
        yield _finding(
            f"its controller {owner} still needs this Workload and does not make it again: groups that it has not made yet never come, and "
            "their Pods run one by one",
            fix=_owner_first(owner),
            seen=str(owner),
        )


def _later(owner: Owner | None) -> str:
    """What becomes of Pods that come once the group is gone."""
    if owner is not None:
        return f"Pods that {owner} makes after that run one by one, without a group"
    return "Pods that name it after that stay Pending for ever"


def _works(facts: Facts, owner: Owner) -> bool:
    """Is the owner confirmed to be there, not going and not finished?"""
    if is_going(facts, owner) is not False:
        return False
    if owner.kind != "Job":
        return True
    job = facts.surroundings.job(facts.namespace, owner.name).value
    return job is not None and not is_finished(job)


def _is_live_member(pod: core.Pod, group: str) -> bool:
    member = pod.spec.scheduling_group is not None and pod.spec.scheduling_group.pod_group_name == group
    return member and pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def _finding(message: str, *, fix: str, seen: object) -> Finding:
    return Finding(field=_FIELD, message=message, fix=fix, seen=seen, limit=0)
