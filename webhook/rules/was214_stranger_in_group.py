"""Stranger in group.

## What it checks
A bare Pod that somebody other than a trusted controller creates, and that names a PodGroup which belongs to a
controller (its owner reference with `controller: true` names, for example, a Job).

## Why
Any Pod in the namespace may name any PodGroup. A stranger counts toward minCount, so a gang may start one worker short;
it holds the group's devices and topology domain; with another priority it fails the whole group. It may be meant (a
debugging Pod on the group's devices), so this warns; strict denies it. A Pod whose own controller is the group's warns
in strict too: that controller may be missing from `cluster.trustedControllers`, but owner references are free text and
prove nothing.

## Fields read
`spec.schedulingGroup`, owner references of Pod and PodGroup, who asks

## Allowed
```yaml
# PodGroup "mine" has no controller
spec:
  schedulingGroup: {podGroupName: mine}
```

## Denied
```yaml
# PodGroup "train-5f7c9" is controlled by Job "train"
spec:
  schedulingGroup: {podGroupName: train-5f7c9}
```

## Fix
Create a PodGroup for the Pod, or list the controller that creates it in `cluster.trustedControllers`.

## References
KEP-4671 (GenericWorkload); pkg/controller/job/job_scheduling_manager.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._groups import joined_groups, name_path
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS214",
    name="stranger-in-group",
    summary="a bare Pod joins a PodGroup that belongs to a controller",
    kinds=frozenset({"Pod"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)


def check(facts: Facts) -> Iterator[Finding]:
    if facts.requester.trusted:
        return
    for leaf, name in joined_groups(facts):
        pod_group = facts.surroundings.pod_group(facts.namespace, name).value
        owner = None if pod_group is None else pod_group.metadata.controller()
        if owner is None:
            continue
        own = facts.metadata.controller()
        same_owner = own is not None and own.uid == owner.uid
        yield Finding(
            field=name_path(leaf),
            message=(
                f'"{name}" belongs to {owner.kind} "{owner.name}", and "{facts.requester.username}" is no trusted '
                "controller: the Pod counts toward its minCount and shares its devices"
            ),
            fix=_fix(same_owner),
            seen=facts.requester.username,
            limit=f"{owner.kind}/{owner.name}",
            at_most=Action.WARN if same_owner else Action.DENY,
        )


def _fix(same_owner: bool) -> str:
    if same_owner:
        return "if it is one, have it added to the policy's cluster.trustedControllers"
    return "create a PodGroup for this Pod"
