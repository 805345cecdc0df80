"""A Kueue queue and a native gang on one object.

## What it checks
The label `kueue.x-k8s.io/queue-name` on an object that also asks for a native gang (`spec.scheduling` with gang, or a
`schedulingGroup`); in particular Kueue's topology annotations beside a native topology constraint, and
`kueue.x-k8s.io/job-min-parallelism` below an explicit minCount.

## Why
Two mechanisms then decide when the Pods start. Kueue admits the whole object by quota and may choose the nodes; after
that kube-scheduler waits for minCount and chooses a domain of its own. If Kueue's nodes are not in the domain that
kube-scheduler wants, the gang waits for ever while its quota is charged; if Kueue admits the Job with less parallelism
than minCount, the API server refuses the resume. Often it works, so this warns.

## Fields read
Labels and annotations of the object, annotations of its Pod templates; the groups of the object.

## Allowed
```yaml
kind: Job
metadata: {labels: {kueue.x-k8s.io/queue-name: default}}   # without spec.scheduling
```

## Denied
```yaml
kind: Job
metadata: {labels: {kueue.x-k8s.io/queue-name: default}}
spec: {scheduling: {schedulingPolicy: {gang: {}}}}
```

## Fix
Leave the gang to one of the two: drop the label, or set `schedulingPolicy: {basic: {}}`.

## References
Kueue labels and annotations (apis/kueue, queue-name, podset-required-topology, job-min-parallelism).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.facts.use import is_own_word
from webhook.objects.fieldpath import METADATA
from webhook.plan.model import GroupOrigin, LeafGroup, PolicyKind
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS317",
    name="kueue-and-native",
    summary="a Kueue queue and a native gang on one object: two mechanisms decide when its Pods start",
    kinds=frozenset({"Pod", "Job", "JobSet", "LeaderWorkerSet", "Deployment", "StatefulSet"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)

QUEUE = "kueue.x-k8s.io/queue-name"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
TOPOLOGIES = tuple(f"kueue.x-k8s.io/podset-{word}-topology" for word in ("required", "preferred"))


def check(facts: Facts) -> Iterator[Finding]:
    queue = (facts.metadata.labels or {}).get(QUEUE)
    groups = [group for group in facts.plan.leaf_groups() if is_own_word(group)]
    if not queue or not groups or facts.requester.trusted:
        return
    findings = [finding for group in groups for finding in (*_topology(group), *_partial(facts, group))]
    if findings:
        yield from findings
        return
    gangs = [group for group in groups if group.policy is not PolicyKind.BASIC]
    if gangs:
        yield Finding(
            field=gangs[0].path,
            message=(
                f'kube-scheduler holds Pods that Kueue queue "{queue}" has let in, with quota charged, back until minCount of '
                "them fit"
            ),
            fix=f"keep one: {_without_gang(gangs[0])}, or drop label {QUEUE}",
            seen=queue,
        )


def _without_gang(group: LeafGroup) -> str:
    return "drop schedulingGroup" if group.origin is GroupOrigin.REFERENCED else "write schedulingPolicy: {basic: {}}"


def _topology(group: LeafGroup) -> Iterator[Finding]:
    if group.topology_path is None:
        return
    for pod_set in group.pod_sets:
        annotations = pod_set.template.metadata.annotations or {}
        for key in TOPOLOGIES:
            if key in annotations:
                yield Finding(
                    field=pod_set.path / "metadata" / "annotations" / key,
                    message=(
                        f'has Kueue place the Pods by "{annotations[key]}", and kube-scheduler by '
                        f'"{group.topology_key}": where they differ the gang never starts'
                    ),
                    fix="keep one of the two",
                    seen=annotations[key],
                    limit=group.topology_key,
                )


def _partial(facts: Facts, group: LeafGroup) -> Iterator[Finding]:
    word = facts.metadata.annotation(MIN_PARALLELISM)
    if word is None or not word.isdecimal() or not group.min_count_explicit or group.min_count is None:
        return
    if group.min_count > int(word):
        yield Finding(
            field=METADATA / "annotations" / MIN_PARALLELISM,
            message=(
                f"lets Kueue lower parallelism to {int(word)}, below minCount {group.min_count}, which the API server "
                "refuses: then the Job stays suspended"
            ),
            fix=f"leave minCount out, so that it follows parallelism, or raise this to {group.min_count}",
            seen=int(word),
            limit=group.min_count,
        )
