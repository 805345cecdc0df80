"""What Pods take: added and taken away, by priority, as columns and as bytes; and what a table makes of it."""

from __future__ import annotations

from collections import Counter as Sum

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.inventory import tables
from webhook.inventory.node_table import NodeTable
from webhook.inventory.snapshot import Node, Question, Snapshot
from webhook.inventory.usage import Counter, PodUse, packed, unpacked

PORT = ("0.0.0.0", "TCP", 80)  # noqa: S104  a host port on all addresses
_names = st.sampled_from(["a", "b", "c"])
_uses = st.builds(
    PodUse,
    node=_names,
    priority=st.sampled_from([-5, 0, 7]),
    amounts=st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(1, 9), max_size=2).map(
        lambda d: {"pods": 1, **d}
    ),
    ports=st.sampled_from([(), (PORT,)]),
)


def totals(uses: list[PodUse]) -> dict[str, Sum[str]]:
    found: dict[str, Sum[str]] = {}
    for use in uses:
        found.setdefault(use.node, Sum()).update(use.amounts)
    return found


@given(kept=st.lists(_uses, max_size=8), gone=st.lists(_uses, max_size=4), priority=st.integers(-6, 8))
def test_it_is_the_sum_of_the_pods_that_are_there(kept: list[PodUse], gone: list[PodUse], priority: int) -> None:
    counter = Counter()
    for use in [*kept, *gone]:
        counter.add(use)
    for use in gone:
        counter.remove(use)

    for usage in (counter.usage(), unpacked(packed(counter.usage()))):
        for level, left in ((-10, kept), (priority, [use for use in kept if use.priority >= priority])):
            table = NodeTable.of([Node(name=name, allocatable={}) for name in "dcba"]).with_usage(
                usage.from_priority(level)
            )
            found = {node.name: Sum(node.used) for node in table if node.used}
            assert found == totals(left)
            assert {node.name for node in table if node.used_ports} == {use.node for use in left if use.ports}


@given(uses=st.lists(_uses, max_size=8))
def test_tables_read_usage_as_they_read_what_a_node_itself_says(uses: list[PodUse]) -> None:
    counter = Counter()
    for use in uses:
        counter.add(use)
    plain = [Node(name=name, allocatable={"cpu": 9, "gpu": 9, "pods": 3}, labels={"rack": name}) for name in "abcd"]
    columns = Snapshot(version="1", nodes=NodeTable.of(plain).with_usage(counter.usage()))
    written = Snapshot(version="1", nodes=tuple(columns.nodes))

    one, other = (tables.base(snapshot, Question.NOT_NOW) for snapshot in (columns, written))

    assert one.resources == other.resources
    assert np.array_equal(one.amounts[one.codes[0]], other.amounts[other.codes[0]])
    assert [one.port_sets[code] for code in one.codes[2]] == [other.port_sets[code] for code in other.codes[2]]
    assert tables.has_pods(columns) == bool(uses)


def test_nodes_that_nobody_knows_take_no_room() -> None:
    """A Pod may be seen before its node is."""
    counter = Counter()
    counter.add(PodUse("later", 0, {"pods": 1}, (PORT,)))
    table = NodeTable.of([Node(name="a", allocatable={"pods": 1})]).with_usage(counter.usage())

    assert [dict(node.used) for node in table] == [{}]
    assert tables.base(Snapshot(version="1", nodes=table), Question.NOT_NOW).amounts.tolist() == [[1]]


def test_half_of_it_is_refused() -> None:
    counter = Counter()
    counter.add(PodUse("a", 0, {"pods": 1}))

    with pytest.raises((ValueError, msgspec.DecodeError)):
        unpacked(packed(counter.usage())[:-2])
