"""A shared claim that ties more Pods to one node than it holds.

## What it checks
Pods that must run at the same time and reference one claim: the group's (equal name, resourceClaimName and
resourceClaimTemplateName), or a ResourceClaim by name. Where the claim can only be allocated devices of one node, all
Pods that reference it have to run on that node. Devices that several nodes reach, empty claims and Pods that do not
reference the claim are not bound.

## Why
A group's claim is one claim for all Pods, not one for each: 8 Pods share the one GPU. kube-scheduler 1.37 places the
first Pod, finds the next ones tied to its node, and tries the whole group again, for ever.

## Fields read
resourceClaims of group and Pods, the templates behind them, minCount, requests, anti-affinity; ResourceSlices, nodes

## Allowed
```yaml
# 8 Pods with 2 cpu each share one GPU: they fit a node with 96 cpu
```

## Denied
```yaml
# 8 Pods with 20 cpu each share one GPU of a node with 96 cpu
```

## Fix
Give each Pod a claim of its own: name the template in the Pods' resourceClaims only. Or ask for less in each Pod.

## References
pkg/scheduler/framework/plugins/dynamicresources (1.37.2), BindTo; cases R75, R87
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.rules._capacity import KINDS, Fault, faults
from webhook.rules._capacity_words import amount, end
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS507",
    name="shared-claim-pins-pods",
    summary="Pods that share a claim on one node's devices do not fit that node together",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.found is not None  # noqa: S101  made from a proof
        why = fault.found.explanation
        names, field = _claim_names(fault), _field(facts, fault)
        yield Finding(
            field=field,
            seen=str(why.needed),
            limit=str(why.holds),
            message=f'all {plural(fault.found.proof.needed, "Pod")} of gang "{fault.demand.name}" share one claim, '
            f"{quoted(names)}, on devices of one node, so all must run on that node; no node has room for more than "
            f"{why.any_node} {_such(fault, why.any_node)}; {end(fault)}",
            fix=_way_out(facts, field, why.any_node),
            at_most=fault.at_most,
            excess=fault.excess,
        )


def _such(fault: Fault, count: int) -> str:
    """``Pods with cpu: 24``: what one of them needs of the node."""
    noun = "Pod" if count == 1 else "Pods"
    pods = fault.demand.pods()
    if len(pods) != 1:
        return f"of these {noun}"
    if pods[0].apart:
        return f"{noun}, by their own anti-affinity"
    words = ", ".join(amount(name, number) for name, number in pods[0].request if name != "pods")
    return f"{noun} with {words}" if words else f"such {noun}"


def _way_out(facts: Facts, field: FieldPath, most: int) -> str:
    is_groups = any(claim.path == field for group in facts.plan.leaf_groups() for claim in group.claims)
    place = f"take out {field} and name" if is_groups else "name"
    fewer = f"run at most {plural(most, 'Pod')} or ask for less in each" if most else "ask for less in each Pod"
    return (
        f"for devices of their own {place} a ResourceClaimTemplate in the Pods' resourceClaims; to share them {fewer}"
    )


def _claim_names(fault: Fault) -> list[str]:
    """The claims that tie the Pods, by the name of their entry or of the ResourceClaim."""
    pins = {pin for pod in fault.demand.pods() for pin in pod.pins}
    return sorted({name or claim or "" for name, claim, _ in pins})


def _field(facts: Facts, fault: Fault) -> FieldPath:
    """The entry that makes the claim a shared one."""
    keys = {pin for pod in fault.demand.pods() for pin in pod.pins}
    for group in facts.plan.leaf_groups():
        for claim in group.claims:
            if claim.key in keys:
                return claim.path
    for pod_set in facts.plan.all_pod_sets():
        for claim in pod_set.claims:
            if claim.key in keys or ("", claim.resource_claim_name, None) in keys:
                return claim.path
    return fault.demand.root.path
