"""The effective request of a Pod, exactly as kube-scheduler 1.37 counts it.

Source: PodRequests of k8s.io/component-helpers v0.37.2 resource/helpers.go, on what the API server stores: it fills
requests from limits (SetDefaults_Pod, defaultPodRequests) and rounds each amount up to thousandths before any sum
(SetDefaults_ResourceList). A Pod template has neither, so both are done here, and done twice they change nothing.
Pods that run are counted by their status as well (in-place resize); a plan is about Pods that do not run yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.quantity import Quantity, QuantityError

Amounts = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An amount that is no quantity. The API server refuses it in a Pod; in a template of a CRD it may not."""

    path: FieldPath
    why: str


@dataclass(frozen=True, slots=True)
class EffectiveRequest:
    """amounts: by resource name, exact; compare `milli_value()` for cpu and `value()` for all else. A resource that is
    asked for as 0 is there with 0. unreadable: what is left out of `amounts`, which are a lower bound then."""

    amounts: Mapping[str, Quantity]
    unreadable: tuple[Unreadable, ...] = ()


def effective_request(
    spec: core.PodSpec, spec_path: FieldPath, *, overhead: core.ResourceList | None = None
) -> EffectiveRequest:
    """What one Pod of this spec takes from a node. Never raises.

    overhead: the RuntimeClass's podFixed, for a template: `spec.overhead` is written at Pod creation only and wins.
    """
    unreadable: list[Unreadable] = []
    amounts = _containers(spec, spec_path, unreadable)
    _apply_pod_level(amounts, spec.resources, spec_path / "resources", unreadable)
    if spec.overhead is not None:
        _add(amounts, _read(spec.overhead, spec_path / "overhead", unreadable))
    elif overhead is not None:
        _add(amounts, _read(overhead, spec_path / "runtimeClassName", unreadable))
    return EffectiveRequest(amounts, tuple(unreadable))


def container_request(container: core.Container, path: FieldPath, unreadable: list[Unreadable]) -> Amounts:
    """Requests of one container, filled from its limits per resource. `unreadable` is appended to."""
    resources = container.resources
    if resources is None:
        return {}
    at = path / "resources"
    requests = _read(resources.requests, at / "requests", unreadable)
    written = resources.requests or {}
    limits = {name: raw for name, raw in (resources.limits or {}).items() if name not in written}
    return requests | _read(limits, at / "limits", unreadable)


def is_pod_level(resource: str) -> bool:
    """Resources that may stand in `spec.resources` of a Pod (IsSupportedPodLevelResource)."""
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def is_extended(resource: str) -> bool:
    """A device or other extended resource: a name with a domain that is not kubernetes.io's (IsExtendedResourceName)."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def _containers(spec: core.PodSpec, spec_path: FieldPath, unreadable: list[Unreadable]) -> Amounts:
    """max(containers + sidecars, the largest moment of initialisation), per resource (AggregateContainerRequests)."""
    result: Amounts = {}
    for index, container in enumerate(spec.containers or ()):
        _add(result, container_request(container, (spec_path / "containers").at(index), unreadable))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for index, container in enumerate(spec.init_containers or ()):
        own = container_request(container, (spec_path / "initContainers").at(index), unreadable)
        if container.restart_policy == "Always":
            _add(result, own)
            _add(sidecars, own)
            moment = sidecars
        else:
            moment = dict(own)
            _add(moment, sidecars)  # only those that started before this one
        _maximise(largest, moment)
    _maximise(result, largest)
    return result


def _apply_pod_level(
    amounts: Amounts, resources: core.ResourceRequirements | None, path: FieldPath, unreadable: list[Unreadable]
) -> None:
    """Pod-level requests replace the containers' sum. A limit without request becomes one, unless the containers
    already ask for cpu or memory (defaultPodRequests)."""
    if resources is None:
        return
    requests = _read(resources.requests, path / "requests", unreadable)
    written = resources.requests or {}
    limits = _read(
        {name: raw for name, raw in (resources.limits or {}).items() if name not in written},
        path / "limits",
        unreadable,
    )
    for name, quantity in limits.items():
        if name not in {"cpu", "memory"} or name not in amounts:
            requests[name] = quantity
    amounts.update({name: quantity for name, quantity in requests.items() if is_pod_level(name)})


def _read(raw: core.ResourceList | None, path: FieldPath, unreadable: list[Unreadable]) -> Amounts:
    amounts: Amounts = {}
    for name, text in (raw or {}).items():
        try:
            amounts[name] = Quantity.parse(text).rounded_to_milli()
        except QuantityError as error:
            unreadable.append(Unreadable(path / name, str(error)))
    return amounts


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        present = total.get(name)
        total[name] = quantity if present is None else present + quantity


def _maximise(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        present = total.get(name)
        if present is None or quantity > present:
            total[name] = quantity
