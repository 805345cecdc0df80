"""Fits, but not beside what runs now.

## What it checks
Whether the group has no place in what is free today, although the nodes could hold it.

## Why
A busy cluster is not an impossible one: running Pods end, and Pods of lower priority can be preempted. So this only
tells the tenant that the group will wait, and whether it may preempt its way: kube-scheduler 1.37 takes only Pods of a
strictly lower priority away, and none for a PriorityClass with preemptionPolicy Never. Devices that claims hold are not
preempted for at all: the scheduler does not see that they would be free. It needs an inventory with Pods or with allocated
ResourceClaims.

## Fields read
The Pod template, its claims, minCount, the topology key, the PriorityClass; the Pods on the nodes; `status.allocation` of
ResourceClaims

## Allowed
```yaml
# fits what is free
```

## Denied
```yaml
# asks for 2 nodes with 8 GPUs each, all of which are in use
```

## Fix
Wait, or use a priority that may preempt.

## References
pkg/scheduler/framework/plugins/dynamicresources (1.37.2: no PreFilterExtensions); cases R88, R94
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Feasible, Infeasible
from webhook.inventory.snapshot import Question
from webhook.inventory.tables import has_lower_priority, without_lower_priority
from webhook.rules._capacity import KINDS, Fault, faults
from webhook.rules._capacity_words import asks
from webhook.rules._device_claims import has_held_devices, held_words, with_all_devices_free
from webhook.rules._priorities import pod_preemption_policy, pod_priority
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS511",
    name="not-now",
    summary="the group has to wait until running Pods end or are preempted, or claims give devices back",
    kinds=KINDS,
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        beside, why, fix = _held(facts, fault) or _way(facts, fault)
        yield Finding(
            field=fault.demand.root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            message=f"{asks(fault)}; beside {beside} there is room for {fault.found.proof.best}, so it waits until {why}",
            fix=fix,
            at_most=Action.WARN,
        )


def _held(facts: Facts, fault: Fault) -> tuple[str, str, str] | None:
    """(what is in the way, what it waits for, what to do) where it is the devices that claims hold: were they free, nothing
    would prove that it has to wait."""
    if facts.inventory is None or not has_held_devices(facts.inventory):
        return None
    words = held_words(fault.demand, facts.inventory)
    if not words:
        return None
    free = evaluate(fault.demand, with_all_devices_free(facts.inventory), Question.NOT_NOW, with_explanation=False)
    if isinstance(free, Infeasible):
        return None
    return (
        f"the devices that claims hold now ({words})",
        "claims are deallocated",
        "expect it to wait: 1.37 preempts no Pods for devices",
    )


def _way(facts: Facts, fault: Fault) -> tuple[str, str, str]:
    """As `_held`, of the Pods."""
    return ("the Pods that run now", *_of_pods(facts, fault))


def _of_pods(facts: Facts, fault: Fault) -> tuple[str, str]:
    """(what it waits for, what to do)."""
    unknown = "Pods end or are preempted", "expect it to wait, or use a PriorityClass that may preempt them"
    priorities = [pod_priority(facts, pod_set).value for pod_set in facts.plan.all_pod_sets()]
    policies = [pod_preemption_policy(facts, pod_set).value for pod_set in facts.plan.all_pod_sets()]
    known = [one for one in priorities if one is not None]
    if facts.inventory is None or len(known) < len(priorities) or not known or None in policies:
        return unknown
    if "Never" in policies:
        return "Pods end: its PriorityClass preempts none", "expect it to wait, or use a PriorityClass that preempts"
    priority = min(known)
    left = without_lower_priority(facts.inventory, priority)
    if left is None:
        return unknown
    found = evaluate(fault.demand, left, Question.NOT_NOW, with_explanation=False)
    if isinstance(found, Infeasible):
        fix = "expect it to wait, or use a PriorityClass with a higher value"
        if not has_lower_priority(facts.inventory, priority):
            return f"Pods end: none has a priority below its {priority}", fix
        return f"Pods end: without those below its priority {priority} there is room for {found.proof.best}", fix
    if isinstance(found, Feasible):
        return f"Pods below its priority {priority} are preempted, which makes room", "expect others to be preempted"
    return unknown
