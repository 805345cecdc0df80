"""v1 Pod -> GangPlan: one Pod, in the group that it names or in none."""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import ROOT, SPEC
from webhook.plan.model import GangPlan, PodSet
from webhook.plan.parts import split_by_group


def plan_pod(api_version: str, namespace: str, pod: core.Pod) -> GangPlan:
    """The Pod stands in the plan as its own template, at the root of the object. Never raises."""
    pod_set = PodSet(
        role="",
        template=core.PodTemplateSpec(metadata=pod.metadata, spec=pod.spec),
        path=ROOT,
        pod_count=1,
        pod_count_path=SPEC,
        pod_count_declared=1,
    )
    groups, loose = split_by_group((pod_set,))
    return GangPlan(
        kind="Pod", api_version=api_version, namespace=namespace, name=pod.metadata.name, groups=groups, pod_sets=loose
    )
