"""PersistentVolumeClaims that Pods of a plan mount by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import PodSet


def claim_names(pod_set: PodSet) -> Iterator[tuple[str, FieldPath]]:
    """(claim name, its field). A generic ephemeral volume is another claim for each Pod and names none."""
    at = pod_set.spec_path / "volumes"
    for index, volume in enumerate(pod_set.template.spec.volumes or ()):
        source = volume.get("persistentVolumeClaim")
        name = source.get("claimName") if isinstance(source, Mapping) else None
        if isinstance(name, str) and name:
            yield name, at.at(index) / "persistentVolumeClaim" / "claimName"
