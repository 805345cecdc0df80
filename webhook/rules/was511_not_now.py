"""Fits, but not beside the Pods that run now.

## What it checks
Whether the group has no place in what is free today, although the nodes could hold it.

## Why
A busy cluster is not an impossible one: running Pods end, and Pods of lower priority can be preempted. So this only
tells the tenant that the group will wait. It needs an inventory with Pods.

## Fields read
The Pod template, minCount, the topology key; the Pods on the nodes

## Allowed
```yaml
# fits what is free
```

## Denied
```yaml
# asks for 2 nodes with 8 GPUs each, all of which are in use
```

## Fix
Wait, or use a priority that may preempt.

## References
case R94
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import asks
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS511",
    name="not-now",
    summary="the group has to wait until running Pods end or are preempted",
    kinds=KINDS,
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        yield Finding(
            field=fault.demand.root.path,
            seen=fault.found.proof.needed,
            limit=fault.found.proof.best,
            message=f"{asks(fault)}; beside the Pods that run now there is room for {fault.found.proof.best}, so it waits until "
            "Pods end or are preempted",
            fix="expect it to wait, or use a PriorityClass that may preempt them",
            at_most=Action.WARN,
        )
