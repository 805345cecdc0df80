"""A volume for one Pod in a gang of several.

## What it checks
A PersistentVolumeClaim with access mode ReadWriteOncePod can be used by one Pod at a time. A gang must be able to start
with one user of each such claim: Pods that do not mount it plus one must reach minCount.

## Why
All Pods of a Job have the same template and mount the same claim. The scheduler of 1.37 places the first one, refuses
the second because the claim is in use, and so never reaches minCount, on any cluster. Without the gang the Pods would
run one after another. Access modes of a claim are fixed when it is made.

## Fields read
`volumes[].persistentVolumeClaim.claimName` of the Pod template, minCount; `spec.accessModes` of the claim

## Allowed
```yaml
# PersistentVolumeClaim "data" has accessModes: [ReadWriteMany]
spec:
  parallelism: 4
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}
```

## Denied
```yaml
# PersistentVolumeClaim "data" has accessModes: [ReadWriteOncePod]
spec:
  parallelism: 4
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}
```

## Fix
Use a claim with ReadWriteMany or ReadOnlyMany, or a generic ephemeral volume, which is one claim for each Pod.

## References
pkg/scheduler/framework/plugins/volumerestrictions of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Operation
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.plan.model import PodSet
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules._priorities import pod_cap
from webhook.rules._schedulers import unless
from webhook.rules._volumes import claim_names
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS136",
    name="volume-claim-for-one-pod",
    summary="the Pods of a gang share a ReadWriteOncePod volume, which one Pod at a time can use",
    kinds=frozenset({"Job", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"}),
    gate="GenericWorkload",
)

_MODE = "ReadWriteOncePod"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for gang in gangs(facts):
        if gang.group.pod_count is None:
            continue
        for name, field in _claims(gang.pod_sets).items():
            users = sum(_count(pod_set) for pod_set in gang.pod_sets if name in dict(claim_names(pod_set)))
            most = gang.group.pod_count - users + 1
            if users <= 1 or most >= gang.min_count:
                continue
            looked = facts.surroundings.any("PersistentVolumeClaim", facts.namespace, name)
            if looked.unknown is not None:
                yield Unresolved(reason=f'access modes of "{name}": {looked.unknown}', field=field)
            elif isinstance(looked.value, core.PersistentVolumeClaim) and _MODE in (
                looked.value.spec.access_modes or ()
            ):
                yield _finding(facts, gang, name, field, most)


def _claims(pod_sets: tuple[PodSet, ...]) -> dict[str, FieldPath]:
    places: dict[str, FieldPath] = {}
    for pod_set in pod_sets:
        for name, field in claim_names(pod_set):
            places.setdefault(name, field)
    return places


def _count(pod_set: PodSet) -> int:
    return pod_set.pod_count or 0


def _finding(facts: Facts, gang: Gang, name: str, field: FieldPath, most: int) -> Finding:
    # Others may bring Pods without the volume to a group that Pods only name.
    cap = Action.WARN if gang.shared else cap_on_update(facts, gang)
    return Finding(
        field=field,
        message=(
            f'"{name}" is {_MODE}, so {plural(most, "Pod")} of {gang.title} can be placed at most, and it starts with '
            f"{gang.min_count}: {_outlook(facts, gang)}"
        ),
        fix="use a ReadWriteMany claim, or a generic ephemeral volume",
        seen=gang.min_count,
        limit=most,
        excess=gang.min_count - most,
        at_most=cap.at_most(pod_cap(facts, "volumes", True)),
    )


def _outlook(facts: Facts, gang: Gang) -> str:
    if gang.shared:
        return "it waits until others bring Pods without it"
    what = "it" if facts.operation is Operation.CREATE else "what does not run yet"
    return f"{what} never starts{unless(facts, gang.pod_sets)}"
