"""Witnesses of one group: a placement that exists, found by construction, by first fit, or by a bounded exact search.

`Budget` counts work units (one unit: one arrangement of one node looked at), so an answer is the same on every
machine. First fit proves nothing when it fails; the exact search of a single group with mixed sets does: it looks at
every choice of Pods on every node, equal nodes taken together, and remembers what failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.feasibility.bounds import MANY, LeafBounds, View
from webhook.feasibility.model import LeafDemand, PodDemand
from webhook.feasibility.nodefit import fit, is_mapped
from webhook.feasibility.result import Placement
from webhook.feasibility.selectors import conflict
from webhook.inventory import tables
from webhook.inventory.tables import HOSTNAME, MISSING, Cells, Classes, Ints

Config = tuple[int, ...]


class BudgetUsedUpError(Exception):
    """The work budget is used up: the answer is unknown."""


@dataclass(slots=True)
class Budget:
    """Work units left. `spend` raises BudgetUsedUpError."""

    left: int

    def spend(self, units: int = 1) -> None:
        self.left -= units
        if self.left < 0:
            raise BudgetUsedUpError


# ---- identical Pods: by construction ------------------------------------------------------------------------------
def place_identical(leaf: LeafDemand, bounds: LeafBounds, kind: int, view: View) -> tuple[Placement, ...]:
    """`needed` Pods of the only set in one domain of the kind, which holds that many."""
    pod, fits = leaf.pods[0], bounds.fits[0]
    cells = bounds.kinds.cells
    domain = int(bounds.kinds.example[kind])
    nodes = cells.classes.base.nodes
    if pod.pins:
        return (_on_one_node(leaf, cells, domain, fits),)
    result: list[Placement] = []
    left = leaf.needed
    for cell_nodes, cap in _inner_domains(pod, cells, domain, view):
        room = min(left, cap)
        for index in cell_nodes:
            taken = min(room, int(fits[cells.classes.of_node[index]]))
            if taken:
                result.append(Placement((), 0, nodes[index].name, taken))
                room -= taken
                left -= taken
            if not room:
                break
        if not left:
            return tuple(result)
    raise AssertionError("the bound of identical Pods is exact")


def _on_one_node(leaf: LeafDemand, cells: Cells, domain: int, fits: Ints) -> Placement:
    """All of them on the first node that holds them: they share a claim on its devices."""
    for entry in range(cells.indptr[domain], cells.indptr[domain + 1]):
        if fits[cells.class_index[entry]] >= leaf.needed:
            node = cells.classes.base.nodes[int(cells.entry_nodes(entry)[0])]
            return Placement((), 0, node.name, leaf.needed)
    raise AssertionError("the bound of identical Pods is exact")


def _inner_domains(pod: PodDemand, cells: Cells, domain: int, view: View) -> Iterator[tuple[list[int], int]]:
    """The domain's nodes, in parts that take a limited number of Pods each."""
    nodes = [
        int(i) for entry in range(cells.indptr[domain], cells.indptr[domain + 1]) for i in cells.entry_nodes(entry)
    ]
    if any(key in pod.apart for key in cells.keys):
        yield nodes, 1
        return
    inner = [key for key in pod.apart if key != HOSTNAME]
    if not inner:
        yield nodes, MANY
        return
    base = tables.base(view.snapshot, view.question)
    codes, _ = base.label(inner[0])
    by_value: dict[int, list[int]] = {}
    for node in nodes:
        by_value.setdefault(int(codes[node]), []).append(node)
    for code, members in by_value.items():
        yield members, MANY if code == MISSING else 1


# ---- mixed sets of one group --------------------------------------------------------------------------------------
class MixedSearch:
    """All sets of one leaf in one domain, a list of (class, node count).

    `first_fit` tries a few orders; `exact` is complete. Both give [(class, configuration, node count)].
    """

    def __init__(self, leaf: LeafDemand, bounds: LeafBounds, view: View, budget: Budget) -> None:
        self.leaf, self.view, self.budget = leaf, view, budget
        self.classes: Classes = bounds.kinds.cells.classes
        self.fits = [fits.tolist() for fits in bounds.fits]
        self.sets = range(len(leaf.pods))
        self.node = NodeRoom(leaf.pods, self.classes, view)

    def first_fit(self, domain: list[tuple[int, int]]) -> list[tuple[int, Config, int]] | None:
        """Sets in several orders, each filling node after node. None proves nothing."""
        counts = [MANY if pod.count is None else pod.count for pod in self.leaf.pods]
        largest_first = sorted(self.sets, key=self._weight, reverse=True)
        for wanted in (self._fewest(counts), [min(count, self.leaf.needed) for count in counts]):
            for order in (largest_first, list(reversed(largest_first))):
                found = self._fill(domain, order, list(wanted))
                if found is not None:
                    return found
        return None

    def _weight(self, index: int) -> tuple[int, int]:
        """Sets that fewer nodes take, and fewer times, are harder."""
        fits = self.fits[index]
        return (-max(fits, default=0), -sum(1 for fit in fits if fit))

    def _fewest(self, counts: list[int]) -> list[int]:
        """`needed` Pods, the easiest sets first."""
        wanted, left = [0] * len(counts), self.leaf.needed
        for index in sorted(self.sets, key=self._weight):
            wanted[index] = min(left, counts[index])
            left -= wanted[index]
        return wanted

    def _fill(
        self, domain: list[tuple[int, int]], order: list[int], left: list[int]
    ) -> list[tuple[int, Config, int]] | None:
        result: list[tuple[int, Config, int]] = []
        placed = 0
        for class_index, node_count in domain:
            remaining = node_count
            while remaining and any(left):
                config = self._pack(class_index, order, left)
                total = sum(config)
                if not total:
                    break
                times = min(remaining, *(left[i] // config[i] for i in self.sets if config[i]))
                result.append((class_index, config, times))
                placed += total * times
                remaining -= times
                for i in self.sets:
                    left[i] -= config[i] * times
                if placed >= self.leaf.needed:
                    return result
        return None

    def _pack(self, class_index: int, order: list[int], left: list[int]) -> Config:
        config = [0] * len(left)
        for i in order:
            self.budget.spend()
            config[i] = min(left[i], self.node.room(class_index, tuple(config), i))
        return tuple(config)

    def exact(self, domain: list[tuple[int, int]]) -> list[tuple[int, Config, int]] | None:
        """A placement, or None if there is none: complete. Raises BudgetUsedUpError."""
        counts = tuple(min(self.leaf.needed, MANY if pod.count is None else pod.count) for pod in self.leaf.pods)
        domain = [(c, n) for c, n in domain if any(self.fits[i][c] for i in self.sets)]
        after = self._room_after(domain)
        failed: set[tuple[int, int, Config]] = set()
        path: list[tuple[int, Config, int]] = []

        def descend(position: int, used: int, left: Config, missing: int) -> bool:
            if missing <= 0:
                return True
            if position == len(domain):
                return False
            class_index, node_count = domain[position]
            if used == node_count:
                return descend(position + 1, 0, left, missing)
            key = (position, used, left)
            if key in failed:
                return False
            room = sum(
                min(left[i], after[position + 1][i] + (node_count - used) * self.fits[i][class_index])
                for i in self.sets
            )
            if room >= missing:
                for config in self._maximal(class_index, left):
                    path.append((class_index, config, 1))
                    rest = tuple(have - taken for have, taken in zip(left, config, strict=True))
                    if descend(position, used + 1, rest, missing - sum(config)):
                        return True
                    path.pop()
            failed.add(key)
            return False

        try:
            return list(path) if descend(0, 0, counts, self.leaf.needed) else None
        except RecursionError as error:
            raise BudgetUsedUpError from error

    def _room_after(self, domain: list[tuple[int, int]]) -> list[list[int]]:
        """[position][set]: how many Pods of each set alone the classes from this position on hold."""
        after = [[0] * len(self.sets)]
        for class_index, node_count in reversed(domain):
            after.append([after[-1][i] + node_count * self.fits[i][class_index] for i in self.sets])
        return after[::-1]

    def arrangements(self, class_index: int, limits: Config) -> list[Config]:
        """Every configuration of one node to which no Pod can be added but for `limits`."""
        return self._maximal(class_index, limits)

    def _maximal(self, class_index: int, left: Config) -> list[Config]:
        """Every configuration of one node to which nothing can be added, most Pods first. Others need not be tried:
        a Pod more on a node never hurts."""
        found: set[Config] = set()

        def grow(index: int, config: Config) -> None:
            self.budget.spend()
            if index == len(left):
                if all(config[i] == left[i] or not self.node.room(class_index, config, i) for i in self.sets):
                    found.add(config)
                return
            for count in range(min(left[index], self.node.room(class_index, config, index)), -1, -1):
                grow(index + 1, (*config[:index], count, *config[index + 1 :]))

        grow(0, (0,) * len(left))
        return sorted(found, key=lambda config: (sum(config), config), reverse=True)


class NodeRoom:
    """How many more Pods of a set a node of a class takes, beside what is on it."""

    def __init__(self, pods: tuple[PodDemand, ...], classes: Classes, view: View) -> None:
        self.pods, self.classes, self.view = pods, classes, view
        self.fits = _fits(pods, classes, view)
        self.names = sorted({name for pod in pods for name, _ in pod.request})
        self.amounts = [tuple(dict(pod.request).get(name, 0) for name in self.names) for pod in pods]
        self.capacity: dict[int, tuple[int | None, ...]] = {}
        self.clash = [[i for i, other in enumerate(pods) if _clash(pod, other)] for pod in pods]
        self.known: dict[tuple[int, Config, int], int] = {}

    def room(self, class_index: int, used: Config, index: int) -> int:
        """used: Pods of each set on the node."""
        most = self.fits[index][class_index]
        if not most or not any(used):
            return most
        key = (class_index, used, index)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._room(class_index, used, index, most)
        return known

    def _room(self, class_index: int, used: Config, index: int, most: int) -> int:
        if any(used[i] for i in self.clash[index]):
            return 0
        capacity = self._capacity(class_index)
        pods = capacity[-1] or 0
        most = min(most, pods - sum(used))
        for position, amount in enumerate(self.amounts[index]):
            have = capacity[position]
            if amount and have is not None:
                taken = sum(count * self.amounts[i][position] for i, count in enumerate(used) if count)
                most = min(most, (have - taken) // amount)
        return max(0, most)

    def _capacity(self, class_index: int) -> tuple[int | None, ...]:
        """Per resource, then the number of Pods; None where nothing limits."""
        known = self.capacity.get(class_index)
        if known is None:
            base = self.classes.base
            amounts = self.classes.amounts[class_index]
            values: list[int | None] = []
            for name in (*self.names, "pods"):
                column = base.resources.get(name)
                have = 0 if column is None else int(amounts[column])
                is_endless = self.view.optimistic and is_mapped(self.view.snapshot, name)
                values.append(None if is_endless else have)
            known = self.capacity[class_index] = tuple(values)
        return known


def _clash(one: PodDemand, other: PodDemand) -> bool:
    """Do Pods of the two sets refuse each other's node? Anti-affinity is only asked where hostnames are unique."""
    if one.ports and other.ports and conflict(one.ports, other.ports):
        return True
    return HOSTNAME in one.apart and HOSTNAME in other.apart and one.apart_labels == other.apart_labels


def _fits(pods: tuple[PodDemand, ...], classes: Classes, view: View) -> list[list[int]]:
    return [fit(pod, classes, view.snapshot, optimistic=view.optimistic).tolist() for pod in pods]


def name_nodes(cells: Cells, domain: int, found: list[tuple[int, Config, int]]) -> tuple[Placement, ...]:
    """Configurations of classes -> Pods on named nodes of one domain."""
    free: dict[int, list[int]] = {}
    for entry in range(cells.indptr[domain], cells.indptr[domain + 1]):
        free[int(cells.class_index[entry])] = [int(node) for node in cells.entry_nodes(entry)]
    result: list[Placement] = []
    for class_index, config, times in found:
        for _ in range(times):
            node = cells.classes.base.nodes[free[class_index].pop()]
            result += [Placement((), i, node.name, count) for i, count in enumerate(config) if count]
    return tuple(result)
