"""scheduling.k8s.io Workload -> GangPlan: the trees of templates. Groups are made from them at run time."""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import CompositeGroup, GangPlan, Group, GroupOrigin
from webhook.plan.parts import disruption_mode, policy_kind, topology
from webhook.plan.podgroup import template_group

# The API server allows 4 levels (WorkloadMaxTreeDepth). A deeper tree comes only before its validation: it is read far
# enough for a rule to see that it is too deep, and not so far that a hostile object ends in a RecursionError.
_DEPTH_MAX = 16


def plan_workload(api_version: str, namespace: str, workload: core.Workload) -> GangPlan:
    """Never raises."""
    unknown: list[str] = []
    spec = workload.spec
    groups = _children(spec.pod_group_templates, spec.composite_pod_group_templates, SPEC, 1, unknown)
    return GangPlan(
        kind="Workload",
        api_version=api_version,
        namespace=namespace,
        name=workload.metadata.name,
        groups=groups,
        unknown=tuple(unknown),
    )


def _children(
    leaves: tuple[core.PodGroupTemplate, ...] | None,
    composites: tuple[core.CompositePodGroupTemplate, ...] | None,
    path: FieldPath,
    depth: int,
    unknown: list[str],
) -> tuple[Group, ...]:
    at = path / "podGroupTemplates"
    result: list[Group] = [template_group(leaf, at.at(index)) for index, leaf in enumerate(leaves or ())]
    at = path / "compositePodGroupTemplates"
    if composites and depth > _DEPTH_MAX:
        unknown.append(f"the templates are nested more than {_DEPTH_MAX} deep: what stands deeper is not read")
        return tuple(result)
    result.extend(_composite(item, at.at(index), depth, unknown) for index, item in enumerate(composites or ()))
    return tuple(result)


def _composite(
    template: core.CompositePodGroupTemplate, path: FieldPath, depth: int, unknown: list[str]
) -> CompositeGroup:
    policy = template.scheduling_policy
    key, key_path = topology(template.scheduling_constraints, path / "schedulingConstraints")
    return CompositeGroup(
        path=path,
        origin=GroupOrigin.TEMPLATE,
        policy=policy_kind(policy),
        children=_children(
            template.pod_group_templates, template.composite_pod_group_templates, path, depth + 1, unknown
        ),
        template_name=template.name,
        min_group_count=policy.gang.min_group_count if policy.gang else None,
        min_group_count_path=path / "schedulingPolicy" / "gang" / "minGroupCount",
        topology_key=key,
        topology_path=key_path,
        disruption_mode=disruption_mode(template.disruption_mode),
        priority_class_name=template.priority_class_name,
        priority_class_path=path / "priorityClassName",
        priority=template.priority,
        preemption_policy=template.preemption_policy,
    )
