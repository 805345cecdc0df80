"""One Pod set against node classes: how many of its Pods one empty node of each class holds, and why none.

The masks and limits here are exact in the scheduler's terms (kubernetes-1.37 4.7, rows 3-11). `optimistic`: a resource
that a DeviceClass may serve where a node has none of it does not limit there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from webhook.feasibility.model import DeviceNeed, PodDemand, Requirement, Term
from webhook.feasibility.result import CauseKind
from webhook.feasibility.selectors import conflict
from webhook.inventory.snapshot import Snapshot, Taint
from webhook.inventory.tables import HOSTNAME, Bools, Classes, Ints

# More Pods than any node takes; keeps sums over any number of nodes far inside int64.
FIT_MAX = 2**31
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


def fit(pod: PodDemand, classes: Classes, snapshot: Snapshot, *, optimistic: bool) -> Ints:
    """int64 [class]: Pods of the set that one node holds, other sets aside."""
    limit = np.minimum(column(classes, "pods"), FIT_MAX)
    for name, amount in pod.request:
        limit = np.minimum(limit, _request_limit(pod, classes, snapshot, (name, amount), optimistic=optimistic))
    if pod.devices is not None:
        limit = np.minimum(limit, _need_limit(pod.devices, classes))
    if is_alone(pod):
        limit = np.minimum(limit, 1)
    elif HOSTNAME in pod.apart:
        limit = np.where(classes.no_hostname, limit, np.minimum(limit, 1))
    for mask in _masks(pod, classes):
        limit = limit * mask
    return limit


def is_alone(pod: PodDemand) -> bool:
    """Two Pods of the set never share a node: they ask for the same host port."""
    return bool(pod.ports)


def column(classes: Classes, resource: str) -> Ints:
    """int64 [class]: how much of a resource a node has; 0 where none does."""
    index = classes.base.resources.get(resource)
    return np.zeros(len(classes), dtype=np.int64) if index is None else classes.columns[index]


def resource_limit(classes: Classes, snapshot: Snapshot, name: str, amount: int, *, optimistic: bool) -> Ints:
    """int64 [class]: Pods by one resource alone."""
    if optimistic and is_mapped(snapshot, name):
        # Also where a high-water mark says that a plugin had some: today it may be the devices' to give.
        return np.full(len(classes), FIT_MAX, dtype=np.int64)
    return column(classes, name) // amount


def is_mapped(snapshot: Snapshot, resource: str) -> bool:
    """May a DeviceClass serve it where nodes have none (shouldDelegateResourceToDRA)?"""
    if not snapshot.mapped_resources and not resource.startswith(IMPLICIT_PREFIX):
        return False
    return resource.startswith(IMPLICIT_PREFIX) or snapshot.is_mapped(resource) is not None


def _request_limit(
    pod: PodDemand, classes: Classes, snapshot: Snapshot, item: tuple[str, int], *, optimistic: bool
) -> Ints:
    """As resource_limit; where a DeviceClass may serve the resource, what the devices give counts too."""
    needs = [need for name, need in pod.served if name == item[0]] if optimistic else []
    limit = resource_limit(classes, snapshot, *item, optimistic=optimistic and not needs)
    for need in needs:
        limit = np.maximum(limit, _need_limit(need, classes))
    return limit


def _need_limit(need: DeviceNeed, classes: Classes) -> Ints:
    """int64 [class]: Pods by their devices alone."""
    limits: Ints = need.limits(classes.base)
    return limits[classes.labels[need.key]]


def _masks(pod: PodDemand, classes: Classes) -> Iterator[Bools]:
    for key in pod.needed_keys:
        yield _has_label(key, classes)
    for requirement in pod.selector:
        yield _label_mask(requirement, classes)
    if pod.affinity is not None:
        yield affinity_mask(pod.affinity, classes)
    if pod.tolerations is not None and len(classes.base.taint_sets) > (() in classes.base.taint_sets):
        yield taint_mask(pod, classes)
    if pod.ports and len(classes.base.port_sets) > 1:
        yield ports_mask(pod, classes)


def _has_label(key: str, classes: Classes) -> Bools:
    return _label_mask(Requirement(key, "Exists"), classes)


def _label_mask(requirement: Requirement, classes: Classes) -> Bools:
    return classes.label_mask(requirement, requirement.key, requirement.holds)


def affinity_mask(terms: tuple[Term, ...], classes: Classes) -> Bools:
    """bool [class]: one of the terms holds; no term matches no node."""
    result = np.zeros(len(classes), dtype=np.bool_)
    for term in terms:
        mask = np.ones(len(classes), dtype=np.bool_)
        for requirement in term.labels + term.names:
            mask = mask & _label_mask(requirement, classes)
        result |= mask
    return result


def untolerated(pod: PodDemand, taints: tuple[Taint, ...]) -> Taint | None:
    """The first taint that keeps the Pod away; None if none does."""
    for taint in taints:
        if not any(one.tolerates(taint.key, taint.value, taint.effect) for one in pod.tolerations or ()):
            return taint
    return None


def taint_mask(pod: PodDemand, classes: Classes) -> Bools:
    """bool [class]: the Pod tolerates every taint."""
    return classes.set_mask(
        ("taints", pod.tolerations),
        classes.taint_set,
        lambda taints: untolerated(pod, taints) is None,
        classes.base.taint_sets,
    )


def ports_mask(pod: PodDemand, classes: Classes) -> Bools:
    """bool [class]: none of its host ports is taken by a Pod that runs there."""
    return classes.set_mask(
        ("ports", pod.ports), classes.port_set, lambda used: not conflict(pod.ports, used), classes.base.port_sets
    )


def causes(
    pod: PodDemand, classes: Classes, snapshot: Snapshot, *, optimistic: bool
) -> Iterator[tuple[CauseKind, str, Bools]]:
    """Every reason for which a class may hold no Pod of the set: kind, subject, and bool [class] where it does NOT
    stand in the way. In the order in which the scheduler's administrators look: labels, taints, ports, resources."""
    for key in pod.needed_keys:
        yield CauseKind.MISSING_LABEL, key, _has_label(key, classes)
    for requirement in pod.selector:
        yield CauseKind.SELECTOR, str(requirement), _label_mask(requirement, classes)
    if pod.affinity is not None:
        yield CauseKind.AFFINITY, "", affinity_mask(pod.affinity, classes)
    if pod.tolerations is not None:
        for taint in blocking_taints(pod, classes):
            free = np.array([taint not in taints for taints in classes.base.taint_sets], dtype=np.bool_)
            yield CauseKind.TAINT, str(taint), free[classes.taint_set]
    if pod.ports:
        yield CauseKind.PORTS, "", ports_mask(pod, classes)
    for name, amount in pod.request:
        limit = _request_limit(pod, classes, snapshot, (name, amount), optimistic=optimistic)
        yield CauseKind.RESOURCE, name, limit > 0
    if pod.devices is not None:
        yield CauseKind.DEVICES, "", _need_limit(pod.devices, classes) > 0
    yield CauseKind.PODS, "pods", column(classes, "pods") > 0


def blocking_taints(pod: PodDemand, classes: Classes) -> tuple[Taint, ...]:
    """Every taint of any node that the Pod does not tolerate, sorted."""
    found = {taint for taints in classes.base.taint_sets for taint in taints if untolerated(pod, (taint,)) is not None}
    return tuple(sorted(found))
