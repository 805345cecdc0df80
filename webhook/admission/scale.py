"""A `/scale` request as the UPDATE of the object that it scales.

A Scale shows a number and no Pod template, so the object itself is read live. The API server stores the scale only on the
version of the object that it judged; another one in between makes it judge again. So the version that is read here is the
one that matters, or what is decided on it does not come true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from webhook.facts.source import Absent, FactSource, Query, Unknown
from webhook.objects.kinds import KINDS, Kind
from webhook.objects.request import AdmissionRequest, GroupVersionKind

_BY_RESOURCE: Mapping[tuple[str, str], Kind] = {(kind.group, kind.plural): kind for kind in KINDS if kind.scaled}


class NotJudgedError(Exception):
    """Admitted without a look. `reason` is a short-circuit's name, `notes` is for the requester."""

    def __init__(self, reason: str, *notes: str) -> None:
        super().__init__(reason)
        self.reason, self.notes = reason, notes


def as_update(request: AdmissionRequest, source: FactSource, deadline: float) -> AdmissionRequest:
    """The request that changes the object itself; any other request as it is. Raises NotJudgedError."""
    if request.sub_resource != "scale":
        return request
    kind = _BY_RESOURCE.get((request.resource.group, request.resource.resource))
    if kind is None:
        raise NotJudgedError("subresource")
    wanted = _replicas(request.object)
    if wanted <= _replicas(request.old_object):
        raise NotJudgedError("nothing-grows")
    answer = source.ask(Query(kind.kind, request.namespace, request.name), fresh=True, deadline=deadline)
    if isinstance(answer, Absent):
        raise NotJudgedError("scaled-object-gone")
    if isinstance(answer, Unknown) or not isinstance(answer.value, Mapping):
        reason = answer.reason if isinstance(answer, Unknown) else "it is unreadable"
        raise NotJudgedError("scaled-object-unknown", f"scaled without a look at the quota of its tier: {reason}")
    if (answer.value.get("metadata") or {}).get("deletionTimestamp"):
        raise NotJudgedError("being-deleted")
    group, _, version = str(answer.value.get("apiVersion") or kind.api_version).rpartition("/")
    return msgspec.structs.replace(
        request,
        kind=GroupVersionKind(group=group, version=version, kind=kind.kind),
        object=_scaled(answer.value, wanted),
        old_object=dict(answer.value),
    )


def _replicas(scale: Mapping[str, Any] | None) -> int:
    """0 is left out of what is sent."""
    spec = (scale or {}).get("spec")
    number = spec.get("replicas") if isinstance(spec, Mapping) else None
    return number if isinstance(number, int) else 0


def _scaled(raw: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    """With so many replicas, and the generation that the API server will give it."""
    metadata = raw.get("metadata") or {}
    generation = metadata.get("generation")
    if isinstance(generation, int):
        metadata = {**metadata, "generation": generation + 1}
    return {**raw, "metadata": metadata, "spec": {**(raw.get("spec") or {}), "replicas": replicas}}
