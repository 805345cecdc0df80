"""Hypothesis strategies: small clusters and demands, weighted to the edges where things nearly fit."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from webhook.feasibility.model import (
    Demand,
    GroupDemand,
    LeafDemand,
    PodDemand,
    Requirement,
    Term,
    Toleration,
    TreeDemand,
)
from webhook.inventory.snapshot import Node, Snapshot, Taint
from webhook.inventory.tables import HOSTNAME, NAME_KEY

TAINTS = (Taint("dedicated", "infer", "NoSchedule"), Taint("gpu", "", "NoExecute"))
TOLERATIONS = (
    Toleration(key="dedicated", operator="Equal", value="infer"),
    Toleration(key="gpu", operator="Exists", effect="NoExecute"),
    Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
    Toleration(operator="Exists"),
)
KEYS = ("zone", "rack")
ADDRESS_ANY = "0.0.0.0"  # noqa: S104  the wildcard of hostPort


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Node:
    labels = {HOSTNAME: f"n{index}"}
    for key in (*KEYS, "disk"):
        value = draw(st.sampled_from(("a", "a", "a", "b", "b", "", None)))
        if value is not None:
            labels[key] = value
    if draw(st.booleans()):
        labels["size"] = draw(st.sampled_from(("1", "2", "big")))
    allocatable = {
        "cpu": draw(st.sampled_from((6, 5, 4, 3, 2, 0))),
        "pods": draw(st.sampled_from((9, 9, 9, 3, 2, 1, 0))),
    }
    gpus = draw(st.sampled_from((4, 3, 2, 1, 0, None)))
    if gpus is not None:
        allocatable["x/gpu"] = gpus
    potential = {"x/gpu": draw(st.integers(1, 3))} if draw(st.integers(0, 5)) == 0 else {}
    return Node(
        name=f"n{index}",
        allocatable=allocatable,
        labels=labels,
        taints=draw(st.sampled_from(((), (), (), (), TAINTS[:1], TAINTS[1:], TAINTS))),
        potential=potential,
        away=draw(st.sampled_from(("", "", "", "cordoned"))),
        used={"cpu": draw(st.integers(0, 3)), "pods": draw(st.integers(0, 2))},
    )


@st.composite
def snapshots(draw: st.DrawFn, node_count_max: int = 4) -> Snapshot:
    count = draw(st.sampled_from((node_count_max, node_count_max, node_count_max - 1, 2, 1, 0)))
    return Snapshot(version="1", nodes=tuple(draw(nodes(index)) for index in range(count)))


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    key = draw(st.sampled_from(("disk", "zone", "size")))
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    if operator in ("Gt", "Lt"):
        return Requirement("size", operator, (draw(st.sampled_from(("0", "1", "2"))),))
    values = tuple(sorted(draw(st.sets(st.sampled_from(("a", "b", "", "1")), min_size=1, max_size=2))))
    return Requirement(key, operator, values if operator in ("In", "NotIn") else ())


@st.composite
def terms(draw: st.DrawFn) -> Term:
    names = ()
    if draw(st.integers(0, 3)) == 0:
        names = (Requirement(NAME_KEY, draw(st.sampled_from(("In", "NotIn"))), ("n0",)),)
    return Term(tuple(draw(st.lists(requirements(), max_size=2))), names)


def _rarely(draw: st.DrawFn, strategy: st.SearchStrategy, default):
    return draw(strategy) if draw(st.integers(0, 4)) == 0 else default


@st.composite
def pod_demands(draw: st.DrawFn, count_max: int) -> PodDemand:
    request = {"cpu": draw(st.sampled_from((1, 2, 3, 0))), "x/gpu": draw(st.sampled_from((0, 0, 1, 1, 2)))}
    apart = _rarely(draw, st.sampled_from(((HOSTNAME,), ("rack",), ("zone",), (HOSTNAME, "rack"))), ())
    return PodDemand(
        count=draw(st.one_of(st.integers(1, count_max), st.just(None))),
        request=tuple(sorted((name, amount) for name, amount in request.items() if amount)),
        selector=_rarely(draw, st.just((Requirement("disk", "In", ("a",)),)), ()),
        affinity=_rarely(draw, st.lists(terms(), max_size=2).map(tuple), None),
        tolerations=draw(st.one_of(st.just(()), st.sets(st.sampled_from(TOLERATIONS), max_size=2).map(tuple))),
        ports=_rarely(
            draw,
            st.sampled_from((frozenset({(ADDRESS_ANY, "TCP", 80)}), frozenset({("1.1.1.1", "TCP", 80)}))),
            frozenset(),
        ),
        apart=apart,
        apart_labels=(("app", draw(st.sampled_from("ab"))),) if apart else (),
        needed_keys=_rarely(draw, st.just(("zone",)), ()),
    )


@st.composite
def leaf_demands(draw: st.DrawFn, needed_max: int = 5, set_count_max: int = 3) -> LeafDemand:
    pods = tuple(draw(st.lists(pod_demands(needed_max), min_size=1, max_size=set_count_max)))
    needed = draw(st.integers(1, needed_max))
    if all(pod.count is not None for pod in pods):
        needed = min(needed, sum(pod.count or 0 for pod in pods))
    key = draw(st.sampled_from((None, None, "rack", "zone")))
    domain = draw(st.sampled_from((None, None, None, "a"))) if key else None
    return LeafDemand(needed=needed, pods=pods, topology_key=key, domain=domain)


@st.composite
def tree_demands(draw: st.DrawFn, depth: int = 2) -> TreeDemand:
    small = leaf_demands(needed_max=2, set_count_max=2)
    children: list[GroupDemand] = []
    for _ in range(draw(st.integers(1, 2))):
        child: GroupDemand = draw(tree_demands(depth=depth - 1)) if depth > 1 and draw(st.booleans()) else draw(small)
        if isinstance(child, LeafDemand):
            child = replace(child, domain=None)
        children.append(replace(child, copies=draw(st.sampled_from((1, 1, 2, None)))))
    known = [child.copies for child in children if child.copies is not None]
    needed = draw(st.integers(1, 2))
    if len(known) == len(children):
        needed = min(needed, sum(known))
    key = draw(st.sampled_from((None, None, "zone", "rack")))
    return TreeDemand(needed=needed, children=tuple(children), topology_key=key)


def demands() -> st.SearchStrategy[Demand]:
    """Single groups of every shape."""
    return leaf_demands().map(lambda root: Demand(root=root, name="train"))


def trees() -> st.SearchStrategy[Demand]:
    """Composite trees, small enough to try every placement."""
    return tree_demands().map(lambda root: Demand(root=root, name="train"))
