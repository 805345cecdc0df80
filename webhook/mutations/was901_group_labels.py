"""Labels that name a Pod's group and Workload.

## What it changes
A Pod that names a PodGroup gets the label `muster.dev/pod-group`, and, where the PodGroup is known and has a
workloadRef, `muster.dev/workload`. A name that is too long for a label value is cut and ended with a hash of the whole.

## Why
1.37 has no field selector and no label for a Pod's group: a watch, a dashboard or a cost report that wants the Pods of
one gang has to read them all. One value for each group, none for each Pod, so metrics by this label stay small.

## Left alone
Mirror Pods (the kubelet would see a difference and make them again).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.mutations.meta import Change, MutationMeta
from webhook.objects.fieldpath import METADATA

META = MutationMeta(
    id="WAS901",
    name="group-labels",
    summary="labels with the names of its PodGroup and Workload on each member Pod",
    kinds=frozenset({"Pod"}),
    gate="GenericWorkload",
)

POD_GROUP_LABEL = "muster.dev/pod-group"
WORKLOAD_LABEL = "muster.dev/workload"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

_VALUE_LENGTH_MAX = 63
_HASH_LENGTH = 8


def mutate(facts: Facts) -> Iterator[Change]:
    if facts.metadata.annotation(MIRROR_ANNOTATION) is not None:
        return
    for group in facts.plan.leaf_groups():
        if not group.name:
            continue
        yield _label(POD_GROUP_LABEL, group.name)
        pod_group = facts.surroundings.pod_group(facts.namespace, group.name).value
        reference = pod_group.spec.workload_ref if pod_group is not None else None
        if reference is not None and reference.workload_name:
            yield _label(WORKLOAD_LABEL, reference.workload_name)


def label_value(name: str) -> str:
    """The name, or what fits of it and 8 hex digits of its SHA-256. name: a DNS subdomain, so only length can be wrong."""
    if len(name) <= _VALUE_LENGTH_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    head = name[: _VALUE_LENGTH_MAX - _HASH_LENGTH - 1].rstrip("-.")
    return f"{head}-{digest}"


def _label(key: str, name: str) -> Change:
    value = label_value(name)
    return Change(path=METADATA / "labels" / key, value=value, note=f'metadata.labels: added {key} "{value}" [WAS901]')
