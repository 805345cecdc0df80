"""Object quota that leaves no room for the group.

## What it checks
A ResourceQuota on the number of Workloads, PodGroups or ResourceClaims must allow what the controllers will create for
the object before its gang can start: one Workload and one PodGroup for a Job that is nobody's child, one PodGroup for
each child Job that takes its group from a Workload, and the claims that the group and its Pods get from templates.

## Why
The quota refuses the Job controller, not the author: the Job is accepted and never gets a Pod. For a PodGroup there
is no event at all. A limit below the need is denied; one that is only used up now may be free tomorrow, so it warns.
A Workload or PodGroup that somebody writes by hand is refused by the API server itself, with its own words.

With WorkloadWithJob on a plain Job needs both objects as well; such Jobs do not reach Muster, so
`count/workloads.scheduling.k8s.io: "0"` stops them in silence. Leave these two out of quotas, or allow one for each
Job.

## Fields read
ResourceQuotas of the namespace (`status.hard`, `status.used`, else `spec.hard`); `resourceClaims` of group and Pods

## Allowed
```yaml
# a quota with count/podgroups.scheduling.k8s.io: "10", 3 used
kind: Job
spec: {scheduling: {schedulingPolicy: {gang: {}}}}
```

## Denied
```yaml
# a quota with count/podgroups.scheduling.k8s.io: "0"
kind: Job
spec: {scheduling: {schedulingPolicy: {gang: {}}}}
```

## Fix
Have the quota raised; the text names it.

## References
pkg/controller/job/job_scheduling_manager.go and pkg/quota/v1/evaluator of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import METADATA
from webhook.plan.model import LeafGroup, PlannedClaim
from webhook.rules._groups import view_of
from webhook.rules._quotas import Limit, object_limits
from webhook.rules._schedulers import unless
from webhook.rules._traps import delegated_groups, job_gate_cap, own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS127",
    name="group-object-quota",
    summary="a ResourceQuota leaves no room for the group that the Job controller has to make",
    kinds=frozenset({"Job", "JobSet"}),
    operations=frozenset({"CREATE"}),
    gate="WorkloadWithJob",
)

_WORKLOADS = "count/workloads.scheduling.k8s.io"
_POD_GROUPS = "count/podgroups.scheduling.k8s.io"
_CLAIMS = "count/resourceclaims.resource.k8s.io"

# What is missing then, and what follows.
_EFFECTS = {
    _WORKLOADS: ("Workload", "the Job controller of 1.37 makes no Pod, and only an event says why"),
    _POD_GROUPS: ("PodGroup", "the Job controller of 1.37 makes no Pod, and no event says why"),
    _CLAIMS: ("claims", "its Pods stay Pending in 1.37"),
}


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    needs = _needs(facts)
    if not needs:
        return
    looked = facts.surroundings.resource_quotas(facts.namespace)
    if looked.value is None:
        yield Unresolved(reason=f"the ResourceQuotas of the namespace: {looked.unknown}")
        return
    cap = job_gate_cap(facts) or Action.WARN
    for resource in sorted(needs):
        yield from _over(facts, looked.value, resource, needs[resource], cap)


def _needs(facts: Facts) -> Counter[str]:
    """Objects that must exist before the first Pod of the gang can run, never too many."""
    needs: Counter[str] = Counter()
    own = own_group(facts)
    if own is not None:
        needs += Counter({_WORKLOADS: 1, _POD_GROUPS: 1, _CLAIMS: _claim_count(own, own.claims)})
    for group in delegated_groups(facts):
        view = view_of(facts, group).value
        if view is not None and group.group_count:
            needs += Counter({_POD_GROUPS: group.group_count})
            # The claims of one group may be gone before the next one starts.
            needs |= Counter({_CLAIMS: _claim_count(group, view.claims)})
    return needs


def _claim_count(group: LeafGroup, group_claims: tuple[PlannedClaim, ...]) -> int:
    """Claims made from templates: one for each entry that the group shares with its Pods, and one per Pod for each
    other. How many Pods must run is minCount, as far as it is known."""
    shared = {claim.key for claim in group_claims}
    start_count = group.min_count or 1
    counts = []
    for pod_set in group.pod_sets:
        made = [claim for claim in pod_set.claims if claim.resource_claim_template_name]
        in_group = sum(claim.key in shared for claim in made)
        counts.append(in_group + (len(made) - in_group) * start_count)
    return min(counts, default=0)


def _over(
    facts: Facts, quotas: tuple[core.ResourceQuota, ...], resource: str, need: int, cap: Action
) -> Iterator[Finding]:
    for limit in object_limits(quotas, resource):
        if limit.hard < need:
            yield _finding(facts, limit, need, limit.hard, cap)
        elif limit.remaining is not None and limit.remaining < need:
            yield _finding(facts, limit, need, max(0, limit.remaining), cap.at_most(Action.WARN))


def _finding(facts: Facts, limit: Limit, need: int, room: int, at_most: Action) -> Finding:
    has = f"allows {room}" if room == limit.hard else f"has {room} of {limit.hard} left"
    what, effect = _EFFECTS[limit.resource]
    return Finding(
        field=METADATA / "namespace",
        message=(
            f'the ResourceQuota "{limit.quota}" {has} of "{limit.resource}", and this {facts.kind} needs {need}: without its '
            f"{what} {effect}{unless(facts)}"
        ),
        fix=f'have "{limit.quota}" raised by {need - room} or more, or this resource taken out of it',
        seen=need,
        limit=room,
        excess=need - room,
        at_most=at_most,
    )
