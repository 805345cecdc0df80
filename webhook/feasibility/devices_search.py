"""Exact answers for one node: is there an allocation for k Pods? A bounded search over kinds of devices, not devices.

It mirrors the scheduler's allocator (structured allocator, v0.37.2) but for the order: that one is greedy from Pod to
Pod, this one looks for any arrangement. What failed is remembered by what was left, so equal devices cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.feasibility.cel import Truth
from webhook.feasibility.devices_bounds import ENDLESS, Offer, truth
from webhook.feasibility.devices_claims import ALL, DEVICES_PER_CLAIM_MAX, Alternative, Constraint, Wanted
from webhook.inventory.devices import Key, Tagged

# About 0.1 s on one core for a stock nobody has asked about before; kept with the snapshot afterwards.
_BUDGET_UNITS = 20_000
_PODS_MAX = 64

Counts = tuple[int, ...]
# The values that all devices of a constraint have in common so far; None before the first.
Common = tuple[frozenset[Tagged] | None, ...]


class _UsedUpError(Exception):
    """The budget is used up."""


@dataclass(frozen=True, slots=True)
class Most:
    """pod_count: an upper bound. is_exact: there is an allocation for that many."""

    pod_count: int
    is_exact: bool


def solve(offer: Offer) -> Most:
    """The bound, tightened by search where everything about the stock and the claims is known."""
    bound = offer.most()
    if bound == 0:
        return Most(0, True)
    if any(constraint.is_distinct for claim in (*offer.own, *offer.shared) for constraint in claim.constraints):
        # The search knows no distinctAttribute; without it there is room for as many, or more.
        loose = Offer(_without_distinct(offer.own), _without_distinct(offer.shared), offer.stock, offer.question)
        return Most(min(bound, solve(loose).pod_count), False)
    if not is_known(offer):
        return Most(bound, False)
    search = _Search(offer)
    if bound >= ENDLESS:
        return Most(bound, _is_unlimited(offer) and search.holds(1) is True)
    most = bound
    while most and most <= _PODS_MAX:
        found = search.holds(most)
        if found:
            return Most(most, True)
        if found is None:
            return Most(most, False)
        most -= 1
    return Most(most, most == 0)


def is_known(offer: Offer) -> bool:
    """Does the stock answer every question of these claims with certainty?"""
    claims = (*offer.own, *offer.shared)
    if offer.stock.is_open or any(claim.doubts for claim in claims):
        return False
    if sum(len(claim.requests) for claim in claims) > 1 and any(asked.is_admin for asked in offer.asked.values()):
        return False  # within one Pod, admin access and other requests keep each other from a device, by their order
    everything = (1 << len(offer.stock.kinds)) - 1
    for asked in offer.asked.values():
        if asked.is_open or asked.sure != everything:
            return False
        if asked.is_all and offer.stock.has_allocated:
            return False
        for index, kind in enumerate(offer.stock.kinds):
            if asked.mask >> index & 1 and (kind.is_former or (kind.shape.is_multiple and kind.shape.capacities)):
                return False
    # A value that cannot be read, on a device that a constraint is about.
    return all(values is not None for kind in offer.stock.kinds for values in kind.values.values())


def _without_distinct(claims: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
    return tuple(
        replace(claim, constraints=tuple(one for one in claim.constraints if not one.is_distinct)) for claim in claims
    )


def _is_unlimited(offer: Offer) -> bool:
    """Own requests that use nothing up: admin access, or devices that any number of claims may share."""
    for claim in offer.own:
        for request in claim.requests:
            asked = offer.asked[request]
            kinds = [kind for index, kind in enumerate(offer.stock.kinds) if asked.mask >> index & 1]
            if not asked.is_admin and not all(kind.shape.is_multiple for kind in kinds):
                return False
    return True


@dataclass(slots=True)
class _Search:
    offer: Offer
    left: int = _BUDGET_UNITS
    failed: set[tuple[int, Counts]] = field(default_factory=set)
    matches: dict[Alternative, tuple[int, ...]] = field(default_factory=dict)

    def holds(self, pod_count: int) -> bool | None:
        """Is there an allocation for so many Pods? None: the budget is used up."""
        claims = [*self.offer.shared, *(claim for _ in range(pod_count) for claim in self.offer.own)]
        self.failed = set()
        try:
            return self._place(claims, 0, tuple(kind.count for kind in self.offer.stock.kinds))
        except (_UsedUpError, RecursionError):
            return None

    def _place(self, claims: list[Wanted], position: int, counts: Counts) -> bool:
        if position == len(claims):
            return True
        if (position, counts) in self.failed:
            return False
        tried: set[Counts] = set()
        for after in self._requests(claims[position], 0, counts, (None,) * len(claims[position].constraints), 0):
            if after not in tried:
                tried.add(after)
                if self._place(claims, position + 1, after):
                    return True
        self.failed.add((position, counts))
        return False

    def _requests(self, claim: Wanted, index: int, counts: Counts, common: Common, taken: int) -> Iterator[Counts]:
        """What is left after each allocation of the claim's requests from `index` on."""
        if index == len(claim.requests):
            yield counts
            return
        request = claim.requests[index]
        for one in request.alternatives:
            count = self._count(one)
            if count and taken + count <= DEVICES_PER_CLAIM_MAX:
                bound = [i for i, constraint in enumerate(claim.constraints) if constraint.meets(request, one)]
                for after, narrowed in self._devices(one, 0, count, counts, (common, bound), claim.constraints):
                    yield from self._requests(claim, index + 1, after, narrowed, taken + count)

    def _count(self, one: Alternative) -> int:
        """Devices that it takes; 0 where it cannot be satisfied."""
        if one.count != ALL:
            return one.count
        return sum(self.offer.stock.kinds[index].count for index in self._matching(one))

    def _matching(self, one: Alternative) -> tuple[int, ...]:
        found = self.matches.get(one)
        if found is None:
            kinds = self.offer.stock.kinds
            found = tuple(i for i, kind in enumerate(kinds) if truth(one, kind, self.offer.question) is Truth.YES)
            self.matches[one] = found
        return found

    def _devices(  # noqa: PLR0917  one step of a recursion
        self,
        one: Alternative,
        start: int,
        count: int,
        counts: Counts,
        state: tuple[Common, list[int]],
        constraints: tuple[Constraint, ...],
    ) -> Iterator[tuple[Counts, Common]]:
        """Chooses `count` devices among the matching kinds from `start` on."""
        self.left -= 1
        if self.left < 0:
            raise _UsedUpError
        common, bound = state
        if not count:
            yield counts, common
            return
        matching = self._matching(one)
        if start == len(matching):
            return
        index = matching[start]
        kind = self.offer.stock.kinds[index]
        is_free = one.is_admin or kind.shape.is_multiple
        have = kind.count if is_free else counts[index]
        if one.count == ALL and have != kind.count:
            return
        narrowed = _narrow(common, bound, constraints, kind.values)
        least = kind.count if one.count == ALL else 0
        for number in range(min(have, count) if narrowed is not None else 0, least - 1, -1):
            after = counts if is_free else (*counts[:index], counts[index] - number, *counts[index + 1 :])
            if number and not is_free and not self._within(after):
                continue
            now = common if number == 0 or narrowed is None else narrowed
            yield from self._devices(one, start + 1, count - number, after, (now, bound), constraints)

    def _within(self, counts: Counts) -> bool:
        """Do the devices that are taken fit their counter sets?"""
        stock = self.offer.stock
        if not stock.limits:
            return True
        used: list[dict[str, int]] = [{} for _ in stock.limits]
        for kind, left in zip(stock.kinds, counts, strict=True):
            for set_index, amounts in kind.sets:
                for counter, nano in amounts:
                    used[set_index][counter] = used[set_index].get(counter, 0) + nano * (kind.count - left)
        return all(
            nano <= limit.get(counter, 0)
            for amounts, limit in zip(used, stock.limits, strict=True)
            for counter, nano in amounts.items()
        )


def _narrow(
    common: Common,
    bound: list[int],
    constraints: tuple[Constraint, ...],
    values: Mapping[Key, tuple[Tagged, ...] | None],
) -> Common | None:
    """The common values with one more device; None where a constraint forbids it."""
    result = list(common)
    for index in bound:
        found = values.get(constraints[index].attribute)
        if found is None:
            return None
        before = common[index]
        both = frozenset(found) if before is None else before & frozenset(found)
        if not both:
            return None
        result[index] = both
    return tuple(result)
