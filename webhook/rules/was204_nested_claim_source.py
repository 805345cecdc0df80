"""Nested claim source.

## What it checks
An entry of a Pod's `resourceClaims` must set exactly one of `resourceClaimName` and `resourceClaimTemplateName`. The
old form, nested under `source`, is named with its rewrite.

## Why
`source` was removed from the Pod API in Kubernetes 1.31: the API server drops it, and what is left names neither a
claim nor a template. For Pods and built-in kinds the API server then refuses the object, so this shows in `review`.
JobSet and LeaderWorkerSet are accepted; only their child Jobs or StatefulSets are refused, again and again, while the
parent shows nothing but "no Pods".

## Fields read
`resourceClaims` of every Pod template

## Allowed
```yaml
resourceClaims:
- name: gpu
  resourceClaimName: shared-gpu
```

## Denied
```yaml
resourceClaims:
- name: gpu
  source: {resourceClaimName: shared-gpu}
```

## Fix
Move the field out of `source`.

## References
k8s.io/api core/v1 PodResourceClaim; case R80
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.rules._claims import CLAIM, TEMPLATE
from webhook.rules._groups import POD_KINDS
from webhook.rules._resources import refused
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS204",
    name="nested-claim-source",
    summary="a Pod claim names no ResourceClaim and no template, often because of the old nested source",
    kinds=POD_KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for at, index, claim in _claims(facts):
        set_count = (claim.resource_claim_name is not None) + (claim.resource_claim_template_name is not None)
        if claim.source is not None:
            yield _nested(at.at(index), claim, refused(facts))
        elif set_count != 1:
            yield _not_one(at.at(index), claim, set_count, refused(facts))


def _claims(facts: Facts) -> Iterator[tuple[FieldPath, int, core.PodResourceClaim]]:
    seen: set[FieldPath] = set()  # a LeaderWorkerSet without leaderTemplate makes its leaders of the workers' one
    for pod_set in facts.plan.all_pod_sets():
        at = pod_set.spec_path / "resourceClaims"
        if at not in seen:
            seen.add(at)
            for index, claim in enumerate(pod_set.template.spec.resource_claims or ()):
                yield at, index, claim


def _nested(path: FieldPath, claim: core.PodResourceClaim, what: str) -> Finding:
    source = claim.source or {}
    names = [f"{field}: {source[field]}" for field in (CLAIM, TEMPLATE) if isinstance(source.get(field), str)]
    rewrite = f"write {{name: {claim.name}, {names[0]}}}" if names else f"write {CLAIM} or {TEMPLATE} beside the name"
    return Finding(
        field=path / "source",
        message=(
            f'claim "{claim.name}" uses the nested form that Kubernetes 1.31 removed: the API server drops "source", and '
            f"refuses {what}, since the claim then names nothing"
        ),
        fix=rewrite,
        seen=names[0] if names else None,
    )


def _not_one(path: FieldPath, claim: core.PodResourceClaim, set_count: int, refused_object: str) -> Finding:
    what = "both a claim and a template" if set_count else "neither a claim nor a template"
    hint = "" if set_count else ' (a nested "source" is dropped since Kubernetes 1.31)'
    return Finding(
        field=path,
        message=f'claim "{claim.name}" names {what}{hint}: the API server refuses {refused_object}',
        fix=f"set exactly one of {CLAIM} and {TEMPLATE}",
        seen=set_count,
        limit=1,
    )
