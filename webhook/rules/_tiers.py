"""PriorityClasses that an object uses, and the tiers they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from webhook.facts.model import Facts
from webhook.facts.use import is_own_word
from webhook.objects.fieldpath import METADATA, FieldPath
from webhook.plan.annotations import CHECKPOINT_INTERVAL, Written, checkpoint_interval, expected_run_time
from webhook.plan.model import GangPlan, Group, GroupOrigin, LeafGroup, PolicyKind
from webhook.policy.model import Tier

SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True, slots=True)
class ClassUse:
    """A PriorityClass named in a field."""

    name: str
    field: FieldPath


def class_uses(facts: Facts, plan: GangPlan) -> tuple[ClassUse, ...]:
    """Every named class once per field, in field order: of groups, composites and Pod templates."""
    return facts.once(_class_uses, plan)


def _class_uses(_facts: Facts, plan: GangPlan) -> tuple[ClassUse, ...]:
    found: dict[FieldPath, ClassUse] = {}
    groups: list[Group] = [*plan.leaf_groups(), *plan.composite_groups()]
    places = [(group.priority_class_name, group.priority_class_path) for group in groups]
    places += [
        (pod_set.template.spec.priority_class_name, pod_set.spec_path / "priorityClassName")
        for pod_set in plan.all_pod_sets()
    ]
    for name, field in places:
        if name:
            found.setdefault(field, ClassUse(name, field))
    return tuple(found.values())


def new_tier_uses(facts: Facts) -> Iterator[tuple[ClassUse, Tier]]:
    """The uses of a tier's class that this request brings: nothing for trusted controllers (their owner was judged)
    and nothing that the stored object has already."""
    if facts.requester.trusted:
        return
    before = set() if facts.old_plan is None else set(class_uses(facts, facts.old_plan))
    for use in class_uses(facts, facts.plan):
        tier = facts.policy.tier_of(use.name)
        if tier is not None and use not in before:
            yield use, tier


def tier_gangs(facts: Facts) -> Iterator[tuple[LeafGroup, Tier]]:
    """The gangs that the object itself describes, with the tier of their class."""
    if facts.requester.trusted:
        return
    for group in facts.plan.leaf_groups():
        if group.origin is GroupOrigin.REFERENCED or group.policy is not PolicyKind.GANG or not is_own_word(group):
            continue
        tier = facts.policy.tier_of(group.priority_class_name or "")
        if tier is not None:
            yield group, tier


def annotation_path(key: str) -> FieldPath:
    return METADATA / "annotations" / key


def annotated_seconds(facts: Facts, key: str) -> Written[Fraction] | None:
    """A duration annotation of muster.dev, on the object or else on one of its Pod templates; seconds."""
    read = checkpoint_interval if key == CHECKPOINT_INTERVAL else expected_run_time
    own = read(facts.metadata, METADATA)
    if own is not None:
        return own
    templates = (read(pod_set.template.metadata, pod_set.path / "metadata") for pod_set in facts.plan.all_pod_sets())
    return next((written for written in templates if written is not None), None)
