"""The group that Pods join: what it asks for, wherever that is written, and the composites above it.

A group's settings stand in the object itself (a Job), in the PodGroup that Pods name, or, for a child Job with the
group-template-name annotation, in a template of its owner's Workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.facts.model import Facts, Operation
from webhook.facts.surroundings import Looked
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.plan.model import GroupOrigin, LeafGroup, PlannedClaim
from webhook.plan.parts import claims as claims_of

# Kinds that are, or make, Pods.
POD_KINDS = frozenset({"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"})

# The scheduler takes trees of 4 levels (WorkloadMaxTreeDepth). Looking a little further finds short cycles and says of
# the rest "too deep", and stays below the pipeline's number of rounds: each level is one look-up.
ANCESTOR_COUNT_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """What a group asks for.

    title: how a text calls it, ``PodGroup "train"``. priority is the stored number, None where nothing has resolved
    the class yet (a template, or a PodGroup from a file). pod_group: the stored object, where there is one.
    """

    title: str
    claims: tuple[PlannedClaim, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    parent_name: str | None = None
    pod_group: core.PodGroup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestors:
    """The composites above a group, parent first, as far as they were found. At most one of the rest is set:
    missing (a name, confirmed absent), cycle (the names, the first one repeated at the end), unknown (why)."""

    found: tuple[core.CompositePodGroup, ...] = ()
    missing: str | None = None
    cycle: tuple[str, ...] = ()
    unknown: str | None = None


def joined_groups(facts: Facts) -> Iterator[tuple[LeafGroup, str]]:
    """The groups that this object's Pods name by schedulingGroup, with their names.

    A Pod's group and claims are frozen, so an UPDATE of a Pod has nothing new to say.
    """
    if facts.kind == "Pod" and facts.operation is not Operation.CREATE:
        return
    for leaf in facts.plan.leaf_groups():
        if leaf.origin is GroupOrigin.REFERENCED and leaf.name:
            yield leaf, leaf.name


def name_path(leaf: LeafGroup) -> FieldPath:
    """``spec.template.spec.schedulingGroup.podGroupName``."""
    return leaf.path / "podGroupName"


def views(facts: Facts) -> Iterator[tuple[LeafGroup, Looked[GroupView]]]:
    """Every group of the plan that has Pods in it, with what it asks for."""
    if facts.kind == "Pod" and facts.operation is not Operation.CREATE:
        return
    for leaf in facts.plan.leaf_groups():
        if leaf.pod_sets:
            yield leaf, view_of(facts, leaf)


def view_of(facts: Facts, leaf: LeafGroup) -> Looked[GroupView]:
    """What the group asks for: found, confirmed absent, or unknown."""
    return facts.once(_view_of, leaf)


def _view_of(facts: Facts, leaf: LeafGroup) -> Looked[GroupView]:
    if leaf.origin is GroupOrigin.REFERENCED:
        if not leaf.name:
            return Looked(unknown="the Pods name no PodGroup")
        looked = facts.surroundings.pod_group(facts.namespace, leaf.name)
        if looked.value is None:
            return Looked(absent=looked.absent, unknown=looked.unknown)
        if looked.value.metadata.deletion_timestamp is not None:
            return Looked(unknown=f'PodGroup "{leaf.name}" is being deleted, and another may take its place')
        return Looked(_of_pod_group(looked.value))
    if leaf.origin is GroupOrigin.CONTROLLER and leaf.workload_template_name is not None:
        return _delegated(facts, leaf.workload_template_name)
    return Looked(
        GroupView(
            title=str(leaf.path),
            claims=leaf.claims,
            priority=leaf.priority,
            priority_class_name=leaf.priority_class_name or "",
            preemption_policy=leaf.preemption_policy,
            parent_name=leaf.parent_name,
        )
    )


def _of_pod_group(pod_group: core.PodGroup) -> GroupView:
    spec = pod_group.spec
    return GroupView(
        title=f'PodGroup "{pod_group.metadata.name}"',
        claims=claims_of(spec.resource_claims, SPEC / "resourceClaims"),
        priority=spec.priority,
        priority_class_name=spec.priority_class_name or "",
        preemption_policy=spec.preemption_policy,
        parent_name=spec.parent_composite_pod_group_name,
        pod_group=pod_group,
    )


def _delegated(facts: Facts, template_name: str) -> Looked[GroupView]:
    """The template that the Job controller will copy (job_scheduling_manager.go: the Workload whose controllerRef is
    the Job's controller owner; only top-level templates; an empty name means the first)."""
    owner = _owner(facts)
    if owner is None:
        return Looked(unknown="who owns the Job is not known")
    workloads = facts.surroundings.workloads(facts.namespace)
    if workloads.value is None:
        return Looked(unknown=workloads.unknown)
    found = [workload for workload in workloads.value if _stands_for(workload, owner)]
    if len(found) > 1:
        return Looked(unknown=f"{len(found)} Workloads stand for its owner, and 1.37 follows any of them (WAS313)")
    for workload in found:
        for template in workload.spec.pod_group_templates or ():
            if template_name in ("", template.name):
                return Looked(_of_template(workload, template))
    return Looked(absent=True)


def _stands_for(workload: core.Workload, owner: tuple[str, str, str]) -> bool:
    ref = workload.spec.controller_ref
    return ref is not None and (ref.api_group or "", ref.kind, ref.name) == owner


def _of_template(workload: core.Workload, template: core.PodGroupTemplate) -> GroupView:
    # The controller copies class and number; preemptionPolicy and a parent it does not copy (workloadbuilder, 1.37.2).
    return GroupView(
        title=f'template "{template.name}" of Workload "{workload.metadata.name}"',
        claims=claims_of(template.resource_claims, SPEC / "resourceClaims"),
        priority=template.priority,
        priority_class_name=template.priority_class_name or "",
    )


def _owner(facts: Facts) -> tuple[str, str, str] | None:
    """(group, kind, name) of who will own, or owns, the Jobs of this object."""
    if facts.kind == "Job":
        owner = facts.metadata.controller()
        return None if owner is None else (split_api_version(owner.api_version)[0], owner.kind, owner.name)
    if not facts.name:
        return None
    return (BY_NAME[facts.kind].group, facts.kind, facts.name)


def ancestors(facts: Facts, parent_name: str | None, own_name: str = "") -> Ancestors:
    """own_name: the composite that starts the walk, "" for a PodGroup (another kind, so never part of a cycle)."""
    if facts.gate("CompositePodGroup") is False:
        return Ancestors()  # the API server drops the field, and the scheduler does not read it
    seen = [own_name] if own_name else []
    found: list[core.CompositePodGroup] = []
    name = parent_name
    while name:
        if name in seen:
            return Ancestors(found=tuple(found), cycle=(*seen[seen.index(name) :], name))
        if len(found) == ANCESTOR_COUNT_MAX:
            reason = f"more than {ANCESTOR_COUNT_MAX} composites above each other: not followed further"
            return Ancestors(found=tuple(found), unknown=reason)
        looked = facts.surroundings.composite_pod_group(facts.namespace, name)
        if looked.value is None:
            missing = name if looked.absent else None
            return Ancestors(found=tuple(found), missing=missing, unknown=looked.unknown)
        found.append(looked.value)
        seen.append(name)
        name = looked.value.spec.parent_composite_pod_group_name
    return Ancestors(found=tuple(found))


def root_view(facts: Facts, view: GroupView) -> Looked[GroupView]:
    """The root of the group's tree: Pods are compared with the root's priority and preemption policy only."""
    if not view.parent_name:
        return Looked(view)
    above = ancestors(facts, view.parent_name)
    if above.missing or above.cycle:
        return Looked(absent=True)
    if above.unknown is not None:
        return Looked(unknown=above.unknown)
    if not above.found:
        return Looked(view)
    if any(composite.metadata.deletion_timestamp is not None for composite in above.found):
        return Looked(unknown="a CompositePodGroup above it is being deleted, and another may take its place")
    root = above.found[-1]
    return Looked(
        GroupView(
            title=f'root CompositePodGroup "{root.metadata.name}"',
            priority=root.spec.priority,
            priority_class_name=root.spec.priority_class_name or "",
            preemption_policy=root.spec.preemption_policy,
        )
    )
