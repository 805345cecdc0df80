"""Pod larger than any node.

## What it checks
What one Pod asks for against the largest node: the effective request with init containers, sidecars, Pod-level
resources and the overhead of its RuntimeClass. Where the Pod's selectors leave only some nodes, against the largest of
those.

## Why
Allocatable of all nodes together does not help a Pod: it has to fit one. kube-scheduler 1.37 leaves it Pending for
ever.

## Fields read
`resources`, `overhead`, nodeSelector, required node affinity; allocatable of the nodes

## Allowed
```yaml
resources: {requests: {cpu: 96}}    # the largest node has 96
```

## Denied
```yaml
resources: {requests: {cpu: 97}}
```

## Fix
Ask for at most what the largest node has, and use more Pods.

## References
pkg/scheduler/framework/plugins/noderesources/fit.go (1.37.2); cases R95, R96
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.feasibility.model import PodDemand
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import amount, each_pod, end, request_path
from webhook.rules._pod_causes import Cause
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS504",
    name="pod-larger-than-any-node",
    summary="one Pod asks for more than any node has",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.pod is not None  # noqa: S101  faults of single Pods
        assert fault.cause is not None  # noqa: S101
        cause = fault.cause
        message, fix = _words(fault.pod, cause)
        yield Finding(
            field=request_path(facts, fault.pod, cause.subject) if cause.subject else fault.pod.path,
            seen=cause.asked or None,
            limit=cause.largest if cause.subject else None,
            message=f"{each_pod(facts, fault)} asks for {message}; {end(fault)}",
            fix=fix,
            at_most=fault.at_most,
            excess=fault.excess and max(1, cause.asked - cause.largest),
        )


def _words(pod: PodDemand, cause: Cause) -> tuple[str, str]:
    if not cause.subject:
        asked = ", ".join(amount(name, number) for name, number in pod.request) or "a place"
        where = "that its selectors and tolerations leave " if pod.label_keys or pod.tolerations else ""
        return (
            f"{asked}, and no single node {where}has all of it",
            "ask for less in each Pod, or change the selectors",
        )
    if cause.subject == "pods":
        return "a place on a node, and nodes have pods: 0", "ask the admins why nodes allow no Pods"
    largest = amount(cause.subject, cause.largest)
    whose = "of the nodes that its selectors leave, the largest has" if cause.is_restricted else "the largest node has"
    fix = f"ask for at most {largest} in each Pod, or run more and smaller Pods"
    if not cause.largest:
        fix = "change the selectors, or ask for other resources"
    return f"{amount(cause.subject, cause.asked)}; {whose} {largest}", fix
