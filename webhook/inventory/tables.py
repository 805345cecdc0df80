"""Prepared tables of a Snapshot: node classes and domains, made on first use and kept with the snapshot.

Nodes that no demand of the same selector keys can tell apart form one *class*; a domain is a short list of (class,
node count). So a decision costs as much as there are distinct shapes and domains, whatever the number of nodes.

- `base(snapshot, question)`: the nodes that count, their capacities as a matrix, one row per distinct *shape*.
- `classes(snapshot, question, label_keys)`: classes by shape, taints, devices, ports and the labels asked for.
- `cells(snapshot, question, label_keys, topology_keys)`: the finest domains of one or more topology keys; a node
  without a key is in a cell whose code for it is MISSING. `DomainKinds` folds cells with equal content into one.

All arrays are read-only by convention; int64 where they hold amounts. Source of the rules: kubernetes-1.37 4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from webhook.inventory import node_table as columns
from webhook.inventory.node_table import LazyNodes, NodeTable
from webhook.inventory.snapshot import Node, Question, Snapshot

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Stands for the node's name among label keys: node affinity by matchFields. No label key holds a NUL.
NAME_KEY = "\0metadata.name"
HOSTNAME = "kubernetes.io/hostname"
MISSING = columns.MISSING
AMOUNT_MAX = 2**63 - 1
# Tenants choose label keys, so the cache needs an end. A table of 5,120 nodes takes about 200 KiB.
PREPARED_COUNT_MAX = 128

T = TypeVar("T")


class NodeKey(str):
    """Stands among label keys for something else that tells nodes apart: `codes` gives what Base.label gives."""

    __slots__ = ()

    def codes(self, base: Base) -> tuple[Ints, list[str]]:
        raise NotImplementedError


def _kept(snapshot: Snapshot, key: Hashable, make: Callable[[], T]) -> T:
    found = snapshot.prepared.get(key)
    if found is None:
        if len(snapshot.prepared) >= PREPARED_COUNT_MAX:
            snapshot.prepared.clear()
        found = snapshot.prepared.setdefault(key, make())
    return found  # type: ignore[no-any-return]


class Base:
    """The nodes that count for a question.

    table, rows: all nodes, and which of them count. amounts: int64 [shape, resource]. codes: int64 [4, node]: indices into `amounts`, `taint_sets`, `port_sets`,
    and 1 where the hostname label is missing. is_open, is_real: bool [node].
    has_unique_hostnames: every node has a hostname label of its own. devices: Snapshot.devices. prepared: what the
    device engine keeps with the table.
    """

    def __init__(self, nodes: Sequence[Node], question: Question, devices: object = None) -> None:
        self.question = question
        self.devices = devices
        self.prepared: dict[Hashable, Any] = {}
        self._columns: dict[str, tuple[Ints, list[str]]] = {}
        self.table = table = NodeTable.of(nodes)
        everyone = np.arange(len(table), dtype=np.int64)
        self.rows: Ints = everyone if question is Question.NEVER else everyone[~table.is_away()]
        self.nodes: Sequence[Node] = table if len(self.rows) == len(table) else _Some(table, self.rows)
        self.resources: dict[str, int] = {}
        shape_of, self.amounts = self._free() if question is Question.NOT_NOW else self._shapes()
        taints_of, self.taint_sets = self._distinct("taints")
        if question is Question.NOT_NOW:
            taken = table.used_ports()
            ports_of, self.port_sets = _compact(taken.codes[self.rows], taken.values)
        else:
            ports_of, self.port_sets = np.zeros(len(self.rows), dtype=np.int64), [frozenset()]
        hostnames = self.label(HOSTNAME) if HOSTNAME in table.labels else None
        no_hostname = np.ones(len(self.rows), dtype=np.bool_) if hostnames is None else hostnames[0] == MISSING
        self.codes: Ints = np.stack([shape_of, taints_of, ports_of, no_hostname.astype(np.int64)])
        self.has_unique_hostnames = not no_hostname.any() and (
            (hostnames is not None and len(hostnames[1]) == len(self.rows)) or not len(self.rows)
        )
        is_open, values = self._distinct("open_labels")
        self.is_open: Bools = np.array(values, dtype=np.bool_)[is_open]
        self.has_open = bool(self.is_open.any())
        is_real, values = self._distinct("real")
        self.is_real: Bools = np.array(values, dtype=np.bool_)[is_real]

    def _distinct(self, name: str) -> tuple[Ints, list[Any]]:
        """int64 [node] and the values that these nodes have."""
        column = self.table.fields[name]
        return _compact(column.codes[self.rows], column.values)

    def _shapes(self) -> tuple[Ints, Ints]:
        """int64 [node] -> shape, and the amounts of each shape; nodes that have the same have one."""
        table, rows = self.table, self.rows
        read = [table.fields[name].codes[rows] for name in ("allocatable", "potential")]
        _, first, kind_of = np.unique(_joined(read), return_index=True, return_inverse=True)
        shapes: dict[frozenset[tuple[str, int]], int] = {}
        shape_of_kind = np.empty(len(first), dtype=np.int64)
        for kind in np.argsort(first):  # in the order of nodes
            capacity = table[int(rows[first[kind]])].capacity(self.question)
            for name in capacity:
                self.resources.setdefault(name, len(self.resources))
            shape = frozenset(item for item in capacity.items() if item[1])
            shape_of_kind[kind] = shapes.setdefault(shape, len(shapes))
        amounts = np.zeros((len(shapes), len(self.resources)), dtype=np.int64)
        for row, content in enumerate(shapes):
            for name, amount in content:
                amounts[row, self.resources[name]] = min(amount, AMOUNT_MAX)
        return shape_of_kind[kind_of.reshape(-1)], amounts

    def _free(self) -> tuple[Ints, Ints]:
        """As `_shapes`, of what the Pods leave: on a busy cluster each node is a shape of its own."""
        offers = self.table.fields["allocatable"]
        for offer in offers.values:
            for name in offer:
                self.resources.setdefault(name, len(self.resources))
        has = np.zeros((len(offers.values), len(self.resources)), dtype=np.int64)
        for code, offer in enumerate(offers.values):
            for name, amount in offer.items():
                has[code, self.resources[name]] = min(amount, AMOUNT_MAX)
        free = np.maximum(has[offers.codes[self.rows]] - self.table.used(self.resources)[self.rows], 0)
        columns = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in free.T]
        if not columns:
            return np.zeros(len(self.rows), dtype=np.int64), np.zeros((min(1, len(self.rows)), 0), dtype=np.int64)
        _, first, shape_of = np.unique(_joined(columns), return_index=True, return_inverse=True)
        return shape_of.reshape(-1).astype(np.int64), free[first]

    def label(self, key: str) -> tuple[Ints, list[str]]:
        """codes int64 [node] (MISSING without the label) and the values they stand for."""
        column = self._columns.get(key)
        if column is None and isinstance(key, NodeKey):
            column = self._columns.setdefault(key, key.codes(self))
        if column is None and key == NAME_KEY:
            # A pool's node has no name yet.
            codes = np.where(self.is_open, MISSING, np.arange(len(self.rows), dtype=np.int64))
            column = self._columns.setdefault(key, (codes, [self.table.names[row] for row in self.rows]))
        if column is None:
            known = self.table.labels.get(key)
            nowhere: tuple[Ints, list[str]] = (np.full(len(self.rows), MISSING, dtype=np.int64), [])
            found = nowhere if known is None else _compact(known.codes[self.rows], known.values)
            column = self._columns.setdefault(key, found)
        return column


class _Some(LazyNodes):
    """Some rows of a table."""

    def __init__(self, table: NodeTable, rows: Ints) -> None:
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return len(self._rows)

    def node(self, index: int) -> Node:
        return self._table.node(int(self._rows[index]))


def _compact(codes: Ints, values: Sequence[Any]) -> tuple[Ints, list[Any]]:
    """The same with only those values that occur."""
    found, of_row = np.unique(codes, return_inverse=True)
    is_missing = len(found) > 0 and found[0] == MISSING
    return of_row.reshape(-1).astype(np.int64) - int(is_missing), [values[code] for code in found[int(is_missing) :]]


def _joined(columns: Sequence[Ints]) -> Ints:
    """One number per row, equal where all columns are, in the order of the columns. Sorting numbers is ten times cheaper
    than sorting rows."""
    total: Ints | None = None
    for column in columns:
        if total is None:
            total = column.astype(np.int64)
            continue
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        if len(total) and int(total.max()) >= AMOUNT_MAX // span - 1:
            total = np.unique(total, return_inverse=True)[1].reshape(-1).astype(np.int64)
        total = total * span + (column - low)
    return np.zeros(0, dtype=np.int64) if total is None else total


class Classes:
    """Node classes for a set of label keys.

    amounts: int64 [class, resource]. of_node: int64 [node] -> class. example: int64 [class], one node of each.
    taint_set, port_set: int64 [class]. no_hostname, is_open: bool [class]. masks: what was computed per requirement.
    """

    def __init__(self, base: Base, label_keys: tuple[str, ...]) -> None:
        self.base = base
        self.label_keys = label_keys
        columns = [base.codes, base.is_open[np.newaxis, :].astype(np.int64)]
        columns += [base.label(key)[0][np.newaxis, :] for key in label_keys]
        stacked = np.concatenate(columns)
        _, example, of_node = np.unique(_joined(list(stacked)), return_index=True, return_inverse=True)
        distinct = stacked[:, example]
        self.of_node: Ints = of_node.reshape(-1).astype(np.int64)
        self.example: Ints = example.astype(np.int64)
        self.amounts: Ints = base.amounts[distinct[0]]
        self.columns: Ints = np.ascontiguousarray(self.amounts.T)
        self.taint_set: Ints = distinct[1]
        self.port_set: Ints = distinct[2]
        self.no_hostname: Bools = distinct[3].astype(np.bool_)
        self.is_open: Bools = distinct[4].astype(np.bool_)
        self.labels: dict[str, Ints] = {key: distinct[5 + index] for index, key in enumerate(label_keys)}
        self.masks: dict[Hashable, Bools] = {}

    def __len__(self) -> int:
        return len(self.example)

    def label_mask(self, requirement: Hashable, key: str, test: Callable[[str | None], bool]) -> Bools:
        """bool [class]: where `test` holds for the label's value (None where it is absent). A label that an open node
        may still get holds. `requirement` identifies the test."""
        mask = self.masks.get(requirement)
        if mask is None:
            values = self.base.label(key)[1]
            # The last entry is for MISSING, which as index -1 finds it.
            by_code = np.array([test(value) for value in values] + [test(None)], dtype=np.bool_)
            codes = self.labels[key]
            mask = self.masks.setdefault(requirement, by_code[codes] | (self.is_open & (codes == MISSING)))
        return mask

    def set_mask(self, identity: Hashable, codes: Ints, test: Callable[[Any], bool], of: Sequence[Any]) -> Bools:
        """bool [class]: where `test` holds for the class's entry of `of` (taint sets, port sets)."""
        mask = self.masks.get(identity)
        if mask is None:
            by_code = np.array([test(entry) for entry in of], dtype=np.bool_)
            mask = self.masks.setdefault(identity, by_code[codes])
        return mask


class Cells:
    """The finest domains of some topology keys.

    codes: int64 [key, cell], MISSING where the cell's nodes lack the key; values[key]: label value per code.
    indptr int64 [cell + 1], class_index and node_count int64 [entry]: which classes each cell holds, and how many.
    order int64 [node entries], offsets int64 [entry + 1]: the nodes of each entry, as indices into base.nodes.
    Nodes with open labels are in every cell they may turn out to be in, one nobody has seen included: sums over cells
    are upper bounds then. That is done for one key only; `is_complete` is False where more keys met open nodes.
    """

    def __init__(self, classes: Classes, keys: tuple[str, ...]) -> None:
        self.classes = classes
        self.keys = keys
        base = classes.base
        columns = [base.label(key) for key in keys]
        self.values: list[list[str]] = [values for _, values in columns]
        node_codes = (
            np.stack([codes for codes, _ in columns]) if keys else np.zeros((0, len(base.nodes)), dtype=np.int64)
        )
        self.is_complete = len(keys) <= 1 or not base.has_open
        codes, cell_of, node_of = self._entries(base, node_codes)
        self.codes: Ints = codes
        class_of = classes.of_node[node_of]
        order = np.lexsort((class_of, cell_of))
        cell_sorted, class_sorted = cell_of[order], class_of[order]
        self.order: Ints = node_of[order]
        starts = np.ones(len(order), dtype=np.bool_)
        starts[1:] = (cell_sorted[1:] != cell_sorted[:-1]) | (class_sorted[1:] != class_sorted[:-1])
        first = np.flatnonzero(starts)
        self.offsets: Ints = np.append(first, len(order)).astype(np.int64)
        self.class_index: Ints = class_sorted[first]
        self.node_count: Ints = np.diff(self.offsets)
        self.entry_cell: Ints = cell_sorted[first]
        self.indptr: Ints = np.searchsorted(self.entry_cell, np.arange(self.count + 1)).astype(np.int64)

    def _entries(self, base: Base, node_codes: Ints) -> tuple[Ints, Ints, Ints]:
        """Distinct cells, and for every (cell, node) pair the two indices."""
        node_count = len(base.nodes)
        everyone = np.arange(node_count, dtype=np.int64)
        if not len(node_codes):
            return np.zeros((0, min(1, node_count)), dtype=np.int64), np.zeros(node_count, dtype=np.int64), everyone
        drifting = base.is_open & (node_codes == MISSING).any(axis=0)
        fixed = everyone[~drifting]
        _, first, cell_of = np.unique(_joined(list(node_codes[:, fixed])), return_index=True, return_inverse=True)
        codes = node_codes[:, fixed[first]]
        cell_of = cell_of.reshape(-1).astype(np.int64)
        if not drifting.any():
            return codes, cell_of, fixed
        # A value nobody has yet: a new node may open a domain of its own.
        fresh = np.array([[len(values)] for values in self.values], dtype=np.int64)
        codes = np.concatenate([codes, fresh], axis=1)
        pairs_cell, pairs_node = [cell_of], [fixed]
        for node in everyone[drifting]:
            own = node_codes[:, node][:, np.newaxis]
            fits = ((own == MISSING) & (codes != MISSING) | (own == codes)).all(axis=0)
            fits[-1] = True
            reached = np.flatnonzero(fits)
            pairs_cell.append(reached)
            pairs_node.append(np.full(len(reached), node, dtype=np.int64))
        return codes, np.concatenate(pairs_cell), np.concatenate(pairs_node)

    @property
    def count(self) -> int:
        return int(self.codes.shape[1])

    def value(self, key_index: int, cell: int) -> str | None:
        """The label value of a cell; None where its nodes lack the key."""
        code = int(self.codes[key_index, cell])
        if code == MISSING:
            return None
        values = self.values[key_index]
        return values[code] if code < len(values) else "(a new one)"

    def entry_nodes(self, entry: int) -> Ints:
        """The nodes of one entry, as indices into base.nodes."""
        return self.order[self.offsets[entry] : self.offsets[entry + 1]]


@dataclass(frozen=True)
class DomainKinds:
    """Cells with every key present, folded: those with equal content are one kind.

    example int64 [kind]: one cell of each. domain_count int64 [kind]. starts int64 [kind], class_index and node_count
    int64 [entry]: their content, ready for np.add.reduceat. cells_of: the cells of each kind, in order.
    """

    cells: Cells
    example: Ints
    domain_count: Ints
    starts: Ints
    class_index: Ints
    node_count: Ints
    cells_of: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, cells: Cells) -> DomainKinds:
        """Equal cells folded into one kind."""
        kinds: dict[bytes, list[int]] = {}
        for cell in _present(cells):
            begin, end = cells.indptr[cell], cells.indptr[cell + 1]
            content = cells.class_index[begin:end].tobytes() + cells.node_count[begin:end].tobytes()
            kinds.setdefault(content, []).append(cell)
        return cls.of_cells(cells, list(kinds.values()))

    @classmethod
    def of_cells(cls, cells: Cells, members: list[list[int]]) -> DomainKinds:
        """Kinds of the given cells; the cells of one kind have equal content."""
        example = np.array([of_kind[0] for of_kind in members], dtype=np.int64)
        entries = [np.arange(cells.indptr[cell], cells.indptr[cell + 1]) for cell in example]
        flat = np.concatenate(entries) if entries else np.zeros(0, dtype=np.int64)
        lengths = np.array([0] + [len(part) for part in entries], dtype=np.int64)
        return cls(
            cells=cells,
            example=example,
            domain_count=np.array([len(of_kind) for of_kind in members], dtype=np.int64),
            starts=np.cumsum(lengths)[:-1],
            class_index=cells.class_index[flat],
            node_count=cells.node_count[flat],
            cells_of=tuple(tuple(of_kind) for of_kind in members),
        )

    def content(self, kind: int) -> slice:
        """The entries of one kind in class_index and node_count."""
        end = int(self.starts[kind + 1]) if kind + 1 < len(self.starts) else len(self.class_index)
        return slice(int(self.starts[kind]), end)


def _present(cells: Cells) -> list[int]:
    """Cells whose nodes carry every key."""
    return [int(cell) for cell in np.flatnonzero((cells.codes != MISSING).all(axis=0))]


def node_table(snapshot: Snapshot) -> NodeTable:
    """All nodes as columns."""
    return _kept(snapshot, "nodes", lambda: NodeTable.of(snapshot.nodes))


def base(snapshot: Snapshot, question: Question) -> Base:
    """The nodes that count for the question."""
    return _kept(snapshot, ("base", question), lambda: Base(node_table(snapshot), question, snapshot.devices))


def classes(snapshot: Snapshot, question: Question, label_keys: tuple[str, ...]) -> Classes:
    """Node classes for demands whose selectors read these label keys (sorted)."""
    key = ("classes", question, label_keys)
    return _kept(snapshot, key, lambda: Classes(base(snapshot, question), label_keys))


def cells(snapshot: Snapshot, question: Question, label_keys: tuple[str, ...], keys: tuple[str, ...]) -> Cells:
    """The finest domains of the topology keys (in this order)."""
    key = ("cells", question, label_keys, keys)
    return _kept(snapshot, key, lambda: Cells(classes(snapshot, question, label_keys), keys))


def domain_kinds(
    snapshot: Snapshot, question: Question, label_keys: tuple[str, ...], keys: tuple[str, ...]
) -> DomainKinds:
    """Domains of the topology keys, all of which a node must have, folded by content."""
    key = ("kinds", question, label_keys, keys)
    return _kept(snapshot, key, lambda: DomainKinds.of(cells(snapshot, question, label_keys, keys)))


def every_domain(
    snapshot: Snapshot, question: Question, label_keys: tuple[str, ...], keys: tuple[str, ...]
) -> DomainKinds:
    """As domain_kinds, but each domain is a kind of its own: for limits that look inside a domain."""
    found = cells(snapshot, question, label_keys, keys)
    key = ("every", question, label_keys, keys)
    return _kept(snapshot, key, lambda: DomainKinds.of_cells(found, [[cell] for cell in _present(found)]))


_TABLES: dict[object, Callable[..., object]] = {
    "base": base,
    "classes": classes,
    "cells": cells,
    "kinds": domain_kinds,
    "every": every_domain,
}


def prepare_like(snapshot: Snapshot, former: Snapshot) -> None:
    """Makes the tables that requests asked of the former version, so that the next one need not wait for them."""
    for key in list(former.prepared):
        if isinstance(key, tuple) and key[0] in _TABLES:
            _TABLES[key[0]](snapshot, *key[1:])


def has_pods(snapshot: Snapshot) -> bool:
    """Is it known what Pods take from the nodes? Without, nothing is said of "not now"."""
    return node_table(snapshot).has_pods()


def has_lower_priority(snapshot: Snapshot, priority: int) -> bool:
    """Is there a Pod that this priority may preempt?"""
    usage = node_table(snapshot).usage
    return usage is not None and bool((usage.priority < priority).any())


def without_lower_priority(snapshot: Snapshot, priority: int) -> Snapshot | None:
    """The same cluster without the Pods that this priority may preempt; None where priorities are not known."""
    usage = node_table(snapshot).usage
    if usage is None:
        return None
    levels = tuple(sorted({int(level) for level in np.unique(usage.priority) if level >= priority}))

    def make() -> Snapshot:
        nodes = node_table(snapshot).with_usage(usage.from_priority(priority))
        return replace(snapshot, nodes=nodes, prepared={})

    return _kept(snapshot, ("without lower", levels), make)


def once(snapshot: Snapshot, name: str, make: Callable[[], T]) -> T:
    """What a rule wants to know of all nodes, worked out once per snapshot: a walk over 5,120 nodes takes longer than
    everything else that is done for a request."""
    return _kept(snapshot, ("rules", name), make)


def question_of(key: Hashable) -> Question | None:
    """Which question the table under this key answers; None for what is no table and may rest on anything."""
    return key[1] if isinstance(key, tuple) and len(key) > 1 and key[0] in _TABLES else None
