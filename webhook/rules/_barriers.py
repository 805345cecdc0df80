"""The application's barrier next to a gang: how many Pods it waits for, in the unit that the gang counts in."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.plan.annotations import PodRange
from webhook.plan.barrier import Barrier, BarrierKind, BarrierUnknown, read_barrier
from webhook.plan.model import PodSet
from webhook.rules._gangs import Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """barrier: as the application says it. units: Pod counts that one application may have here, the whole gang first.
    unit, pods: the first unit that the barrier fits, and the barrier in Pods read in that way; None if none fits.
    whole: the gang holds all Pods of the object, so that nothing else of it can belong to the application."""

    barrier: Barrier
    units: tuple[int, ...]
    unit: int | None
    pods: PodRange | None
    whole: bool


def waiting(facts: Facts, gang: Gang) -> Waiting | BarrierUnknown | None:
    """None where nothing is said, or how many Pods there are is not known, or there are none (a paused object)."""
    return facts.once(_waiting, gang)


def _waiting(facts: Facts, gang: Gang) -> Waiting | BarrierUnknown | None:
    barrier = read_barrier(gang.pod_sets, facts.metadata)
    if barrier is None or isinstance(barrier, BarrierUnknown):
        return barrier
    units = _units(gang)
    if not units:
        return None
    unit = next((unit for unit in units if barrier.reading_for(unit) is not None), None)
    pods = None if unit is None else barrier.reading_for(unit)
    whole = len(gang.pod_sets) == len(tuple(facts.plan.all_pod_sets()))
    return Waiting(barrier=barrier, units=units, unit=unit, pods=pods, whole=whole)


def needed_pods(facts: Facts, gang: Gang) -> tuple[PodRange, Barrier] | None:
    """The Pods that the application waits for, where it is plain that they are this gang's; else None."""
    found = waiting(facts, gang)
    if not isinstance(found, Waiting):
        return None
    wanted = range_of(found)
    return None if wanted is None else (wanted, found.barrier)


def range_of(found: Waiting) -> PodRange | None:
    """The Pods that the application runs with, where it is plain that they are this gang's.

    Where no reading fits the Pods there are, only a gang that is the whole object is plainly the application. One that
    needs more Pods than there are is WAS104's, a number that may count processes is WAS106's.
    """
    if found.pods is not None:
        return found.pods
    if not found.whole or (found.barrier.is_fixed and found.barrier.kind is not BarrierKind.PODS):
        return None
    return next((known for known in found.barrier.in_pods() if known.minimum <= found.units[0]), None)


def _units(gang: Gang) -> tuple[int, ...]:
    """A gang may hold several equal applications: each child Job of a role, each leader with its workers."""
    total = gang.group.pod_count
    if not total:
        return ()
    units = [total]
    for pod_set in gang.pod_sets:
        units += [count for count in (pod_set.pod_count, pod_set.ranks) if count]
    replicas = _common_replicas(gang.pod_sets)
    if replicas and total % replicas == 0:
        units.append(total // replicas)
    return tuple(dict.fromkeys(units))


def _common_replicas(pod_sets: tuple[PodSet, ...]) -> int | None:
    counts = {pod_set.replicas for pod_set in pod_sets}
    return counts.pop() if len(counts) == 1 else None
