"""CRD schemas: our extension with the WAS fields, and probes that tell which form the API server serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

JsonObject = dict[str, Any]

# Any object is accepted below the two new fields; the fields themselves are the only addition.
_ANY_OBJECT: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def extend_with_was_fields(crd: JsonObject) -> None:
    """Adds `scheduling` to every Job spec and `schedulingGroup` to every Pod spec inside a CRD's schemas, in place.

    This is an extension of ours and exists in no release. A Job spec is known by its ``completions`` and ``template``,
    a Pod spec by its ``containers`` and ``restartPolicy``.
    """
    for version in crd["spec"]["versions"]:
        _extend(version["schema"]["openAPIV3Schema"])


def _extend(schema: JsonObject) -> None:
    properties = schema.get("properties", {})
    for child in [*properties.values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(child, dict):
            _extend(child)
    if {"completions", "template"} <= properties.keys():
        properties["scheduling"] = dict(_ANY_OBJECT)
    if {"containers", "restartPolicy"} <= properties.keys():
        properties["schedulingGroup"] = dict(_ANY_OBJECT)


@dataclass(frozen=True)
class CrdProbe:
    """A small valid object that carries a WAS field, and where the field is."""

    manifest: JsonObject
    field_path: tuple[str | int, ...]

    def field_of(self, obj: Mapping[str, Any]) -> Any:
        """The field's value in an answer, None when it was pruned."""
        value: Any = obj
        for step in self.field_path[:-1]:
            value = value[step]
        return value.get(self.field_path[-1])


_POD_TEMPLATE: Final[JsonObject] = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.test/main"}],
        "schedulingGroup": {"podGroupName": "probe"},
    }
}

CRD_PROBES: Final[Mapping[str, CrdProbe]] = {
    "jobset": CrdProbe(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "probe"},
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "workers",
                        "replicas": 1,
                        "template": {
                            "spec": {
                                "completions": 1,
                                "scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}},
                                "template": _POD_TEMPLATE,
                            }
                        },
                    }
                ]
            },
        },
        ("spec", "replicatedJobs", 0, "template", "spec", "scheduling"),
    ),
    "lws": CrdProbe(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "probe"},
            "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": _POD_TEMPLATE}},
        },
        ("spec", "leaderWorkerTemplate", "workerTemplate", "spec", "schedulingGroup"),
    ),
}
