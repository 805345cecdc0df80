"""Pod group missing.

## What it checks
Pods, or Pod templates, that name a PodGroup by `schedulingGroup` which is confirmed not to exist in their namespace.
The text names the nearest PodGroup, and says if a CompositePodGroup or a Workload has that name instead.

## Why
The scheduler of 1.37 holds a Pod back until it has seen the Pod's PodGroup. A misspelled name keeps it Pending for
ever: no condition, no event. But a Pod may legally come before its PodGroup, and in one `kubectl apply` a Job often
does, so this warns; a strict policy denies it for a bare Pod only, which can be created again once the group is there.

## Fields read
`schedulingGroup.podGroupName`; the PodGroups of the namespace

## Allowed
```yaml
# PodGroup "train" exists
spec:
  schedulingGroup: {podGroupName: train}
```

## Denied
```yaml
# PodGroup "train" exists
spec:
  schedulingGroup: {podGroupName: trian}
```

## Fix
Correct the name, or create the PodGroup. The name of a Pod's group cannot be changed later.

## References
KEP-4671 (GenericWorkload); k8s.io/api core/v1 PodSchedulingGroup
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import nearest
from webhook.rules._groups import POD_KINDS, joined_groups, name_path
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS206",
    name="pod-group-missing",
    summary="Pods name a PodGroup that does not exist",
    kinds=POD_KINDS,
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for leaf, name in joined_groups(facts):
        looked = facts.surroundings.pod_group(facts.namespace, name)
        if looked.unknown is not None:
            yield Unresolved(field=name_path(leaf), reason=f'whether PodGroup "{name}" exists: {looked.unknown}')
        if not looked.absent:
            continue
        # A template's group may come later in the same apply; in a set that is all there is, it will not.
        is_sure = facts.kind == "Pod" or facts.complete_set
        yield Finding(
            field=name_path(leaf),
            message=(
                f'no PodGroup "{name}" in namespace "{facts.namespace}"{_hint(facts, name)}: until it exists the Pods '
                "stay Pending without an event"
            ),
            fix="correct the name or create it",
            seen=name,
            at_most=Action.DENY if is_sure else Action.WARN,
        )


def _hint(facts: Facts, name: str) -> str:
    """What else has this name, or the nearest name. Only asked once the absence is confirmed."""
    for kind in ("CompositePodGroup", "Workload"):
        if facts.surroundings.any(kind, facts.namespace, name).value is not None:
            return f" (it is a {kind}; Pods name a PodGroup)"
    existing = facts.surroundings.pod_groups(facts.namespace).value or ()
    near = nearest(name, [pod_group.metadata.name for pod_group in existing])
    return f' (nearest: "{near}")' if near else ""
