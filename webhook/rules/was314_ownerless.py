"""A Workload or group without an owner.

## What it checks
A Workload, PodGroup or CompositePodGroup without any `ownerReferences`. Off unless a policy turns it on: a group made by
hand is legitimate, and this is a matter of house rules.

## Why
Kubernetes deletes a Workload or group with its owner. Without one it stays for ever, counts in object quotas, keeps
its shared claims and their devices, and the next run with the same name meets the old group.

## Fields read
`metadata.ownerReferences`.

## Allowed
```yaml
kind: PodGroup
metadata:
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: server, uid: ...}]
```

## Denied
```yaml
kind: PodGroup
metadata: {name: train}
```

## Fix
Add an ownerReference to the object that the group lives and dies with, or delete the group yourself.

## References
Garbage collection by ownerReferences, apimachinery ObjectMeta.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import METADATA
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS314",
    name="ownerless",
    summary="a Workload or group without owner: nobody deletes it",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    default_action=None,
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.metadata.owner_references:
        return
    yield Finding(
        field=METADATA / "ownerReferences",
        message=f"this {facts.kind} has no owner, so nothing ever deletes it: its shared claims and its place in object quotas stay taken",
        fix="add an ownerReference to the object it lives and dies with, or delete it yourself after the run",
        seen=0,
        limit=1,
    )
