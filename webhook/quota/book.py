"""The books of one TierQuota: what fits, what is reserved, what the leader's recount makes of it. Pure.

Every function takes a quota and gives a new one; whoever calls writes it by compare-and-swap, so each of these steps
happens to exactly the version that was read.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from webhook.quota.model import (
    GROUP_COUNT_MAX,
    HOLDER_COUNT_MAX,
    HOLDERS_PER_NAMESPACE,
    Holder,
    Join,
    OpenGroup,
    Reservation,
    TierQuota,
    most,
)
from webhook.quota.usage import GANGS, LARGEST_GANG, Amounts, Joining, add, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one validating call asks one tier for, to be reserved in every quota of the tier that selects it."""

    id: str
    uid: str
    kind: str
    namespace: str
    name: str
    amounts: Mapping[str, int]
    joining: tuple[Joining, ...] = ()
    generation: int = 0
    detached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why an order does not fit. asked: with what joining pays. For `largest-gang` nothing is in use."""

    quota: TierQuota
    resource: str
    limit: int
    in_use: int
    asked: int

    @property
    def missing(self) -> int:
        return self.asked - max(0, self.limit - self.in_use)

    @property
    def reserved_only(self) -> bool:
        """Would it fit beside what is counted? Then it is reservations that are in the way, and they settle or lapse."""
        used = 0 if self.resource == LARGEST_GANG else self.quota.used.get(self.resource, 0)
        return used + self.asked <= self.limit


def reserve(quota: TierQuota, order: Order) -> tuple[TierQuota, list[Shortfall]]:
    """(the quota with the order in its books, ()) or (the same quota, what is missing). An order that is in the books
    already, by its id, stays there once. What costs nothing here leaves the books as they are."""
    if order.id in quota.ids:
        return quota, []
    joins = tuple(_join(quota, joining) for joining in order.joining)
    total: Amounts = dict(order.amounts)
    for join in joins:
        add(total, join.pays)
    reservation = entry(quota, order, joins)
    found = shortfalls(quota, total, quota.changes.get(reservation.change, {}))
    if found:
        return quota, found
    if not any(total.get(name) for name in quota.hard if name != LARGEST_GANG) and not joins:
        return quota, []
    return quota.adding(reservation), []


def entry(quota: TierQuota, order: Order, joins: Iterable[Join] = ()) -> Reservation:
    """The order as it stands in the books of this quota: with what the quota limits."""
    return Reservation(
        id=order.id,
        uid=order.uid,
        kind=order.kind,
        namespace=order.namespace,
        name=order.name,
        generation=order.generation,
        amounts=_relevant(quota, order.amounts),
        joins=tuple(_relevant_join(quota, join) for join in joins),
        detached=order.detached,
    )


def shortfalls(quota: TierQuota, asked: Mapping[str, int], held: Mapping[str, int]) -> list[Shortfall]:
    """One for each name that does not fit, in the order of names. Asking for nothing always fits, also where the limit
    was lowered below what is in use (case R49). held: of what is in use, for the same change of the same object."""
    result = []
    for name in sorted(quota.hard):
        amount = asked.get(name, 0)
        in_use = 0 if name == LARGEST_GANG else quota.in_use(name) - held.get(name, 0)
        if amount > 0 and in_use + amount > quota.hard[name]:
            result.append(Shortfall(quota=quota, resource=name, limit=quota.hard[name], in_use=in_use, asked=amount))
    return result


def release(quota: TierQuota, ids: set[str]) -> TierQuota:
    """Without these reservations."""
    return quota.with_reservations(item for item in quota.reservations if item.id not in ids)


# ---- bare gangs -------------------------------------------------------------------------------------------------
def _join(quota: TierQuota, joining: Joining) -> Join:
    """The places of a bare gang that these Pods take. The first to come pays for minCount of them, at its own price; those
    who come next take what is paid for, as far as it lasts and is large enough."""
    pending = [join for item in quota.reservations for join in item.joins if join.group == joining.group_uid]
    record = next((group for group in quota.groups if group.uid == joining.group_uid), None)
    payer = next((join for join in pending if join.opens), None)
    if record is None and payer is None:
        places = max(joining.min_count, joining.pod_count)
        pays: Amounts = {}
        add(pays, joining.per_pod, places)
        add(pays, joining.once)
        return Join(
            group=joining.group_uid,
            slots=joining.pod_count,
            opens=places,
            per_pod=dict(joining.per_pod),
            pays=pays,
        )
    paid = sum(join.opens for join in pending) + (record.open if record is not None else 0)
    free = max(0, paid - sum(join.slots for join in pending))
    price = record.per_pod if record is not None and record.open else payer.per_pod if payer is not None else {}
    slots = min(free, joining.pod_count) if within(_relevant(quota, joining.per_pod), price) else 0
    pays = {}
    add(pays, joining.per_pod, joining.pod_count - slots)
    return Join(
        group=joining.group_uid,
        slots=slots,
        per_pod=dict(joining.per_pod),
        pays={name: number for name, number in pays.items() if number},
    )


def _relevant(quota: TierQuota, amounts: Mapping[str, int]) -> Amounts:
    return {name: amounts[name] for name in quota.hard if amounts.get(name) and name != LARGEST_GANG}


def _relevant_join(quota: TierQuota, join: Join) -> Join:
    return Join(
        group=join.group,
        slots=join.slots,
        opens=join.opens,
        per_pod=_relevant(quota, join.per_pod),
        pays=_relevant(quota, join.pays),
    )


# ---- the leader's recount ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What lives, in one tier and the namespaces of one quota: each holder once, with all that it is counted with, and
    the bare gangs with live members."""

    holders: Sequence[Holder]
    groups: Sequence[OpenGroup] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """quota: with the new books. settled, lapsed: the reservations that are out of them. drift: what lives beyond what
    was charged for, per name: objects that came in without Muster, or Pods beyond a plan (the surge of an update)."""

    quota: TierQuota
    settled: tuple[Reservation, ...]
    lapsed: tuple[Reservation, ...]
    drift: Mapping[str, int]


class Fate(enum.StrEnum):
    """What becomes of a reservation."""

    KEEP = "keep"
    SETTLED = "settled"  # its object is counted with the change, or was and is gone
    LAPSED = "lapsed"  # its object was never stored


def recounted(
    quota: TierQuota,
    counted: Counted,
    fate: Callable[[Reservation], Fate],
    leader: str,
    *,
    min_count: Callable[[str], int | None] = lambda _: None,
) -> Recount:
    """The books after a count. fate: of each reservation, decided on the same view as `counted`. min_count: of a bare gang."""
    used: Amounts = {}
    for holder in counted.holders:
        add(used, holder.amounts)
    used = {name: min(used.get(name, 0), most(name)) for name in quota.hard if name != LARGEST_GANG}
    live = {group.uid for group in counted.groups}
    out: dict[Fate, list[Reservation]] = {Fate.SETTLED: [], Fate.LAPSED: []}
    kept: dict[str, Reservation] = {}
    expected: Amounts = dict(quota.used)
    for reservation in quota.reservations:
        word = fate(reservation)
        if word is Fate.KEEP:
            kept[reservation.id] = _paid_by_group(reservation, live, expected)
            if reservation.is_advance:
                # What was charged from it may be seen before it is written down.
                add(expected, reservation.amounts)
            continue
        if word is Fate.SETTLED and reservation.detached:
            # Its entry stays, so that the next count knows it, and reserves nothing.
            kept[reservation.uid] = msgspec.structs.replace(reservation, amounts={}, joins=(), settled=True)
        if not reservation.settled:
            out[word].append(reservation)
            if word is Fate.SETTLED:
                add(expected, reservation.total)
    _settle_places(quota, kept, counted, min_count)
    drift = {name: used[name] - expected.get(name, 0) for name in used if used[name] > expected.get(name, 0)}
    new = replace(
        quota,
        used=used,
        reservations=tuple(kept.values()),
        # One that is left out is opened again by its next Pod, which asks for too much, never for too little.
        groups=tuple(_writable(quota, group) for group in counted.groups[:GROUP_COUNT_MAX]),
        holders=notable(quota, counted.holders),
        counted_scope=quota.scope,
        counted_by=leader,
        damage="",
    )
    return Recount(
        quota=new,
        settled=tuple(out[Fate.SETTLED]),
        lapsed=tuple(out[Fate.LAPSED]),
        drift=drift if quota.is_counted else {},
    )


def _paid_by_group(reservation: Reservation, live: set[str], expected: Amounts) -> Reservation:
    """A group with live members is in `used` whole, so who paid for its places in advance no longer has to."""
    joins = []
    for join in reservation.joins:
        if join.opens and join.group in live:
            add(expected, join.pays)
            join = Join(group=join.group, slots=join.slots, per_pod=join.per_pod)  # noqa: PLW2901
        joins.append(join)
    return msgspec.structs.replace(reservation, joins=tuple(joins))


def _settle_places(
    quota: TierQuota, kept: dict[str, Reservation], counted: Counted, min_count: Callable[[str], int | None]
) -> None:
    """Pods that took places of a gang have not paid for them. Where those places are gone by now, before such Pods are seen,
    they pay: all that had paid may be gone, or Pods that had paid for themselves may be counted in their place."""
    before = {group.uid: group.open for group in quota.groups}
    before |= {join.group: join.opens for item in quota.reservations for join in item.joins if join.opens}
    free = {group.uid: group.open for group in counted.groups}
    for item in kept.values():
        for join in item.joins:
            if join.opens:
                free[join.group] = free.get(join.group, 0) + join.opens
    for key, item in kept.items():
        joins = []
        for old in item.joins:
            join = old
            if old.group not in free:
                join = _opening(quota, old, min_count(old.group) or before.get(old.group, 0))
                free[old.group] = join.opens
            elif old.slots > free[old.group]:
                pays = dict(old.pays)
                add(pays, old.per_pod, old.slots - free[old.group])
                join = msgspec.structs.replace(old, slots=free[old.group], pays=pays)
            free[old.group] -= join.slots
            joins.append(join)
        if joins:
            kept[key] = msgspec.structs.replace(item, joins=tuple(joins))


def _opening(quota: TierQuota, join: Join, places: int) -> Join:
    """As if it had come first."""
    paid = (join.pays.get(name, 0) // price for name, price in join.per_pod.items() if price)
    pod_count = join.slots + max(paid, default=0)
    opens = max(places, pod_count)
    pays: Amounts = {}
    add(pays, join.per_pod, opens)
    if GANGS in quota.hard:
        pays[GANGS] = 1
    return msgspec.structs.replace(join, opens=opens, slots=pod_count, pays=pays)


def _writable(quota: TierQuota, group: OpenGroup) -> OpenGroup:
    per_pod = {name: min(number, most(name)) for name, number in _relevant(quota, group.per_pod).items()}
    return msgspec.structs.replace(group, per_pod=per_pod)


def notable(quota: TierQuota, holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """The holders to write down for texts: of each namespace the biggest, then of each the next, while there is room."""
    by_namespace: dict[str, list[Holder]] = {}
    for holder in holders:
        by_namespace.setdefault(holder.namespace, []).append(holder)
    rows = [_biggest(quota, by_namespace[namespace]) for namespace in sorted(by_namespace)]
    turns = (item for turn in itertools.zip_longest(*rows) for item in turn if item is not None)
    return tuple(
        msgspec.structs.replace(
            item,
            amounts={
                name: min(item.amounts[name], most(name)) for name in sorted(quota.hard) if item.amounts.get(name)
            },
        )
        for item in itertools.islice(turns, HOLDER_COUNT_MAX)
    )


def _biggest(quota: TierQuota, holders: Sequence[Holder]) -> list[Holder]:
    """Of one namespace, by each name in `hard`."""
    biggest: dict[str, Holder] = {}
    for name in quota.hard:
        ranked = sorted(
            (item for item in holders if item.amounts.get(name)),
            key=lambda item, name=name: (-item.amounts[name], item.kind, item.name),  # type: ignore[misc]
        )
        biggest |= {f"{item.kind}/{item.name}": item for item in ranked[:HOLDERS_PER_NAMESPACE]}
    return list(biggest.values())
