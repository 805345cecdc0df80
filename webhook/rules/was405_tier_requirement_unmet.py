"""A gang that does not bring what its tier requires.

## What it checks
A gang (of a Job's `spec.scheduling`, a Workload's template or a PodGroup) whose PriorityClass belongs to a tier with
`requires`: disruption mode, preemption policy, a checkpoint interval that is not too long, an expected run time, and
the largest number of Pods. One finding for each requirement that is not met. A checkpoint interval that is too long
together with `disruptionMode: all` is WAS406.

## Why
A tier is a promise in both directions: who takes part in preemption at this level says how he can be interrupted. The
fields are there in 1.37, and nothing makes anybody fill them.

## Fields read
`disruptionMode`, `preemptionPolicy` (the group's, else the PriorityClass's), `minCount`, Pod count; the annotations
`muster.dev/checkpoint-interval` and `muster.dev/expected-run-time` of the object or its Pod template.

## Allowed
```yaml
kind: Job            # tier gold: requires: {checkpointIntervalSecondsMax: 1800}
metadata: {annotations: {muster.dev/checkpoint-interval: 20m}}
spec: {scheduling: {schedulingPolicy: {gang: {}}}, template: {spec: {priorityClassName: train-gold}}}
```

## Denied
```yaml
kind: Job            # the same without the annotation
spec: {scheduling: {schedulingPolicy: {gang: {}}}, template: {spec: {priorityClassName: train-gold}}}
```

## Fix
Fill in what is asked for, or use a class of another tier.

## References
Muster's policy, `tiers[].requires`; KEP-5710 (workload-aware preemption).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.words import plural
from webhook.plan.annotations import CHECKPOINT_INTERVAL, EXPECTED_RUN_TIME
from webhook.plan.model import DisruptionModeKind, LeafGroup
from webhook.policy.model import Tier
from webhook.rules._tiers import annotated_seconds, annotation_path, tier_gangs
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS405",
    name="tier-requirement-unmet",
    summary="a gang that does not bring what the tier of its PriorityClass requires",
    kinds=frozenset({"Job", "Workload", "PodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for group, tier in tier_gangs(facts):
        yield from _disruption_mode(group, tier)
        yield from _preemption_policy(facts, group, tier)
        yield from _largest(group, tier)
    for tier in {tier.name: tier for _, tier in tier_gangs(facts)}.values():
        modes = {_mode(group) for group, other in tier_gangs(facts) if other is tier}
        yield from _checkpoint(facts, tier, may_be_long=modes == {DisruptionModeKind.ALL})
        yield from _run_time(facts, tier)


def _mode(group: LeafGroup) -> DisruptionModeKind:
    """1.37 defaults a group to single."""
    return group.disruption_mode or DisruptionModeKind.SINGLE


def _disruption_mode(group: LeafGroup, tier: Tier) -> Iterator[Finding]:
    wanted = tier.requires.disruption_mode
    if wanted is not None and _mode(group) != wanted:
        written = "is" if group.disruption_mode else "is not written and so becomes"
        yield Finding(
            field=group.disruption_mode_path,
            message=f'{written} "{_mode(group)}", and tier "{tier.name}" requires "{wanted}" of its gangs',
            fix=f"set disruptionMode to {{{wanted}: {{}}}}",
            seen=str(_mode(group)),
            limit=wanted,
        )


def _preemption_policy(facts: Facts, group: LeafGroup, tier: Tier) -> Iterator[Finding | Unresolved]:
    wanted = tier.requires.preemption_policy
    if wanted is None:
        return
    seen = group.preemption_policy
    field = group.path / "preemptionPolicy" if seen else group.priority_class_path
    if seen is None:
        looked = facts.surroundings.priority_class(group.priority_class_name or "")
        if looked.value is None:
            if looked.unknown:
                yield Unresolved(reason=f"the preemption policy of the class: {looked.unknown}", field=field)
            return
        seen = looked.value.preemption_policy or "PreemptLowerPriority"
    if seen != wanted:
        yield Finding(
            field=field,
            message=f'the preemption policy is "{seen}", and tier "{tier.name}" requires "{wanted}" of its gangs',
            fix=f'use a PriorityClass of the tier with preemptionPolicy "{wanted}"',
            seen=seen,
            limit=wanted,
        )


def _largest(group: LeafGroup, tier: Tier) -> Iterator[Finding]:
    limit = tier.requires.gang_pod_count_max
    seen = max(group.min_count or 0, (group.pod_count or 0) if group.pod_sets else 0)
    if limit is not None and seen > limit:
        yield Finding(
            field=group.pod_sets[0].pod_count_path if group.pod_sets else group.min_count_path,
            message=f'the gang has {plural(seen, "Pod")}, and tier "{tier.name}" allows {limit}: larger ones block the tier for others',
            fix=f"use at most {plural(limit, 'Pod')}, or a class of another tier",
            seen=seen,
            limit=limit,
            excess=seen - limit,
        )


def _checkpoint(facts: Facts, tier: Tier, *, may_be_long: bool) -> Iterator[Finding]:
    """may_be_long: every gang of the tier here is lost as a whole, and then WAS406 says it."""
    limit = tier.requires.checkpoint_interval_seconds_max
    if limit is None:
        return
    path = annotation_path(CHECKPOINT_INTERVAL)
    written = annotated_seconds(facts, CHECKPOINT_INTERVAL)
    if written is None or written.value is None:
        found = "is not written" if written is None else f'"{written.text}" {written.error}'
        yield Finding(
            field=path,
            message=f'{found}, and tier "{tier.name}" requires an interval of at most {limit} s: a preemption loses the work since the last checkpoint',
            fix=f'annotate the object with {CHECKPOINT_INTERVAL}, for example "{limit}s", and checkpoint that often',
            seen=None if written is None else written.text,
            limit=limit,
        )
    elif written.value > limit and not may_be_long:
        yield Finding(
            field=written.path,
            message=f'"{written.text}" is longer than tier "{tier.name}" allows ({limit} s): that much work may be lost',
            fix=f"checkpoint at least every {limit} s and say so, or use a class of another tier",
            seen=written.text,
            limit=limit,
            excess=int(written.value - limit),
        )


def _run_time(facts: Facts, tier: Tier) -> Iterator[Finding]:
    if not tier.requires.expected_run_time:
        return
    written = annotated_seconds(facts, EXPECTED_RUN_TIME)
    if written is not None and written.value is not None:
        return
    found = "is not written" if written is None else f'"{written.text}" {written.error}'
    yield Finding(
        field=annotation_path(EXPECTED_RUN_TIME),
        message=f'{found}, and tier "{tier.name}" requires an expected run time of its gangs',
        fix=f'annotate the object with {EXPECTED_RUN_TIME}, for example "6h"',
        seen=None if written is None else written.text,
    )
