"""Texts of the 5xx rules, and the fields that they point at."""

from __future__ import annotations

from webhook.facts.model import Facts
from webhook.feasibility.explain import amount_text, text
from webhook.feasibility.model import PodDemand
from webhook.feasibility.result import Infeasible
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.rules._capacity import Fault

PENDING = "kube-scheduler 1.37 would leave it pending for ever and refuse it nowhere"


def story(found: Infeasible) -> tuple[str, str]:
    """(what is asked, and what the best place holds; what would make it fit, "" if no single change was found)."""
    head, _, fits = text(found).partition(". Fits ")
    return head.replace(". Largest", "; largest"), fits


def way_out(fits: str, otherwise: str) -> str:
    """The fix: the changes that the engine tried, else what a person may look at."""
    return f"run it {fits}" if fits else otherwise


def request_path(facts: Facts, pod: PodDemand, resource: str) -> FieldPath:
    """The container that asks for the resource; the Pod's spec where it is not one container alone."""
    for pod_set in facts.plan.all_pod_sets():
        if pod_set.spec_path == pod.path:
            for index, container in enumerate(pod_set.template.spec.containers or ()):
                resources = container.resources or core.ResourceRequirements()
                for part, amounts in (("limits", resources.limits), ("requests", resources.requests)):
                    if resource in (amounts or {}):
                        return (pod.path / "containers").at(index) / "resources" / part / resource
    return pod.path


def selector_path(pod: PodDemand, key: str) -> FieldPath:
    """The nodeSelector entry, or the required node affinity."""
    if any(one.key == key for one in pod.selector):
        return pod.path / "nodeSelector" / key
    return pod.path / "affinity" / "nodeAffinity" if pod.affinity is not None else pod.path / "nodeSelector"


def pods_of(fault: Fault) -> str:
    """``the Pods of "train"``, with the role where there are several."""
    role = fault.pod.role if fault.pod is not None else ""
    return f'the Pods of role "{role}" of "{fault.demand.name}"' if role else f'the Pods of "{fault.demand.name}"'


def amount(resource: str, number: int) -> str:
    """``cpu: 96``, ``memory: 1000Gi``."""
    return f"{resource}: {amount_text(resource, number)}"
