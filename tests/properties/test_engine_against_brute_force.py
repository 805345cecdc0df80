"""Judge 2: the engine never says never where a placement exists, and every witness is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.properties import agreement, clusters
from tests.properties.brute import has_placement
from webhook.feasibility.check import faults
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, Part, TreeDemand
from webhook.feasibility.result import Feasible, Infeasible, Result, Unknown
from webhook.inventory.snapshot import ExtendedClass, Node, Question, Snapshot

WORDS = {Infeasible: "never", Feasible: "feasible", Unknown: "unknown"}
TABLE: Counter[tuple[str, bool]] = Counter()
QUESTIONS = st.sampled_from(Question)


def judge(demand: Demand, snapshot: Snapshot, question: Question) -> Result:
    """The engine's answer, after brute force agreed with it."""
    result = evaluate(demand, snapshot, question)
    exists = has_placement(demand, snapshot, question)
    TABLE[WORDS[type(result)], exists] += 1
    if isinstance(result, Infeasible):
        assert not exists, f"false never: {result}"
    if isinstance(result, Feasible):
        assert faults(demand, result.witness.placements, snapshot, question) == []
        assert exists, "the checker accepts what brute force does not"
    return result


@pytest.fixture(scope="module", autouse=True)
def record(request: pytest.FixtureRequest) -> Iterator[None]:
    """`make prove` runs all of this file with many examples; the table of that run goes into docs/."""
    failed_before = request.session.testsfailed
    yield
    if settings.get_current_profile_name() == "prove" and request.session.testsfailed == failed_before:
        seed, examples = request.config.getoption("--hypothesis-seed"), settings().max_examples
        (agreement.DOCS / "judge-brute-force.md").write_text(agreement.brute_force(TABLE, seed=seed, examples=examples))


@given(clusters.demands(), clusters.snapshots(), QUESTIONS)
def test_one_group(demand: Demand, snapshot: Snapshot, question: Question) -> None:
    result = judge(demand, snapshot, question)
    if not any(pod.apart for pod in demand.pods()):
        assert isinstance(result, (Feasible, Infeasible)), "one group without anti-affinity is always decided"


@given(clusters.trees(), clusters.snapshots(node_count_max=3), QUESTIONS)
def test_composite_trees(demand: Demand, snapshot: Snapshot, question: Question) -> None:
    assume(_pod_count(demand.root) <= 8)
    judge(demand, snapshot, question)


@given(clusters.demands(), clusters.snapshots(), st.data())
def test_more_capacity_never_makes_it_infeasible(demand: Demand, snapshot: Snapshot, data: st.DataObject) -> None:
    before = evaluate(demand, snapshot)
    after = evaluate(demand, _larger(snapshot, data))
    assert not (isinstance(before, Feasible) and isinstance(after, Infeasible))


@given(
    st.one_of(clusters.demands(), clusters.trees()), clusters.snapshots(), st.sets(st.sampled_from(Part), min_size=1)
)
def test_relaxing_never_makes_it_infeasible(demand: Demand, snapshot: Snapshot, parts: set[Part]) -> None:
    before = evaluate(demand, snapshot)
    after = evaluate(demand.without(*parts), snapshot)
    assert not (isinstance(before, Feasible) and isinstance(after, Infeasible))


@given(st.one_of(clusters.demands(), clusters.trees()), clusters.snapshots())
def test_free_capacity_is_never_more_than_all_of_it(demand: Demand, snapshot: Snapshot) -> None:
    now, ready = evaluate(demand, snapshot, Question.NOT_NOW), evaluate(demand, snapshot, Question.READY)
    ever = evaluate(demand, snapshot)
    assert not (isinstance(now, Feasible) and isinstance(ready, Infeasible))
    assert not (isinstance(ready, Feasible) and isinstance(ever, Infeasible))


@given(clusters.demands(), clusters.snapshots())
def test_a_suggestion_on_the_quorum_has_a_placement(demand: Demand, snapshot: Snapshot) -> None:
    result = evaluate(demand, snapshot)
    if not isinstance(result, Infeasible):
        return
    largest = result.explanation.largest
    for suggestion in result.explanation.suggestions:
        if suggestion.change == "min-count":
            smaller = replace(demand, root=replace(demand.root, needed=suggestion.amount))
            assert has_placement(smaller, snapshot)
        if suggestion.change == "no-topology":
            assert has_placement(demand.without(Part.TOPOLOGY), snapshot)
    if largest is not None and not isinstance(demand.root, TreeDemand):
        more = replace(demand, root=replace(demand.root, needed=largest + 1))
        assert not has_placement(more, snapshot)


@given(st.one_of(clusters.demands(), clusters.trees()), clusters.snapshots(node_count_max=3), st.data())
def test_nodes_whose_labels_are_not_known_yet(demand: Demand, snapshot: Snapshot, data: st.DataObject) -> None:
    """What is impossible with a pool's nodes is impossible whatever labels they turn out to have."""
    assume(_pod_count(demand.root) <= 8)
    before, after = [], []
    for node in snapshot.nodes:
        if data.draw(st.booleans()):
            kept = {key: value for key, value in node.labels.items() if key == "zone" and data.draw(st.booleans())}
            before.append(replace(node, labels=kept, open_labels=True, real=False, away="pool x", potential={}))
            found = {key: data.draw(st.sampled_from(("a", "b", "c"))) for key in ("zone", "rack", "disk")}
            name = f"new-{node.name}"
            after.append(replace(node, name=name, labels={"kubernetes.io/hostname": name} | found | kept, potential={}))
        else:
            before.append(node)
            after.append(node)
    result = evaluate(demand, replace(snapshot, nodes=tuple(before), prepared={}))
    if isinstance(result, Infeasible):
        assert not has_placement(demand, replace(snapshot, nodes=tuple(after), prepared={}))
    if isinstance(result, Feasible):
        assert faults(demand, result.witness.placements, snapshot) == [], "only nodes that are there"


@given(st.one_of(clusters.demands(), clusters.trees()), clusters.snapshots(node_count_max=3))
def test_a_resource_that_a_device_class_may_serve(demand: Demand, snapshot: Snapshot) -> None:
    """Where a node has none of it, it never limits."""
    assume(_pod_count(demand.root) <= 8)
    mapped = (ExtendedClass(device_class="gpu", resource="x/gpu"),)
    plenty = [
        node if node.allocatable.get("x/gpu") else replace(node, allocatable={**node.allocatable, "x/gpu": 1000})
        for node in snapshot.nodes
    ]
    result = evaluate(demand, replace(snapshot, mapped_resources=mapped, prepared={}))
    if isinstance(result, Infeasible):
        assert not has_placement(demand, replace(snapshot, nodes=tuple(plenty), prepared={}))


def _pod_count(group) -> int:
    if isinstance(group, TreeDemand):
        return sum(
            _pod_count(child) * (group.needed if child.copies is None else child.copies) for child in group.children
        )
    return sum(group.needed if pod.count is None else min(pod.count, group.needed) for pod in group.pods)


def _larger(snapshot: Snapshot, data: st.DataObject) -> Snapshot:
    """One more node, and more of everything on one of the others."""
    nodes: list[Node] = list(snapshot.nodes)
    if nodes:
        at = data.draw(st.integers(0, len(nodes) - 1))
        more = {name: amount + data.draw(st.integers(0, 2)) for name, amount in nodes[at].allocatable.items()}
        nodes[at] = replace(nodes[at], allocatable=more)
    nodes.append(data.draw(clusters.nodes(len(nodes))))
    return replace(snapshot, version="2", nodes=tuple(nodes), prepared={})
