"""A gang that no placement of kube-scheduler can start.

## What it checks
Every group of the object against the inventory: could its minCount Pods ever stand together in one domain of its
topology key, if all other Pods were gone and all nodes were back? The answer is a proof, or there is none: Muster
refuses only what kube-scheduler could place in no way. Where one cause explains it (a key, a resource, a selector, a
taint), the rule for that cause speaks instead.

It denies where the inventory is complete, fresh and closed (nothing can grow), the object is not suspended, and the
proof does not rest on something that a declared Pod mutator may change or on a gate that the policy does not declare.
Else it warns and says why. What cannot be decided is counted and admitted.

## Why
Kubernetes 1.37 accepts such a group and leaves it Pending for ever. Every attempt costs kube-scheduler up to seconds on
a large cluster, so it slows everybody's Pods, not only its own.

## Fields read
The whole Pod template, minCount, `schedulingConstraints.topology[0].key`; the inventory

## Allowed
```yaml
# two racks of two nodes with 8 GPUs each
schedulingPolicy: {gang: {minCount: 2}}
schedulingConstraints: {topology: [{key: topo.example.com/rack}]}
# each Pod asks for nvidia.com/gpu: 8
```

## Denied
```yaml
schedulingPolicy: {gang: {minCount: 3}}   # no rack holds 3 of them
schedulingConstraints: {topology: [{key: topo.example.com/rack}]}
```

## Fix
The message names changes that were tried and fit: a smaller minCount, no topology key, a toleration.

## References
kubernetes/kubernetes pkg/scheduler/schedule_one_podgroup.go (1.37.2); docs/judge-scheduler.md; cases R95, R96
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._capacity import KINDS, capacity, faults
from webhook.rules._capacity_words import end, story, way_out
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS501",
    name="never-fits",
    summary="no placement on the nodes of this cluster could ever start the group",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    yield from capacity(facts).unresolved
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        root = fault.demand.root
        yield Finding(
            field=root.needed_path or root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            message=f"{story(fault.found)}; {end(fault)}",
            fix=way_out(fault, "ask for fewer or smaller Pods, or for more nodes"),
            at_most=fault.at_most,
            excess=fault.excess,
        )
