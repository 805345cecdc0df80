"""Topology constraints in a namespace that may not use them.

## What it checks
`schedulingConstraints.topology` of a Job's `spec.scheduling`, a Workload's templates, a PodGroup or a
CompositePodGroup, in a namespace that the policy's `features.topologyConstraints` does not list. No list means every
namespace.

## Why
Topology constraints are alpha in 1.37 and costly: the scheduler tries every domain, and one group that fits in none was
measured at about a second per attempt on 5,120 nodes, which everybody else waits for.

## Fields read
`schedulingConstraints.topology[].key` of every group that the object describes.

## Allowed
```yaml
kind: PodGroup
spec: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
kind: PodGroup       # policy: features: {topologyConstraints: {namespaces: [ml-*]}}, namespace team-b
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: topology.example.com/rack}]}
```

## Fix
Leave the constraint out, use a namespace on the list, or ask the cluster's administrators to add yours.

## References
k8s.io/api v0.37.2 scheduling/v1beta1 PodGroupSchedulingConstraints; gate TopologyAwareWorkloadScheduling.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import Group
from webhook.rules._features import allowed_here, not_allowed
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS303",
    name="topology-namespace",
    summary="topology constraints in a namespace that is not on the allow-list",
    kinds=frozenset({"Job", "Workload", "PodGroup", "CompositePodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if allowed_here(facts, "topology_constraints"):
        return
    groups: list[Group] = [*facts.plan.leaf_groups(), *facts.plan.composite_groups()]
    for group in groups:
        if group.topology_path is None:
            continue
        yield not_allowed(
            facts,
            "topology_constraints",
            group.topology_path,
            what=f'topology constraints (alpha; key "{group.topology_key}")',
            why="1.37 tries every domain of the key at each attempt, and all other Pods wait meanwhile",
            fix="leave the topology constraint out, or ask for the namespace to be added",
        )
