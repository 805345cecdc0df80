"""The PriorityClass of the namespace's default tier.

## What it changes
Pod templates of a Job, CronJob, JobSet or LeaderWorkerSet that name no PriorityClass get the first class of the
policy's `defaultTier`, if the object asks for a group or for guarded resources.

## Why
A gang without a class has the priority of the global default, or 0: the first to be preempted and in no tier. Written
into the template of the top object it holds for its Pods and for the group that the Job controller makes of it, which
must agree.

## Left alone
- Pods and PodGroups: the Priority plugin runs before any webhook and has filled in the number, and a class that does
  not agree with it is refused in the second pass that every patch brings about.
- Templates whose Pods name a PodGroup or take a group from their parent's Workload: that group has a class already, and
  kube-scheduler refuses a group whose members have another priority.
- A Job when the class has preemptionPolicy Never: its group is refused in 1.37 and the Job never starts.
- Everything, where the class does not exist or the tier is not open to the namespace and the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_governed
from webhook.mutations.meta import Change, MutationMeta
from webhook.plan.model import GroupOrigin, PodSet, PolicyKind
from webhook.policy.model import Tier

META = MutationMeta(
    id="WAS902",
    name="default-priority-class",
    summary="the PriorityClass of the namespace's default tier, where a template names none",
    kinds=frozenset({"Job", "CronJob", "JobSet", "LeaderWorkerSet"}),
)


def mutate(facts: Facts) -> Iterator[Change]:
    tier = _open_tier(facts)
    if tier is None or facts.metadata.controller() is not None or not is_governed(facts):
        return
    name = tier.priority_classes[0]
    templates = {pod_set.path: pod_set for pod_set in _own_pods(facts) if _names_none(pod_set)}
    if not templates:
        return
    found = facts.surroundings.priority_class(name).value
    if found is None or (found.preemption_policy == "Never" and facts.kind == "Job"):
        return
    for pod_set in templates.values():
        path = pod_set.spec_path / "priorityClassName"
        note = f'{path}: set to "{name}", the default of this namespace (tier "{tier.name}") [WAS902]'
        yield Change(path=path, value=name, note=note)


def _open_tier(facts: Facts) -> Tier | None:
    tier = next((tier for tier in facts.policy.tiers if tier.name == facts.policy.default_tier), None)
    if tier is None or not facts.policy.scope_holds(tier.scope):
        return None
    requester = facts.requester
    may = requester.trusted or facts.policy.subjects_hold(tier.subjects, requester.username, requester.groups)
    return tier if may else None


def _own_pods(facts: Facts) -> Iterator[PodSet]:
    """Pods in no group, or in the one that the Job controller makes of this very object."""
    yield from facts.plan.pod_sets
    for group in facts.plan.leaf_groups():
        if group.origin is GroupOrigin.CONTROLLER and group.policy is not PolicyKind.UNKNOWN:
            yield from group.pod_sets


def _names_none(pod_set: PodSet) -> bool:
    spec = pod_set.template.spec
    return not spec.priority_class_name and spec.priority is None
