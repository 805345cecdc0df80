"""GangPlan -> Demands: the questions that an object raises, one per root group and one per Pod set outside gangs.

`demands(plan, ...)` is the only entry. Policy that bears on a demand is applied here (Profile) or by the caller with
`Demand.without` (what a Pod mutator may change). Rules of the scheduler: kubernetes-1.37 4.3-4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.feasibility import selectors
from webhook.feasibility.model import (
    DEFAULT_PROFILE,
    Demand,
    Doubt,
    GroupDemand,
    LeafDemand,
    PodDemand,
    Profile,
    Reason,
    Scope,
    TreeDemand,
)
from webhook.objects import core
from webhook.plan.model import CompositeGroup, GangPlan, Group, GroupOrigin, LeafGroup, PodSet, PolicyKind
from webhook.plan.requests import effective_request

# The Pods of a PodGroup or a template are not written there: whatever they are, each takes a place on a node.
ANY_POD = PodDemand(
    count=None,
    tolerations=None,
    unknowns=(Reason(Doubt.PODS_UNKNOWN, "the Pods are not part of this object"),),
)


@dataclass(frozen=True, slots=True)
class _Context:
    plan: GangPlan
    profile: Profile
    overheads: Mapping[str, core.ResourceList]
    is_sole: Callable[[LeafGroup], bool]


def demands(
    plan: GangPlan,
    *,
    profile: Profile = DEFAULT_PROFILE,
    runtime_overheads: Mapping[str, core.ResourceList] | None = None,
    is_sole: Callable[[LeafGroup], bool] = lambda _: False,
) -> tuple[Demand, ...]:
    """Every question the plan raises, in field order. Never raises.

    runtime_overheads: Snapshot.runtime_overheads. is_sole(group): the Pods of this plan are all there are in the group
    that they name; only then can a referenced group's minCount be held against them, since other Pods may join it.
    """
    context = _Context(plan, profile, runtime_overheads or {}, is_sole)
    result: list[Demand] = []
    for group in plan.groups:
        result += _of_root(group, context)
    for pod_set in plan.pod_sets:
        result.append(_single(pod_set, None, context))
    return tuple(result)


def _of_root(group: Group, context: _Context) -> list[Demand]:
    if isinstance(group, CompositeGroup):
        root = _group(group, context)
        return [_demand(root, list(_pod_sets(group)), Scope.GANG, group.name or group.template_name or "", context)]
    if not group.pod_sets:
        return [_demand(_leaf(group, context), [], Scope.GANG, group.name or group.template_name or "", context)]
    if _is_gang(group, context):
        return [_demand(_leaf(group, context), list(group.pod_sets), Scope.GANG, group.name or "", context)]
    return [_single(pod_set, group, context) for pod_set in group.pod_sets]


def _is_gang(group: LeafGroup, context: _Context) -> bool:
    """Must several of these Pods be placed together, for certain?"""
    if group.policy is not PolicyKind.GANG or not context.profile.gangs:
        return False
    return group.origin is not GroupOrigin.REFERENCED or context.is_sole(group)


def _single(pod_set: PodSet, group: LeafGroup | None, context: _Context) -> Demand:
    """Any one Pod of a set: basic policy, no group, or a group that others may fill."""
    leaf = LeafDemand(
        needed=1,
        pods=(_pod(pod_set, context),),
        topology_key=_key(group.topology_key, context) if group else None,
        claims=tuple(claim.key for claim in group.claims) if group else (),
        name=(group.name or "") if group else "",
        path=group.path if group else pod_set.path,
        topology_path=(group.topology_path if group else None) or pod_set.path,
    )
    return _demand(leaf, [pod_set], Scope.POD, pod_set.role, context)


def _demand(root: GroupDemand, pod_sets: list[PodSet], scope: Scope, name: str, context: _Context) -> Demand:
    if len(pod_sets) > 1 and any(pod_set.template.spec.affinity for pod_set in pod_sets):
        root = _with_doubt(root)
    return Demand(
        root=root,
        scope=scope,
        name=name or context.plan.name,
        skip=_skip(pod_sets, context),
        suspended=any(pod_set.suspended for pod_set in pod_sets),
    )


def _with_doubt(root: GroupDemand) -> GroupDemand:
    """One role's anti-affinity may well mean another's Pods; between roles it is not modelled."""
    if not any(pod.apart for leaf in Demand(root=root).leaves() for pod in leaf.pods):
        return root
    reason = Reason(Doubt.POD_AFFINITY, "required Pod anti-affinity that may mean Pods of other roles")
    return replace(root, unknowns=(*root.unknowns, reason))


def _skip(pod_sets: list[PodSet], context: _Context) -> Reason | None:
    """Why nothing at all can be said, if so."""
    if context.plan.unknown:
        return Reason(Doubt.PLAN, context.plan.unknown[0])
    for pod_set in pod_sets:
        spec = pod_set.template.spec
        if spec.node_name:
            return Reason(Doubt.NODE_NAME, f'Pods with nodeName "{spec.node_name}" are not scheduled at all')
        scheduler = spec.scheduler_name or "default-scheduler"
        if scheduler not in context.profile.schedulers:
            return Reason(Doubt.SCHEDULER, f'scheduler "{scheduler}" is not one this policy describes')
    return None


def _group(group: Group, context: _Context) -> GroupDemand:
    if isinstance(group, LeafGroup):
        return _leaf(group, context)
    needed = 1
    if group.policy is PolicyKind.GANG and context.profile.gangs:
        needed = group.min_group_count or 1
    children = tuple(_group(child, context) for child in group.children)
    if not children:
        return LeafDemand(needed=1, pods=(ANY_POD,), topology_key=_key(group.topology_key, context), path=group.path)
    if not group.children_known:
        # Templates: any number of runtime groups may be made of each.
        children = tuple(_any_number(child) for child in children)
    return TreeDemand(
        needed=needed,
        children=children,
        topology_key=_key(group.topology_key, context),
        name=group.name or group.template_name or "",
        path=group.path,
        needed_path=group.min_group_count_path,
        topology_path=group.topology_path or group.path,
    )


def _any_number(child: GroupDemand) -> GroupDemand:
    return replace(child, copies=None)


def _leaf(group: LeafGroup, context: _Context) -> LeafDemand:
    needed = 1
    unknowns: tuple[Reason, ...] = ()
    if not group.pod_sets or _is_gang(group, context):
        needed, unknowns = _min_count(group, context)
    pods = tuple(_pod(pod_set, context) for pod_set in group.pod_sets) or (ANY_POD,)
    counts = [pod.count for pod in pods]
    if all(count is not None for count in counts):
        # Fewer Pods than minCount is the fault of another rule; here it is asked whether those that exist can start.
        needed = min(needed, max(1, sum(count or 0 for count in counts)))
    return LeafDemand(
        needed=needed,
        pods=pods,
        topology_key=_key(group.topology_key, context),
        copies=group.group_count,
        claims=tuple(claim.key for claim in group.claims),
        unknowns=unknowns,
        name=group.name or group.template_name or "",
        path=group.path,
        needed_path=group.min_count_path,
        topology_path=group.topology_path or group.path,
    )


def _min_count(group: LeafGroup, context: _Context) -> tuple[int, tuple[Reason, ...]]:
    """How many Pods have to be placed together: at least one, whatever is not known."""
    if group.policy is PolicyKind.BASIC or not context.profile.gangs:
        return 1, ()
    if group.policy is PolicyKind.GANG and group.min_count:
        return group.min_count, ()
    return 1, (Reason(Doubt.POD_COUNT, "how many Pods must start together is not known"),)


def _key(key: str | None, context: _Context) -> str | None:
    return key if key and context.profile.topology and context.profile.gangs else None


def _pod_sets(group: Group) -> list[PodSet]:
    if isinstance(group, LeafGroup):
        return list(group.pod_sets)
    return [pod_set for child in group.children for pod_set in _pod_sets(child)]


def _pod(pod_set: PodSet, context: _Context) -> PodDemand:
    """One Pod set, with what the profile ignores left out."""
    spec = pod_set.template.spec
    doubts: list[Reason] = []
    request = _request(pod_set, context, doubts)
    affinity = spec.affinity if isinstance(spec.affinity, Mapping) else {}
    terms = selectors.terms(affinity.get("nodeAffinity"), doubts)
    labels = pod_set.template.metadata.labels or {}
    namespace = context.plan.namespace
    apart = selectors.apart(affinity, labels, namespace, doubts)
    spread_keys, spread = selectors.spread(spec.topology_spread_constraints, labels, doubts)
    needed_keys = tuple(sorted({*spread_keys, *selectors.affinity_keys(affinity, doubts)}))
    if spec.resource_claims:
        doubts.append(Reason(Doubt.CLAIMS, "the Pods use resource claims"))
    if any(_binds(volume) for volume in spec.volumes or ()):
        doubts.append(Reason(Doubt.VOLUMES, "the Pods use volumes that may tie them to nodes"))
    claims = pod_set.claims
    pod = PodDemand(
        count=pod_set.pod_count,
        request=request,
        selector=selectors.node_selector(spec.node_selector),
        affinity=terms,
        tolerations=selectors.tolerations(spec.tolerations, doubts),
        ports=selectors.host_ports(spec),
        apart=apart,
        apart_labels=tuple(sorted(labels.items())) if apart else (),
        needed_keys=needed_keys,
        spread=spread,
        claims=tuple(claim.key for claim in claims),
        unknowns=tuple(dict.fromkeys(doubts)),
        role=pod_set.role,
        path=pod_set.spec_path,
        planned_claims=claims,
    )
    return pod.without(context.profile.disabled)


def _binds(volume: Any) -> bool:
    """Volumes that the scheduler's volume plugins look at: claims, inline CSI and the old in-tree disks."""
    passive = {"name", "configMap", "secret", "emptyDir", "downwardAPI", "projected", "hostPath", "nfs", "image"}
    return not isinstance(volume, Mapping) or not set(volume) <= passive


def _request(pod_set: PodSet, context: _Context, doubts: list[Reason]) -> tuple[tuple[str, int], ...]:
    """The effective request in the scheduler's units. What cannot be read, or is too large to be compared, is left
    out: the rest is a lower bound."""
    spec = pod_set.template.spec
    overhead = context.overheads.get(spec.runtime_class_name) if spec.runtime_class_name else None
    effective = effective_request(spec, pod_set.spec_path, overhead=overhead)
    doubts += [Reason(Doubt.UNREADABLE, f"{at.path}: {at.why}") for at in effective.unreadable]
    request: dict[str, int] = {}
    for name, quantity in effective.amounts.items():
        if not is_scheduled(name) or context.profile.ignores(name):
            continue
        amount = quantity.amount_of(name)
        if amount >= 2**63 or quantity.is_capped:
            doubts.append(Reason(Doubt.UNREADABLE, f"the request for {name} is beyond what 1.37 can count"))
        elif amount > 0:
            request[name] = amount
    return tuple(sorted(request.items()))


def is_scheduled(resource: str) -> bool:
    """Resources that NodeResourcesFit compares: cpu, memory, ephemeral-storage and scalar ones (Resource.Add)."""
    if resource in ("cpu", "memory", "ephemeral-storage"):
        return True
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")
