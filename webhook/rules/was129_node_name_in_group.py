"""nodeName in a group.

## What it checks
Pods that are put into a group, with `nodeName` written in their template.

## Why
A Pod with `nodeName` never passes the scheduler: it counts as placed as soon as it exists. A gang of such Pods is not
all or nothing, they start one by one. Where other members do pass the scheduler and the group has a topology key, the
bound Pods decide its domain: if they stand in two domains, on a node without the label, or on one that does not exist,
1.37 fails the whole group with SchedulerError, again and again.
It can be meant, so it only warns. The basic group of a Job that asks for none is not looked at.

## Fields read
`nodeName` of the Pod template; the group's topology key

## Allowed
```yaml
spec:
  schedulingGroup: {podGroupName: train}
  nodeSelector: {kubernetes.io/hostname: gpu-17}
```

## Denied
```yaml
spec:
  schedulingGroup: {podGroupName: train}
  nodeName: gpu-17
```

## Fix
Use a nodeSelector or node affinity.

## References
pkg/scheduler/framework/plugins/topologyaware/topology_placement.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_own_word
from webhook.plan.model import LeafGroup
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS129",
    name="node-name-in-group",
    summary="nodeName takes Pods past the scheduler, so their group is not scheduled as one",
    kinds=frozenset({"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.leaf_groups():
        bound = [pod_set for pod_set in group.pod_sets if pod_set.template.spec.node_name]
        if not bound or not is_own_word(group):
            continue
        nodes = quoted(str(pod_set.template.spec.node_name) for pod_set in bound)
        yield Finding(
            field=bound[0].spec_path / "nodeName",
            message=(
                f"puts Pods of the group on node {nodes} past kube-scheduler: they start one by one, whatever the group "
                f"asks for{_others(facts, group)}"
            ),
            fix="use a nodeSelector instead",
            seen=nodes,
        )


def _others(facts: Facts, group: LeafGroup) -> str:
    key = group.topology_key
    if group.name:
        constraints = facts.surroundings.pod_group(facts.namespace, group.name).value
        topology = constraints.spec.scheduling_constraints if constraints else None
        key = topology.topology[0].key if topology and topology.topology else None
    if key is None:
        return ""
    return f', and others wait for ever if such nodes are not in one domain of "{key}"'
