"""Who places the Pods: what kube-scheduler never does, another scheduler may do."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.facts.model import Facts
from webhook.plan.model import PodSet
from webhook.rules._jobs import may_adopt
from webhook.rules._priorities import listed_as_changeable
from webhook.rules._words import quoted
from webhook.verdict import Action


def scheduler_cap(facts: Facts, pod_sets: Iterable[PodSet]) -> Action:
    """How sure a word about kube-scheduler is for these Pods: WARN where another scheduler may bind them, for whom a
    PodGroup, its minCount and its priority mean nothing (seen: tests/live/test_healed_later.py)."""
    known = all(facts.policy.knows_scheduler(pod_set.template.spec.scheduler_name) for pod_set in pod_sets)
    return Action.DENY if known and not listed_as_changeable(facts, "schedulerName") else Action.WARN


def unless(facts: Facts, pod_sets: Iterable[PodSet] = ()) -> str:
    """``, unless ...``: for texts that say what never happens, where it may happen after all; else ""."""
    if may_adopt(facts):
        return ", unless the Job adopts a Pod"
    names = {pod_set.template.spec.scheduler_name or "" for pod_set in pod_sets}
    others = [name for name in names if not facts.policy.knows_scheduler(name)]
    return f", unless {quoted(others)} places them" if others else ""
