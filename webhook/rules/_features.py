"""Namespace allow-lists for alpha features: one mechanism for WAS301 to WAS304."""

from __future__ import annotations

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.policy.effective import Feature
from webhook.rules._words import scope_words
from webhook.verdict import Action, Finding

_SWITCHES: dict[Feature, str] = {
    "job_scheduling": "features.jobScheduling",
    "composite_pod_group": "features.compositePodGroup",
    "topology_constraints": "features.topologyConstraints",
    "shared_claims": "features.sharedClaims",
}

_GATES: dict[Feature, str] = {
    "job_scheduling": "WorkloadWithJob",
    "composite_pod_group": "CompositePodGroup",
    "topology_constraints": "TopologyAwareWorkloadScheduling",
    "shared_claims": "DRAWorkloadResourceClaims",
}


def allowed_here(facts: Facts, feature: Feature) -> bool:
    """May this namespace use the feature, or does its gate, declared off, take the field away anyway (WAS305)?

    A gate that nobody declared does not soften the answer: the list is the administrators' decision, whatever 1.37
    would make of the field.
    """
    return facts.policy.gate(_GATES[feature]) is False or facts.policy.feature_allowed(feature)


def not_allowed(
    facts: Facts,
    feature: Feature,
    field: FieldPath,
    *,
    what: str,
    why: str,
    fix: str,
    at_most: Action = Action.DENY,
) -> Finding:
    """The finding for `field` in a namespace that is not on the feature's list. what: "Job spec.scheduling"."""
    allowed = scope_words(getattr(facts.policy.spec.features, feature))
    return Finding(
        field=field,
        message=(
            f'namespace "{facts.namespace}" may not use {what}: the policy ({_SWITCHES[feature]}) allows {allowed}; {why}'
        ),
        fix=fix,
        seen=facts.namespace,
        limit=allowed,
        at_most=at_most,
    )
