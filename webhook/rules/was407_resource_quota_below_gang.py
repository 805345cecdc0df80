"""A ResourceQuota that is smaller than the gang.

## What it checks
A Job's gang: minCount Pods, by their effective requests, against each ResourceQuota of the namespace whose scopes apply
to them. More than `hard` is denied; more than what is left of it now only warns.

## Why
ResourceQuota admits Pods one by one. If fewer than minCount may exist at the same time, the API server creates some of
them and refuses the rest, and kube-scheduler waits for the gang for ever; two such gangs block each other. An edit of
the quota heals it, so the text names the quota. The scope `Terminating` is about the Pod's own `activeDeadlineSeconds`,
not the Job's and not Pods that are being deleted.

## Fields read
`minCount`, the requests of the Pod template, its `activeDeadlineSeconds` and `priorityClassName`; `spec` and `status`
of the namespace's ResourceQuotas. Limits in `hard` (`limits.cpu`) are not read.

## Allowed
```yaml
kind: Job            # quota: hard: {requests.nvidia.com/gpu: 8}
spec:
  parallelism: 8
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}
```

## Denied
```yaml
kind: Job            # quota: hard: {requests.nvidia.com/gpu: 4}
spec:
  parallelism: 8
  scheduling: {schedulingPolicy: {gang: {}}}
  template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}
```

## Fix
Lower minCount or the request, or have the quota raised.

## References
k8s.io/kubernetes v1.37.2 pkg/quota/v1/evaluator/core/pods.go; apiserver plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.quantity import Quantity, QuantityError, text_of
from webhook.objects.words import plural
from webhook.plan.model import GroupOrigin, LeafGroup, PodSet, PolicyKind
from webhook.plan.requests import effective_request
from webhook.rules._jobs import may_adopt
from webhook.rules._pod_quotas import Match, counts, depends_on_class, usage
from webhook.rules._priorities import class_of, pod_cap
from webhook.rules._schedulers import scheduler_cap, unless
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS407",
    name="resource-quota-below-gang",
    summary="a gang that needs more at the same time than a ResourceQuota of its namespace allows",
    kinds=frozenset({"Job"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for group in facts.plan.leaf_groups():
        if group.origin is not GroupOrigin.CONTROLLER or group.policy is not PolicyKind.GANG:
            continue
        if group.min_count is None or len(group.pod_sets) != 1:
            continue
        looked = facts.surroundings.resource_quotas(facts.namespace)
        if looked.value is None:
            yield Unresolved(reason=f"the ResourceQuotas of the namespace: {looked.unknown}")
            return
        for quota in sorted(looked.value, key=lambda item: item.metadata.name):
            yield from _against(facts, group, group.pod_sets[0], quota)


def _against(facts: Facts, group: LeafGroup, pod_set: PodSet, quota: core.ResourceQuota) -> Iterator[Finding]:
    spec = pod_set.template.spec
    match = counts(quota.spec, spec, _class_name(facts, spec))
    if match is Match.NO:
        return
    if depends_on_class(quota.spec) and not spec.priority_class_name:
        match = Match.MAYBE  # other admission may still give the Pods a class
    cap = _cap(facts, pod_set, match)
    assert group.min_count is not None  # noqa: S101  checked by the caller
    per_pod = usage(effective_request(spec, pod_set.spec_path).amounts)
    hard = _read(quota.spec.hard)
    used = _read(quota.status.used if quota.status else None)
    for name in sorted(hard.keys() & per_pod.keys()):
        need = per_pod[name] * group.min_count
        left = hard[name] - used.get(name, Quantity(0))
        if need > hard[name]:
            wait = "may wait" if pod_set.suspended else "wait"
            effect = f"only some of the Pods are made, and they {wait} for the rest for ever{unless(facts, [pod_set])}"
            has = f"allows {_text(name, hard[name])}: {effect}"
            yield _finding(group, quota, name, (per_pod[name], hard[name]), has=has, at_most=cap)
        elif need > left and facts.old is None and name != "count/pods":
            left = max(left, Quantity(0))
            effect = "until that is free, only some of the Pods are made, and they wait for the rest"
            has = f"has {_text(name, left)} left: {effect}"
            yield _finding(group, quota, name, (per_pod[name], left), has=has, at_most=Action.WARN)


def _class_name(facts: Facts, spec: core.PodSpec) -> str | None:
    """A class that is not written may be the global default's, or filled in by other admission."""
    if spec.priority_class_name:
        return spec.priority_class_name
    looked = class_of(facts, None)
    return None if looked.value is None else looked.value.metadata.name


def _cap(facts: Facts, pod_set: PodSet, match: Match) -> Action:
    """Proven only where the quota surely counts the Pods and nothing makes their requests smaller on the way."""
    if match is not Match.YES or pod_set.suspended or may_adopt(facts):
        return Action.WARN  # a suspended Job's requests may be rewritten before it is resumed
    if scheduler_cap(facts, [pod_set]) is Action.WARN:
        return Action.WARN  # who knows no gangs starts those Pods that the quota lets in
    return pod_cap(facts, "containers", written=True)


def _read(amounts: core.ResourceList | None) -> Mapping[str, Quantity]:
    """What cannot be read is no limit: the API server does not store it either."""
    result: dict[str, Quantity] = {}
    for name, raw in (amounts or {}).items():
        try:
            result[name] = Quantity.parse(raw)
        except QuantityError:
            continue
    return result


def _text(name: str, amount: Quantity) -> str:
    return text_of(name.removeprefix("requests."), amount)


def _finding(
    group: LeafGroup,
    quota: core.ResourceQuota,
    name: str,
    amounts: tuple[Quantity, Quantity],
    *,
    has: str,
    at_most: Action,
) -> Finding:
    """amounts: what one Pod needs, and what there is. has: the quota's side of it, in words."""
    assert group.min_count is not None  # noqa: S101  checked by the caller
    per_pod, limit = amounts
    need = per_pod * group.min_count
    of_each = "" if name in ("pods", "count/pods") else f" ({_text(name, per_pod)} each)"
    return Finding(
        field=group.min_count_path,
        message=(
            f'starting {plural(group.min_count, "Pod")} at once takes {_text(name, need)} "{name}"{of_each}, and ResourceQuota '
            f'"{quota.metadata.name}" {has}'
        ),
        fix="lower minCount or the request, or have the quota raised",
        seen=_text(name, need),
        limit=_text(name, limit),
        at_most=at_most,
        excess=(need - limit).milli_value(),
    )
