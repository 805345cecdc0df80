"""Claims: which Pod claims are the group's, what a claim asks for.

A Pod's claim is the group's only if name, resourceClaimName and resourceClaimTemplateName are all equal
(k8s.io/dynamic-resource-allocation v0.37.2 resourceclaim/resourceclaim.go, BindTo). Everything else is a claim of the
Pod's own, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.facts.model import Facts, Operation
from webhook.facts.surroundings import Looked
from webhook.objects.words import nearest
from webhook.plan.model import GangPlan, PlannedClaim

# k8s.io/api resource/v1: ResourceClaimReservedForMaxSize.
CONSUMER_COUNT_MAX = 256
# k8s.io/api scheduling/v1beta1: MaxPodGroupResourceClaims.
GROUP_CLAIM_COUNT_MAX = 4

TEMPLATE = "resourceClaimTemplateName"
CLAIM = "resourceClaimName"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A Pod claim that is almost the group's. field: the one that must change, in the Pod's claim."""

    pod: PlannedClaim
    group: PlannedClaim
    field: str

    @property
    def is_swapped(self) -> bool:
        """A claim is named where the group names a template, or the other way round."""
        return self.field != "name" and source(self.pod)[0] != source(self.group)[0]


def source(claim: PlannedClaim) -> tuple[str, str]:
    """(which field, its value); ("", "") where neither is set."""
    if claim.resource_claim_template_name is not None:
        return TEMPLATE, claim.resource_claim_template_name
    if claim.resource_claim_name is not None:
        return CLAIM, claim.resource_claim_name
    return "", ""


def compare(
    pod_claims: Sequence[PlannedClaim], group_claims: Sequence[PlannedClaim]
) -> tuple[list[NearMiss], list[PlannedClaim]]:
    """(near misses, the group's claims that these Pods do not use and do not nearly use).

    A claim is near if its name is that of one of the group's, or if it has the source of one that the Pod does not
    use otherwise: a Pod may well have a device of its own from the template that the group's claim comes from.
    """
    pod_keys = {claim.key for claim in pod_claims}
    group_keys = {claim.key for claim in group_claims}
    unused = [claim for claim in group_claims if claim.key not in pod_keys]
    misses: list[NearMiss] = []
    for claim in pod_claims:
        if claim.key in group_keys or source(claim) == ("", ""):
            continue
        same_name = next((entry for entry in unused if entry.name == claim.name), None)
        if same_name is not None:
            misses.append(NearMiss(claim, same_name, source(claim)[0]))
            continue
        same_source = {entry.name: entry for entry in unused if source(entry) == source(claim)}
        if same_source:
            name = nearest(claim.name, same_source) or min(same_source)
            misses.append(NearMiss(claim, same_source[name], "name"))
    near = {miss.group.key for miss in misses}
    return misses, [claim for claim in unused if claim.key not in near]


def planned_claims(facts: Facts) -> tuple[PlannedClaim, ...]:
    """One entry for each claim or template that the object names, groups first. A stored Pod's claims are frozen, so
    an UPDATE of a Pod has nothing new to say."""
    return facts.once(_planned_claims, facts.plan)


def _planned_claims(facts: Facts, plan: GangPlan) -> tuple[PlannedClaim, ...]:
    if facts.kind == "Pod" and facts.operation is not Operation.CREATE:
        return ()
    found: dict[tuple[str, str], PlannedClaim] = {}
    of_groups = (claim for group in plan.leaf_groups() for claim in group.claims)
    of_pods = (claim for pod_set in plan.all_pod_sets() for claim in pod_set.claims)
    for claim in (*of_groups, *of_pods):
        found.setdefault(source(claim), claim)
    return tuple(found.values())


def claim_spec(facts: Facts, claim: PlannedClaim) -> Looked[Mapping[str, Any]]:
    """The ResourceClaim spec that a claim stands for, from its template or from the claim itself."""
    field, name = source(claim)
    if field == TEMPLATE:
        template = facts.surroundings.claim_template(facts.namespace, name)
        if template.value is None:
            return Looked(absent=template.absent, unknown=template.unknown)
        return Looked(template.value.spec.spec or {})
    if field == CLAIM:
        looked = facts.surroundings.claim(facts.namespace, name)
        if looked.value is None:
            return Looked(absent=looked.absent, unknown=looked.unknown)
        return Looked(looked.value.spec or {})
    return Looked(unknown="the claim names neither a ResourceClaim nor a ResourceClaimTemplate")


def object_text(claim: PlannedClaim) -> str:
    """``ResourceClaimTemplate "t1"``."""
    field, name = source(claim)
    return f'{"ResourceClaimTemplate" if field == TEMPLATE else "ResourceClaim"} "{name}"'
