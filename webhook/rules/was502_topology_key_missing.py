"""Topology key on no node, or on too few.

## What it checks
The group's topology key against the labels of the nodes: is it on any node, and could the nodes that carry it hold the
group even if all of them were one domain?

## Why
kube-scheduler 1.37 leaves nodes without the label out of every domain. With no labelled node there is no placement at
all ("no feasible placements found"), and the group stays Pending for ever. An empty label value is a domain like any
other.

## Fields read
`schedulingConstraints.topology[0].key`; labels of the nodes

## Allowed
```yaml
schedulingConstraints: {topology: [{key: topo.example.com/rack}]}   # a label that nodes have
```

## Denied
```yaml
schedulingConstraints: {topology: [{key: topo.example.com/block}]}  # a label that no node has
```

## Fix
Use a key that nodes have, label the nodes, or leave the key out.

## References
pkg/scheduler/framework/plugins/topologyaware/topology_placement.go (1.37.2); case R102
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.feasibility.result import Infeasible
from webhook.inventory.snapshot import Snapshot
from webhook.inventory.tables import node_table
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import nearest, plural
from webhook.rules._capacity import KINDS, Fault, faults
from webhook.rules._capacity_words import end, story
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS502",
    name="topology-key-missing",
    summary="the group's topology key is a label that no node has, or too few",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        assert facts.inventory is not None  # noqa: S101
        keys = fault.found.explanation.topology
        message, fix = _words(fault.found, keys, facts.inventory)
        yield Finding(
            field=_path(fault),
            seen="/".join(keys),
            limit=fault.found.proof.best,
            message=f"{message}; {end(fault)}",
            fix=fix,
            at_most=fault.at_most,
            excess=fault.excess,
        )


def _path(fault: Fault) -> FieldPath:
    return fault.demand.root.topology_path or fault.demand.root.path


def _words(found: Infeasible, keys: tuple[str, ...], inventory: Snapshot) -> tuple[str, str]:
    nodes = node_table(inventory)
    known = nodes.label_keys(real=True)
    missing = [key for key in keys if key not in known]
    if missing:
        near = nearest(missing[0], known)
        hint = f' (nearest: "{near}")' if near else ""
        fix = f'use "{near}", ' if near else "use a label that nodes have, "
        return f'no node has the label "{missing[0]}"{hint}', f"{fix}label the nodes, or leave the topology key out"
    total = int(nodes.is_real().sum())
    count = int((nodes.is_real() & nodes.has_keys(keys)).sum())
    message = f"{story(found)}; {total - count} of {plural(total, 'node')} do not count: no label {quoted(keys)}"
    fits = found.explanation.largest
    smaller = f"run at most {plural(fits, 'Pod')}, " if fits else ""
    return message, f"leave out the topology entry, {smaller}or have the admins label the other nodes"
