"""How many Pods of a whole set of objects name one PodGroup: for `review` of a set that is declared complete."""

from __future__ import annotations

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.kinds import BY_NAME
from webhook.plan.adapters import plan_of
from webhook.plan.model import GangPlan
from webhook.rules._gangs import pod_count_in

# Kinds whose Pods never become more than the object says. A Deployment and a LeaderWorkerSet surge during a rollout
# and the runs of a CronJob overlap: how many Pods they may have at once is not fixed, so nothing is proved with them.
_COUNTED = ("Pod", "Job", "ReplicaSet", "StatefulSet", "JobSet")
_UNCOUNTED = ("Deployment", "LeaderWorkerSet", "CronJob")


def pods_in_set(facts: Facts, pod_group: str) -> int | None:
    """Pods of the complete set that name `pod_group` and may exist at the same time; None where it cannot be told.

    Never too few: an object that is in the set together with its owner counts twice.
    """
    if not facts.complete_set:
        return None
    counted = _of_plan(facts.plan, pod_group)
    for kind in (*_COUNTED, *_UNCOUNTED):
        listed = facts.surroundings.all_of(kind, facts.namespace).value
        if listed is None or counted is None:
            return None
        for obj in listed:
            if _is_judged(facts, kind, obj):
                continue
            more = _of_plan(plan_of(kind, BY_NAME[kind].api_version, facts.namespace, obj), pod_group)
            if more is None:
                return None
            counted += more
    return counted


def _of_plan(plan: GangPlan, pod_group: str) -> int | None:
    if plan.kind in _UNCOUNTED:
        names = {group.name for group in plan.leaf_groups()}
        return None if pod_group in names else 0
    return pod_count_in(plan.leaf_groups(), pod_group)


def _is_judged(facts: Facts, kind: str, obj: core.Base) -> bool:
    """The object under judgement stands in the set too. One without a name may be a twin, so it counts again."""
    metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
    return kind == facts.kind and bool(metadata.name) and metadata.name == facts.name
