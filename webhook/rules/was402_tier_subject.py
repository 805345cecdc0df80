"""A tier's PriorityClass used by somebody who may not.

## What it checks
Every PriorityClass that the object names: if it belongs to a tier of the policy, may this user, by name, group or
service account (`tiers[].subjects`)? No subjects means everybody. Trusted controllers act for an owner that was judged,
and what the stored object names already is not judged again.

## Why
A tier's classes preempt what others run. Where only some people of a namespace may use it, the namespace is no border.

## Fields read
`request.userInfo`; `priorityClassName` of the object's groups and Pod templates; `tiers` of the policy.

## Allowed
```yaml
kind: Job            # tier gold: subjects: {groups: [research]}; by a member of research
spec: {template: {spec: {priorityClassName: train-gold}}}
```

## Denied
```yaml
kind: Job            # the same by alice of the group tenants
spec: {template: {spec: {priorityClassName: train-gold}}}
```

## Fix
Use a class that is open to you, or ask for the right.

## References
Muster's policy, `tiers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._tiers import new_tier_uses
from webhook.rules._words import subject_words
from webhook.rules.meta import ANY_KIND, RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS402",
    name="tier-subject",
    summary="a PriorityClass of a tier that this user may not use",
    kinds=frozenset({ANY_KIND}),
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    requester = facts.requester
    for use, tier in new_tier_uses(facts):
        if tier.subjects is None or facts.policy.subjects_hold(tier.subjects, requester.username, requester.groups):
            continue
        if not requester.username:
            yield Unresolved(reason="who submits it: `muster review --as USER` says so", field=use.field, warn=True)
            continue
        allowed = subject_words(tier.subjects)
        yield Finding(
            field=use.field,
            message=(
                f'"{use.name}" belongs to tier "{tier.name}", which is for {allowed} and not for user '
                f'"{requester.username}": its gangs preempt what others run'
            ),
            fix="use a class of a tier that is open to you, or ask for the right",
            seen=requester.username,
            limit=allowed,
        )
