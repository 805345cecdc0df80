"""A tier's PriorityClass in a namespace that may not use the tier.

## What it checks
Every PriorityClass that the object names (groups, templates, Pods): if it belongs to a tier of the policy, may this
namespace use the tier (`tiers[].scope`)? No scope means every namespace. What the stored object names already is not
judged again.

## Why
Priority decides who is preempted. 1.37 lets everybody name every PriorityClass; a gang in a class above its right
takes the devices of those whom the class is for, a whole gang at a time.

## Fields read
`priorityClassName` of the object's groups and Pod templates; `tiers` of the policy.

## Allowed
```yaml
kind: Job            # tier gold: priorityClasses: [train-gold], scope: {namespaces: [ml-*]}; namespace ml-a
spec: {template: {spec: {priorityClassName: train-gold}}}
```

## Denied
```yaml
kind: Job            # the same in namespace team-b
spec: {template: {spec: {priorityClassName: train-gold}}}
```

## Fix
Use a class of a tier that is open to the namespace, or ask for the namespace to be added.

## References
Muster's policy, `tiers`; k8s.io/api scheduling/v1 PriorityClass.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._tiers import new_tier_uses
from webhook.rules._words import quoted, scope_words
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS401",
    name="tier-namespace",
    summary="a PriorityClass of a tier that this namespace may not use",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding]:
    for use, tier in new_tier_uses(facts):
        if facts.policy.scope_holds(tier.scope):
            continue
        others = {
            name
            for other in facts.policy.tiers
            if facts.policy.scope_holds(other.scope)
            and facts.policy.subjects_hold(other.subjects, facts.requester.username, facts.requester.groups)
            for name in other.priority_classes
        }
        use_one = f"use {quoted(others)}, which you may, or ask" if others else "ask"
        yield Finding(
            field=use.field,
            message=(
                f'"{use.name}" belongs to tier "{tier.name}", which is for {scope_words(tier.scope)} and '
                f'not for namespace "{facts.namespace}": its gangs preempt what others run'
            ),
            fix=f"{use_one} for the namespace to be added to the tier",
            seen=facts.namespace,
            limit=scope_words(tier.scope),
        )
