"""Pod group differs from template.

## What it checks
A PodGroup or CompositePodGroup that a person creates with a `workloadRef` is compared with the template it names:
scheduling policy and its minimum, topology key, disruption mode, claims, PriorityClass and priority, preemption policy.
What the API server fills in is no difference: a missing disruption mode is `single`, a missing class is the global
default, a missing number is what the class says.

## Why
In 1.36 an admission plugin refused such a group; 1.37 removed it. The scheduler reads the PodGroup alone, so a gang
that forgot its topology key or claims in the copy runs without them while the Workload still promises them. It can
be placed, so this warns. minCount may differ for good reasons (it is how a running gang is scaled) and never denies.
Only CREATE is compared: later the Job controller changes a Workload first and its PodGroup a moment after.

## Fields read
`spec` of the group, the template of the Workload, the global default PriorityClass

## Allowed
```yaml
# template: {name: workers, schedulingPolicy: {gang: {minCount: 4}}}
spec:
  workloadRef: {workloadName: train, templateName: workers}
  schedulingPolicy: {gang: {minCount: 4}}
  disruptionMode: {single: {}}
```

## Denied
```yaml
# template: {name: workers, schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: {all: {}}}
spec:
  workloadRef: {workloadName: train, templateName: workers}
  schedulingPolicy: {gang: {minCount: 4}}
```

## Fix
Copy the template's fields into the group. Of a stored template only the minimum can be changed; for anything else make
a new Workload.

## References
KEP-4671 (GenericWorkload); kubernetes CHANGELOG-1.37, removal of the PodGroup admission plugin
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import DisruptionModeKind, Group, LeafGroup
from webhook.plan.workload import plan_workload
from webhook.rules._claims import source
from webhook.rules._priorities import PREEMPT_LOWER_PRIORITY, class_of
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS208",
    name="pod-group-differs-from-template",
    summary="a group says something else than the Workload template it refers to",
    kinds=frozenset({"PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


_MINIMUMS = ("minCount", "minGroupCount")


@dataclass(frozen=True, slots=True)
class _Difference:
    """One field: its path in the group, what the group has, what the template has."""

    path: FieldPath
    group: object
    template: object
    at_most: Action = Action.DENY


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    if facts.requester.trusted or not facts.plan.groups:
        return  # the Job controller copies the template itself
    group = facts.plan.groups[0]
    if not group.workload_name:
        return
    workload = facts.surroundings.workload(facts.namespace, group.workload_name).value
    template = None if workload is None else _template(workload, group)
    if workload is None or template is None:
        return  # WAS207
    title = f'template "{template.template_name}" of Workload "{workload.metadata.name}"'
    for difference in _differences(facts, group, template):
        yield _finding(difference, title)
    class_difference = _class_difference(facts, group, template)
    if isinstance(class_difference, _Difference):
        yield _finding(class_difference, title)
    elif class_difference is not None:
        yield class_difference


def _template(workload: core.Workload, group: Group) -> Group | None:
    """The template as a plan's group, so that both sides are read by the same code."""
    plan = plan_workload("", "", workload)
    candidates = plan.leaf_groups() if isinstance(group, LeafGroup) else plan.composite_groups()
    return next((item for item in candidates if item.template_name == group.workload_template_name), None)


def _differences(facts: Facts, group: Group, template: Group) -> Iterator[_Difference]:
    policy = SPEC / "schedulingPolicy"
    if group.policy is not template.policy:
        yield _Difference(policy, str(group.policy), str(template.policy))
    else:
        yield from _minimum(policy, group, template)
    if facts.gate("TopologyAwareWorkloadScheduling") is not False and group.topology_key != template.topology_key:
        yield _Difference(SPEC / "schedulingConstraints" / "topology", group.topology_key, template.topology_key)
    if _mode(group) is not _mode(template):
        yield _Difference(SPEC / "disruptionMode", str(_mode(group)), str(_mode(template)))
    if (
        isinstance(group, LeafGroup)
        and isinstance(template, LeafGroup)
        and facts.gate("DRAWorkloadResourceClaims") is not False
        and {claim.key for claim in group.claims} != {claim.key for claim in template.claims}
    ):
        yield _Difference(SPEC / "resourceClaims", _claim_words(group), _claim_words(template))
    if template.priority is not None and group.priority is not None and template.priority != group.priority:
        yield _Difference(SPEC / "priority", group.priority, template.priority)
    own_policy = group.preemption_policy or PREEMPT_LOWER_PRIORITY
    if template.preemption_policy is not None and template.preemption_policy != own_policy:
        yield _Difference(SPEC / "preemptionPolicy", own_policy, template.preemption_policy)


def _minimum(policy: FieldPath, group: Group, template: Group) -> Iterator[_Difference]:
    field, own, cap = _minimum_of(group)
    _, wanted, _ = _minimum_of(template)
    if own != wanted:
        yield _Difference(policy / "gang" / field, own, wanted, cap)


def _minimum_of(group: Group) -> tuple[str, int | None, Action]:
    """Its field, its value, and how strongly a difference may act: minCount is there to be changed."""
    if isinstance(group, LeafGroup):
        return "minCount", group.min_count, Action.WARN
    return "minGroupCount", group.min_group_count, Action.DENY


def _class_difference(facts: Facts, group: Group, template: Group) -> _Difference | Unresolved | None:
    own, wanted = group.priority_class_name or "", template.priority_class_name or ""
    path = SPEC / "priorityClassName"
    if own == wanted:
        return None
    if not own or not wanted:
        default = class_of(facts, None)
        if default.value is None:
            return Unresolved(field=path, reason=f"which PriorityClass is the global default: {default.unknown}")
        own, wanted = own or default.value.metadata.name, wanted or default.value.metadata.name
    return None if own == wanted else _Difference(path, own or None, wanted or None)


def _mode(group: Group) -> DisruptionModeKind:
    """Left out, the API server stores single."""
    return group.disruption_mode or DisruptionModeKind.SINGLE


def _claim_words(group: LeafGroup) -> list[str]:
    return sorted(f"{{name: {claim.name}, {source(claim)[0]}: {source(claim)[1]}}}" for claim in group.claims)


def _finding(difference: _Difference, title: str) -> Finding:
    return Finding(
        field=difference.path,
        message=(
            f"is {_word(difference.group)}, but {_word(difference.template)} in {title}: 1.37 does not compare the two and goes "
            "by the group alone"
        ),
        fix=_fix(difference),
        seen=difference.group,
        limit=difference.template,
        at_most=difference.at_most,
    )


def _fix(difference: _Difference) -> str:
    """Of a stored template only the minimum can be changed."""
    wanted = difference.template
    here = f"write {'that' if isinstance(wanted, list) else _word(wanted)} here" if wanted else "take it out here"
    return f"{here}, or {'change the template' if difference.path[-1] in _MINIMUMS else 'make a new Workload'}"


def _word(value: object) -> str:
    if value is None or value == []:
        return "not set"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f'"{value}"' if isinstance(value, str) else str(value)
