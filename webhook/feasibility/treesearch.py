"""Witnesses of composite trees, and of single groups with limits that cross nodes (anti-affinity over other keys).

`greedy` places group by group, larger children first, each in the domain it fills best; what it misses is not proved
impossible. `exact` walks every choice of children, domains and nodes (equal nodes and equal children once), so its
failure is a proof. Both spend the budget, one unit per node arrangement looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from webhook.feasibility.bounds import MANY, TreeBounds, extend, pod_count_min
from webhook.feasibility.model import GroupDemand, LeafDemand, PodDemand, TreeDemand
from webhook.feasibility.result import Placement
from webhook.feasibility.search import Budget, BudgetUsedUpError, Config, NodeRoom
from webhook.inventory.tables import HOSTNAME, MISSING

GroupPath = tuple[tuple[int, int], ...]
Bin = tuple[int, Config]  # class, Pods of each type on each of its nodes
Then = Callable[[], bool]


@dataclass(slots=True)
class _Move:
    """Some equal nodes of a cell got more Pods."""

    cell: int
    before: Bin
    after: Bin
    node_count: int
    group: GroupPath
    pod_index: int
    pod_count: int  # per node
    limits: tuple[tuple[object, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Set:
    """A Pod set of one instance of a leaf."""

    pod: PodDemand
    pod_index: int
    path: GroupPath


@dataclass(frozen=True, slots=True)
class _Region:
    """Where the children of one instance of a composite are placed: its path of keys and the cells of its domain."""

    group: TreeDemand
    keys: tuple[str, ...]
    cells: list[int]
    path: GroupPath


@dataclass(slots=True)
class TreeSearch:
    """One search over one tree. types: distinct Pod sets, their counts aside; a Config counts Pods of each.

    rooms: per cell, how many nodes there are of each Bin. apart: Pods per (labels, key, value code) that keep their
    like away. moves: what was placed so far.
    """

    bounds: TreeBounds
    budget: Budget
    types: tuple[PodDemand, ...] = ()
    rooms: list[dict[Bin, int]] = field(default_factory=list)
    moves: list[_Move] = field(default_factory=list)
    apart: Counter[tuple[object, str, int]] = field(default_factory=Counter)
    node: NodeRoom = field(init=False)
    index_of: dict[PodDemand, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cells = self.bounds.cells
        self.types = tuple(dict.fromkeys(replace(pod, count=None) for pod in self.bounds.pods))
        self.index_of = {pod: self.types.index(replace(pod, count=None)) for pod in self.bounds.pods}
        self.node = NodeRoom(self.types, cells.classes, self.bounds.view)
        nothing = (0,) * len(self.types)
        for cell in range(cells.count):
            entries = range(cells.indptr[cell], cells.indptr[cell + 1])
            self.rooms.append({(int(cells.class_index[e]), nothing): int(cells.node_count[e]) for e in entries})

    def greedy(self) -> tuple[Placement, ...] | None:
        """Placements, or None, which proves nothing. Raises BudgetUsedUpError."""
        everywhere = list(range(self.bounds.cells.count))
        return self._placements() if self._place(self.bounds.root, (), everywhere, ()) else None

    def exact(self) -> tuple[Placement, ...] | None:
        """Placements, or None if there are none. Raises BudgetUsedUpError."""
        everywhere = list(range(self.bounds.cells.count))
        try:
            found = self._every_way(self.bounds.root, (), everywhere, (), lambda: True)
        except RecursionError as error:
            raise BudgetUsedUpError from error
        return self._placements() if found else None

    # -- domains ------------------------------------------------------------------------------------------------
    def _parts(self, group: GroupDemand, keys: tuple[str, ...], cells: list[int]) -> list[tuple[int, list[int]]]:
        """The domains of the group's own key among these cells, with their index among all of that path."""
        own = extend(keys, group.topology_key)
        ids = self.bounds.partition(own)[0]
        parts: dict[int, list[int]] = {}
        for cell in cells:
            if ids[cell] != MISSING:
                parts.setdefault(int(ids[cell]), []).append(cell)
        if isinstance(group, LeafDemand) and group.domain is not None and group.topology_key is not None:
            row = self.bounds.cells.keys.index(group.topology_key)
            value = self.bounds.cells.value
            return [(index, part) for index, part in parts.items() if value(row, part[0]) == group.domain]
        return list(parts.items())

    def _room(self, leaf: LeafDemand, cells: list[int]) -> int:
        """Pods of the leaf that its sets, each alone, still find room for."""
        total = 0
        for pod in leaf.pods:
            index, mine = self.index_of[pod], 0
            for cell in cells:
                for (class_index, used), node_count in self.rooms[cell].items():
                    self.budget.spend()
                    mine += node_count * self.node.room(class_index, used, index)
            total += mine if pod.count is None else min(mine, pod.count)
        return total

    # -- greedy -------------------------------------------------------------------------------------------------
    def _place(self, group: GroupDemand, keys: tuple[str, ...], cells: list[int], path: GroupPath) -> bool:
        own = extend(keys, group.topology_key)
        for domain in self._ordered(group, keys, own, cells):
            mark = len(self.moves)
            if isinstance(group, LeafDemand):
                if self._place_leaf(group, domain, path):
                    return True
            elif self._place_children(group, own, domain, path):
                return True
            self._undo(mark)
        return False

    def _ordered(
        self, group: GroupDemand, keys: tuple[str, ...], own: tuple[str, ...], cells: list[int]
    ) -> list[list[int]]:
        """A leaf takes the smallest domain that suffices, a composite the one with most room."""
        parts = self._parts(group, keys, cells)
        units = self.bounds.units(replace(group, copies=1), own)
        able = [domain for index, domain in parts if units[index] > 0]
        if isinstance(group, LeafDemand):
            roomy = [(self._room(group, domain), domain) for domain in able]
            return [domain for room, domain in sorted(roomy) if room >= group.needed]
        return sorted(able, key=lambda domain: -sum(self._room_left(cell) for cell in domain))

    def _room_left(self, cell: int) -> int:
        self.budget.spend()
        return sum(count * self.node.room(where, used, 0) for (where, used), count in self.rooms[cell].items())

    def _place_children(self, group: TreeDemand, keys: tuple[str, ...], cells: list[int], path: GroupPath) -> bool:
        wanted = sorted(_instances(group), key=lambda one: (pod_count_min(group.children[one[0]]), one))
        # The smallest that suffice, larger ones first; then, if one finds no place, the others in turn.
        chosen, spare = wanted[: group.needed], wanted[group.needed :]
        placed = 0
        for index, copy in chosen[::-1] + spare:
            if placed == group.needed:
                break
            placed += self._place(group.children[index], keys, cells, (*path, (index, copy)))
        return placed == group.needed

    def _place_leaf(self, leaf: LeafDemand, cells: list[int], path: GroupPath) -> bool:
        order = sorted(range(len(leaf.pods)), key=lambda i: max(self.node.fits[self.index_of[leaf.pods[i]]], default=0))
        for attempt in (order, order[::-1]) if len(order) > 1 else (order,):
            mark, left = len(self.moves), leaf.needed
            for pod_index in attempt:
                pod = leaf.pods[pod_index]
                wanted = left if pod.count is None else min(left, pod.count)
                left -= self._fill(_Set(pod, pod_index, path), wanted, cells)
                if left <= 0:
                    return True
            self._undo(mark)
        return False

    def _fill(self, one: _Set, wanted: int, cells: list[int]) -> int:
        """Places up to `wanted` Pods, nodes that are in use first. Returns how many."""
        pod, index = one.pod, self.index_of[one.pod]
        placed = 0
        for cell in cells:
            room = self.rooms[cell]
            for bin_ in sorted(room, key=lambda bin_: (-sum(bin_[1]), bin_)):
                self.budget.spend()
                fit = self.node.room(*bin_, index)
                while fit and placed < wanted and room.get(bin_, 0):
                    each = min(fit, wanted - placed, self._apart_room(pod, cell))
                    if not each:
                        break
                    nodes = 1 if self._limits(pod, cell) else min(room[bin_], (wanted - placed) // each)
                    self._add(one, cell, bin_, nodes, each)
                    placed += each * nodes
            if placed == wanted:
                break
        return placed

    # -- exact --------------------------------------------------------------------------------------------------
    def _every_way(
        self, group: GroupDemand, keys: tuple[str, ...], cells: list[int], path: GroupPath, then: Then
    ) -> bool:
        """Tries every placement of the group; after each, `then` goes on with the rest."""
        own = extend(keys, group.topology_key)
        for _, domain in self._parts(group, keys, cells):
            self.budget.spend()
            if isinstance(group, LeafDemand):
                sets = [_Set(pod, index, path) for index, pod in enumerate(group.pods)]
                if self._room(group, domain) >= group.needed and self._sets(sets, domain, group.needed, then):
                    return True
            else:
                region = _Region(group, own, domain, path)
                if self._choose(region, list(_instances(group)), group.needed, then):
                    return True
        return False

    def _choose(self, region: _Region, left: list[tuple[int, int]], needed: int, then: Then) -> bool:
        """Every choice of `needed` children among those left; equal ones are chosen in order."""
        if not needed:
            return then()
        if len(left) < needed:
            return False
        (index, copy), rest = left[0], left[1:]
        child = region.group.children[index]

        def go_on() -> bool:
            return self._choose(region, rest, needed - 1, then)

        if self._every_way(child, region.keys, region.cells, (*region.path, (index, copy)), go_on):
            return True
        alike = replace(child, copies=1)
        others = [one for one in rest if replace(region.group.children[one[0]], copies=1) != alike]
        return self._choose(region, others, needed, then)

    def _sets(self, sets: list[_Set], cells: list[int], needed: int, then: Then) -> bool:
        """Every number of Pods of each set, `needed` in all."""
        if not needed:
            return then()
        if not sets:
            return False
        first, rest = sets[0], sets[1:]
        later = sum(MANY if one.pod.count is None else one.pod.count for one in rest)
        most = needed if first.pod.count is None else min(needed, first.pod.count)
        for count in range(most, max(0, needed - later) - 1, -1):

            def go_on(left: int = needed - count) -> bool:
                return self._sets(rest, cells, left, then)

            bins = [(cell, bin_) for cell in cells for bin_ in sorted(self.rooms[cell])]
            if self._spread(first, bins, count, MANY, go_on):
                return True
        return False

    def _spread(self, one: _Set, bins: list[tuple[int, Bin]], left: int, most: int, then: Then) -> bool:
        """Every way of putting `left` Pods on nodes of these bins; nodes of one bin get fewer and fewer (`most`)."""
        self.budget.spend()
        if not left:
            return then()
        if not bins:
            return False
        cell, bin_ = bins[0]
        if self.rooms[cell].get(bin_, 0):
            fit = self.node.room(*bin_, self.index_of[one.pod])
            for each in range(min(fit, left, most, self._apart_room(one.pod, cell)), 0, -1):
                mark = len(self.moves)
                self._add(one, cell, bin_, 1, each)
                if self._spread(one, bins, left - each, each, then):
                    return True
                self._undo(mark)
        return self._spread(one, bins[1:], left, MANY, then)

    # -- moves --------------------------------------------------------------------------------------------------
    def _limits(self, pod: PodDemand, cell: int) -> tuple[tuple[object, str, int], ...]:
        """The anti-affinity domains of the cell in which the Pod keeps its like away."""
        keys = [key for key in pod.apart if key != HOSTNAME]
        codes = [(key, int(self.bounds.cells.codes[self.bounds.cells.keys.index(key), cell])) for key in keys]
        return tuple((pod.apart_labels, key, code) for key, code in codes if code != MISSING)

    def _apart_room(self, pod: PodDemand, cell: int) -> int:
        limits = self._limits(pod, cell)
        if not limits:
            return MANY
        return 0 if any(self.apart[limit] for limit in limits) else 1

    def _add(self, one: _Set, cell: int, bin_: Bin, nodes: int, each: int) -> None:
        index, (class_index, used) = self.index_of[one.pod], bin_
        after = (class_index, (*used[:index], used[index] + each, *used[index + 1 :]))
        limits = self._limits(one.pod, cell)
        self.apart.update(limits)
        _shift(self.rooms[cell], bin_, after, nodes)
        self.moves.append(_Move(cell, bin_, after, nodes, one.path, one.pod_index, each, limits))

    def _undo(self, mark: int) -> None:
        while len(self.moves) > mark:
            move = self.moves.pop()
            self.apart.subtract(move.limits)
            _shift(self.rooms[move.cell], move.after, move.before, move.node_count)

    def _placements(self) -> tuple[Placement, ...]:
        """The moves once more, with named nodes."""
        cells = self.bounds.cells
        nothing = (0,) * len(self.types)
        free: dict[tuple[int, Bin], list[int]] = {}
        for cell in range(cells.count):
            for entry in range(cells.indptr[cell], cells.indptr[cell + 1]):
                nodes = [int(node) for node in cells.entry_nodes(entry)]
                free[cell, (int(cells.class_index[entry]), nothing)] = nodes
        result: list[Placement] = []
        for move in self.moves:
            target = free.setdefault((move.cell, move.after), [])
            for _ in range(move.node_count):
                node = free[move.cell, move.before].pop()
                target.append(node)
                name = cells.classes.base.nodes[node].name
                result.append(Placement(move.group, move.pod_index, name, move.pod_count))
        return tuple(result)


def _instances(group: TreeDemand) -> Iterator[tuple[int, int]]:
    """(child index, copy) of every child that may be placed."""
    for index, child in enumerate(group.children):
        copies = group.needed if child.copies is None else min(child.copies, group.needed)
        for copy in range(copies):
            yield index, copy


def _shift(room: dict[Bin, int], before: Bin, after: Bin, node_count: int) -> None:
    left = room[before] - node_count
    if left:
        room[before] = left
    else:
        del room[before]
    room[after] = room.get(after, 0) + node_count
