"""What a ResourceClaim's spec asks for, as it is written (resource.k8s.io/v1, and the flat requests of v1beta1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def exact_requests(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requests without alternatives: the `exactly` part, or the flat form of v1beta1."""
    result: list[Mapping[str, Any]] = []
    for request in _requests(spec):
        exactly = request.get("exactly")
        if isinstance(exactly, dict):
            result.append(exactly)
        elif "deviceClassName" in request:
            result.append(request)
    return result


def _requests(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    devices = spec.get("devices")
    if not isinstance(devices, dict):
        return []
    return [request for request in devices.get("requests") or () if isinstance(request, dict)]


def has_admin_access(spec: Mapping[str, Any]) -> bool:
    """adminAccess exists in `exactly` only, not in alternatives."""
    return any(request.get("adminAccess") is True for request in exact_requests(spec))


def device_classes(spec: Mapping[str, Any]) -> list[str]:
    """DeviceClasses that the claim needs: of every request without alternatives, in order."""
    names = [str(request.get("deviceClassName") or "") for request in exact_requests(spec)]
    return list(dict.fromkeys(name for name in names if name))


def device_class_alternatives(spec: Mapping[str, Any]) -> list[list[str]]:
    """For each request with alternatives, their DeviceClasses."""
    result = []
    for request in _requests(spec):
        items = [item for item in request.get("firstAvailable") or () if isinstance(item, dict)]
        names = [str(item.get("deviceClassName") or "") for item in items]
        if any(names):
            result.append(list(dict.fromkeys(name for name in names if name)))
    return result


def device_count(spec: Mapping[str, Any]) -> int | None:
    """Devices that one such claim allocates; None where the spec does not say (mode All, alternatives, none asked)."""
    if any(request.get("firstAvailable") for request in _requests(spec)):
        return None
    count = 0
    for request in exact_requests(spec):
        if request.get("adminAccess") is True:
            continue
        if request.get("allocationMode", "ExactCount") != "ExactCount":
            return None
        number = request.get("count", 1)
        if not isinstance(number, int):
            return None
        count += number
    return count or None
