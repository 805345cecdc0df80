"""Classes, cells and kinds: what is folded together, and what is not."""

from __future__ import annotations

from dataclasses import replace

from webhook.inventory import tables
from webhook.inventory.snapshot import Node, Question, Snapshot, Taint
from webhook.inventory.tables import MISSING, NAME_KEY

NEVER = Question.NEVER


def node(index: int, **changes: object) -> Node:
    labels = {"rack": f"r{index // 2}", "zone": "z", "disk": f"d{index % 2}"}
    made = Node(name=f"n{index}", allocatable={"cpu": 8, "pods": 9}, labels=labels)
    return replace(made, **changes)  # type: ignore[arg-type]


def cluster(*nodes: Node) -> Snapshot:
    return Snapshot(version="1", nodes=nodes)


def test_nodes_that_no_selector_tells_apart_are_one_class() -> None:
    snapshot = cluster(*(node(index) for index in range(8)))
    assert len(tables.classes(snapshot, NEVER, ())) == 1
    assert len(tables.classes(snapshot, NEVER, ("disk",))) == 2
    assert len(tables.classes(snapshot, NEVER, (NAME_KEY,))) == 8


def test_shape_and_taints_tell_nodes_apart() -> None:
    taint = Taint("a", "", "NoSchedule")
    snapshot = cluster(node(0), node(1, taints=(taint,)), node(3, allocatable={"cpu": 9}))
    assert len(tables.classes(snapshot, NEVER, ())) == 3


def test_domains_of_equal_content_are_one_kind() -> None:
    snapshot = cluster(*(node(index) for index in range(8)), node(8, allocatable={"cpu": 1}))
    kinds = tables.domain_kinds(snapshot, NEVER, (), ("rack",))
    assert sorted(kinds.domain_count.tolist()) == [1, 4]
    assert len(tables.every_domain(snapshot, NEVER, (), ("rack",)).example) == 5


def test_a_node_without_the_key_is_in_no_domain_but_in_a_cell() -> None:
    snapshot = cluster(node(0), node(1, labels={"zone": "z"}))
    cells = tables.cells(snapshot, NEVER, (), ("zone", "rack"))
    assert {cells.value(1, cell) for cell in range(cells.count)} == {"r0", None}
    assert int((cells.codes == MISSING).sum()) == 1
    assert len(tables.domain_kinds(snapshot, NEVER, (), ("rack",)).example) == 1


def test_every_node_is_found_again_behind_its_entry() -> None:
    snapshot = cluster(*(node(index) for index in range(7)))
    cells = tables.cells(snapshot, NEVER, ("disk",), ("rack",))
    found = []
    for cell in range(cells.count):
        for entry in range(cells.indptr[cell], cells.indptr[cell + 1]):
            members = cells.entry_nodes(entry)
            assert len(members) == cells.node_count[entry]
            found += [cells.classes.base.nodes[index].name for index in members]
    assert sorted(found) == [f"n{index}" for index in range(7)]


def test_a_pools_node_is_in_every_domain_it_may_turn_out_to_be_in() -> None:
    drifting = node(9, labels={"zone": "z"}, open_labels=True)
    cells = tables.cells(cluster(node(0), node(2), drifting), NEVER, (), ("rack",))
    assert cells.node_count.tolist() == [1, 1, 1, 1, 1]
    assert [cells.value(0, cell) for cell in range(cells.count)] == ["r0", "r1", "(a new one)"]
    assert cells.is_complete
    assert not tables.cells(cluster(node(0), drifting), NEVER, (), ("rack", "zone")).is_complete


def test_nodes_that_are_away_count_only_for_never() -> None:
    snapshot = cluster(node(0), node(1, away="cordoned"))
    assert [len(tables.base(snapshot, question).nodes) for question in Question] == [2, 1, 1]


def test_an_empty_inventory_has_tables_too() -> None:
    assert tables.cells(cluster(), NEVER, ("disk",), ("rack",)).count == 0
    assert len(tables.domain_kinds(cluster(), NEVER, (), ()).example) == 0


def test_prepared_tables_are_kept_and_bounded() -> None:
    snapshot = cluster(node(0))
    first = tables.classes(snapshot, NEVER, ("disk",))
    assert tables.classes(snapshot, NEVER, ("disk",)) is first
    for index in range(2 * tables.PREPARED_COUNT_MAX):
        tables.classes(snapshot, NEVER, (f"label-{index}",))
    assert len(snapshot.prepared) <= tables.PREPARED_COUNT_MAX + 1


def test_a_pools_node_has_no_name_yet() -> None:
    snapshot = cluster(node(0), node(1, open_labels=True))
    assert tables.base(snapshot, NEVER).label(NAME_KEY)[0].tolist() == [0, MISSING]
