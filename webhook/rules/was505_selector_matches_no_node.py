"""A selector or required affinity that no node meets.

## What it checks
nodeSelector, required node affinity, and the topology keys that spread and Pod affinity ask of a node, against the
labels of all nodes. The text names what nodes have instead and the nearest value. Preferred affinity is left alone.

## Why
A value with a slip of the pen, or a label that an upgrade renamed, matches no node, and the Pods stay Pending for ever.

## Fields read
nodeSelector, `affinity`, `topologySpreadConstraints`; labels of the nodes

## Allowed
```yaml
nodeSelector: {accel: h200}
```

## Denied
```yaml
nodeSelector: {accel: h20O}    # nodes say h200
```

## Fix
Use a value that nodes have.

## References
pkg/scheduler/framework/plugins/nodeaffinity (1.37.2); case R108
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.inventory.snapshot import Snapshot
from webhook.inventory.tables import node_table
from webhook.objects.words import nearest
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import each_pod, end, selector_path
from webhook.rules._names import quoted
from webhook.rules._pod_causes import Cause
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS505",
    name="selector-matches-no-node",
    summary="the Pods select nodes by a label or value that no node has",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.pod is not None  # noqa: S101  faults of single Pods
        assert fault.cause is not None  # noqa: S101
        assert facts.inventory is not None  # noqa: S101
        cause = fault.cause
        hint, fix = _advice(cause, facts.inventory)
        yield Finding(
            field=selector_path(fault.pod, cause.subject),
            seen=cause.text,
            limit=", ".join(cause.values[:10]) or None,
            message=f"{each_pod(facts, fault)} goes only to nodes with {cause.text}, and no node has that{hint}; {end(fault, of_capacity=False)}",
            fix=fix,
            at_most=fault.at_most,
            excess=fault.excess,
        )


def _advice(cause: Cause, inventory: Snapshot) -> tuple[str, str]:
    """(what nodes have instead, what to do)."""
    if not cause.subject:
        return "", "leave out what no node has together"
    if not cause.values:
        near = nearest(cause.subject, node_table(inventory).label_keys())
        hint = f' (nearest label: "{near}")' if near else f' (no node has a label "{cause.subject}")'
        return hint, f'use "{near}"' if near else "use a label that nodes have, or leave it out"
    written = cause.text.split('"')[1] if '"' in cause.text else ""
    near = nearest(written, cause.values)
    fix = f'write "{near}"' if near else f"use one of {quoted(cause.values)}"
    return f" ({cause.subject} is {quoted(cause.values)} on nodes)", fix
