"""scheduling.k8s.io PodGroup -> GangPlan. Who its Pods will be, the object does not say."""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.model import GangPlan, GroupOrigin, LeafGroup
from webhook.plan.parts import claims, disruption_mode, policy_kind, topology


def plan_pod_group(api_version: str, namespace: str, pod_group: core.PodGroup) -> GangPlan:
    """Never raises."""
    spec = pod_group.spec
    ref = spec.workload_ref
    policy = spec.scheduling_policy
    policy_path = SPEC / "schedulingPolicy"
    key, key_path = topology(spec.scheduling_constraints, SPEC / "schedulingConstraints")
    group = LeafGroup(
        path=SPEC,
        origin=GroupOrigin.ITSELF,
        policy=policy_kind(policy),
        name=pod_group.metadata.name or None,
        policy_path=policy_path,
        min_count=policy.gang.min_count if policy.gang else None,
        min_count_path=policy_path / "gang" / "minCount",
        min_count_explicit=bool(policy.gang and policy.gang.min_count is not None),
        topology_key=key,
        topology_path=key_path,
        claims=claims(spec.resource_claims, SPEC / "resourceClaims"),
        claims_path=SPEC / "resourceClaims",
        disruption_mode=disruption_mode(spec.disruption_mode),
        disruption_mode_path=SPEC / "disruptionMode",
        priority_class_name=spec.priority_class_name,
        priority_class_path=SPEC / "priorityClassName",
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
        workload_name=ref.workload_name if ref else None,
        workload_template_name=ref.template_name if ref else None,
        parent_name=spec.parent_composite_pod_group_name,
    )
    name = pod_group.metadata.name
    return GangPlan(kind="PodGroup", api_version=api_version, namespace=namespace, name=name, groups=(group,))


def template_group(template: core.PodGroupTemplate, path: FieldPath) -> LeafGroup:
    """A podGroupTemplate of a Workload: runtime groups are made from it, how many is not said."""
    policy = template.scheduling_policy
    policy_path = path / "schedulingPolicy"
    key, key_path = topology(template.scheduling_constraints, path / "schedulingConstraints")
    return LeafGroup(
        path=path,
        origin=GroupOrigin.TEMPLATE,
        policy=policy_kind(policy),
        template_name=template.name,
        policy_path=policy_path,
        min_count=policy.gang.min_count if policy.gang else None,
        min_count_path=policy_path / "gang" / "minCount",
        min_count_explicit=bool(policy.gang and policy.gang.min_count is not None),
        topology_key=key,
        topology_path=key_path,
        claims=claims(template.resource_claims, path / "resourceClaims"),
        claims_path=path / "resourceClaims",
        disruption_mode=disruption_mode(template.disruption_mode),
        disruption_mode_path=path / "disruptionMode",
        priority_class_name=template.priority_class_name,
        priority_class_path=path / "priorityClassName",
        priority=template.priority,
        preemption_policy=template.preemption_policy,
        group_count=None,
    )
