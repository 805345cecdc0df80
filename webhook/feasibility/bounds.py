"""The ladder of necessary conditions: how many Pods (or children) a domain holds at most.

One leaf: for identical Pods the sum over nodes is exact. For mixed sets, any choice x of Pods per set (x_i <= n_i,
sum >= needed) that fits a domain meets, for every subset S of the sets,

    sum over i in S of x_i  <=  cap(S)    so    needed  <=  cap(S) + sum over i not in S of n_i,

where cap(S) sums, over the nodes, the most Pods of S that one node can hold by its scarcest resource if each took no
more than the smallest of them. Composite trees count children the same way, level by level.

All numbers are upper bounds, so `needed > holds` in every domain is a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

import numpy as np

from webhook.feasibility.model import GroupDemand, LeafDemand, PodDemand, TreeDemand
from webhook.feasibility.nodefit import FIT_MAX, column, fit, is_mapped
from webhook.inventory import tables
from webhook.inventory.snapshot import Question, Snapshot
from webhook.inventory.tables import HOSTNAME, MISSING, Cells, Classes, DomainKinds, Ints

# Stands for "any number of Pods"; small enough to be added up.
MANY = 2**48
# All subsets are looked at up to this many sets (63 subsets), beyond it single sets and all together.
SUBSET_SETS_MAX = 6


@dataclass(frozen=True, slots=True)
class View:
    """What a decision looks at. optimistic: see nodefit."""

    snapshot: Snapshot
    question: Question
    optimistic: bool = False


@dataclass(frozen=True, slots=True)
class LeafBounds:
    """holds int64 [kind]: at most how many Pods of the leaf a domain of this kind takes at the same time. caps int64
    [kind] per set alone. is_exact: `holds` is reached, for one set. fits: int64 [class] per set."""

    kinds: DomainKinds
    holds: Ints
    caps: tuple[Ints, ...]
    fits: tuple[Ints, ...]
    is_exact: bool

    @property
    def best(self) -> int:
        """The kind that holds most; -1 without any domain."""
        return int(self.holds.argmax()) if len(self.holds) else -1


def label_keys(pods: tuple[PodDemand, ...]) -> tuple[str, ...]:
    """What node classes have to tell apart."""
    if len(pods) == 1:
        keys = pods[0].label_keys
        return keys if len(keys) < 2 else tuple(sorted(keys))
    return tuple(sorted({key for pod in pods for key in pod.label_keys}))


def leaf_bounds(leaf: LeafDemand, view: View) -> LeafBounds:
    """The bounds of a group that stands alone."""
    keys = (leaf.topology_key,) if leaf.topology_key else ()
    reads = label_keys(leaf.pods)
    kinds = tables.domain_kinds(view.snapshot, view.question, reads, keys)
    if leaf.domain is not None:
        kinds = _only(kinds, leaf.domain)
    elif any(_inner_keys(pod, keys) for pod in leaf.pods):
        kinds = tables.every_domain(view.snapshot, view.question, reads, keys)
    classes = kinds.cells.classes
    fits = tuple(fit(pod, classes, view.snapshot, optimistic=view.optimistic) for pod in leaf.pods)
    caps = tuple(
        _inner_caps(pod, one, kinds, reads, view)
        if _inner_keys(pod, keys)
        else _apart_from_own_key(pod, keys, domain_sums(kinds, one))
        for pod, one in zip(leaf.pods, fits, strict=True)
    )
    caps = tuple(_device_caps(pod, one, cap, kinds) for pod, one, cap in zip(leaf.pods, fits, caps, strict=True))
    if len(leaf.pods) == 1:
        pod = leaf.pods[0]
        is_exact = not pod.spread and len(_inner_keys(pod, keys)) <= 1
        return LeafBounds(kinds, caps[0], caps, fits, is_exact)
    holds = _mixed(leaf.pods, fits, caps, kinds, view)
    totals = _resource_room(leaf, fits, kinds, view)
    return LeafBounds(kinds, np.where(totals, holds, np.minimum(holds, leaf.needed - 1)), caps, fits, is_exact=False)


def domain_sums(kinds: DomainKinds, per_class: Ints) -> Ints:
    """int64 [kind]: the sum over a domain's nodes."""
    if not len(kinds.starts):
        return np.zeros(0, dtype=np.int64)
    return np.add.reduceat(per_class[kinds.class_index] * kinds.node_count, kinds.starts)


def domain_most(kinds: DomainKinds, per_class: Ints) -> Ints:
    """int64 [kind]: the most on one of a domain's nodes."""
    if not len(kinds.starts):
        return np.zeros(0, dtype=np.int64)
    return np.maximum.reduceat(per_class[kinds.class_index], kinds.starts)


def _device_caps(pod: PodDemand, one: Ints, cap: Ints, kinds: DomainKinds) -> Ints:
    """Pods that share a claim on devices of one node are all there; devices of many nodes are counted once."""
    if pod.pins:
        cap = np.minimum(cap, domain_most(kinds, one))
    if pod.devices is not None:
        cap = np.minimum(cap, pod.devices.ceiling(kinds.cells.classes.base))
    return cap


def _only(kinds: DomainKinds, value: str) -> DomainKinds:
    """The one domain with this value of the (only) key; where no node has it yet, that of nodes that may come with it."""
    cells = kinds.cells
    chosen = [cell for cell in range(cells.count) if cells.value(0, cell) == value]
    if not chosen:
        chosen = np.flatnonzero(cells.codes[0] == len(cells.values[0])).tolist()
    return DomainKinds.of_cells(cells, [[cell] for cell in chosen])


# ---- limits per domain of another key: anti-affinity and spread ---------------------------------------------------
def _inner_keys(pod: PodDemand, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Keys other than the node's own that limit how many Pods of the set share a domain."""
    if not pod.apart and not pod.spread:
        return ()
    found = [key for key in pod.apart if key != HOSTNAME] + [limit.key for limit in pod.spread]
    return tuple(key for key in dict.fromkeys(found) if key not in keys)


def _apart_from_own_key(pod: PodDemand, keys: tuple[str, ...], sums: Ints) -> Ints:
    """Anti-affinity over the topology key itself: one Pod per domain."""
    return np.minimum(sums, 1) if any(key in pod.apart for key in keys) else sums


def _inner_caps(pod: PodDemand, one: Ints, kinds: DomainKinds, reads: tuple[str, ...], view: View) -> Ints:
    """int64 [kind]: as domain_sums, but with at most a fixed number of Pods in each domain of an inner key. `kinds`
    are not folded here: each is one domain."""
    keys = kinds.cells.keys
    result = _apart_from_own_key(pod, keys, domain_sums(kinds, one))
    for key in _inner_keys(pod, keys):
        cells = tables.cells(view.snapshot, view.question, reads, (*keys, key))
        cap = _cap(pod, key, cells)
        if cap is None or not cells.is_complete or cells.classes.base.has_open:
            continue
        sums = cell_sums(cells, one)
        capped = np.where(cells.codes[-1] == MISSING, sums, np.minimum(sums, cap))
        region = {tuple(kinds.cells.codes[:, cell]): index for index, cell in enumerate(kinds.example.tolist())}
        totals = np.zeros(len(result), dtype=np.int64)
        for cell in range(cells.count):
            index = region.get(tuple(cells.codes[:-1, cell]))
            if index is not None:
                totals[index] += capped[cell]
        result = np.minimum(result, totals)
    return result


def _cap(pod: PodDemand, key: str, cells: Cells) -> int | None:
    """How many Pods of the set one domain of `key` takes; None for any number."""
    if key in pod.apart:
        return 1
    values = len(cells.values[-1])
    caps = [limit.max_skew for limit in pod.spread if limit.key == key and values < limit.min_domains]
    return min(caps) if caps else None


def cell_sums(cells: Cells, per_class: Ints) -> Ints:
    """int64 [cell]: the sum over a cell's nodes."""
    if not cells.count:
        return np.zeros(0, dtype=np.int64)
    return np.add.reduceat(per_class[cells.class_index] * cells.node_count, cells.indptr[:-1])


# ---- mixed sets ---------------------------------------------------------------------------------------------------
def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Subsets of two or more sets."""
    if count <= SUBSET_SETS_MAX:
        for size in range(2, count + 1):
            yield from combinations(range(count), size)
    elif count > 1:
        yield tuple(range(count))


def together(pods: tuple[PodDemand, ...], fits: tuple[Ints, ...], classes: Classes, view: View) -> Ints:
    """int64 [class]: at most how many Pods of these sets, mixed at will, one node holds."""
    stacked: Ints = np.stack(fits)
    able = stacked > 0
    limit: Ints = np.where(able.any(axis=0), np.minimum(column(classes, "pods"), FIT_MAX), 0)
    names = reduce(lambda left, right: left & right, (set(dict(pod.request)) for pod in pods))
    for name in sorted(names):
        if view.optimistic and is_mapped(view.snapshot, name):
            continue
        amounts = np.array([dict(pod.request)[name] for pod in pods], dtype=np.int64)
        least = np.where(able, amounts[:, np.newaxis], np.iinfo(np.int64).max).min(axis=0)
        limit = np.minimum(limit, column(classes, name) // least)
    everyone: Ints = stacked.sum(axis=0)
    return np.minimum(limit, everyone)


def _mixed(
    pods: tuple[PodDemand, ...], fits: tuple[Ints, ...], caps: tuple[Ints, ...], kinds: DomainKinds, view: View
) -> Ints:
    """int64 [kind]: at most how many Pods of all sets, by every subset."""
    classes = kinds.cells.classes
    counts = [MANY if pod.count is None else min(pod.count, MANY) for pod in pods]
    everyone = sum(counts)
    singles = [np.minimum(cap, count) for cap, count in zip(caps, counts, strict=True)]
    holds: Ints = np.minimum(np.sum(singles, axis=0), everyone)
    for subset in _subsets(len(pods)):
        chosen = tuple(pods[i] for i in subset)
        joint = together(chosen, tuple(fits[i] for i in subset), classes, view)
        is_pinned = bool(set.intersection(*(set(pod.pins) for pod in chosen)))
        cap = domain_most(kinds, joint) if is_pinned else domain_sums(kinds, joint)
        outside = everyone - sum(counts[i] for i in subset)
        rest = np.minimum(
            np.sum([singles[i] for i in range(len(pods)) if i not in subset] or [np.zeros_like(cap)], axis=0), outside
        )
        holds = np.minimum(holds, cap + rest)
    return holds


def _resource_room(leaf: LeafDemand, fits: tuple[Ints, ...], kinds: DomainKinds, view: View) -> tables.Bools:
    """bool [kind]: each resource alone suffices for the `needed` Pods that ask least of it."""
    classes = kinds.cells.classes
    able = np.stack(fits).max(axis=0) > 0
    result = np.ones(len(kinds.starts), dtype=np.bool_)
    for name in sorted({name for pod in leaf.pods for name, _ in pod.request}):
        if view.optimistic and is_mapped(view.snapshot, name):
            continue
        needed = least_amount(leaf, name)
        have = np.where(able, column(classes, name), 0).astype(np.float64)
        if len(kinds.starts):
            room = np.add.reduceat(have[kinds.class_index] * kinds.node_count, kinds.starts)
            # Sums of floats are off by less than this share; never to the side that would prove too much.
            result &= room * (1 + 1e-9) >= needed
    return result


def least_amount(leaf: LeafDemand, resource: str) -> int:
    """What the `needed` Pods that ask least of a resource ask together."""
    left, amount = leaf.needed, 0
    for each, count in sorted((dict(pod.request).get(resource, 0), pod.count) for pod in _counted(leaf)):
        taken = min(left, count)
        amount += taken * each
        left -= taken
    return amount


@dataclass(frozen=True, slots=True)
class _Counted:
    request: tuple[tuple[str, int], ...]
    count: int


def _counted(leaf: LeafDemand) -> list[_Counted]:
    return [_Counted(pod.request, MANY if pod.count is None else pod.count) for pod in leaf.pods]


# ---- composite trees ----------------------------------------------------------------------------------------------
class TreeBounds:
    """Counts, level by level, how many copies of each group the domains hold, each group taken alone.

    cells: the finest domains of all topology keys in the tree. root_units int64 [domain of the root]: children that
    fit there, at most. is_exact: one kind of Pod and one kind of child at each level, where the count is reached.
    """

    def __init__(self, root: TreeDemand, view: View) -> None:
        self.view = view
        self.root = root
        self.pods = distinct_pods(root)
        keys = tuple(dict.fromkeys([*_tree_keys(root), *_apart_keys(self.pods)]))
        self.cells = tables.cells(view.snapshot, view.question, label_keys(self.pods), keys)
        classes = self.cells.classes
        self.fits = {pod: fit(pod, classes, view.snapshot, optimistic=view.optimistic) for pod in self.pods}
        self._sums = {pod: cell_sums(self.cells, one) for pod, one in self.fits.items()}
        self._together: dict[tuple[PodDemand, ...], Ints] = {}
        self._partitions: dict[tuple[str, ...], tuple[Ints, int]] = {}
        self._units: dict[tuple[GroupDemand, tuple[str, ...]], Ints] = {}
        self.is_exact = _is_uniform(root)
        own = extend((), root.topology_key)
        self.root_keys = own
        self.root_units = self._children(root, own)

    def partition(self, keys: tuple[str, ...]) -> tuple[Ints, int]:
        """int64 [cell]: which domain of these keys it is in, MISSING without one of them; and how many there are."""
        found = self._partitions.get(keys)
        if found is None:
            rows = [self.cells.keys.index(key) for key in keys]
            codes = self.cells.codes[rows]
            present = (codes != MISSING).all(axis=0)
            ids = np.full(self.cells.count, MISSING, dtype=np.int64)
            if not rows:
                ids[:] = 0
                found = ids, min(1, self.cells.count)
            else:
                distinct, inverse = np.unique(codes[:, present], axis=1, return_inverse=True)
                ids[present] = inverse.reshape(-1)
                found = ids, int(distinct.shape[1])
            self._partitions[keys] = found
        return found

    def gather(self, keys: tuple[str, ...], per_cell: Ints) -> Ints:
        """int64 [domain of keys]: the sum over its cells."""
        ids, count = self.partition(keys)
        inside = ids != MISSING
        sums = np.bincount(ids[inside], weights=per_cell[inside].astype(np.float64), minlength=count)
        return sums.astype(np.int64)

    def units(self, group: GroupDemand, keys: tuple[str, ...]) -> Ints:
        """int64 [domain of keys]: at most how many copies of the group fit, if nothing else is there."""
        found = self._units.get((group, keys))
        if found is None:
            own = extend(keys, group.topology_key)
            copies = self._leaf_copies(group, own) if isinstance(group, LeafDemand) else self._tree_copies(group, own)
            found = self._units[group, keys] = copies if own == keys else self._lift(copies, own, keys)
        return found

    def _lift(self, per_domain: Ints, inner: tuple[str, ...], outer: tuple[str, ...]) -> Ints:
        """Sums over the inner domains of each outer domain."""
        inner_ids, count = self.partition(inner)
        outer_ids, outer_count = self.partition(outer)
        parent = np.zeros(count, dtype=np.int64)
        inside = inner_ids != MISSING
        parent[inner_ids[inside]] = outer_ids[inside]
        result = np.zeros(outer_count, dtype=np.int64)
        np.add.at(result, parent, per_domain)
        return result

    def _leaf_copies(self, leaf: LeafDemand, keys: tuple[str, ...]) -> Ints:
        caps = [self.gather(keys, self._sums[pod]) for pod in leaf.pods]
        caps = [_apart_from_own_key(pod, keys, cap) for pod, cap in zip(leaf.pods, caps, strict=True)]
        if len(leaf.pods) == 1:
            return caps[0] // leaf.needed
        counts = [MANY if pod.count is None else pod.count for pod in leaf.pods]
        result = np.full(len(caps[0]), MANY, dtype=np.int64)
        subsets = [(i,) for i in range(len(counts))] + list(_subsets(len(counts)))
        for subset in subsets:
            least = leaf.needed - sum(count for i, count in enumerate(counts) if i not in subset)
            if least > 0:
                cap = caps[subset[0]] if len(subset) == 1 else self._joint(tuple(leaf.pods[i] for i in subset), keys)
                result = np.minimum(result, cap // least)
        return result

    def _joint(self, pods: tuple[PodDemand, ...], keys: tuple[str, ...]) -> Ints:
        pods = tuple(dict.fromkeys(pods))
        per_cell = self._together.get(pods)
        if per_cell is None:
            fits = tuple(self.fits[pod] for pod in pods)
            per_cell = cell_sums(self.cells, together(pods, fits, self.cells.classes, self.view))
            self._together[pods] = per_cell
        return self.gather(keys, per_cell)

    def _children(self, group: TreeDemand, keys: tuple[str, ...]) -> Ints:
        """int64 [domain of keys]: children of one copy of the group that fit, at most."""
        total: Ints = np.zeros(self.partition(keys)[1], dtype=np.int64)
        for child, copies in kinds_of_children(group):
            total = total + np.minimum(self.units(child, keys), copies)
        pods = distinct_pods(group)
        if len(pods) > 1 or len(kinds_of_children(group)) > 1:
            room = self._joint(pods, keys)
            fitting = np.zeros_like(total)
            for size in _smallest(group):
                fitting = fitting + (room >= size)
            total = np.minimum(total, fitting)
        return total

    def _tree_copies(self, group: TreeDemand, keys: tuple[str, ...]) -> Ints:
        """t copies need, for every subset S of the kinds of children, t * (needed - those outside S) <= units of S."""
        kinds = kinds_of_children(group)
        units = [self.units(child, keys) for child, _ in kinds]
        result = np.full(self.partition(keys)[1], MANY, dtype=np.int64)
        subsets = [(i,) for i in range(len(kinds))] + list(_subsets(len(kinds)))
        for subset in subsets:
            least = group.needed - sum(copies for i, (_, copies) in enumerate(kinds) if i not in subset)
            if least > 0:
                result = np.minimum(result, np.sum([units[i] for i in subset], axis=0) // least)
        if len(distinct_pods(group)) > 1 or len(kinds) > 1:
            smallest = pod_count_min(group)
            result = np.minimum(result, self._joint(distinct_pods(group), keys) // max(1, smallest))
        return result


def extend(keys: tuple[str, ...], key: str | None) -> tuple[str, ...]:
    """The path of topology keys one level down."""
    return keys if key is None or key in keys else (*keys, key)


def kinds_of_children(group: TreeDemand) -> list[tuple[GroupDemand, int]]:
    """Distinct children with how many there are of each (MANY for any number)."""
    found: dict[GroupDemand, int] = {}
    for child in group.children:
        one = replace(child, copies=1)
        found[one] = min(MANY, found.get(one, 0) + (MANY if child.copies is None else child.copies))
    return list(found.items())


def pod_count_min(group: GroupDemand) -> int:
    """The fewest Pods with which one copy of the group starts."""
    return group.needed if isinstance(group, LeafDemand) else sum(_sizes(group)[: group.needed])


def _sizes(group: TreeDemand) -> list[int]:
    """Fewest Pods of each child, smallest first, with copies up to `needed`."""
    sizes: list[int] = []
    for child in group.children:
        copies = group.needed if child.copies is None else min(child.copies, group.needed)
        sizes += [pod_count_min(child)] * copies
    return sorted(sizes)


def _smallest(group: TreeDemand) -> list[int]:
    """Fewest Pods of the 1, 2, 3, ... smallest children together."""
    result, total = [], 0
    for size in _sizes(group):
        total += size
        result.append(total)
    return result


def distinct_pods(group: GroupDemand) -> tuple[PodDemand, ...]:
    """Distinct Pod sets of a tree, counts aside from nothing: equal sets are one."""
    if isinstance(group, LeafDemand):
        return tuple(dict.fromkeys(group.pods))
    return tuple(dict.fromkeys(pod for child in dict.fromkeys(group.children) for pod in distinct_pods(child)))


def _tree_keys(group: GroupDemand) -> Iterator[str]:
    if group.topology_key:
        yield group.topology_key
    if isinstance(group, TreeDemand):
        for child in group.children:
            yield from _tree_keys(child)


def _apart_keys(pods: tuple[PodDemand, ...]) -> Iterator[str]:
    """Keys over which Pods keep each other away: the search counts Pods by them."""
    for pod in pods:
        yield from (key for key in pod.apart if key != HOSTNAME)


def _is_uniform(group: GroupDemand) -> bool:
    if isinstance(group, LeafDemand):
        pod = group.pods[0]
        return len(group.pods) == 1 and not (pod.spread or pod.apart or pod.ports or pod.pins)
    return len(set(group.children)) == 1 and _is_uniform(group.children[0])
