"""Named short-circuits: requests that no rule has to look at. The names appear in metrics and in the log line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from webhook.objects.kinds import find
from webhook.objects.request import AdmissionRequest

# The API server's own and Muster's namespaces never reach the webhook (namespaceSelector by name); this is the second
# lock on the same door, for a registration that somebody edited.
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})

# Subresources whose object is the whole object (a scale's after webhook/admission/scale.py); everything else (status, binding,
# eviction, exec, ...) is not ours.
JUDGED_SUBRESOURCES = frozenset({"", "resize", "scale"})

_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<word>alpha|beta)(?P<minor>\d+))?\Z")
_MATURITY = {"alpha": 0, "beta": 1, "": 2}
_METADATA_THAT_MATTERS = ("labels", "annotations", "ownerReferences")
# Of an object's own fields `spec` is the only one for most kinds; a PriorityClass has none and says all beside it.
_NOT_JUDGED = frozenset({"metadata", "status"})


def short_circuit(request: AdmissionRequest, own_namespace: str) -> str:
    """The name of the reason to admit without looking, or ""."""
    if request.namespace in SYSTEM_NAMESPACES:
        return "system-namespace"
    if request.namespace and request.namespace == own_namespace:
        return "own-namespace"
    if request.operation not in ("CREATE", "UPDATE", "DELETE"):
        return "operation"
    if request.sub_resource not in JUDGED_SUBRESOURCES:
        return "subresource"
    if request.sub_resource == "scale":
        return ""
    kind = find(request.kind.group, request.kind.kind)
    if kind is None or not kind.judged:
        return "kind"
    if request.operation == "UPDATE":
        return _unchanged(request.object or {}, request.old_object or {})
    return ""


def is_unknown_version(request: AdmissionRequest) -> bool:
    """One of our kinds in a version this Muster does not know: admit, warn, count (an upgraded cluster must go on)."""
    kind = find(request.kind.group, request.kind.kind)
    return kind is not None and request.kind.version not in kind.versions + kind.retired


def is_older_version(request: AdmissionRequest) -> bool:
    """Of the versions that are not known: one that came before all that 1.37 serves. Such an object can only be a file's
    or a custom resource's: of its own kinds the API server takes no old version."""
    kind = find(request.kind.group, request.kind.kind)
    given = _age(request.kind.version)
    return kind is not None and given is not None and all(given < age for age in map(_age, kind.versions) if age)


def _age(version: str) -> tuple[int, int, int] | None:
    """Kubernetes' order of versions: v1alpha1 < v1alpha2 < v1beta1 < v1 < v2alpha1. None for words of another form."""
    match = _VERSION.match(version)
    if match is None:
        return None
    return int(match["major"]), _MATURITY[match["word"] or ""], int(match["minor"] or 0)


def _unchanged(new: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    metadata, old_metadata = new.get("metadata") or {}, old.get("metadata") or {}
    if not isinstance(metadata, Mapping) or not isinstance(old_metadata, Mapping):
        return ""
    if metadata.get("deletionTimestamp"):
        # Dropping the finalizer of a PodGroup is such an UPDATE; holding it up leaves the object terminating for ever.
        return "being-deleted"
    if any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - _NOT_JUDGED):
        return ""
    if any(metadata.get(key) != old_metadata.get(key) for key in _METADATA_THAT_MATTERS):
        return ""
    return "nothing-changed"
