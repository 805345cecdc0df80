"""Group being deleted.

## What it checks
A PodGroup or CompositePodGroup that is created while one of the same name is still being deleted; Pods, or Pod
templates, that join a PodGroup which is being deleted; a group below a CompositePodGroup which is being deleted.

## Why
Pods and groups are tied by name and not by uid. A PodGroup keeps a finalizer while Pods that have not ended name it, so
re-creating it fails with AlreadyExists until the last of them is gone, and a Pod that joins meanwhile keeps it from
going. A CompositePodGroup has no finalizer: once it is gone, new Pods below it wait for ever. Retries and GitOps do
such things all day, so this only ever warns.

## Fields read
`metadata.deletionTimestamp` of the group of the same name, of the PodGroup that Pods name, of the parents

## Allowed
```yaml
kind: PodGroup
metadata: {name: train-2}                     # "train" is being deleted
```

## Denied
```yaml
kind: PodGroup
metadata: {name: train}                       # "train" is being deleted
```

## Fix
Use a fresh name for each run, or wait until the old group is gone.

## References
pkg/controller/scheduling/podgroupprotection of 1.37.2; case R26
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import METADATA, SPEC
from webhook.rules._groups import POD_KINDS, ancestors, joined_groups, name_path
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS218",
    name="group-being-deleted",
    summary="a group of this name, or above this group, is still being deleted",
    kinds=POD_KINDS | {"PodGroup", "CompositePodGroup"},
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.kind in ("PodGroup", "CompositePodGroup"):
        yield from _same_name(facts)
        yield from _parents(facts)
    for leaf, name in joined_groups(facts):
        if _is_going(facts.surroundings.pod_group(facts.namespace, name).value):
            yield Finding(
                field=name_path(leaf),
                message=(
                    f'the PodGroup "{name}" is being deleted: Pods that join it now mix with those of its last run '
                    "and keep it from going"
                ),
                fix="create a PodGroup of a fresh name for the new Pods",
                seen=name,
                at_most=Action.WARN,
            )


def _same_name(facts: Facts) -> Iterator[Finding]:
    if not facts.name:
        return
    if _is_going(facts.surroundings.any(facts.kind, facts.namespace, facts.name).value):
        yield Finding(
            field=METADATA / "name",
            message=(
                f'a {facts.kind} "{facts.name}" is still being deleted: until {_end(facts)} a new one of this name is '
                "refused, and Pods find the old one"
            ),
            fix="use a fresh name for each run, or wait",
            seen=facts.name,
            at_most=Action.WARN,
        )


def _end(facts: Facts) -> str:
    """A PodGroup waits for its Pods, a composite only for finalizers that somebody else has put there."""
    return "its last Pod has ended" if facts.kind == "PodGroup" else "it is gone"


def _parents(facts: Facts) -> Iterator[Finding]:
    for group in facts.plan.groups:
        for parent in ancestors(facts, group.parent_name).found:
            if _is_going(parent):
                yield Finding(
                    field=SPEC / "parentCompositePodGroupName",
                    message=(
                        f'the CompositePodGroup "{parent.metadata.name}" is being deleted: once it is gone, new Pods below '
                        "it wait for ever, without a condition or an event"
                    ),
                    fix="create the tree anew under fresh names",
                    seen=parent.metadata.name,
                    at_most=Action.WARN,
                )


def _is_going(obj: core.Base | None) -> bool:
    metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
    return metadata.deletion_timestamp is not None
