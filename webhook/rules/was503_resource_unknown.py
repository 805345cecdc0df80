"""A resource that no node has.

## What it checks
The extended resources and huge pages that Pods ask for, against what nodes have and had in the last days. A resource
that a DeviceClass may serve is left out. The text names the nearest resource that nodes have, and tells MIG slices and
time-sliced devices apart from whole ones.

Where nodes offer whole GPUs and MIG slices at the same time, it warns Pods that ask for whole ones: such nodes are
mixed, or their device plugin has not noticed yet that MIG was switched on.

## Why
A misspelled resource name is a legal one. kube-scheduler finds no node that has it, and the Pods stay Pending for ever.

## Fields read
`resources` of all containers and of the Pod; allocatable of the nodes

## Allowed
```yaml
resources: {limits: {nvidia.com/gpu: 8}}
```

## Denied
```yaml
resources: {limits: {nvidia.com/gpus: 8}}
```

## Fix
Correct the name. If it is right, ask whether the device plugin runs on the nodes.

## References
cases R105, R107, R109
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.facts.model import Facts
from webhook.inventory.snapshot import Snapshot
from webhook.inventory.tables import node_table, once
from webhook.objects.words import nearest
from webhook.rules._capacity import KINDS, faults
from webhook.rules._capacity_words import each_pod, end, request_path
from webhook.rules._names import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS503",
    name="resource-unknown",
    summary="the Pods ask for a resource that no node has",
    kinds=KINDS,
)

_GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
# What a resource was called before, or in vendors' old plugins.
_LEGACY = {"alpha.kubernetes.io/nvidia-gpu": _GPU, "nvidia/gpu": _GPU}


def check(facts: Facts) -> Iterator[Finding]:
    for fault in faults(facts, META.id):
        assert fault.pod is not None  # noqa: S101  faults of single Pods
        assert fault.cause is not None  # noqa: S101
        name = fault.cause.subject
        hint, fix = _advice(name, fault.cause.values)
        yield Finding(
            field=request_path(facts, fault.pod, name),
            seen=name,
            limit=None,
            message=f'{each_pod(facts, fault)} asks for "{name}", which no node has{hint}; {end(fault, of_capacity=False)}',
            fix=fix,
            at_most=fault.at_most,
            excess=fault.excess,
        )
    if facts.inventory is not None and not facts.requester.trusted:
        yield from _mixed(facts, facts.inventory)


def _advice(name: str, there: tuple[str, ...]) -> tuple[str, str]:
    """(what nodes have instead, what to do)."""
    slices = [one for one in there if one.startswith(_MIG)]
    if name == _GPU and slices:
        return (
            f": their GPUs are cut by MIG into {quoted(slices)}",
            f"ask for {quoted(slices)}, each a part of a GPU (count anew), or ask the admins for nodes with whole GPUs",
        )
    if f"{name}.shared" in there:
        shared = f"{name}.shared"
        return f': their devices are time-sliced as "{shared}"', f'ask for "{shared}", or for nodes with whole devices'
    near = _LEGACY.get(name) if _LEGACY.get(name) in there else nearest(name, there)
    if near:
        return f' (nearest: "{near}")', f'write "{near}"'
    devices = [one for one in there if "/" in one]
    has = f" (nodes have {quoted(devices)})" if devices else ""
    return has, "correct the name; if it is right, ask whether its device plugin has registered on the nodes"


def _mixed(facts: Facts, inventory: Snapshot) -> Iterator[Finding]:
    """Whole GPUs are asked for, and some nodes offer both."""
    for pod_set in facts.plan.all_pod_sets():
        for index, container in enumerate(pod_set.template.spec.containers or ()):
            if container.resources is None or _GPU not in (container.resources.limits or {}):
                continue
            both = once(inventory, "mixed-gpus", lambda: tuple(_mixed_nodes(inventory)))
            if both:
                yield Finding(
                    field=(pod_set.spec_path / "containers").at(index) / "resources" / "limits" / _GPU,
                    seen=_GPU,
                    limit=None,
                    message=f"nodes ({quoted(both)}) offer whole GPUs and MIG slices at once: "
                    f'where MIG was switched on lately, "{_GPU}" is stale and the Pods wait for GPUs that are not there',
                    fix="ask the admins whether these nodes are meant to be mixed, or ask for a MIG slice",
                    at_most=Action.WARN,
                    reason="whole GPUs and MIG slices mixed",
                )


def _mixed_nodes(inventory: Snapshot) -> Iterator[str]:
    def is_mixed(offer: Mapping[str, int]) -> bool:
        slices = any(amount for name, amount in offer.items() if name.startswith(_MIG))
        return slices and bool(offer.get(_GPU))

    nodes = node_table(inventory)
    return (nodes.names[row] for row in nodes.rows_that_offer(is_mixed))
