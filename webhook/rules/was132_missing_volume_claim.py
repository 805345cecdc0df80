"""PersistentVolumeClaim missing.

## What it checks
Every PersistentVolumeClaim that Pods of a group mount must exist.

## Why
A Pod of a group whose claim does not exist fails the whole group in 1.37, and the message leads astray: the condition
says SchedulerError, `error in "DynamicResources" PodGroupPostFilter plugins: not found`, even where nobody uses
devices. The group is tried again and starts once the claim is there, so this only warns: the claim may be on its way.

## Fields read
`volumes[].persistentVolumeClaim.claimName` of the Pod template; PersistentVolumeClaims of the namespace

## Allowed
```yaml
# PersistentVolumeClaim "datasets" exists
volumes:
- name: data
  persistentVolumeClaim: {claimName: datasets}
```

## Denied
```yaml
# PersistentVolumeClaim "datasets" exists
volumes:
- name: data
  persistentVolumeClaim: {claimName: dataset}
```

## Fix
Create the claim, or correct the name.

## References
pkg/scheduler/framework/plugins/volumebinding of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.rules._volumes import claim_names
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS132",
    name="missing-volume-claim",
    summary="Pods of a group mount a PersistentVolumeClaim that does not exist: the group fails with a misleading error",
    kinds=frozenset({"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    places: dict[str, FieldPath] = {}
    for group in facts.plan.leaf_groups():
        for pod_set in group.pod_sets:
            for name, field in claim_names(pod_set):
                places.setdefault(name, field)
    for name, field in places.items():
        looked = facts.surroundings.any("PersistentVolumeClaim", facts.namespace, name)
        if looked.unknown is not None:
            yield Unresolved(reason=f'whether PersistentVolumeClaim "{name}" exists: {looked.unknown}', field=field)
        elif looked.absent:
            yield Finding(
                field=field,
                message=(
                    f'names PersistentVolumeClaim "{name}", which does not exist: the whole group waits for it, and 1.37 '
                    'blames "DynamicResources"'
                ),
                fix="create it, or correct the name",
                seen=name,
            )
