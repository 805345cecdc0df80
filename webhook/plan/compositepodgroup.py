"""scheduling.k8s.io CompositePodGroup -> GangPlan. Its children name it, it does not name them."""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.plan.model import CompositeGroup, GangPlan, GroupOrigin
from webhook.plan.parts import disruption_mode, policy_kind, topology


def plan_composite_pod_group(api_version: str, namespace: str, composite: core.CompositePodGroup) -> GangPlan:
    """Never raises."""
    spec = composite.spec
    ref = spec.workload_ref
    key, key_path = topology(spec.scheduling_constraints, SPEC / "schedulingConstraints")
    group = CompositeGroup(
        path=SPEC,
        origin=GroupOrigin.ITSELF,
        policy=policy_kind(spec.scheduling_policy),
        children=(),
        name=composite.metadata.name or None,
        min_group_count=spec.scheduling_policy.gang.min_group_count if spec.scheduling_policy.gang else None,
        min_group_count_path=SPEC / "schedulingPolicy" / "gang" / "minGroupCount",
        topology_key=key,
        topology_path=key_path,
        disruption_mode=disruption_mode(spec.disruption_mode),
        priority_class_name=spec.priority_class_name,
        priority_class_path=SPEC / "priorityClassName",
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
        workload_name=ref.workload_name if ref else None,
        workload_template_name=ref.template_name if ref else None,
        parent_name=spec.parent_composite_pod_group_name,
    )
    name = composite.metadata.name
    return GangPlan(kind="CompositePodGroup", api_version=api_version, namespace=namespace, name=name, groups=(group,))
