"""Pod claim names aligned with the group's.

## What it changes
A Pod, or a Pod template, has a claim with the same ResourceClaim or ResourceClaimTemplate as a claim of its group and
another name: the entry is renamed, with every `resources.claims` of its containers that uses it.

## Why
A Pod's claim is the group's only if name, claim and template are all equal. With another name 1.37 silently makes a
claim for each Pod: devices for every Pod, while the group's own claim stays unused.

## Left alone
Whatever is not plain: two claims of the group or of the Pod with the same reference, a Pod that has a claim of the
group's name already, or one that matches the group's as it is; a group that is not known (yet); mirror Pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.facts.model import Facts
from webhook.mutations.meta import Change, MutationMeta
from webhook.mutations.was901_group_labels import MIRROR_ANNOTATION
from webhook.objects import core
from webhook.plan.model import GroupOrigin, LeafGroup, PlannedClaim, PodSet
from webhook.plan.parts import claims

META = MutationMeta(
    id="WAS904",
    name="claim-names-aligned",
    summary="Pod claims renamed to the group's claim with the same reference",
    kinds=frozenset({"Pod", "Job", "Deployment", "ReplicaSet", "StatefulSet"}),
    gate="DRAWorkloadResourceClaims",
)

_Reference = tuple[str | None, str | None]


def mutate(facts: Facts) -> Iterator[Change]:
    if facts.metadata.annotation(MIRROR_ANNOTATION) is not None:
        return
    for group in facts.plan.leaf_groups():
        shared = _claims_of(facts, group)
        for pod_set in group.pod_sets:
            for claim, name in renamings(pod_set.claims, shared):
                yield from _rename(pod_set, claim, name)


def renamings(own: Sequence[PlannedClaim], shared: Sequence[PlannedClaim]) -> Iterator[tuple[PlannedClaim, str]]:
    """(a Pod's claim, the name it should have), where nothing else can be meant."""
    own_names = {claim.name for claim in own}
    for group_claim in shared:
        reference = _reference(group_claim)
        if group_claim.name in own_names or sum(_reference(other) == reference for other in shared) != 1:
            continue
        same = [claim for claim in own if _reference(claim) == reference]
        if len(same) == 1:
            yield same[0], group_claim.name


def _claims_of(facts: Facts, group: LeafGroup) -> Sequence[PlannedClaim]:
    if group.origin is not GroupOrigin.REFERENCED:
        return group.claims
    pod_group = facts.surroundings.pod_group(facts.namespace, group.name or "").value
    return () if pod_group is None else claims(pod_group.spec.resource_claims, group.claims_path)


def _reference(claim: PlannedClaim) -> _Reference:
    return claim.resource_claim_name, claim.resource_claim_template_name


def _rename(pod_set: PodSet, claim: PlannedClaim, name: str) -> Iterator[Change]:
    note = f'{claim.path}.name: "{claim.name}" renamed to "{name}", the group\'s claim with the same reference [WAS904]'
    yield Change(path=claim.path / "name", value=name, note=note)
    spec = pod_set.template.spec
    sides: tuple[tuple[str, tuple[core.Container, ...] | None], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
    )
    for field, containers in sides:
        for index, container in enumerate(containers or ()):
            used = (container.resources.claims if container.resources else None) or ()
            for position, entry in enumerate(used):
                if entry.name == claim.name:
                    at = (pod_set.spec_path / field).at(index) / "resources" / "claims"
                    yield Change(path=at.at(position) / "name", value=name, note=note)
