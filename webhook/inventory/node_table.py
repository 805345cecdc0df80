"""Nodes as columns: what a replica keeps once for all of its processes, and maps instead of decoding.

A cluster has few kinds of nodes: what is equal is kept once, and a node is a row of indices. `NodeTable` is a sequence of
`Node`, each made when asked for; tables.py reads the columns. `TableBuilder` makes one from Nodes, and changes single rows of
it. `packed` and `unpacked` turn a table into bytes and back without copying the columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, overload

import msgspec
import numpy as np
import numpy.typing as npt

from webhook.inventory.snapshot import NOTHING, Node, Taint
from webhook.inventory.usage import Usage

Ints = npt.NDArray[np.int64]
MISSING = -1
# What a Node is beside its name and labels; each is a column of indices into the different values there are.
FIELDS = ("allocatable", "potential", "taints", "away", "real", "open_labels", "used", "used_ports")
_MAPPINGS = frozenset({"allocatable", "potential", "used"})
_ALIGNMENT = 8
_MAGIC = b"MUSTER-1"


class Column:
    """codes: int64 [row], MISSING where there is no value. values: what they stand for, decoded when first needed."""

    __slots__ = ("_packed", "_values", "codes")

    def __init__(self, codes: Ints, values: list[Any] | None, packed: memoryview | None = None) -> None:
        self.codes = codes
        self._values = values
        self._packed = packed

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            assert self._packed is not None  # noqa: S101  one of the two is there
            self._values = msgspec.msgpack.decode(self._packed)
        return self._values


class RowLabels(Mapping[str, str]):
    """The labels of one row."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: NodeTable, row: int) -> None:
        self._table, self._row = table, row

    def __getitem__(self, key: str) -> str:
        column = self._table.labels[key]
        code = column.codes[self._row]
        if code == MISSING:
            raise KeyError(key)
        return cast("str", column.values[code])

    def __iter__(self) -> Iterator[str]:
        return (key for key, column in self._table.labels.items() if column.codes[self._row] != MISSING)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class LazyNodes(Sequence[Node]):
    """Nodes that are made when they are asked for: `node` makes the one of an index from 0 on."""

    __slots__ = ()

    @abstractmethod
    def node(self, index: int) -> Node: ...

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | Sequence[Node]:
        if isinstance(index, slice):
            return [self.node(one) for one in range(*index.indices(len(self)))]
        return self.node(range(len(self))[index])


class NodeTable(LazyNodes):
    """See the module. fields: a column per name in FIELDS; labels: a column per label key. usage: what Pods take, instead of
    the columns for it. Frozen once it is made."""

    __slots__ = ("_used", "fields", "labels", "names", "usage")

    def __init__(
        self,
        names: Sequence[str],
        fields: Mapping[str, Column],
        labels: Mapping[str, Column],
        usage: Usage | None = None,
    ) -> None:
        self.names, self.fields, self.labels, self.usage = names, fields, labels, usage
        self._used: Ints | None = None

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> NodeTable:
        """The table itself where it is one."""
        return nodes if isinstance(nodes, NodeTable) else TableBuilder(nodes).table()

    def __len__(self) -> int:
        return len(self.names)

    def node(self, index: int) -> Node:
        """The node of this row."""
        parts = {name: column.values[column.codes[index]] for name, column in self.fields.items()}
        if self.usage is not None:
            parts |= self._used_of(index)
        return Node(name=self.names[index], labels=RowLabels(self, index), **parts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    # ---- what rules ask of all nodes at once ------------------------------------------------------------------------
    def label_keys(self, *, real: bool = False) -> set[str]:
        """The labels that any node has. real: nodes that exist now alone."""
        there = self.is_real() if real else np.ones(len(self), dtype=np.bool_)
        return {key for key, column in self.labels.items() if (column.codes[there] != MISSING).any()}

    def label_values(self, key: str) -> set[str]:
        """What nodes have of this label."""
        column = self.labels.get(key)
        return set() if column is None else {column.values[code] for code in np.unique(column.codes) if code != MISSING}

    def has_keys(self, keys: Iterable[str]) -> npt.NDArray[np.bool_]:
        """bool [row]: has all of these labels, whatever their values."""
        found = np.ones(len(self), dtype=np.bool_)
        for key in keys:
            column = self.labels.get(key)
            found &= False if column is None else column.codes != MISSING
        return found

    def is_real(self) -> npt.NDArray[np.bool_]:
        """bool [row]: exists now."""
        return self._is_set("real")

    def had_more(self) -> npt.NDArray[np.bool_]:
        """bool [row]: has a high-water mark."""
        return self._is_set("potential")

    def away_counts(self) -> dict[str, int]:
        """Why nodes take no Pods today, and how many."""
        column = self.fields["away"]
        counts = np.bincount(column.codes, minlength=len(column.values))
        return {reason: int(count) for reason, count in zip(column.values, counts, strict=True) if reason and count}

    def rows_that_offer(self, test: Callable[[Mapping[str, int]], bool]) -> Ints:
        """int64: the rows whose allocatable passes; each different one is looked at once."""
        column = self.fields["allocatable"]
        passes = np.array([test(offer) for offer in column.values], dtype=np.bool_)
        return np.flatnonzero(passes[column.codes])

    def _is_set(self, name: str) -> npt.NDArray[np.bool_]:
        column = self.fields[name]
        return np.array([bool(value) for value in column.values], dtype=np.bool_)[column.codes]

    # ---- the Pods on them -------------------------------------------------------------------------------------------
    def with_usage(self, usage: Usage | None) -> NodeTable:
        """The same nodes with these Pods on them."""
        return NodeTable(self.names, self.fields, self.labels, usage)

    def has_pods(self) -> bool:
        """Is it known of any Pod that it is on a node?"""
        if self.usage is not None:
            return len(self.usage.node) > 0
        return any(self.fields["used"].values)

    def used(self, resources: Mapping[str, int]) -> Ints:
        """int64 [row, resource]: what the Pods take. resources: name -> column."""
        result = np.zeros((len(self), len(resources)), dtype=np.int64)
        if self.usage is None:
            column = self.fields["used"]
            amounts = np.zeros((len(column.values), len(resources)), dtype=np.int64)
            for code, used in enumerate(column.values):
                for name in used.keys() & resources.keys():
                    amounts[code, resources[name]] = used[name]
            return amounts[column.codes] if len(self) else result
        per_row = self._used_rows()
        for index, name in enumerate(self.usage.resources):
            if name in resources:
                result[:, resources[name]] = per_row[:, index]
        return result

    def used_ports(self) -> Column:
        """Of each row."""
        if self.usage is None:
            return self.fields["used_ports"]
        rows = self._row_of_name()
        taken: dict[int, set[tuple[str, str, int]]] = {}
        for node, _, port in self.usage.ports:
            row = int(rows[node])
            if row != MISSING:
                taken.setdefault(row, set()).add(port)
        codes = _Codes(len(self))
        codes.fill(frozenset())
        for row, ports in taken.items():
            codes.set(row, frozenset(ports))
        return codes.column()

    def _row_of_name(self) -> Ints:
        """int64 [usage.names] -> row, MISSING for a node that is not there."""
        assert self.usage is not None  # noqa: S101
        rows = {name: row for row, name in enumerate(self.names)}
        return np.array([rows.get(name, MISSING) for name in self.usage.names], dtype=np.int64)

    def _used_rows(self) -> Ints:
        """int64 [row, usage.resources]."""
        if self._used is None:
            assert self.usage is not None  # noqa: S101
            rows = self._row_of_name()
            used = np.zeros((len(self), len(self.usage.resources)), dtype=np.int64)
            used[rows[rows != MISSING]] = self.usage.per_node()[rows != MISSING]
            self._used = used
        return self._used

    def _used_of(self, row: int) -> dict[str, Any]:
        assert self.usage is not None  # noqa: S101
        amounts = self._used_rows()[row]
        used = {name: int(amount) for name, amount in zip(self.usage.resources, amounts, strict=True) if amount}
        name = self.names[row]
        ports = frozenset(port for node, _, port in self.usage.ports if self.usage.names[node] == name)
        return {"used": used or NOTHING, "used_ports": ports}

    # ---- other tables -----------------------------------------------------------------------------------------------
    def followed_by(self, nodes: Sequence[Node]) -> NodeTable:
        """These nodes and then those."""
        more = TableBuilder(nodes).table()
        fields = {
            name: _chained(column, more.fields[name], is_mapping=name in _MAPPINGS)
            for name, column in self.fields.items()
        }
        labels = {
            key: _chained(
                self.labels.get(key) or Column(np.full(len(self), MISSING, dtype=np.int64), []),
                more.labels.get(key) or Column(np.full(len(more), MISSING, dtype=np.int64), []),
            )
            for key in sorted(self.labels.keys() | more.labels.keys())
        }
        return NodeTable((*self.names, *more.names), fields, labels, self.usage)

    def is_away(self) -> npt.NDArray[np.bool_]:
        """bool [row]: takes no Pods today."""
        return self._is_set("away")

    def has_labels(self, labels: Mapping[str, str]) -> npt.NDArray[np.bool_]:
        """bool [row]: carries all of these."""
        found = np.ones(len(self), dtype=np.bool_)
        for key, value in labels.items():
            column = self.labels.get(key)
            code = column.values.index(value) if column is not None and value in column.values else None
            found &= False if column is None or code is None else column.codes == code
        return found


def _chained(one: Column, other: Column, *, is_mapping: bool = False) -> Column:
    """The rows of both; an equal value is one."""

    def key(value: Any) -> Hashable:
        return frozenset(value.items()) if is_mapping else value

    values = list(one.values)
    index = {key(value): code for code, value in enumerate(values)}
    code_of = np.empty(len(other.values) + 1, dtype=np.int64)
    code_of[-1] = MISSING  # which as an index is the last
    for code, value in enumerate(other.values):
        code_of[code] = index.setdefault(key(value), len(values))
        if code_of[code] == len(values):
            values.append(value)
    return Column(np.concatenate([one.codes, code_of[other.codes]]), values)


class TableBuilder:
    """Makes tables; a row may be changed afterwards. Values that no row has any more stay until the next builder."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        self._names = [node.name for node in nodes]
        self._fields = {name: _Codes(len(nodes)) for name in FIELDS}
        self._labels: dict[str, _Codes] = {}
        for row, node in enumerate(nodes):
            self._write(row, node)

    def _write(self, row: int, node: Node) -> None:
        for name, codes in self._fields.items():
            codes.set(row, getattr(node, name), is_mapping=name in _MAPPINGS)
        for key, value in node.labels.items():
            column = self._labels.get(key)
            if column is None:
                column = self._labels[key] = _Codes(len(self._names))
            column.set(row, value)

    def change(self, row: int, node: Node) -> None:
        """Another node in this row, or another state of the same."""
        for column in self._labels.values():
            column.codes[row] = MISSING
        self._names[row] = node.name
        self._write(row, node)

    def table(self) -> NodeTable:
        """As it is now; what the builder does later does not change it."""
        return NodeTable(
            tuple(self._names),
            {name: codes.column() for name, codes in self._fields.items()},
            {key: codes.column() for key, codes in sorted(self._labels.items()) if (codes.codes != MISSING).any()},
        )


class _Codes:
    """A column in the making."""

    __slots__ = ("_index", "codes", "values")

    def __init__(self, row_count: int) -> None:
        self.codes: Ints = np.full(row_count, MISSING, dtype=np.int64)
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}

    def set(self, row: int, value: Any, *, is_mapping: bool = False) -> None:
        key = frozenset(value.items()) if is_mapping else value
        code = self._index.setdefault(key, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        self.codes[row] = code

    def fill(self, value: Any) -> None:
        """Every row has it."""
        self._index[value] = len(self.values)
        self.codes[:] = len(self.values)
        self.values.append(value)

    def column(self) -> Column:
        return Column(self.codes.copy(), list(self.values))


# ---- bytes --------------------------------------------------------------------------------------------------------
def packed(table: NodeTable) -> bytes:
    """The table as bytes: a head in msgpack, then the columns as they are in memory."""
    sections: list[bytes] = []

    def place(column: Column, values: Any) -> int:
        sections.append(np.ascontiguousarray(column.codes).tobytes())
        sections.append(msgspec.msgpack.encode(values))
        return len(sections) - 2

    fields = {name: place(column, _plain(name, column.values)) for name, column in table.fields.items()}
    labels = {key: place(column, column.values) for key, column in table.labels.items()}
    sections.append(msgspec.msgpack.encode(table.names))
    lengths = [len(section) for section in sections]
    head = msgspec.msgpack.encode({"fields": fields, "labels": labels, "lengths": lengths})
    parts = [_MAGIC, len(head).to_bytes(8, "little"), _padded(head), *map(_padded, sections)]
    return b"".join(parts)


def unpacked(data: memoryview | bytes) -> NodeTable:
    """The table that these bytes are; its columns stay where they are. Raises ValueError."""
    view = memoryview(data)
    if bytes(view[:8]) != _MAGIC:
        raise ValueError("this is no table of nodes")
    start = 16
    length = int.from_bytes(view[8:16], "little")
    head = msgspec.msgpack.decode(view[start : start + length])
    sections: list[memoryview] = []
    start += _up(length)
    for length in head["lengths"]:
        sections.append(view[start : start + length])
        start += _up(length)
    if start > len(view):
        raise ValueError("the table of nodes ends too early")

    def column(index: int) -> Ints:
        return np.frombuffer(sections[index], dtype=np.int64)

    fields = {
        name: Column(column(index), _made(name, msgspec.msgpack.decode(sections[index + 1])))
        for name, index in head["fields"].items()
    }
    labels = {key: Column(column(index), None, sections[index + 1]) for key, index in head["labels"].items()}
    return NodeTable(msgspec.msgpack.decode(sections[-1], type=tuple[str, ...]), fields, labels)


def _up(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _padded(section: bytes) -> bytes:
    return section.ljust(_up(len(section)), b"\0")


def _plain(name: str, values: Sequence[Any]) -> list[Any]:
    """As msgpack knows it."""
    if name in _MAPPINGS:
        return [dict(value) for value in values]
    if name == "taints":
        return [[(taint.key, taint.value, taint.effect) for taint in value] for value in values]
    return [sorted(value) for value in values] if name == "used_ports" else list(values)


def _made(name: str, values: list[Any]) -> list[Any]:
    """And back."""
    if name in _MAPPINGS:
        return [value or NOTHING for value in values]
    if name == "taints":
        return [tuple(Taint(*taint) for taint in value) for value in values]
    return [frozenset(map(tuple, value)) for value in values] if name == "used_ports" else values
