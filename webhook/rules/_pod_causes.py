"""Why not even one Pod of a set fits any node: the one cause that explains it, most telling first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from webhook.feasibility.bounds import label_keys
from webhook.feasibility.model import Part, PodDemand, Requirement, as_int64
from webhook.feasibility.nodefit import affinity_mask, blocking_taints, column, fit, is_mapped
from webhook.inventory import tables
from webhook.inventory.snapshot import Question, Snapshot
from webhook.inventory.tables import Bools, Classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """rule: who explains it. subject: the resource, the label key, or the taint; "" for several at once.

    asked, largest: amounts in the scheduler's units, of the nodes that the Pod may go to. text: the requirement as
    written. values: what nodes have instead (label values, resource names), sorted.
    """

    rule: str
    subject: str = ""
    asked: int = 0
    largest: int = 0
    text: str = ""
    values: tuple[str, ...] = ()
    is_restricted: bool = False


def diagnose(pod: PodDemand, snapshot: Snapshot) -> Cause:
    """The cause for a set that fits nowhere."""
    classes = tables.classes(snapshot, Question.NEVER, label_keys((pod,)))
    names = classes.base.resources
    for name, _ in pod.request:
        if not _largest(classes, name) and not is_mapped(snapshot, name) and name not in ("cpu", "memory"):
            return Cause(rule="WAS503", subject=name, values=tuple(sorted(n for n in names if _largest(classes, n))))
    everywhere = np.ones(len(classes), dtype=np.bool_)
    if pod.devices is not None and not pod.devices.limits(classes.base).any():
        return Cause(rule="WAS506")
    return (
        _too_large(pod, classes, snapshot, everywhere, is_restricted=False)
        or _no_such_label(pod, classes)
        or _tainted(pod, classes, snapshot)
        or _too_large(pod, classes, snapshot, _labels(pod, classes), is_restricted=True)
        or (Cause(rule="WAS506", is_restricted=True) if pod.devices is not None else Cause(rule="WAS504"))
    )


def _largest(classes: Classes, name: str, where: Bools | None = None) -> int:
    have = column(classes, name)
    return int((have if where is None else have[where]).max(initial=0))


def _too_large(
    pod: PodDemand, classes: Classes, snapshot: Snapshot, where: Bools, *, is_restricted: bool
) -> Cause | None:
    for name, amount in (*pod.request, ("pods", 1)):
        largest = _largest(classes, name, where)
        served = [need.device_count_max(classes.base) for resource, need in pod.served if resource == name]
        largest = max(largest, *served) if served else largest
        if largest < amount and (served or not is_mapped(snapshot, name)):
            return Cause(rule="WAS504", subject=name, asked=amount, largest=largest, is_restricted=is_restricted)
    return None


# ---- labels -------------------------------------------------------------------------------------------------------
def _labels(pod: PodDemand, classes: Classes) -> Bools:
    """bool [class]: the labels let the Pod in."""
    result = np.ones(len(classes), dtype=np.bool_)
    for requirement in _fixed(pod):
        result &= _mask(requirement, classes)
    return result if pod.affinity is None else result & affinity_mask(pod.affinity, classes)


def _fixed(pod: PodDemand) -> tuple[Requirement, ...]:
    return (*pod.selector, *(Requirement(key, "Exists") for key in pod.needed_keys))


def _mask(requirement: Requirement, classes: Classes) -> Bools:
    return classes.label_mask(requirement, requirement.key, requirement.holds)


def _no_such_label(pod: PodDemand, classes: Classes) -> Cause | None:
    """A requirement that no node meets; or all of them together, which no node meets at once."""
    if _labels(pod, classes).any():
        return None
    alone = [one for one in _fixed(pod) if not _mask(one, classes).any()]
    if not alone and pod.affinity is not None and not affinity_mask(pod.affinity, classes).any():
        terms = [one for term in pod.affinity for one in term.labels + term.names]
        alone = [one for one in terms if not _mask(one, classes).any()]
        if not alone:
            return Cause(rule="WAS505", text="its required node affinity")
    if not alone:
        return Cause(rule="WAS505", text="all that its selectors ask at once")
    first = alone[0]
    name = "metadata.name" if first.key == tables.NAME_KEY else first.key
    return Cause(
        rule="WAS505", subject=name, text=_words(first), values=tuple(sorted(classes.base.label(first.key)[1]))
    )


def _words(requirement: Requirement) -> str:
    return str(requirement).replace(tables.NAME_KEY, "metadata.name")


# ---- taints -------------------------------------------------------------------------------------------------------
def _tainted(pod: PodDemand, classes: Classes, snapshot: Snapshot) -> Cause | None:
    """All nodes that would do are tainted."""
    if pod.tolerations is None:
        return None
    would_do = fit(pod.without(frozenset({Part.TAINTS})), classes, snapshot, optimistic=True) > 0
    if not would_do.any():
        return None
    there = {taint for index in np.flatnonzero(would_do) for taint in classes.base.taint_sets[classes.taint_set[index]]}
    blocking = [taint for taint in blocking_taints(pod, classes) if taint in there]
    return Cause(rule="WAS508", subject=str(blocking[0]), values=tuple(str(taint) for taint in blocking))


# ---- contradictions -----------------------------------------------------------------------------------------------
def contradiction(pod: PodDemand) -> Cause | None:
    """Requirements that no node can meet, whatever its labels are; None where some node could."""
    wrong = _clash(_fixed(pod))
    if wrong:
        return Cause(rule="WAS512", text=wrong)
    if pod.affinity is None:
        return None
    clashes = [_clash((*_fixed(pod), *term.labels, *term.names)) for term in pod.affinity]
    if not clashes:
        return Cause(rule="WAS512", text="its required node affinity has no term that can match a node")
    return Cause(rule="WAS512", text=str(clashes[0])) if all(clashes) else None


def _clash(requirements: Iterable[Requirement]) -> str | None:
    """The two (or one) requirements on one key that exclude each other; None if they do not."""
    by_key: dict[str, list[Requirement]] = {}
    for one in dict.fromkeys(requirements):
        by_key.setdefault(one.key, []).append(one)
    for group in by_key.values():
        if not _can_hold(group):
            return " and ".join(sorted(_words(one) for one in group)) + " exclude each other"
    return None


def _can_hold(group: list[Requirement]) -> bool:
    """May one label meet all of these requirements? True where it is not clear."""
    if all(one.holds(None) for one in group):
        return True
    listed = [one for one in group if one.operator == "In"]
    if listed:
        return any(all(one.holds(value) for one in group) for value in listed[0].values)
    if any(one.operator == "DoesNotExist" for one in group):
        return False
    above = [as_int64(one.values[0]) for one in group if one.operator == "Gt" and one.values]
    below = [as_int64(one.values[0]) for one in group if one.operator == "Lt" and one.values]
    low = max((number for number in above if number is not None), default=None)
    high = min((number for number in below if number is not None), default=None)
    # Between two numbers there has to be a third; NotIn may forbid it, which is left aside.
    return low is None or high is None or high - low >= 2
