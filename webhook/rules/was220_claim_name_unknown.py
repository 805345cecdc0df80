"""Claim name unknown.

## What it checks
`resources.claims[].name` of a container (or of the Pod) must be the name of an entry of the Pod's `resourceClaims`.

## Why
The API server checks it in Pods and in the templates of built-in kinds, so for them this shows in `review`. The
schemas of JobSet and LeaderWorkerSet do not: the parent is accepted, and each of its child Jobs or StatefulSets is
refused, again and again. No Pod ever exists, and the parent says nothing but that.

## Fields read
`resources.claims` of containers and init containers, `resourceClaims` of the Pod

## Allowed
```yaml
resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
containers:
- name: main
  resources: {claims: [{name: gpu}]}
```

## Denied
```yaml
resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
containers:
- name: main
  resources: {claims: [{name: gpus}]}
```

## Fix
Use the name of one of the Pod's claims, or add the claim.

## References
k8s.io/api core/v1 ResourceClaim (in ResourceRequirements); pkg/apis/core/validation of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import ROOT, FieldPath
from webhook.objects.words import nearest
from webhook.rules._groups import POD_KINDS
from webhook.rules._names import quoted
from webhook.rules._resources import refused
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS220",
    name="claim-name-unknown",
    summary="a container uses a claim that its Pod does not have",
    kinds=POD_KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    seen: set[FieldPath] = set()  # a LeaderWorkerSet without leaderTemplate makes its leaders of the workers' one
    for pod_set in facts.plan.all_pod_sets():
        if pod_set.spec_path in seen:
            continue
        seen.add(pod_set.spec_path)
        names = sorted({claim.name for claim in pod_set.claims})
        for path, claim in _uses(pod_set.template.spec, pod_set.spec_path):
            if claim.name not in names:
                yield _finding(path, claim.name, names, refused(facts))


def _uses(spec: core.PodSpec, at: FieldPath) -> Iterator[tuple[FieldPath, core.ClaimName]]:
    yield from _of(spec.resources, at)
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers or ()):
            yield from (((at / field).at(index).join(path), claim) for path, claim in _of(container.resources, ROOT))


def _of(resources: core.ResourceRequirements | None, at: FieldPath) -> Iterator[tuple[FieldPath, core.ClaimName]]:
    for index, claim in enumerate((resources.claims if resources is not None else None) or ()):
        yield (at / "resources" / "claims").at(index) / "name", claim


def _finding(path: FieldPath, name: str, existing: list[str], what: str) -> Finding:
    near = nearest(name, existing)
    have = f"the Pod's claims are {quoted(existing)}" if existing else "the Pod has no resourceClaims"
    return Finding(
        field=path,
        message=f'uses claim "{name}", but {have}: the API server refuses {what}',
        fix=f'write "{near}"' if near else f'add "{name}" to the Pod\'s resourceClaims, or take it out here',
        seen=name,
        limit=existing,
    )
