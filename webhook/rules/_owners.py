"""Who owns what: controllers, the Workload that stands for them, and whether they are going."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.facts.model import Facts
from webhook.facts.surroundings import Looked
from webhook.objects import core
from webhook.objects.kinds import BY_NAME, split_api_version


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller by API group, kind and name; a Workload's controllerRef knows no more than this."""

    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


def controller_of(metadata: core.ObjectMeta) -> Owner | None:
    """From the owner reference with ``controller: true``."""
    reference = metadata.controller()
    if reference is None:
        return None
    return Owner(split_api_version(reference.api_version)[0], reference.kind, reference.name)


def controller_ref(workload: core.Workload) -> Owner | None:
    """From `spec.controllerRef`."""
    ref = workload.spec.controller_ref
    return None if ref is None else Owner(ref.api_group or "", ref.kind, ref.name)


def workloads_of(facts: Facts, owner: Owner) -> Looked[tuple[core.Workload, ...]]:
    """The Workloads of this namespace whose controllerRef is the owner, sorted by name.

    The Job controller looks for a delegated Job's Workload in the same way (findParentWorkload, 1.37.2): a list of
    the namespace, compared by group, kind and name.
    """
    looked = facts.surroundings.workloads(facts.namespace)
    if looked.value is None:
        return Looked(unknown=looked.unknown or "the Workloads of the namespace are not known")
    found = [workload for workload in looked.value if controller_ref(workload) == owner]
    return Looked(tuple(sorted(found, key=lambda workload: workload.metadata.name)))


def is_going(facts: Facts, owner: Owner) -> bool | None:
    """Is the owner being deleted, or gone? None where it cannot be looked up."""
    kind = BY_NAME.get(owner.kind)
    if kind is None or kind.group != owner.group:
        return None
    looked = facts.surroundings.any(owner.kind, facts.namespace if kind.namespaced else "", owner.name)
    if looked.absent:
        return True
    if looked.value is None:
        return None
    metadata: core.ObjectMeta = getattr(looked.value, "metadata", core.ObjectMeta())
    return metadata.deletion_timestamp is not None


def namespace_is_going(facts: Facts) -> bool:
    looked = facts.surroundings.namespace(facts.namespace)
    return looked.value is not None and looked.value.metadata.deletion_timestamp is not None


def is_finished(job: core.Job) -> bool:
    """Has the Job ended, one way or the other? (conditions Complete and Failed, batch/v1)"""
    conditions: Any = (job.status or {}).get("conditions")
    return any(
        isinstance(item, Mapping) and item.get("type") in ("Complete", "Failed") and item.get("status") == "True"
        for item in (conditions if isinstance(conditions, list) else ())
    )
