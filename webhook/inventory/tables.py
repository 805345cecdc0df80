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
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from webhook.inventory.snapshot import Node, Question, Snapshot

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Stands for the node's name among label keys: node affinity by matchFields. No label key holds a NUL.
NAME_KEY = "\0metadata.name"
HOSTNAME = "kubernetes.io/hostname"
MISSING = -1
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

    amounts: int64 [shape, resource]. codes: int64 [4, node]: indices into `amounts`, `taint_sets`, `port_sets`,
    and 1 where the hostname label is missing. is_open: bool [node].
    has_unique_hostnames: every node has a hostname label of its own. devices: Snapshot.devices. prepared: what the
    device engine keeps with the table.
    """

    def __init__(self, nodes: Sequence[Node], question: Question, devices: object = None) -> None:
        self.question = question
        self.devices = devices
        self.prepared: dict[Hashable, Any] = {}
        self.nodes = tuple(node for node in nodes if node.counts(question))
        self.resources: dict[str, int] = {}
        shapes: dict[frozenset[tuple[str, int]], int] = {}
        taint_sets: dict[Hashable, int] = {}
        port_sets: dict[Hashable, int] = {}
        codes = np.empty((4, len(self.nodes)), dtype=np.int64)
        used_ports = question is Question.NOT_NOW
        for index, node in enumerate(self.nodes):
            capacity = node.capacity(question)
            for name in capacity:
                self.resources.setdefault(name, len(self.resources))
            shape = frozenset(item for item in capacity.items() if item[1])
            codes[0, index] = shapes.setdefault(shape, len(shapes))
            codes[1, index] = taint_sets.setdefault(node.taints, len(taint_sets))
            codes[2, index] = port_sets.setdefault(node.used_ports if used_ports else frozenset(), len(port_sets))
            codes[3, index] = HOSTNAME not in node.labels
        self.codes = codes
        hostnames = {node.labels.get(HOSTNAME) for node in self.nodes}
        self.has_unique_hostnames = None not in hostnames and len(hostnames) == len(self.nodes)
        self.amounts = np.zeros((len(shapes), len(self.resources)), dtype=np.int64)
        for row, amounts in enumerate(shapes):
            for name, amount in amounts:
                self.amounts[row, self.resources[name]] = min(amount, AMOUNT_MAX)
        self.taint_sets: list[Any] = list(taint_sets)
        self.port_sets: list[Any] = list(port_sets)
        self.is_open = np.array([node.open_labels for node in self.nodes], dtype=np.bool_)
        self.has_open = bool(self.is_open.any())
        self._columns: dict[str, tuple[Ints, list[str]]] = {}

    def label(self, key: str) -> tuple[Ints, list[str]]:
        """codes int64 [node] (MISSING without the label) and the values they stand for."""
        column = self._columns.get(key)
        if column is None and isinstance(key, NodeKey):
            column = self._columns.setdefault(key, key.codes(self))
        if column is None:
            values: dict[str, int] = {}
            codes = np.full(len(self.nodes), MISSING, dtype=np.int64)
            for index, node in enumerate(self.nodes):
                # A pool's node has no name yet.
                name = None if node.open_labels else node.name
                value = name if key == NAME_KEY else node.labels.get(key)
                if value is not None:
                    codes[index] = values.setdefault(value, len(values))
            column = self._columns.setdefault(key, (codes, list(values)))
        return column


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
        distinct, example, of_node = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
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
        codes, cell_of = np.unique(node_codes[:, fixed], axis=1, return_inverse=True)
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


def base(snapshot: Snapshot, question: Question) -> Base:
    """The nodes that count for the question."""
    return _kept(snapshot, ("base", question), lambda: Base(snapshot.nodes, question, snapshot.devices))


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
