"""Scheduler name mismatch.

## What it checks
All Pods of a group must have the same `schedulerName`. A bare Pod with another one than the Pods that are in the group
already is denied; Pod templates of one object that name the same group are compared with each other and warn.

## Why
A Pod for another scheduler is not seen by kube-scheduler while it is unbound: it does not count toward minCount, so a
gang of 8 with 7 Pods and one stranger waits for ever. Once the other scheduler has bound it, it fails the whole group
with SchedulerError. Whether a group of Pods that all name a foreign scheduler makes sense is WAS318's question.

Only Pods that name another scheduler than `default-scheduler` are compared with the group's other Pods, since that
needs a list of the namespace's Pods.

## Fields read
`schedulerName` of the Pod and of the Pods that name the same PodGroup

## Allowed
```yaml
# 7 Pods of PodGroup "train" have schedulerName: default-scheduler
spec:
  schedulingGroup: {podGroupName: train}
```

## Denied
```yaml
# 7 Pods of PodGroup "train" have schedulerName: default-scheduler
spec:
  schedulingGroup: {podGroupName: train}
  schedulerName: volcano
```

## Fix
Give the Pod the scheduler of the others, or leave the group.

## References
pkg/scheduler/schedule_one_podgroup.go, validatePodGroup, of 1.37.2; case R66
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.words import plural
from webhook.plan.model import PodSet
from webhook.rules._groups import joined_groups
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS212",
    name="scheduler-name-mismatch",
    summary="Pods of one group name different schedulers",
    kinds=frozenset({"Pod", "JobSet", "LeaderWorkerSet"}),
    gate="GenericWorkload",
)

_DEFAULT = "default-scheduler"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for leaf, name in joined_groups(facts):
        if isinstance(facts.obj, core.Pod):
            yield from _bare_pod(facts, facts.obj, name)
        else:
            yield from _templates(facts, leaf.pod_sets, name)


def _bare_pod(facts: Facts, pod: core.Pod, group_name: str) -> Iterator[Finding | Unresolved]:
    own = _scheduler(pod.spec)
    if own == _DEFAULT or facts.requester.trusted:
        return
    path = SPEC / "schedulerName"
    listed = facts.surroundings.pods(facts.namespace)
    if listed.value is None:
        yield Unresolved(field=path, reason=f'which Pods are in PodGroup "{group_name}": {listed.unknown}')
        return
    others = [_scheduler(other.spec) for other in listed.value if _is_member(other, group_name, facts.name)]
    if not others or own in others:
        return
    yield Finding(
        field=path,
        message=(
            f'is "{own}", and {quoted(others)} for the {plural(len(others), "other Pod")} of PodGroup "{group_name}": '
            f"{_why(facts, own)}"
        ),
        fix=f'write schedulerName: "{min(others)}", or leave schedulingGroup out',
        seen=own,
        limit=sorted(set(others)),
    )


def _is_member(pod: core.Pod, group_name: str, own_name: str) -> bool:
    group = pod.spec.scheduling_group
    ended = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
    return group is not None and group.pod_group_name == group_name and not ended and pod.metadata.name != own_name


def _why(facts: Facts, name: str) -> str:
    """What becomes of a Pod that differs: kube-scheduler sees those of its own profiles at once."""
    if facts.policy.knows_scheduler(name):
        return "one Pod that differs fails the whole group with SchedulerError"
    return f'Pods of "{name}" do not count toward minCount and, once bound, fail the whole group'


def _templates(facts: Facts, pod_sets: tuple[PodSet, ...], group_name: str) -> Iterator[Finding]:
    """Warns: where the others alone reach minCount the group may start before the stranger is bound."""
    first = pod_sets[0]
    limit = _scheduler(first.template.spec)
    for pod_set in pod_sets[1:]:
        own = _scheduler(pod_set.template.spec)
        if own != limit:
            yield Finding(
                field=pod_set.spec_path / "schedulerName",
                message=(
                    f'is "{own}", and "{limit}" for "{first.role}" of the same PodGroup "{group_name}": '
                    f"{_why(facts, own if limit == _DEFAULT else limit)}"
                ),
                fix="give all Pods one schedulerName",
                seen=own,
                limit=limit,
                at_most=Action.WARN,
            )


def _scheduler(spec: core.PodSpec) -> str:
    return spec.scheduler_name or _DEFAULT
