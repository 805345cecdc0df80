"""Priority mismatch.

## What it checks
All Pods of a group must have the group's priority, as a number: that of the PodGroup they name or, in a tree, of its
root CompositePodGroup. Classes are resolved as the API server resolves them (no class: the global default class, else
0); two classes with the same value are equal. A stored group keeps the number it was created with, even if its class
has been created anew with another value since. Pod templates of one object that name the same group are compared with
each other as well. A PodGroup whose number differs from its root's warns: only the root's counts.

## Why
Before each attempt the scheduler of 1.37 compares every queued and every running Pod of the group with the group's
number. One Pod that differs fails the whole group with SchedulerError, again and again, the others' Pods included. No
admission plugin looks at it. It would be a way around a tier's quota, too.

A template that names no class warns only, since other admission may fill one in (`cluster.podMutators: none` says that
nothing does).

## Fields read
The Pods' `priorityClassName` (a stored Pod's `priority`), the same of the PodGroup and its root, PriorityClasses

## Allowed
```yaml
# PodGroup "train" has priorityClassName: gold (value 1000)
spec:
  schedulingGroup: {podGroupName: train}
  priorityClassName: gold-batch               # value 1000 too
```

## Denied
```yaml
# PodGroup "train" has priorityClassName: gold (value 1000)
spec:
  schedulingGroup: {podGroupName: train}
  priorityClassName: bronze                   # value 100
```

## Fix
Give the Pods the group's class. Where a class was created anew with another value, create the PodGroup anew as well.

## References
pkg/scheduler/schedule_one_podgroup.go, validatePodGroup, of 1.37.2; plugin/pkg/admission/priority; case R65
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import SPEC
from webhook.plan.model import GroupOrigin, LeafGroup, PodSet
from webhook.rules._groups import POD_KINDS, GroupView, root_view, view_of, views
from webhook.rules._priorities import class_text, group_priority, pod_cap, pod_priority
from webhook.rules._schedulers import scheduler_cap, unless
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS211",
    name="priority-mismatch",
    summary="Pods have another priority than their group, which fails the whole group",
    kinds=POD_KINDS | {"PodGroup"},
    gate="GenericWorkload",
)

_WHY = "one Pod that differs fails the group with SchedulerError"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.kind == "PodGroup":
        yield from _below_root(facts)
        return
    for leaf, looked in views(facts):
        if leaf.origin is GroupOrigin.CONTROLLER and leaf.workload_template_name is None:
            continue  # the Job controller copies the class of the Pod template into the group
        root = None if looked.value is None else root_view(facts, looked.value)
        if root is not None and root.value is not None:
            for pod_set in leaf.pod_sets:
                yield from _against(facts, pod_set, root.value)
        else:
            unknown = looked.unknown or (root.unknown if root is not None else None)
            if unknown is not None:
                yield Unresolved(field=leaf.path, reason=f"the group's priority is not known: {unknown}")
            yield from _among(facts, leaf)


def _against(facts: Facts, pod_set: PodSet, root: GroupView) -> Iterator[Finding | Unresolved]:
    """Pods of one set against the group."""
    own_class = pod_set.template.spec.priority_class_name or ""
    path = pod_set.spec_path / "priorityClassName"
    own, wanted = pod_priority(facts, pod_set), group_priority(facts, root)
    if own.value is None or wanted.value is None:
        if root.priority is None and own_class == root.priority_class_name:
            return  # the same class, whatever its value
        unknown = own.unknown or wanted.unknown
        if unknown is not None:
            yield Unresolved(field=path, reason=f"whether Pods and group have the same priority: {unknown}")
        return
    if own.value == wanted.value:
        return
    fix = f"name a PriorityClass of value {wanted.value}"
    if root.priority_class_name and own_class == root.priority_class_name:
        fix = f'create the group anew, so that it takes the value that "{own_class}" has today'
    elif root.priority_class_name:
        fix += f', such as "{root.priority_class_name}"'
    yield Finding(
        field=path,
        message=(
            f"gives the Pods priority {own.value} ({class_text(own_class)}), {root.title} has {wanted.value}: {_WHY}"
            f"{unless(facts, [pod_set])}"
        ),
        fix=fix,
        seen=own.value,
        limit=wanted.value,
        at_most=pod_cap(facts, "priorityClassName", own_class).at_most(scheduler_cap(facts, [pod_set])),
    )


def _among(facts: Facts, leaf: LeafGroup) -> Iterator[Finding]:
    """Pod sets of one group against each other, where the group itself is not there to compare with."""
    first: tuple[PodSet, int] | None = None
    for pod_set in leaf.pod_sets:
        number = pod_priority(facts, pod_set).value
        if number is None:
            continue
        if first is None:
            first = (pod_set, number)
            continue
        if number == first[1]:
            continue
        own_class, first_class = (item.template.spec.priority_class_name for item in (pod_set, first[0]))
        caps = [pod_cap(facts, "priorityClassName", name) for name in (own_class, first_class)]
        yield Finding(
            field=pod_set.spec_path / "priorityClassName",
            message=(
                f"gives these Pods priority {number} ({class_text(own_class)}), "
                f'"{first[0].spec_path}" gives Pods of the same group {first[1]} ({class_text(first_class)}): {_WHY}'
            ),
            fix="give all Pods of the group one PriorityClass, or a group of their own",
            seen=number,
            limit=first[1],
            at_most=caps[0].at_most(caps[1]).at_most(scheduler_cap(facts, [pod_set, first[0]])),
        )


def _below_root(facts: Facts) -> Iterator[Finding | Unresolved]:
    """A PodGroup in a tree: its own number is written, and not read."""
    for leaf in facts.plan.leaf_groups():
        view = view_of(facts, leaf).value
        if view is None or not view.parent_name:
            continue
        root = root_view(facts, view).value
        if root is None:
            continue  # WAS209 and WAS210 speak of the chain
        own, wanted = group_priority(facts, view), group_priority(facts, root)
        if own.value is None or wanted.value is None or own.value == wanted.value:
            continue
        yield Finding(
            field=SPEC / "priorityClassName",
            message=(
                f"gives the PodGroup priority {own.value}, {root.title} has {wanted.value}: Pods are compared with the "
                "root's, so Pods of this class fail the whole tree"
            ),
            fix=f"create it again with {class_text(root.priority_class_name)}, and give that to its Pods",
            seen=own.value,
            limit=wanted.value,
            at_most=Action.WARN,
        )
