"""Texts of the 5xx rules, and the fields that they point at."""

from __future__ import annotations

from webhook.facts.model import Facts
from webhook.feasibility import explain
from webhook.feasibility.model import PodDemand
from webhook.feasibility.result import Change, Infeasible, Suggestion
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.rules._capacity import Fault


def story(found: Infeasible) -> str:
    """What is asked, and what the best place holds; the largest that fits, where no way out says the same number."""
    why = found.explanation
    is_said = any(
        one.change in (Change.MIN_COUNT, Change.MIN_GROUP_COUNT) and one.amount == why.largest
        for one in why.suggestions
    )
    return "; ".join(filter(None, (explain.balance(why), "" if is_said else explain.largest(why))))


def asks(fault: Fault) -> str:
    """``gang "train" needs 4 Pods of nvidia.com/gpu: 8``."""
    assert fault.found is not None  # noqa: S101  made from a proof
    return explain.asks(fault.found.explanation)


def end(fault: Fault, *, of_capacity: bool = True) -> str:
    """What kube-scheduler will do, as far as it is certain, and why it is not refused. of_capacity: somebody may hope
    that it only has to wait until others are done."""
    if not fault.hindrance:
        empty = ", even if all nodes were empty" if of_capacity else ""
        return f"1.37 itself would accept it and leave it Pending for ever{empty}"
    return f"as things are it stays Pending (only a warning: {fault.hindrance})"


def way_out(fault: Fault, otherwise: str) -> str:
    """The fix: the changes that the engine tried, else what a person may look at."""
    assert fault.found is not None  # noqa: S101  made from a proof
    ways = [_way(fault, one) for one in fault.found.explanation.suggestions]
    return f"run it {', or '.join(ways)}" if ways else otherwise


def _way(fault: Fault, suggestion: Suggestion) -> str:
    path = fault.demand.root.topology_path
    if suggestion.change is Change.NO_TOPOLOGY and path and not fault.hindrance:
        return f"without {FieldPath(path[:-1])}"  # a warning has no room for it, and the message names the key
    if suggestion.change is Change.MIN_COUNT:
        # minCount alone lets it start, and the application may still wait for the other Pods.
        return f"with at most {plural(suggestion.amount, 'Pod')} (minCount <= {suggestion.amount})"
    return suggestion.text


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


def each_pod(facts: Facts, fault: Fault) -> str:
    """``each Pod of "train"``, with the role where there are several; ``the Pod "w-0"``."""
    if facts.kind == "Pod":
        return f'the Pod "{facts.name}"'
    role = fault.pod.role if fault.pod is not None else ""
    return f'each Pod of role "{role}" of "{facts.name}"' if role else f'each Pod of "{fault.demand.name}"'


def amount(resource: str, number: int) -> str:
    """``cpu: 96``, ``memory: 1000Gi``."""
    return f"{resource}: {explain.amount_text(resource, number)}"
