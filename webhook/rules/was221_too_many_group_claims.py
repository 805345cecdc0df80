"""Too many group claims.

## What it checks
A group's `resourceClaims`: at most 4, each with a name of its own, each with exactly one of `resourceClaimName` and
`resourceClaimTemplateName`.

## Why
The API server refuses such an object, so in a cluster this never shows; `review` says it before the manifest gets
there, for every template of a Workload at once.

## Fields read
`resourceClaims` of PodGroups, of a Workload's templates and of a Job's `spec.scheduling`

## Allowed
```yaml
resourceClaims:
- {name: gpu, resourceClaimTemplateName: one-gpu}
- {name: nic, resourceClaimTemplateName: one-nic}
```

## Denied
```yaml
resourceClaims:
- {name: gpu, resourceClaimTemplateName: one-gpu}
- {name: gpu, resourceClaimTemplateName: one-nic}
```

## Fix
Put requests that belong together into one claim template with several `requests`.

## References
k8s.io/api scheduling/v1beta1 MaxPodGroupResourceClaims
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import LeafGroup
from webhook.rules._claims import CLAIM, GROUP_CLAIM_COUNT_MAX, TEMPLATE
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS221",
    name="too-many-group-claims",
    summary="a group has more than 4 claims, two of one name, or one without a single source",
    kinds=frozenset({"Job", "PodGroup", "Workload"}),
    gate="DRAWorkloadResourceClaims",
    also_checked_by_apiserver=True,
)


def check(facts: Facts) -> Iterator[Finding]:
    for leaf in facts.plan.leaf_groups():
        yield from _too_many(leaf)
        yield from _twice(leaf)
        yield from _sources(leaf)


def _too_many(leaf: LeafGroup) -> Iterator[Finding]:
    count = len(leaf.claims)
    if count > GROUP_CLAIM_COUNT_MAX:
        yield Finding(
            field=leaf.claims_path,
            message=f"holds {count} claims, and a group may have {GROUP_CLAIM_COUNT_MAX}: the API server refuses it",
            fix="put requests that belong together into one claim template",
            seen=count,
            limit=GROUP_CLAIM_COUNT_MAX,
            excess=count - GROUP_CLAIM_COUNT_MAX,
        )


def _twice(leaf: LeafGroup) -> Iterator[Finding]:
    seen: set[str] = set()
    for claim in leaf.claims:
        if claim.name in seen:
            yield Finding(
                field=claim.path / "name",
                message=f'"{claim.name}" is the name of another claim of this group: the API server refuses it',
                fix="give each claim a name of its own",
                seen=claim.name,
                reason="group claim name used twice",
            )
        seen.add(claim.name)


def _sources(leaf: LeafGroup) -> Iterator[Finding]:
    for claim in leaf.claims:
        count = (claim.resource_claim_name is not None) + (claim.resource_claim_template_name is not None)
        if count != 1:
            what = "both a claim and a template" if count else "neither a claim nor a template"
            yield Finding(
                field=claim.path,
                message=f'claim "{claim.name}" names {what}: the API server refuses the group',
                fix=f"set exactly one of {CLAIM} and {TEMPLATE}",
                seen=count,
                limit=1,
                reason="group claim without a single source",
            )
