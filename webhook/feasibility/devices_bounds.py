"""At most how many Pods' claims one node's devices satisfy: necessary conditions, each a bound.

For requests r with candidates M(r) and any set S of devices: those requests whose candidates all lie in S need no more
devices than S has. k Pods with claims of their own, beside claims that all share, so meet

    k * (devices of own requests within S)  +  (devices of shared requests within S)  <=  room(S),

where room(S) is what the counters leave of S. For matchAttribute the devices of each value are looked at alone and the
numbers are added up: a claim takes all its devices from one value (with lists: there is one value that all have).
A device that several claims may share has no end. All candidates are those that *may* match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from webhook.feasibility.cel import Truth
from webhook.feasibility.devices_claims import ALL, DEVICES_PER_CLAIM_MAX, Alternative, Constraint, Request, Wanted
from webhook.feasibility.devices_stock import AnyOf, Kind, Stock, Values
from webhook.inventory.devices import Key, Tagged
from webhook.inventory.snapshot import Question

# No limit is known; larger than any number of Pods on a node.
ENDLESS = 2**31
# All unions of candidate sets are looked at up to this many different ones (63), beyond it pairs and all together.
_UNION_COUNT_MAX = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as this node's devices see it. mask: bits of the kinds that may match, sure: that certainly do.
    is_open: devices nobody knows of may match too."""

    request: Request
    mask: int
    sure: int
    count: int
    is_open: bool
    is_admin: bool
    is_all: bool


def truth(one: Alternative, kind: Kind, question: Question) -> Truth:
    """Does a device satisfy this way of the request, on its own?"""
    if question is not Question.NEVER and not _tolerates(one, kind):
        return Truth.NO
    answer = Truth.MAYBE if one.is_open or kind.shape.is_broken else Truth.YES
    for (domain, name), amount in one.capacities:
        have = kind.shape.capacities.get((domain or kind.shape.driver, name))
        if have is None or (have.value is not None and amount > have.value):
            return Truth.NO
        if have.value is None:
            answer = Truth.MAYBE
    values = Values(kind.shape)
    for selector in one.selectors:
        found = selector.of(values)
        if found is Truth.NO:
            return Truth.NO
        answer = min(answer, found)
    return answer


def _tolerates(one: Alternative, kind: Kind) -> bool:
    return all(
        any(toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in one.tolerations)
        for taint in kind.taints
    )


def may_match_driver(one: Alternative, driver: str) -> bool:
    """May a device of this driver satisfy it, of which nothing else is known?"""
    device = AnyOf(driver)
    return all(selector.of(device) is not Truth.NO for selector in one.selectors)


class Offer:
    """One node's stock against a Pod set's claims."""

    def __init__(self, own: tuple[Wanted, ...], shared: tuple[Wanted, ...], stock: Stock, question: Question) -> None:
        self.own, self.shared, self.stock, self.question = own, shared, stock, question

    @cached_property
    def asked(self) -> dict[Request, Asked]:
        return {request: self._ask(request) for claim in (*self.own, *self.shared) for request in claim.requests}

    def _ask(self, request: Request) -> Asked:
        mask = sure = 0
        ways = request.alternatives
        for index, kind in enumerate(self.stock.kinds):
            answers = [truth(one, kind, self.question) for one in ways]
            if max(answers) is not Truth.NO:
                mask |= 1 << index
            if all(answer is not Truth.MAYBE for answer in answers):
                sure |= 1 << index
        is_open = self.stock.is_open or any(one.is_open for one in ways)
        is_open = is_open or any(may_match_driver(one, driver) for one in ways for driver in self.stock.open_drivers)
        return Asked(
            request=request,
            mask=mask,
            sure=sure,
            count=min(one.count_min for one in ways),
            is_open=is_open,
            is_admin=all(one.is_admin for one in ways),
            is_all=all(one.count == ALL for one in ways),
        )

    def most(self) -> int:
        """At most how many Pods; ENDLESS for any number."""
        if any(claim.device_count_min > DEVICES_PER_CLAIM_MAX for claim in (*self.own, *self.shared)):
            return 0
        if any(asked.count > self._distinct(asked) for asked in self.asked.values()):
            return 0
        own = [self.asked[request] for claim in self.own for request in claim.requests]
        shared = [self.asked[request] for claim in self.shared for request in claim.requests]
        result = self._hall(own, shared, -1)
        if any(one.is_all and not self._is_endless(one) and not one.is_admin for one in own):
            result = min(result, 1)
        for claim in self.own:
            for constraint in claim.constraints:
                result = min(result, self._constrained(claim, constraint, is_shared=False))
        for claim in self.shared:
            for constraint in claim.constraints:
                if not self._constrained(claim, constraint, is_shared=True):
                    return 0
        return result

    # -- rooms ------------------------------------------------------------------------------------------------------
    def _kinds(self, mask: int) -> Iterator[Kind]:
        return (kind for index, kind in enumerate(self.stock.kinds) if mask >> index & 1)

    def _distinct(self, asked: Asked) -> int:
        """Devices that one request may take: none of them twice."""
        return ENDLESS if asked.is_open else sum(kind.count for kind in self._kinds(asked.mask))

    def _is_endless(self, asked: Asked) -> bool:
        return asked.is_open or any(kind.shape.is_multiple for kind in self._kinds(asked.mask))

    def room(self, mask: int) -> int:
        """At most how many of these devices can be taken at the same time."""
        total = 0
        by_set: dict[int, list[Kind]] = defaultdict(list)
        for kind in self._kinds(mask):
            if kind.shape.is_multiple:
                return ENDLESS
            if kind.sets:
                # A device that draws on two sets is held against the first: what the second forbids is left out.
                by_set[kind.sets[0][0]].append(kind)
            else:
                total += kind.count
        for set_index, kinds in by_set.items():
            most = sum(kind.count for kind in kinds)
            for counter, limit in self.stock.limits[set_index].items():
                least = min(dict(kind.sets[0][1]).get(counter, 0) for kind in kinds)
                if least > 0:
                    most = min(most, limit // least)
            total += most
        return min(total, ENDLESS)

    def _hall(self, own: list[Asked], shared: list[Asked], within: int) -> int:
        """The bound of the module's text, on the devices of `within`. 0 also where what all share does not fit."""
        for one in (*own, *shared):
            if not one.is_open and one.is_admin and one.count > sum(k.count for k in self._kinds(one.mask & within)):
                return 0
        own = [one for one in own if not one.is_open and not one.is_admin]
        shared = [one for one in shared if not one.is_open and not one.is_admin]
        result = ENDLESS
        for union in _unions({one.mask & within for one in (*own, *shared)}):
            room = self.room(union)
            if room >= ENDLESS:
                continue
            per_pod = sum(one.count for one in own if not one.mask & within & ~union)
            once = sum(one.count for one in shared if not one.mask & within & ~union)
            if once > room:
                return 0
            if per_pod:
                result = min(result, (room - once) // per_pod)
        return result

    # -- constraints ------------------------------------------------------------------------------------------------
    def _constrained(self, claim: Wanted, constraint: Constraint, *, is_shared: bool) -> int:
        """At most how many such claims; for a shared one 1 or 0."""
        bound = [
            self.asked[request]
            for request in claim.requests
            if all(constraint.meets(request, one) for one in request.alternatives)
        ]
        if not bound or any(one.is_open for one in bound):
            return ENDLESS
        groups, wild = self._groups(constraint.attribute)
        if constraint.is_distinct:
            return self._distinct_values(bound, constraint.attribute, wild)
        total = 0
        for group in [mask | wild for mask in groups.values()] or [wild]:
            found = self._hall([], bound, group) if is_shared else self._hall(bound, [], group)
            total = min(ENDLESS, total + (min(found, 1) if is_shared else found))
        return total

    def _groups(self, attribute: Key) -> tuple[dict[Tagged, int], int]:
        """Kinds by value, and those whose value cannot be read: they may have any."""
        groups: dict[Tagged, int] = defaultdict(int)
        wild = 0
        for index, kind in enumerate(self.stock.kinds):
            if attribute not in kind.values:
                continue
            values = kind.values[attribute]
            if values is None:
                wild |= 1 << index
            for value in values or ():
                groups[value] |= 1 << index
        return groups, wild

    def _distinct_values(self, bound: list[Asked], attribute: Key, wild: int) -> int:
        union = 0
        for one in bound:
            union |= one.mask
        having = [kind for kind in self._kinds(union) if attribute in kind.values]
        if union & wild or any(
            kind.values[attribute] is None or len(kind.values[attribute] or ()) > 1 for kind in having
        ):
            return ENDLESS
        values = {kind.values[attribute] for kind in having}
        return ENDLESS if sum(one.count for one in bound) <= len(values) else 0


def _unions(masks: set[int]) -> Iterator[int]:
    """Unions of candidate sets."""
    distinct = sorted(masks)
    seen = set(distinct)
    sizes = range(2, len(distinct) + 1) if len(distinct) <= _UNION_COUNT_MAX else (2, len(distinct))
    for size in sizes:
        for chosen in combinations(distinct, size):
            union = 0
            for mask in chosen:
                union |= mask
            seen.add(union)
    yield from seen
