"""Constraints that exclude each other on every node.

## What it checks
nodeSelector and each term of the required node affinity: can one node meet all of it at once, whatever its labels are?
No inventory is needed.

## Why
The API server accepts `nodeSelector: {zone: a}` together with a required affinity for zone b. No node can match, and
the Pods stay Pending for ever. An affinity whose terms are all empty matches nothing either.

## Fields read
nodeSelector, `affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`

## Allowed
```yaml
nodeSelector: {zone: a}
# required affinity: zone In (a, b)
```

## Denied
```yaml
nodeSelector: {zone: a}
# required affinity: zone In (b)
```

## Fix
Drop one of the two.

## References
k8s.io/component-helpers scheduling/corev1/nodeaffinity (1.37.2)
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import each_pod, end
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS512",
    name="contradicting-constraints",
    summary="the Pods' selectors exclude each other, so no node of any cluster can match",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.pod is not None  # noqa: S101  contradictions are of single Pod sets
        assert fault.cause is not None  # noqa: S101
        place = "nodeSelector" if fault.pod.affinity is None else "affinity"
        yield Finding(
            field=fault.pod.path / place,
            seen=fault.cause.text,
            limit=None,
            message=f"{each_pod(facts, fault)} asks for what no node can have: {fault.cause.text}; {end(fault, of_capacity=False)}",
            fix="drop one of the requirements that exclude each other",
            at_most=fault.at_most,
            excess=fault.excess,
        )
