"""What the 5xx rules share: the engine is asked once per plan, and each fault goes to the one rule that explains it.

`faults(facts, rule)` gives a rule its own faults. A plan raises demands (webhook/feasibility/demand.py); for each one
that is infeasible the most specific cause speaks, WAS501 only where none does, so that one fault is denied once.

A fault may deny where three things hold: the snapshot is complete, fresh and closed; the object is not suspended and has
no Pods yet; and it is still infeasible with everything left out that need not hold, which is what a Pod mutator may change between this
object and its Pods, and what a gate of the scheduler that nobody declared would switch off. Else it warns, and
`hindrance` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.facts.model import Facts, Operation, Phase
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import copies_at_once, evaluate
from webhook.feasibility.model import Demand, LeafDemand, Part, PodDemand, Profile, Requirement, TreeDemand
from webhook.feasibility.result import Infeasible, Unknown
from webhook.inventory.snapshot import Question, Snapshot
from webhook.inventory.tables import has_pods, node_table, once
from webhook.objects.core import PodSpec
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import GangPlan
from webhook.rules._device_claims import (
    are_devices_away,
    claims_of,
    has_held_devices,
    taints_of_all,
    unpinned,
    with_claims,
)
from webhook.rules._groups import POD_KINDS
from webhook.rules._pod_causes import Cause, contradiction, diagnose
from webhook.verdict import Action, Unresolved

KINDS = POD_KINDS | {"PodGroup", "CompositePodGroup", "Workload"}

# Which part of a demand a mutator that may change this word can change; a word that is not here may change anything.
_CHANGEABLE: dict[str, frozenset[Part]] = {
    "tolerations": frozenset({Part.TAINTS}),
    "nodeselector": frozenset({Part.NODE_SELECTOR}),
    "affinity": frozenset({Part.NODE_AFFINITY, Part.POD_AFFINITY}),
    "resources": frozenset({Part.REQUESTS, Part.CLAIMS}),
    "resourceclaims": frozenset({Part.CLAIMS}),
    "topologyspreadconstraints": frozenset({Part.SPREAD}),
    "hostport": frozenset({Part.HOST_PORTS}),
    # Anti-affinity and spread of a set against itself rest on the labels of its Pods.
    "labels": frozenset({Part.POD_AFFINITY, Part.SPREAD}),
    "annotations": frozenset(),
    "env": frozenset(),
    "image": frozenset(),
    "priority": frozenset(),
    "priorityclassname": frozenset(),
}
_ALL_PARTS = frozenset(Part) - {Part.TOPOLOGY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault for one rule. found: the proof, None for a contradiction. pod, cause: the Pod set and what is in its
    way, where one Pod alone is the reason. amount: what a rule counts (Pods or groups that fit). hindrance: why it only
    warns, "" where it may deny."""

    rule: str
    demand: Demand
    found: Infeasible | None = None
    pod: PodDemand | None = None
    cause: Cause | None = None
    amount: int = 0
    hindrance: str = ""

    @property
    def at_most(self) -> Action:
        return Action.WARN if self.hindrance else Action.DENY

    @property
    def excess(self) -> int:
        """How many too many, for updates; nothing counts while the object is suspended, so that resuming it counts."""
        if self.demand.suspended:
            return 0
        return 1 if self.found is None else self.found.proof.needed - self.found.proof.best


@dataclass(frozen=True, slots=True)
class Capacity:
    """All that the engine says of one plan."""

    faults: tuple[Fault, ...] = ()
    unresolved: tuple[Unresolved, ...] = field(default=())


def faults(facts: Facts, rule: str) -> Iterator[Fault]:
    """The faults that this rule explains."""
    found = capacity(facts).faults
    return (fault for fault in found if fault.rule == rule) if found else iter(())


def capacity(facts: Facts) -> Capacity:
    """The engine's word on the plan, worked out once per plan."""
    return facts.once(_work_out, facts.plan)


def _work_out(facts: Facts, _plan: GangPlan) -> Capacity:
    if facts.requester.trusted:
        return Capacity()  # what a controller makes was judged where a person wrote it
    snapshot = facts.inventory
    if snapshot is None and not any(_chooses_nodes(pods.template.spec) for pods in facts.plan.all_pod_sets()):
        return Capacity()  # without nodes only two choices of a Pod's own can be in each other's way
    profile = Profile(
        schedulers=facts.policy.spec.cluster.schedulers,
        topology=facts.gate("TopologyAwareWorkloadScheduling") is not False,
        gangs=facts.gate("GenericWorkload") is not False,
        ignored_resources=frozenset(facts.policy.spec.cluster.ignored_resources),
        ignored_groups=frozenset(facts.policy.spec.cluster.ignored_resource_groups),
    )
    overheads = None if snapshot is None else snapshot.runtime_overheads
    found: list[Fault] = []
    unresolved: list[Unresolved] = []
    asked = demands(facts.plan, profile=profile, runtime_overheads=overheads)
    if snapshot is not None:
        open_count = facts.surroundings.open_count
        asked = tuple(with_claims(demand, facts, snapshot) for demand in asked)
        if facts.surroundings.open_count != open_count:
            return Capacity()
    for demand in asked:
        found += _contradictions(demand, facts)
        if snapshot is not None:
            of_demand = _Judge(facts, demand, snapshot)
            found += of_demand.faults()
            unresolved += of_demand.unresolved
    if snapshot is not None:
        found += _replicas_at_once(facts, snapshot, {pod.path: pod for demand in asked for pod in demand.pods()})
    return Capacity(tuple(_without_repeats(found)), tuple(dict.fromkeys(unresolved)))


def _chooses_nodes(spec: PodSpec) -> bool:
    return bool(spec.node_selector or spec.affinity)


def _replicas_at_once(facts: Facts, snapshot: Snapshot, pods: Mapping[FieldPath, PodDemand]) -> Iterator[Fault]:
    """Groups that are none for the scheduler, but that work only whole: a LeaderWorkerSet's replicas."""
    sets = [one for one in facts.plan.pod_sets if one.ranks is not None and one.replicas is not None]
    replicas = {one.replicas for one in sets}
    if len(sets) != len(facts.plan.pod_sets) or len(replicas) != 1 or sum(one.ranks or 0 for one in sets) < 2:
        return
    copies = replicas.pop() or 0
    ranks: dict[PodDemand, int] = {}
    for one in sets:
        alike = replace(pods[one.spec_path], count=None)
        ranks[alike] = ranks.get(alike, 0) + (one.ranks or 0)
    each = tuple(replace(pod, count=count) for pod, count in ranks.items())
    root = LeafDemand(needed=sum(ranks.values()), pods=each, copies=copies, path=sets[0].pod_count_path)
    at_once = copies_at_once(root, snapshot)
    if copies > 1 and at_once is not None and 0 < at_once < copies:
        demand = Demand(root=root, name=facts.name)
        yield Fault(rule="WAS509", demand=demand, amount=at_once, hindrance="they start one after another")


def _without_repeats(found: list[Fault]) -> Iterator[Fault]:
    """One Pod set, one cause; a contradiction also makes a selector match no node, which goes without saying."""
    contradicted = {fault.pod.path for fault in found if fault.rule == "WAS512" and fault.pod is not None}
    for fault in found:
        if fault.rule == "WAS512" or fault.pod is None or fault.pod.path not in contradicted:
            yield fault


# ---- what may change before it counts -----------------------------------------------------------------------------
def changeable(facts: Facts) -> frozenset[Part]:
    """What another admission plugin may still change on the way to the scheduler."""
    if facts.kind == "Pod" and facts.phase is Phase.VALIDATING:
        return frozenset()  # mutation is over
    mutators = facts.policy.spec.cluster.pod_mutators
    # The API server's own RuntimeClass plugin adds the tolerations of the class, whatever webhooks there are.
    own = frozenset({Part.TAINTS} if any(s.template.spec.runtime_class_name for s in facts.plan.all_pod_sets()) else ())
    if mutators == "none":
        return own
    if mutators == "additive":
        return frozenset({Part.TAINTS})
    if mutators == "dry-run":
        return _ALL_PARTS
    parts = {Part.TAINTS}
    for word in (word for mutator in mutators for word in mutator.may_change):
        last = word.replace("[*]", "").replace("[]", "").rsplit(".", 1)[-1].casefold()
        parts |= _CHANGEABLE.get(last, _ALL_PARTS)
    return frozenset(parts)


def _contradictions(demand: Demand, facts: Facts) -> Iterator[Fault]:
    if demand.skip is not None:
        return
    for pod in demand.pods():
        cause = contradiction(pod)
        if cause is not None:
            fixed = contradiction(pod.without(changeable(facts))) is not None
            hindrance = _suspended(demand) or ("" if fixed else "a Pod mutator may change it")
            yield Fault(rule="WAS512", demand=demand, pod=pod, cause=cause, hindrance=hindrance)


def _suspended(demand: Demand) -> str:
    return "it is suspended and may change until it is resumed" if demand.suspended else ""


def _placed_already(facts: Facts) -> str:
    """Members that run count for the quorum wherever they are, on a node that has shrunk since as well: a proof that plans
    from nothing does not hold for them. Those of a suspended object do not exist."""
    if facts.operation is not Operation.UPDATE or facts.kind == "Pod" or facts.old_plan is None:
        return ""
    before = list(facts.old_plan.all_pod_sets())
    if before and all(pod_set.suspended for pod_set in before):
        return ""
    return "its Pods may have been placed already"


# ---- one demand ---------------------------------------------------------------------------------------------------
class _Judge:
    """Asks the engine about one demand and sorts what it says."""

    def __init__(self, facts: Facts, demand: Demand, snapshot: Snapshot) -> None:
        self.facts, self.demand, self.snapshot = facts, demand, snapshot
        self.unresolved: list[Unresolved] = []

    def faults(self) -> list[Fault]:
        found = evaluate(self.demand, self.snapshot)
        if isinstance(found, Infeasible):
            return self._never(found)
        if isinstance(found, Unknown):
            path = self.demand.root.path
            self.unresolved += [Unresolved(reason=reason.text, field=path) for reason in found.reasons]
        if self.demand.skip is not None:
            return []
        return [*self._some_members(), *self._more_than_fit(), *self._today()]

    # -- never ------------------------------------------------------------------------------------------------------
    def _never(self, found: Infeasible) -> list[Fault]:
        alone = list(self._pods_that_fit_nowhere())
        if not alone:
            return [self._of_group(found)]
        hindrance = self._hindrance()
        tainted = self._of_taints(hindrance)
        faults = [
            Fault(
                rule=cause.rule,
                demand=self.demand,
                found=found,
                pod=pod,
                cause=cause,
                hindrance=tainted if cause.rule == "WAS508" else hindrance,
            )
            for pod, cause in alone
        ]
        if all(cause.rule == "WAS508" for _, cause in alone):
            # With the toleration in place, is the group itself still too large?
            without = evaluate(self.demand.without(Part.TAINTS), self.snapshot)
            if isinstance(without, Infeasible):
                faults.append(self._of_group(without))
        return faults

    def _of_group(self, found: Infeasible) -> Fault:
        """The group as a whole does not fit, although each of its Pods would."""
        hindrance = self._hindrance()
        if not self._stays_without(Part.TAINTS):
            rule, hindrance = "WAS508", self._of_taints(hindrance)
        elif (loose := unpinned(self.demand)) is not None and not self._is_infeasible(loose):
            rule = "WAS507"
        else:
            rule = "WAS502" if self._is_for_want_of_labels() else "WAS501"
        return Fault(rule=rule, demand=self.demand, found=found, hindrance=hindrance)

    def _of_taints(self, hindrance: str) -> str:
        """Why a missing toleration only warns; "" if it may deny."""
        if hindrance or Part.TAINTS not in changeable(self.facts):
            return hindrance
        return "a Pod mutator may add the toleration"

    def _hindrance(self) -> str:
        """Why this proof may not deny; "" if it may."""
        reason = self.snapshot.denial_hindrance() or _suspended(self.demand) or _placed_already(self.facts)
        if reason:
            return reason
        changing = changeable(self.facts)
        if not self._stays_without(*changing):
            if self.facts.policy.spec.cluster.pod_mutators == "additive":
                return "a Pod mutator may add the toleration"
            return "a Pod mutator may change what is in the way"
        if self.facts.gate("GenericWorkload") is not True and not self._stays_one_by_one(changing):
            return "the policy does not declare the gate GenericWorkload on"
        # An API server that stores the field proves nothing about the scheduler's own gate.
        declared = self.facts.policy.gate("TopologyAwareWorkloadScheduling") is True
        if not declared and not self._stays_without(Part.TOPOLOGY, *changing):
            return "the policy does not declare the gate TopologyAwareWorkloadScheduling on"
        is_tree = isinstance(self.demand.root, TreeDemand)
        if is_tree and self.facts.policy.gate("CompositePodGroup") is not True and not self._stays_one_by_one(changing):
            return "the policy does not declare the gate CompositePodGroup on"
        return ""

    def _stays_without(self, *parts: Part) -> bool:
        """Is it still infeasible without these parts?"""
        return self._is_infeasible(self.demand.without(*parts))

    def _stays_one_by_one(self, parts: frozenset[Part]) -> bool:
        """Is not even a single Pod of any set possible? What a scheduler without gangs would try."""
        pods = tuple(dict.fromkeys(self.demand.pods()))
        return self._is_infeasible(replace(self.demand, root=LeafDemand(needed=1, pods=pods)).without(*parts))

    def _is_infeasible(self, demand: Demand) -> bool:
        return isinstance(evaluate(demand, self.snapshot, with_explanation=False), Infeasible)

    def _pods_that_fit_nowhere(self) -> Iterator[tuple[PodDemand, Cause]]:
        """Sets of which not even one Pod fits any node, whatever the topology."""
        for pod in dict.fromkeys(self.demand.pods()):
            alone = replace(self.demand, root=LeafDemand(needed=1, pods=(replace(pod, count=None),)))
            if self._is_infeasible(alone):
                yield pod, diagnose(pod, self.snapshot)

    def _is_for_want_of_labels(self) -> bool:
        """Would it not fit the nodes that carry the topology key even if all of them were one domain?"""
        keys = _topology_keys(self.demand)
        if not keys or self._stays_without(Part.TOPOLOGY):
            return False
        labelled = tuple(Requirement(key, "Exists") for key in keys)
        return self._is_infeasible(_with_selector(self.demand.without(Part.TOPOLOGY), labelled))

    # -- what is possible, but not all of it, or not today ----------------------------------------------------------
    def _some_members(self) -> Iterator[Fault]:
        """Sets of which no Pod fits anywhere, in a group that can start without them."""
        if len(self.demand.pods()) > 1:
            for pod, cause in self._pods_that_fit_nowhere():
                why = "the group can start without these Pods"
                yield Fault(rule=cause.rule, demand=self.demand, pod=pod, cause=cause, hindrance=why)

    def _more_than_fit(self) -> Iterator[Fault]:
        every = self.demand.with_every_member() if self.demand.scope == "gang" else None
        if every is not None:
            found = evaluate(every, self.snapshot)
            if isinstance(found, Infeasible):
                yield Fault(rule="WAS509", demand=every, found=found, hindrance="the group can start without them")
        copies = self.demand.root.copies
        if copies is not None and copies > 1:
            at_once = copies_at_once(self.demand.root, self.snapshot)
            if at_once is not None and at_once < copies:
                why = "they start one after another"
                yield Fault(rule="WAS509", demand=self.demand, amount=at_once, hindrance=why)

    def _today(self) -> Iterator[Fault]:
        """Only with nodes that take no Pods today or devices that take no claims (WAS510), or only once others have gone
        (WAS511)."""
        nodes = node_table(self.snapshot)
        are_nodes_away = once(self.snapshot, "away", lambda: bool((nodes.is_away() | nodes.had_more()).any()))
        if are_nodes_away or are_devices_away(self.demand, self.snapshot):
            found = evaluate(self.demand, self.snapshot, Question.READY, with_explanation=False)
            if isinstance(found, Infeasible):
                if are_nodes_away or not self._is_said_of_a_claim():
                    yield Fault(rule="WAS510", demand=self.demand, found=found, hindrance="they may come back")
                return
        are_held = has_held_devices(self.snapshot) and bool(claims_of(self.demand))
        if (has_pods(self.snapshot) or are_held) and not _placed_already(self.facts):
            found = evaluate(self.demand, self.snapshot, Question.NOT_NOW, with_explanation=False)
            if isinstance(found, Infeasible):
                yield Fault(rule="WAS511", demand=self.demand, found=found, hindrance="others may end")

    def _is_said_of_a_claim(self) -> bool:
        """WAS506 has a word for a claim of which all devices are tainted."""
        return any(taints_of_all(claim, self.snapshot) for claim in claims_of(self.demand))


def _topology_keys(demand: Demand) -> tuple[str, ...]:
    keys: list[str] = []
    stack = [demand.root]
    while stack:
        group = stack.pop()
        if group.topology_key:
            keys.append(group.topology_key)
        if isinstance(group, TreeDemand):
            stack += group.children
    return tuple(dict.fromkeys(keys))


def _with_selector(demand: Demand, more: tuple[Requirement, ...]) -> Demand:
    def of(group: LeafDemand | TreeDemand) -> LeafDemand | TreeDemand:
        if isinstance(group, LeafDemand):
            return replace(group, pods=tuple(replace(pod, selector=pod.selector + more) for pod in group.pods))
        return replace(group, children=tuple(of(child) for child in group.children))

    return replace(demand, root=of(demand.root))
