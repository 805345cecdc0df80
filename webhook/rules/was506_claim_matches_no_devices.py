"""A claim that the devices of no node satisfy.

## What it checks
Each ResourceClaim of the Pods (its requests, the selectors of the request and of its DeviceClass, matchAttribute,
counts and capacities) against the devices in the ResourceSlices. The text names the selector, number or attribute
after which nothing is left. It warns where a selector reads an attribute that no device has, and where all devices that
would do are tainted. Selectors outside the part of CEL that Muster evaluates count as satisfied, and so do claims of
drivers that publish devices on demand (`parameters.onDemandDrivers`) and DeviceClasses that do not exist yet.

## Why
kube-scheduler 1.37 accepts any claim and says "cannot allocate all claims" of each node, for ever. A selector that reads
an attribute which a device lacks is an error that stops the whole attempt.

## Fields read
resourceClaims of the Pods, the ResourceClaimTemplates and ResourceClaims behind them; ResourceSlices, DeviceClasses,
DeviceTaintRules

## Allowed
```yaml
requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 8}}]
```

## Denied
```yaml
requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 9}}]    # the largest node has 8
```

## Fix
Ask for what one node has; correct the selector.

## References
k8s.io/dynamic-resource-allocation structured/allocator.go (1.37.2); cases R89, R90; docs/decisions/0007
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.feasibility.devices import claim_words
from webhook.feasibility.devices_claims import Wanted
from webhook.feasibility.devices_explain import Gap, Shortage, gap, unheard_of
from webhook.inventory import tables
from webhook.inventory.snapshot import Question
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.plan.model import PlannedClaim
from webhook.rules._capacity import KINDS, Fault, faults
from webhook.rules._capacity_words import each_pod, end
from webhook.rules._claims import object_text
from webhook.rules._device_claims import device_inventory, fits_nowhere, taint_words, taints_of_all, wanted_claims
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS506",
    name="claim-matches-no-devices",
    summary="no node has the devices that a claim asks for",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    reported: set[FieldPath] = set()
    for fault in faults(facts, META.id):
        finding = _never(facts, fault)
        reported.add(finding.field)
        yield finding
    yield from _doubtful(facts, reported)


def _never(facts: Facts, fault: Fault) -> Finding:
    assert fault.pod is not None  # noqa: S101  faults of single Pods
    assert facts.inventory is not None  # noqa: S101
    claims = list(wanted_claims(facts, fault.pod))
    alone = next((found for found in claims if fits_nowhere(found[1], facts.inventory)), None)
    if alone is None:
        words = ", ".join(claim_words(claim) for _, claim in claims)
        where = "no node that it may go to has" if fault.cause and fault.cause.is_restricted else "no node has"
        field, seen = fault.pod.path / "resourceClaims", words
        text = f"{each_pod(facts, fault)} needs {words}, and {where} all of that"
        fix = "ask for less, or for devices that one node has together"
    else:
        planned, claim = alone
        field = planned.path
        whole, seen, change = _one_claim(facts, claim)
        fix = f"in {object_text(planned)} {change}"
        text = f"{_claim_title(planned)} of {each_pod(facts, fault)}: {whole}"
    return Finding(
        field=field,
        seen=seen,
        message=f"{text}; {end(fault)}",
        fix=fix,
        at_most=fault.at_most,
        excess=fault.excess,
    )


def _one_claim(facts: Facts, claim: Wanted) -> tuple[str, str, str]:
    """(what is wrong with it, what was seen, what to change)."""
    inventory = device_inventory(facts)
    assert inventory is not None  # noqa: S101  a fault of devices
    assert facts.inventory is not None  # noqa: S101
    found = gap(claim, inventory, tables.base(facts.inventory, Question.NEVER))
    text, fix = _words(found, claim)
    return text, found.subject or claim_words(claim), fix


def _claim_title(planned: PlannedClaim) -> str:
    return f'claim "{planned.name}" ({object_text(planned)})'


def _words(found: Gap, claim: Wanted) -> tuple[str, str]:
    request = f'request "{found.request}"'
    of_class = f'DeviceClass "{found.device_class}"'
    if found.shortage is Shortage.SELECTOR:
        values = f" ({'; '.join(found.values)})" if found.values else ""
        what = (
            f"the {plural(found.in_class, 'device')} of {of_class}" if found.in_class else f"all devices of {of_class}"
        )
        return f"selector {found.subject} of {request} leaves none of {what}{values}", "correct the selector"
    if found.shortage is Shortage.CLASS:
        return (
            f"{request} names {of_class}, which selects no device of this cluster",
            "name a DeviceClass that has devices",
        )
    if found.shortage is Shortage.CAPACITY:
        largest = f", and the largest has {found.values[0]}" if found.values else ""
        return f"{request} asks a device of {of_class} for {found.subject}{largest}", "ask for less capacity"
    if found.shortage is Shortage.COUNT:
        return (
            f"{request} asks for {plural(found.asked, 'device')} of {of_class} on one node, and the most that a node has is {found.most}",
            f"ask for at most {found.most} in one Pod" if found.most else "name a DeviceClass that has devices",
        )
    if found.shortage is Shortage.LIMIT:
        return (
            f"it asks for {plural(found.asked, 'device')}, and a claim holds at most {found.most}",
            "split it into several claims",
        )
    words = claim_words(claim)
    if found.shortage is Shortage.CONSTRAINT:
        fewer = f'ask for at most {found.most} in request "{found.request}"' if found.most else "ask for fewer"
        apart = f'take the constraint on "{found.subject}" out'
        if len(claim.constraints) == 1:
            apart += " (without it some nodes have them)"
        return f"it asks for {words}, and no node has that", f"{fewer}, or {apart}"
    return f"it asks for {words}, and no node has all of that", "ask for less in one Pod"


# ---- what only warns ----------------------------------------------------------------------------------------------
def _doubtful(facts: Facts, reported: set[FieldPath]) -> Iterator[Finding]:
    """Claims of which it is likely, not certain, that no device satisfies them."""
    inventory = device_inventory(facts)
    if inventory is None or facts.inventory is None or facts.requester.trusted:
        return
    for pod_set in facts.plan.all_pod_sets():
        for planned, claim in wanted_claims(facts, pod_set):
            if planned.path in reported:
                continue
            reported.add(planned.path)
            unknown = unheard_of(claim, inventory)
            where = _claim_title(planned)
            if unknown:
                yield Finding(
                    field=planned.path,
                    seen=unknown[0],
                    message=f"{where} reads {quoted(unknown)}, which no device has today; kube-scheduler 1.37 takes that "
                    "for an error on every device and leaves the Pods pending",
                    fix="correct the attribute's name, or guard it with has(...)",
                    at_most=Action.WARN,
                )
            elif not fits_nowhere(claim, facts.inventory):
                yield from _tainted(planned, where, [taint_words(one) for one in taints_of_all(claim, facts.inventory)])


def _tainted(planned: PlannedClaim, where: str, found: list[str]) -> Iterator[Finding]:
    if found:
        yield Finding(
            field=planned.path,
            seen=found[0],
            message=f"the devices for {where} are tainted on every node that is ready ({quoted(found)}); its Pods stay "
            "pending until the taint goes",
            fix="tolerate the taint in the request (under exactly), or wait until it is taken away",
            at_most=Action.WARN,
        )
