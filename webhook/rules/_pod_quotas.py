"""ResourceQuota as kube-apiserver counts Pods against it.

Source: k8s.io/kubernetes v1.37.2 pkg/quota/v1/evaluator/core/pods.go (podComputeUsageHelper, podMatchesScopeFunc).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from webhook.objects import core
from webhook.objects.quantity import Quantity
from webhook.plan.requests import is_extended

_BOTH_NAMES = ("cpu", "memory", "ephemeral-storage")


class Match(enum.IntEnum):
    """Does a quota count these Pods? MAYBE where other admission, or what Muster does not read, decides it."""

    NO = 0
    MAYBE = 1
    YES = 2


def usage(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What one Pod with this effective request takes, by the names that stand in `spec.hard`. Limits are left out."""
    one = Quantity.parse(1)
    result = {"pods": one, "count/pods": one}
    for resource, amount in amounts.items():
        if resource in _BOTH_NAMES or resource.startswith("hugepages-"):
            result[resource] = amount
            result[f"requests.{resource}"] = amount
        elif is_extended(resource):
            result[f"requests.{resource}"] = amount
    return result


def counts(quota: core.ResourceQuotaSpec, pod: core.PodSpec, class_name: str | None) -> Match:
    """The scopes and the scopeSelector together. class_name: the Pod's PriorityClass, "" for surely none, None if not
    known."""
    match = Match.YES
    for scope in quota.scopes or ():
        match = min(match, _scope(scope, "Exists", (), pod, class_name))
    for item in (quota.scope_selector or {}).get("matchExpressions") or ():
        values = tuple(item.get("values") or ())
        match = min(match, _scope(item.get("scopeName"), item.get("operator"), values, pod, class_name))
    return match


def depends_on_class(quota: core.ResourceQuotaSpec) -> bool:
    """Does a scope look at the Pod's PriorityClass?"""
    items = (quota.scope_selector or {}).get("matchExpressions") or ()
    return "PriorityClass" in (*(quota.scopes or ()), *(item.get("scopeName") for item in items))


def _scope(scope: Any, operator: Any, values: tuple[Any, ...], pod: core.PodSpec, class_name: str | None) -> Match:
    if scope in ("Terminating", "NotTerminating"):
        # By the Pod's own activeDeadlineSeconds; the Job controller does not hand down the Job's (docs/decisions/0011).
        terminating = pod.active_deadline_seconds is not None
        return _yes_if(terminating == (scope == "Terminating"))
    if scope in ("BestEffort", "NotBestEffort"):
        if not is_best_effort(pod):
            return _yes_if(scope == "NotBestEffort")
        return Match.MAYBE  # a LimitRange may fill in requests when the Pod is created
    if scope == "PriorityClass":
        return Match.MAYBE if class_name is None else _yes_if(_class_matches(operator, values, class_name))
    if scope == "CrossNamespacePodAffinity":
        return Match.MAYBE
    return Match.NO  # scopes of other kinds never match a Pod


def _class_matches(operator: Any, values: tuple[Any, ...], class_name: str) -> bool:
    """A label selector on a set that holds the class, or nothing where the Pod has none."""
    if operator == "Exists":
        return bool(class_name)
    if operator == "DoesNotExist":
        return not class_name
    if operator == "In":
        return bool(class_name) and class_name in values
    return not class_name or class_name not in values


def is_best_effort(pod: core.PodSpec) -> bool:
    """No container (or, where they are set, the Pod's own resources) asks for cpu or memory (ComputePodQOS)."""
    if pod.resources is not None and (pod.resources.requests or pod.resources.limits):
        return not _asks(pod.resources)
    containers = (*(pod.containers or ()), *(pod.init_containers or ()))
    return not any(container.resources is not None and _asks(container.resources) for container in containers)


def _asks(resources: core.ResourceRequirements) -> bool:
    both = {**(resources.limits or {}), **(resources.requests or {})}
    return any(str(both.get(name, "0")) not in ("0", "") for name in ("cpu", "memory"))


def _yes_if(condition: bool) -> Match:
    return Match.YES if condition else Match.NO
