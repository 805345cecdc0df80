"""A writer that the policy does not allow.

## What it checks
Who creates or changes a Workload, PodGroup or CompositePodGroup, against the policy's `writers`. Not given means
everybody. Trusted controllers always may. Metadata may be changed by everybody, and so may a minCount be lowered.

## Why
The `edit` role of 1.37 lets every editor of a namespace write these objects. A PodGroup by hand can hold back or tear
apart the gang of a colleague, since any Pod may name any group. Where controllers write them all, people should not.
Lowering minCount stays open, since it is the only way out of a gang that waits for Pods that have finished.

## Fields read
`request.userInfo`; the spec, old and new.

## Allowed
```yaml
kind: PodGroup       # by a user, group or service account of writers.podGroups
spec: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
kind: PodGroup       # policy: writers: {podGroups: {groups: [platform]}}, by alice of the group tenants
spec: {schedulingPolicy: {gang: {minCount: 4}}}
```

## Fix
Have the controller of your workload write it (a Job's spec.scheduling, for example), or ask for the right.

## References
k8s.io/kubernetes v1.37.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy (edit may write podgroups and workloads).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.policy.model import Subjects
from webhook.rules._words import subject_words
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding, Unresolved

META = RuleMeta(
    id="WAS315",
    name="writer-not-allowed",
    summary="a Workload or group written by somebody whom the policy does not allow to",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    key, subjects = _writers(facts)
    requester = facts.requester
    if requester.trusted or facts.policy.subjects_hold(subjects, requester.username, requester.groups):
        return
    assert subjects is not None  # noqa: S101  no subjects hold for everybody
    if not requester.username:
        yield Unresolved(
            reason="who writes it: `muster review --as USER` says so", field=FieldPath.of("spec"), warn=True
        )
        return
    if facts.old_raw is not None and _harmless(facts, facts.old_raw):
        return
    yield Finding(
        field=FieldPath.of("spec"),
        message=(
            f'"{requester.username}" may not write a {facts.kind} here: the policy (writers.{key}) allows '
            f"{subject_words(subjects)}; who writes one decides when other people's Pods start"
        ),
        fix="have the workload's controller write it (a Job does by spec.scheduling), or ask for the right",
        seen=requester.username,
        limit=subject_words(subjects),
    )


def _writers(facts: Facts) -> tuple[str, Subjects | None]:
    writers = facts.policy.spec.writers
    if facts.kind == "Workload":
        return "workloads", writers.workloads
    if facts.kind == "PodGroup":
        return "podGroups", writers.pod_groups
    return "compositePodGroups", writers.composite_pod_groups


def _harmless(facts: Facts, old_raw: Mapping[str, Any]) -> bool:
    """An UPDATE of metadata only, or one that changes nothing in the spec but lowers minCounts."""
    if facts.raw.get("spec") == old_raw.get("spec"):
        return True
    new_counts: list[int] = []
    old_counts: list[int] = []
    new = _without_min_counts(facts.raw.get("spec"), new_counts)
    old = _without_min_counts(old_raw.get("spec"), old_counts)
    return (
        new == old
        and len(new_counts) == len(old_counts)
        and all(a <= b for a, b in zip(new_counts, old_counts, strict=True))
    )


def _without_min_counts(spec: Any, counts: list[int]) -> Any:
    """A copy in which every gang.minCount is taken out and noted in `counts`, in field order."""
    spec = copy.deepcopy(spec)
    stack = [spec]
    while stack:
        at = stack.pop()
        if not isinstance(at, dict):
            continue
        policy = at.get("schedulingPolicy")
        gang = policy.get("gang") if isinstance(policy, dict) else None
        if isinstance(gang, dict) and isinstance(gang.get("minCount"), int):
            counts.append(gang.pop("minCount"))
        for key in ("podGroupTemplates", "compositePodGroupTemplates"):
            items = at.get(key)
            stack.extend(items if isinstance(items, list) else ())
    return spec
