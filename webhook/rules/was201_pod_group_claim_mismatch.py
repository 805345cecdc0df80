"""Pod group claim mismatch.

## What it checks
A Pod's claim counts as the group's only if `name`, `resourceClaimName` and `resourceClaimTemplateName` are all equal
to one entry of the group's `resourceClaims`. This rule names claims that are almost equal: the same name with another
template or claim, a claim named where the group names a template, or the group's template under another name. The
group is the PodGroup that the Pods name, a Job's own `spec.scheduling`, or the Workload template that a child Job
delegates to.

## Why
A near miss is legal in 1.37 and nothing reports it. Each Pod gets a claim of its own, so a gang of 8 holds 8 devices
where one was meant, while the claim that was generated for the group is never allocated. It runs, so this is a policy
decision and no impossibility: baseline and strict deny it, staging-dry-run warns. A claim that shares neither name nor
source with the group's is the Pod's own business. A Pod that takes the group's claim exactly may have another one
from the same template.

Where the Pod names the same ResourceClaim object as the group, only its local name differs and no device is lost: that
warns at most.

## Fields read
The Pods' `resourceClaims`; the group's `resourceClaims`

## Allowed
```yaml
# PodGroup "train" has resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
kind: Pod
spec:
  schedulingGroup: {podGroupName: train}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
```

## Denied
```yaml
# PodGroup "train" has resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
kind: Pod
spec:
  schedulingGroup: {podGroupName: train}
  resourceClaims: [{name: gpus, resourceClaimTemplateName: one-gpu}]
```

## Fix
Copy the group's entry, all three fields. If a device for each Pod is meant, give the Pod's claim a name and a template
of its own.

## References
KEP-5729 (DRAWorkloadResourceClaims); k8s.io/dynamic-resource-allocation resourceclaim.BindTo of v0.37.2; case R76, R77
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.plan.model import PodSet
from webhook.rules._claims import CLAIM, CONSUMER_COUNT_MAX, TEMPLATE, NearMiss, compare, object_text, source
from webhook.rules._groups import POD_KINDS, GroupView, views
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS201",
    name="pod-group-claim-mismatch",
    summary="a Pod's claim is almost the group's, and so is a claim of the Pod's own",
    kinds=POD_KINDS,
    gate="DRAWorkloadResourceClaims",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    for leaf, looked in views(facts):
        users = [pod_set for pod_set in leaf.pod_sets if pod_set.claims]
        if users and looked.unknown is not None:
            yield Unresolved(field=leaf.path, reason=f"the group's claims are not known ({looked.unknown})")
        if looked.value is None:
            continue
        for pod_set in users:
            misses, _ = compare(pod_set.claims, looked.value.claims)
            yield from (_finding(miss, pod_set, looked.value) for miss in misses)


def _finding(miss: NearMiss, pod_set: PodSet, view: GroupView) -> Finding:
    pod_field, pod_source = source(miss.pod)
    group_field, group_source = source(miss.group)
    if miss.field == "name":
        message = f'claim "{miss.pod.name}" names {object_text(miss.pod)}, which {view.title} calls "{miss.group.name}"'
        fix = f'rename it to "{miss.group.name}" (in the containers, too)'
        seen, limit = miss.pod.name, miss.group.name
    else:
        message = (
            f'claim "{miss.pod.name}" names {object_text(miss.pod)}, but in {view.title} claim "{miss.group.name}" names '
            f"{object_text(miss.group)}"
        )
        fix = f'write {group_field}: "{group_source}"'
        seen, limit = pod_source, group_source
        if miss.is_swapped:
            fix += f" instead of {pod_field}"
            seen, limit = f"{pod_field}: {pod_source}", f"{group_field}: {group_source}"
    same_object = miss.field == "name" and pod_field == CLAIM
    return Finding(
        field=miss.pod.path / miss.field,
        message=f"{message}: only equal entries are one claim, so {_cost(pod_field, pod_set)}",
        fix=f"{fix}{_or_apart(miss, pod_field)}",
        seen=seen,
        limit=limit,
        at_most=Action.WARN if same_object else Action.DENY,
    )


def _cost(pod_field: str, pod_set: PodSet) -> str:
    if pod_field == TEMPLATE:
        count = pod_set.pod_count
        who = f"each of the {count} Pods gets" if count is not None and count > 1 else "each Pod gets"
        return f"{who} devices of its own and the group's stay unused"
    return f"each Pod reserves it for itself ({CONSUMER_COUNT_MAX} can at most)"


def _or_apart(miss: NearMiss, pod_field: str) -> str:
    """A claim is near by its name or by its source (_claims.compare)."""
    other = "another template" if miss.field == "name" else "another name"
    if pod_field == TEMPLATE:
        return f" to share the group's devices, or give the Pod's claim {other} for devices of its own"
    return ", or give the Pod's claim another name where another claim is meant"
