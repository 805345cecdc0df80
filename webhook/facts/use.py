"""Does an object use Workload-Aware Scheduling by its author's own word?

With WorkloadWithJob on, the Job controller puts every plain Job into a basic group. That is not the author's word, and
neither freeze nor tiers treat such a Job as a gang.
"""

from __future__ import annotations

from webhook.facts.model import Facts
from webhook.objects.core import PodSpec
from webhook.plan.model import GangPlan, Group, GroupOrigin, LeafGroup, PolicyKind


def is_own_word(group: Group) -> bool:
    """True unless it is the basic group that the Job controller makes for a Job that asks for nothing."""
    if not isinstance(group, LeafGroup) or group.origin is not GroupOrigin.CONTROLLER:
        return True
    return group.policy is not PolicyKind.BASIC or group.topology_key is not None or bool(group.claims)


def submits(plan: GangPlan) -> bool:
    """Does the object ask for a group, in any form?"""
    return any(is_own_word(group) for group in plan.groups)


def guarded_resources(facts: Facts, spec: PodSpec) -> set[str]:
    """The names of the policy's guarded resources that a Pod asks for, in any container."""
    names: set[str] = set()
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.resources is not None:
            names |= {*(container.resources.requests or ()), *(container.resources.limits or ())}
    return {name for name in names if facts.policy.guards_resource(name)}


def is_governed(facts: Facts) -> bool:
    """Is the object one that tiers are about: a group by its author's word, or Pods with guarded resources?"""
    return submits(facts.plan) or any(
        guarded_resources(facts, pod_set.template.spec) for pod_set in facts.plan.all_pod_sets()
    )
