"""The gangs of a plan as they will be stored: what a PodGroup that Pods only name asks for is looked up.

For the rules on minCount, barrier and start order. A leaf group that is not a gang, or whose minCount cannot be known
(a PodGroup that is missing or unreadable: the 2xx rules speak about that), is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from webhook.facts.model import Facts, Operation
from webhook.objects import core
from webhook.plan.model import DisruptionModeKind, GangPlan, GroupOrigin, LeafGroup, PodSet, PolicyKind, total
from webhook.plan.parts import disruption_mode, topology
from webhook.rules._jobs import may_adopt
from webhook.rules._schedulers import scheduler_cap
from webhook.verdict import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One leaf group with gang policy.

    group: as planned. min_count: as stored. group_object: the PodGroup object where the Pods only name it, else None:
    such a group may get Pods from other objects too. at_most: WARN where it is not sure that the group is made, or that
    kube-scheduler places its Pods.
    """

    group: LeafGroup
    min_count: int
    topology_key: str | None
    disruption_mode: DisruptionModeKind
    group_object: core.PodGroup | None = None
    at_most: Action = Action.DENY

    @property
    def shared(self) -> bool:
        """May other objects bring Pods to this group?"""
        return self.group_object is not None

    @property
    def pod_sets(self) -> tuple[PodSet, ...]:
        return self.group.pod_sets

    @property
    def title(self) -> str:
        """For texts: ``the PodGroup "train"`` where it has a name, else ``the gang``."""
        return f'the PodGroup "{self.group.name}"' if self.group.name else "the gang"

    @property
    def filled_by_this_object(self) -> bool:
        """Do the Pods of this object alone reach minCount? Then a named group is meant for them, although nothing
        stops others from joining (docs/decisions/0021)."""
        return self.group.pod_count is not None and self.group.pod_count >= self.min_count


def gangs(facts: Facts) -> tuple[Gang, ...]:
    """Every gang of the plan whose minCount is known, in field order."""
    return facts.once(_gangs, facts.plan)


def _gangs(facts: Facts, plan: GangPlan) -> tuple[Gang, ...]:
    found = (
        _referenced(facts, group) if group.origin is GroupOrigin.REFERENCED else _own(facts, group)
        for group in plan.leaf_groups()
    )
    return tuple(gang for gang in found if gang is not None)


def cap_on_update(facts: Facts, gang: Gang) -> Action:
    """The strongest action where a fault keeps a gang from *starting*: on an UPDATE it may run already, and minCount
    may be lowered on a running gang (it is the way out of a stuck tail)."""
    started = facts.operation is Operation.UPDATE and not all(pod_set.suspended for pod_set in gang.pod_sets)
    return Action.WARN if started else gang.at_most


def pod_count_in(groups: Iterator[LeafGroup], name: str) -> int | None:
    """Pods at the same time that name the PodGroup `name`; None where one part is not known."""
    return total(pod_set.pod_count for group in groups if group.name == name for pod_set in group.pod_sets)


def _own(facts: Facts, group: LeafGroup) -> Gang | None:
    if group.policy is not PolicyKind.GANG or group.min_count is None:
        return None
    at_most = Action.DENY
    if group.origin is GroupOrigin.CONTROLLER:
        gate = facts.gate("WorkloadWithJob")
        if gate is False:
            return None
        at_most = Action.DENY if gate and not may_adopt(facts) else Action.WARN
    return Gang(
        group=group,
        min_count=group.min_count,
        topology_key=group.topology_key,
        disruption_mode=group.disruption_mode or DisruptionModeKind.SINGLE,
        at_most=at_most.at_most(scheduler_cap(facts, group.pod_sets)),
    )


def _referenced(facts: Facts, group: LeafGroup) -> Gang | None:
    if group.name is None:
        return None
    found = facts.surroundings.pod_group(facts.namespace, group.name).value
    if found is None or found.spec.scheduling_policy.gang is None:
        return None
    if found.metadata.deletion_timestamp is not None:
        return None  # one of the same name may take its place and ask for something else (WAS218)
    min_count = found.spec.scheduling_policy.gang.min_count
    if min_count is None:
        return None
    key, _ = topology(found.spec.scheduling_constraints, group.path)
    return Gang(
        group=replace(group, policy=PolicyKind.GANG, min_count=min_count),
        min_count=min_count,
        topology_key=key,
        disruption_mode=disruption_mode(found.spec.disruption_mode) or DisruptionModeKind.SINGLE,
        group_object=found,
        at_most=scheduler_cap(facts, group.pod_sets),
    )
