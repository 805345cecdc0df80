"""A system PriorityClass outside the system's namespaces.

## What it checks
`system-cluster-critical` or `system-node-critical` on a group, or on Pods that ask for a guarded resource or name a
group, written by a person. System namespaces and Muster's own never reach Muster.

## Why
These classes stand above every tier: such a gang preempts everything that others run, and its Pods survive every
eviction. Since 1.17 the API server lets every namespace use them. In a PodGroup they do not even work in 1.37: a group's
priority may be 1000000000 at most.

## Fields read
`priorityClassName` of the object's groups and Pod templates.

## Allowed
```yaml
kind: Pod
spec: {priorityClassName: train-gold, ...}
```

## Denied
```yaml
kind: Pod
spec: {priorityClassName: system-node-critical, containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}
```

## Fix
Use a class of a tier.

## References
k8s.io/kubernetes v1.37.2 plugin/pkg/admission/priority; PodGroup priority maximum in scheduling/v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_governed
from webhook.rules._tiers import SYSTEM_CLASSES, class_uses
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS404",
    name="system-class",
    summary="a system PriorityClass on a group or on Pods with guarded resources",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted or not is_governed(facts):
        return
    for use in class_uses(facts, facts.plan):
        if use.name in SYSTEM_CLASSES:
            yield Finding(
                field=use.field,
                message=(
                    f'"{use.name}" is for parts of the cluster itself: it stands above every tier and preempts whatever '
                    "others run"
                ),
                fix="use a PriorityClass of a tier, or leave priorityClassName out",
                seen=use.name,
            )
