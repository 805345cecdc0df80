"""Fits only with nodes that take no Pods today.

## What it checks
Whether the group fits only if nodes come back that are cordoned, not ready or being replaced, or resources that nodes
had lately and do not have now, or if taints go that devices have from their driver or from a DeviceTaintRule. Where all
devices of a claim are tainted, WAS506 says so.

## Why
Such nodes are potential capacity, so this is never refused; but until they are back the group stays Pending, and in
1.37 nothing says why.

## Fields read
The Pod template, its claims, minCount, the topology key; conditions, taints and `unschedulable` of the nodes; taints of
devices

## Allowed
```yaml
# fits the nodes that are ready
```

## Denied
```yaml
# needs 4 nodes, of which 1 is cordoned and 1 is not ready
```

## Fix
Wait for the nodes, or ask the admins when they come back.

## References
case R101
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.inventory.snapshot import Snapshot
from webhook.inventory.tables import node_table
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import asks
from webhook.rules._device_claims import away_words
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS510",
    name="needs-cordoned-nodes",
    summary="the group fits only with nodes that take no Pods today",
    kinds=KINDS,
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        assert facts.inventory is not None  # noqa: S101
        devices = away_words(fault.demand, facts.inventory)
        holder = "what takes Pods today holds" if devices else "the nodes that take Pods today hold"
        is_tainted = any("tainted" in one for one in devices)
        otherwise = "tolerate the taint (under exactly)" if is_tainted else "ask the admins about them"
        yield Finding(
            field=fault.demand.root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            message=f"{asks(fault)}; {holder} {fault.found.proof.best}, so it waits for others: "
            f"{', '.join([*_away(facts.inventory), *devices])}",
            fix=f"wait until those take Pods, or {otherwise}",
            at_most=Action.WARN,
        )


def _away(inventory: Snapshot) -> list[str]:
    """``1 cordoned``, ``2 not ready``, ``4 that pool "gpu" may add``."""
    nodes = node_table(inventory)
    reasons = nodes.away_counts()
    pools = {f"pool {pool.name}": f'that pool "{pool.name}" may add' for pool in inventory.pools}
    lately = int((nodes.had_more() & ~nodes.is_away()).sum())
    words = [f"{count} {pools.get(reason, reason)}" for reason, count in sorted(reasons.items())]
    return [*words, *([f"{lately} that had more lately"] if lately else [])]
