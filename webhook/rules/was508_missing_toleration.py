"""Nodes that would do are tainted, and the Pods do not tolerate it.

## What it checks
Whether the group has no place because of lasting taints (NoSchedule, NoExecute) that its Pods do not tolerate. Taints
that come and go by themselves (not ready, cordoned, pressure) do not count.

## Why
GPU nodes are commonly tainted, and a Pod without the toleration stays Pending for ever. In a template another admission
plugin (ExtendedResourceToleration, a RuntimeClass, a webhook) may still add the toleration, so this warns there, unless
the policy says `podMutators: none`. A bare Pod is judged after all of them have run, and denied.

## Fields read
`tolerations`; taints of the nodes

## Allowed
```yaml
tolerations: [{key: nvidia.com/gpu, operator: Exists}]
```

## Denied
```yaml
# a bare Pod; every node with GPUs has the taint nvidia.com/gpu=present:NoSchedule
resources: {limits: {nvidia.com/gpu: 8}}
```

## Fix
Add the toleration that the message names.

## References
pkg/scheduler/framework/plugins/tainttoleration (1.37.2); case R104
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.feasibility.result import CauseKind
from webhook.objects.fieldpath import FieldPath
from webhook.rules._capacity import KINDS, Fault, faults
from webhook.rules._capacity_words import end, story, way_out
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS508",
    name="missing-toleration",
    summary="the nodes that could take the Pods have taints that the Pods do not tolerate",
    kinds=KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        message, fix, taint = _words(facts, fault)
        yield Finding(
            field=_path(fault) / "tolerations",
            seen=taint,
            limit=None,
            message=f"{message}; {end(fault, of_capacity=False)}",
            fix=fix,
            at_most=fault.at_most,
            excess=fault.excess,
        )


def _path(fault: Fault) -> FieldPath:
    return fault.pod.path if fault.pod is not None else fault.demand.pods()[0].path


def _words(facts: Facts, fault: Fault) -> tuple[str, str, str]:
    """(message, fix, the taint)."""
    if fault.cause is not None:
        taints = ", ".join(fault.cause.values[:4])
        who, it = (
            (f'the Pod "{facts.name}"', "it does")
            if facts.kind == "Pod"
            else (f'the Pods of "{fault.demand.name}"', "they do")
        )
        message = f"every node that could take {who} has a taint that {it} not tolerate: {taints}"
        return message, f"add a toleration for {fault.cause.subject}", fault.cause.subject
    assert fault.found is not None  # noqa: S101  without a single Pod's cause it is the group's proof
    taints = ", ".join(one.subject for one in fault.found.explanation.excluded if one.kind is CauseKind.TAINT)
    return story(fault.found), way_out(fault, "add tolerations for the taints of these nodes"), taints
