"""Priorities as numbers: what the Priority admission plugin of 1.37 makes of a PriorityClass name.

Source: k8s.io/kubernetes v1.37.2 plugin/pkg/admission/priority/admission.go. A Pod and a group always end with the
number of their class, or of the global default class (the lowest value, if there are several), or 0.
"""

from __future__ import annotations

from webhook.facts.model import Facts, Phase
from webhook.facts.surroundings import Looked
from webhook.objects import core
from webhook.plan.model import PodSet
from webhook.rules._groups import GroupView
from webhook.verdict import Action

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"

_NO_CLASS = core.PriorityClass()


def class_of(facts: Facts, name: str | None) -> Looked[core.PriorityClass]:
    """The PriorityClass of this name; without a name the global default, or a nameless class of value 0."""
    if name:
        return facts.surroundings.priority_class(name)
    looked = facts.surroundings.priority_classes()
    if looked.value is None:
        return Looked(unknown=looked.unknown)
    defaults = [item for item in looked.value if item.global_default]
    return Looked(min(defaults, key=lambda item: item.value, default=_NO_CLASS))


def is_final(facts: Facts) -> bool:
    """Is what stands in the Pod what will be stored? Only for a Pod in the validating phase; a template's Pods pass
    other admission first, and so does a Pod in a file."""
    return facts.kind == "Pod" and facts.phase is Phase.VALIDATING


def pod_cap(facts: Facts, field: str, written: object) -> Action:
    """How sure a word about a Pod's field can be: WARN where other admission may still change it.

    field: its first name below `spec`. written: its value, falsy where the author left it open, which an additive
    mutator may fill (a namespace's default class, for example).
    """
    if is_final(facts):
        return Action.DENY
    mutators = facts.policy.spec.cluster.pod_mutators
    if mutators == "none":
        return Action.DENY
    if mutators == "additive":
        return Action.DENY if written else Action.WARN
    if isinstance(mutators, str):  # dry-run: what mutators may do is not said
        return Action.WARN
    return Action.WARN if listed_as_changeable(facts, field) else Action.DENY


def listed_as_changeable(facts: Facts, field: str) -> bool:
    """Does the policy list a mutator that may change this field of Pods on their way? field: its first name below
    `spec`."""
    mutators = facts.policy.spec.cluster.pod_mutators
    if isinstance(mutators, str) or is_final(facts):
        return False
    changeable = {path.removeprefix("spec.").split(".", 1)[0] for mutator in mutators for path in mutator.may_change}
    return field in changeable or "*" in changeable


def pod_priority(facts: Facts, pod_set: PodSet) -> Looked[int]:
    """The number that Pods of this set have, or will have."""
    spec = pod_set.template.spec
    if is_final(facts) and spec.priority is not None:
        return Looked(spec.priority)
    return _value(class_of(facts, spec.priority_class_name))


def group_priority(facts: Facts, view: GroupView) -> Looked[int]:
    """The number of a group: as stored, where it is stored (it is frozen then, whatever its class says today)."""
    if view.priority is not None:
        return Looked(view.priority)
    return _value(class_of(facts, view.priority_class_name))


def pod_preemption_policy(facts: Facts, pod_set: PodSet) -> Looked[str]:
    """What Pods of this set have, or will have: the word of their class."""
    spec = pod_set.template.spec
    if is_final(facts):
        return Looked(spec.preemption_policy or PREEMPT_LOWER_PRIORITY)
    looked = class_of(facts, spec.priority_class_name)
    if looked.value is None:
        return Looked(absent=looked.absent, unknown=looked.unknown)
    return Looked(looked.value.preemption_policy or PREEMPT_LOWER_PRIORITY)


def class_text(name: str | None) -> str:
    """``PriorityClass "gold"``, or the words for none."""
    return f'PriorityClass "{name}"' if name else "no PriorityClass"


def _value(looked: Looked[core.PriorityClass]) -> Looked[int]:
    if looked.value is None:
        return Looked(absent=looked.absent, unknown=looked.unknown)
    return Looked(looked.value.value)
