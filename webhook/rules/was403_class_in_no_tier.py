"""A PriorityClass that belongs to no tier.

## What it checks
Once the policy declares tiers: a group, or Pods that ask for a guarded resource, with a PriorityClass that is in none
of them. The parameter `unknownPriorityClass` says what follows: `deny`, or `allow` (the default), which warns. System
classes are WAS404; objects without a class, and without group and guarded resource, are not looked at.

## Why
A class outside all tiers is a way around them: nobody said who may use it, what it requires and how much of it there
may be.

## Fields read
`priorityClassName` of the object's groups and Pod templates; `tiers` and `unknownPriorityClass` of the policy.

## Allowed
```yaml
kind: Job            # tiers: gold with train-gold
spec: {template: {spec: {priorityClassName: train-gold}}}
```

## Denied
```yaml
kind: Job            # parameters: {unknownPriorityClass: deny}
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {priorityClassName: my-own-class}}
```

## Fix
Use a class of a tier, or have the class added to one.

## References
Muster's policy, `tiers`, `parameters.unknownPriorityClass`.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_governed
from webhook.rules._tiers import SYSTEM_CLASSES, class_uses
from webhook.rules._words import quoted
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS403",
    name="class-in-no-tier",
    summary="a PriorityClass that belongs to no tier, once tiers are declared",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding]:
    tiers = facts.policy.tiers
    if not tiers or facts.requester.trusted or not is_governed(facts):
        return
    at_most = Action.DENY if facts.policy.unknown_priority_class == "deny" else Action.WARN
    known = sorted(name for tier in tiers for name in tier.priority_classes)
    for use in class_uses(facts, facts.plan):
        if use.name in SYSTEM_CLASSES or facts.policy.tier_of(use.name) is not None:
            continue
        yield Finding(
            field=use.field,
            message=(
                f'"{use.name}" belongs to no tier, so nothing says who may use it and how much of it: the tiers have '
                f"{quoted(known)}"
            ),
            fix="use a class of a tier, or have the class added to one",
            seen=use.name,
            limit=known,
            at_most=at_most,
        )
