"""What the Pods on the nodes take, by node and priority: for "not now" only, every other answer does without.

`Counter` adds and takes away single Pods; `Usage` is what it comes to at one moment, as columns, so that a new version costs a
process no object per node.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from webhook.objects import core

Ints = npt.NDArray[np.int64]
Port = tuple[str, str, int]
AMOUNT_MAX = 2**53
"""More than any node has, and sums of it do not overflow."""


class PodUse(core.Base, frozen=True):
    """What is kept of a Pod on a node. amounts: in the scheduler's units, its own place ("pods") included."""

    node: str
    priority: int
    amounts: dict[str, int]
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, eq=False)
class Usage:
    """An entry per node and priority. names: nodes; resources: names; node, priority: int64 [entry]; amounts: int64 [entry,
    resource]. ports: (node, priority, port) as indices and numbers."""

    names: tuple[str, ...]
    resources: tuple[str, ...]
    node: Ints
    priority: Ints
    amounts: Ints
    ports: tuple[tuple[int, int, Port], ...] = ()

    def from_priority(self, priority: int) -> Usage:
        """Without the Pods of a lower priority than this."""
        stay = self.priority >= priority
        ports = tuple(one for one in self.ports if one[1] >= priority)
        return Usage(self.names, self.resources, self.node[stay], self.priority[stay], self.amounts[stay], ports)

    def per_node(self) -> Ints:
        """int64 [name, resource]: of all Pods together."""
        total = np.zeros((len(self.names), len(self.resources)), dtype=np.int64)
        np.add.at(total, self.node, self.amounts)
        return total


class Counter:
    """The Pods as they come and go. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[int, tuple[collections.Counter[str], collections.Counter[Port]]]] = {}

    def add(self, use: PodUse) -> None:
        """A Pod is there."""
        levels = self._nodes.setdefault(use.node, {})
        amounts, ports = levels.setdefault(use.priority, (collections.Counter(), collections.Counter()))
        amounts.update(use.amounts)
        ports.update(use.ports)

    def remove(self, use: PodUse) -> None:
        """A Pod that was added is gone."""
        levels = self._nodes[use.node]
        amounts, ports = levels[use.priority]
        amounts.subtract(use.amounts)
        ports.subtract(use.ports)
        if not amounts["pods"]:
            del levels[use.priority]
            if not levels:
                del self._nodes[use.node]

    def usage(self) -> Usage:
        """As it is now."""
        names = tuple(sorted(self._nodes))
        resources: dict[str, int] = {}
        entries: list[tuple[int, int, Mapping[str, int]]] = []
        ports: list[tuple[int, int, Port]] = []
        for index, name in enumerate(names):
            for priority, (amounts, taken) in sorted(self._nodes[name].items()):
                entries.append((index, priority, amounts))
                for resource in amounts:
                    resources.setdefault(resource, len(resources))
                ports += [(index, priority, port) for port in sorted(taken) if taken[port] > 0]
        matrix = np.zeros((len(entries), len(resources)), dtype=np.int64)
        for row, (_, _, taken_here) in enumerate(entries):
            for resource, amount in taken_here.items():
                matrix[row, resources[resource]] = amount
        return Usage(
            names,
            tuple(resources),
            np.array([node for node, _, _ in entries], dtype=np.int64),
            np.array([priority for _, priority, _ in entries], dtype=np.int64),
            matrix,
            tuple(ports),
        )


# ---- bytes ----------------------------------------------------------------------------------------------------------
class _Packed(msgspec.Struct, array_like=True):
    names: tuple[str, ...]
    resources: tuple[str, ...]
    node: bytes
    priority: bytes
    amounts: bytes
    ports: tuple[tuple[int, int, Port], ...]


def packed(usage: Usage) -> bytes:
    """As bytes."""
    columns: Sequence[Ints] = (usage.node, usage.priority, usage.amounts)
    node, priority, amounts = (np.ascontiguousarray(column).tobytes() for column in columns)
    return msgspec.msgpack.encode(_Packed(usage.names, usage.resources, node, priority, amounts, usage.ports))


def unpacked(data: bytes | memoryview) -> Usage:
    """The usage that these bytes are. Raises ValueError and msgspec.DecodeError."""
    read = msgspec.msgpack.decode(data, type=_Packed)
    node, priority, amounts = (np.frombuffer(part, dtype=np.int64) for part in (read.node, read.priority, read.amounts))
    shape = (len(node), len(read.resources))
    return Usage(read.names, read.resources, node, priority, amounts.reshape(shape), read.ports)
