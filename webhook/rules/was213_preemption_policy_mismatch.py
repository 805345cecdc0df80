"""Preemption policy mismatch.

## What it checks
With the gate PodGroupPreemptionPolicy on, all Pods of a group must have the preemption policy of the group (in a tree:
of its root); a group that says nothing has PreemptLowerPriority. With the gate off, all Pods of a group must have the
same one, whatever it is: then the templates of one object that name the same group are compared with each other.
A Pod's policy is the one of its PriorityClass.

## Why
The scheduler of 1.37 compares them before each attempt. One Pod that differs fails the whole group with SchedulerError,
again and again. Nothing compares them when they are created, and the group's policy is immutable.

If the policy does not say whether the gate is on, this warns at most.

## Fields read
The Pods' `priorityClassName` (a stored Pod's `preemptionPolicy`), `preemptionPolicy` of the group and of its root

## Allowed
```yaml
# PodGroup "train" has preemptionPolicy: Never
spec:
  schedulingGroup: {podGroupName: train}
  priorityClassName: gold-never               # preemptionPolicy: Never
```

## Denied
```yaml
# PodGroup "train" has preemptionPolicy: PreemptLowerPriority
spec:
  schedulingGroup: {podGroupName: train}
  priorityClassName: gold-never               # preemptionPolicy: Never
```

## Fix
Give Pods and group a PriorityClass with the same preemption policy. A group with a class that says Never needs
`preemptionPolicy: Never` written out.

## References
pkg/scheduler/schedule_one_podgroup.go, validatePodGroup, of 1.37.2; PodGroupPreemptionPolicy (alpha in 1.37)
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import GroupOrigin, LeafGroup, PodSet
from webhook.rules._groups import POD_KINDS, GroupView, root_view, views
from webhook.rules._priorities import PREEMPT_LOWER_PRIORITY, class_text, pod_cap, pod_preemption_policy
from webhook.rules._schedulers import scheduler_cap, unless
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS213",
    name="preemption-policy-mismatch",
    summary="Pods have another preemption policy than their group, which fails the whole group",
    kinds=POD_KINDS,
    gate="GenericWorkload",
)

_WHY = "one Pod that differs fails the group with SchedulerError"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    gate = facts.gate("PodGroupPreemptionPolicy")
    cap = Action.WARN if gate is None else Action.DENY
    for leaf, looked in views(facts):
        if leaf.origin is GroupOrigin.CONTROLLER and leaf.workload_template_name is None:
            continue  # a class with policy Never keeps such a Job from starting at all: family 1xx
        if gate is False:
            yield from _among(facts, leaf)
            continue
        root = None if looked.value is None else root_view(facts, looked.value).value
        if root is None:
            continue  # WAS206, WAS209, WAS211 say what is not known
        for pod_set in leaf.pod_sets:
            yield from _against(facts, pod_set, root, cap)


def _against(facts: Facts, pod_set: PodSet, root: GroupView, cap: Action) -> Iterator[Finding | Unresolved]:
    own = pod_preemption_policy(facts, pod_set)
    class_name = pod_set.template.spec.priority_class_name or ""
    path = pod_set.spec_path / "priorityClassName"
    wanted = root.preemption_policy or PREEMPT_LOWER_PRIORITY
    if own.unknown is not None:
        yield Unresolved(field=path, reason=f"which preemption policy the Pods get: {own.unknown}")
    elif own.value is not None and own.value != wanted:
        yield Finding(
            field=path,
            message=(
                f'gives the Pods preemptionPolicy "{own.value}" ({class_text(class_name)}), {root.title} has "{wanted}": '
                f"{_WHY}{unless(facts, [pod_set])}"
            ),
            fix=f'name a class with "{wanted}", or create the group again with "{own.value}"',
            seen=own.value,
            limit=wanted,
            at_most=cap.at_most(pod_cap(facts, "priorityClassName", class_name)).at_most(
                scheduler_cap(facts, [pod_set])
            ),
        )


def _among(facts: Facts, leaf: LeafGroup) -> Iterator[Finding]:
    policies = [(pod_set, pod_preemption_policy(facts, pod_set).value) for pod_set in leaf.pod_sets]
    known = [(pod_set, policy) for pod_set, policy in policies if policy is not None]
    for pod_set, policy in known[1:]:
        first, limit = known[0]
        if policy == limit:
            continue
        classes = [item.template.spec.priority_class_name for item in (first, pod_set)]
        caps = [pod_cap(facts, "priorityClassName", name) for name in classes]
        yield Finding(
            field=pod_set.spec_path / "priorityClassName",
            message=(
                f'gives these Pods preemptionPolicy "{policy}", "{first.spec_path}" gives Pods of the same group '
                f'"{limit}": {_WHY}'
            ),
            fix="give all Pods of the group a PriorityClass with one preemption policy",
            seen=policy,
            limit=limit,
            at_most=caps[0].at_most(caps[1]).at_most(scheduler_cap(facts, [pod_set, first])),
        )
