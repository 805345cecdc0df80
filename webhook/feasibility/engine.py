"""`evaluate(demand, snapshot, question)`: infeasible with a proof, feasible with a witness, or unknown with a reason.

READ THIS FIRST. The answer is about the snapshot's *content*; whether a denial may rest on it (complete, fresh,
closed) is `Snapshot.denial_hindrance()` and is the caller's to ask. Sound by construction: every bound is a necessary
condition of each placement kube-scheduler could make, and what is not modelled is left out of them.

1. A demand that cannot be asked (`Demand.skip`) is unknown.
2. The ladder of bounds (bounds.py): no domain with room for what is needed is a proof.
3. A witness: by construction where the bound is exact, else by search (search.py) within the budget.
4. A witness of a demand with `unknowns` is none: parts of it were left out.

Where nodes may still come (open labels), or a DeviceClass may serve what nodes lack, it is asked twice: without them
(a witness there is one), and with them (only a proof there is one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from webhook.feasibility import explain
from webhook.feasibility.bounds import LeafBounds, TreeBounds, View, leaf_bounds
from webhook.feasibility.check import device_faults
from webhook.feasibility.model import Demand, Doubt, GroupDemand, LeafDemand, Reason, TreeDemand
from webhook.feasibility.nodefit import IMPLICIT_PREFIX
from webhook.feasibility.relax import exceeds, tree_resources_suffice
from webhook.feasibility.result import Feasible, Infeasible, Placement, Proof, Result, Rung, Unknown, Witness
from webhook.feasibility.search import Budget, BudgetUsedUpError, MixedSearch, name_nodes, place_identical
from webhook.feasibility.treesearch import TreeSearch
from webhook.inventory import tables
from webhook.inventory.snapshot import Question, Snapshot
from webhook.inventory.tables import HOSTNAME

# About 0.3 s of search on one core; the ladder of bounds costs none of it. A suggestion gets a thirtieth of it.
BUDGET_UNITS = 60_000


@dataclass(frozen=True, slots=True)
class Decision:
    """One pass: exactly one of `rung` (infeasible), `make` (feasible) or `doubt` is set."""

    bounds: LeafBounds | TreeBounds
    view: View
    rung: Rung | None = None
    make: Callable[[], tuple[Placement, ...]] | None = None
    doubt: Reason | None = None


def evaluate(
    demand: Demand,
    snapshot: Snapshot,
    question: Question = Question.NEVER,
    *,
    budget_units: int = BUDGET_UNITS,
    with_explanation: bool = True,
) -> Result:
    """See the module. with_explanation=False leaves suggestions out (they are engine calls of their own)."""
    if demand.skip is not None:
        return Unknown((demand.skip,))
    budget = Budget(budget_units)
    decision = _decide_twice(demand, snapshot, question, budget)
    is_endless = question is Question.NEVER and snapshot.has_endless_pool
    if is_endless and decision.rung not in (None, Rung.ONE_POD):
        return Unknown((Reason(Doubt.POOL, "a pool may add any number of nodes"),))
    if decision.rung is not None:
        return _infeasible(demand, decision, with_explanation)
    doubts = _doubts(demand.root)
    if decision.doubt is not None:
        doubts.add(decision.doubt)
    if doubts or decision.make is None:
        return Unknown(tuple(sorted(doubts)))
    if _shares_devices(demand) and device_faults(demand, decision.make(), snapshot, question):
        reason = Reason(Doubt.CLAIMS, "whether the devices of a node suffice for Pods of several kinds is not certain")
        return Unknown((reason,))
    return Feasible(Witness(decision.make))


def _shares_devices(demand: Demand) -> bool:
    """Several Pod sets may meet on one node's devices, or share a claim across groups: the search counts each alone."""
    pods = demand.pods()
    return any(pod.devices is not None for pod in pods) and (len(pods) > 1 or isinstance(demand.root, TreeDemand))


def _decide_twice(demand: Demand, snapshot: Snapshot, question: Question, budget: Budget) -> Decision:
    mapped = _mapped(demand, snapshot)
    is_open = question is Question.NEVER and tables.base(snapshot, question).has_open
    if not is_open and not mapped:
        return decide(demand.root, View(snapshot, question), budget)
    certain = decide(demand.root, View(snapshot, Question.READY if is_open else question), budget)
    if certain.make is not None:
        return certain
    hopeful = decide(demand.root, View(snapshot, question, optimistic=bool(mapped)), budget)
    if hopeful.make is None:
        return hopeful
    if is_open:
        reason = Reason(Doubt.POOL, "it fits only with nodes that a pool may add")
    else:
        reason = Reason(Doubt.MAPPED_RESOURCE, f"a DeviceClass may serve {mapped}")
    return Decision(hopeful.bounds, hopeful.view, doubt=reason)


def _mapped(demand: Demand, snapshot: Snapshot) -> str:
    """A requested resource that a DeviceClass may serve; "" if there is none."""
    names = (name for pod in demand.pods() for name, _ in pod.request)
    if not snapshot.mapped_resources:
        return next((name for name in names if name.startswith(IMPLICIT_PREFIX)), "")
    return next((name for name in names if name.startswith(IMPLICIT_PREFIX) or snapshot.is_mapped(name)), "")


def _doubts(group: GroupDemand) -> set[Reason]:
    found = set(group.unknowns)
    parts = group.pods if isinstance(group, LeafDemand) else ()
    for pod in parts:
        found |= set(pod.unknowns)
    if isinstance(group, TreeDemand):
        for child in group.children:
            found |= _doubts(child)
    return found


def copies_at_once(group: GroupDemand, snapshot: Snapshot, question: Question = Question.NEVER) -> int | None:
    """How many equal groups find room at the same time (a LeaderWorkerSet's replicas); None where it is not exact."""
    bounds = TreeBounds(TreeDemand(needed=1, children=(replace(group, copies=None),)), View(snapshot, question))
    if not bounds.is_exact or not bounds.cells.is_complete or _doubts(group):
        return None
    return int(bounds.units(replace(group, copies=1), ()).sum())


# ---- one pass -----------------------------------------------------------------------------------------------------
def decide(root: GroupDemand, view: View, budget: Budget) -> Decision:
    """Bounds, then a witness. Spends the budget; a budget that is used up is a doubt, not an error."""
    try:
        return _decide_leaf(root, view, budget) if isinstance(root, LeafDemand) else _decide_tree(root, view, budget)
    except BudgetUsedUpError:
        bounds = leaf_bounds(root, view) if isinstance(root, LeafDemand) else TreeBounds(root, view)
        return Decision(bounds, view, doubt=Reason(Doubt.BUDGET, "the work budget is used up"))


def _decide_leaf(leaf: LeafDemand, view: View, budget: Budget) -> Decision:
    bounds = leaf_bounds(leaf, view)
    best = bounds.best
    if best < 0:
        return Decision(bounds, view, rung=Rung.NO_DOMAIN)
    if bounds.holds[best] < leaf.needed:
        return Decision(bounds, view, rung=_rung(leaf, bounds))
    if _is_hostname_odd(leaf, view):
        return Decision(bounds, view, doubt=Reason(Doubt.HOSTNAME, "some nodes have no hostname label of their own"))
    if bounds.is_exact:
        return Decision(bounds, view, make=lambda: place_identical(leaf, bounds, best, view))
    if any(pod.spread for pod in leaf.pods):
        return Decision(bounds, view, doubt=Reason(Doubt.SPREAD, "topology spread"))
    if any(key != HOSTNAME for pod in leaf.pods for key in pod.apart):
        return _search_tree(leaf, bounds, view, budget)
    return _search_mixed(leaf, bounds, view, budget)


def _rung(leaf: LeafDemand, bounds: LeafBounds) -> Rung:
    if not any(fits.any() and caps.any() for fits, caps in zip(bounds.fits, bounds.caps, strict=True)):
        return Rung.ONE_POD
    return Rung.SUM if len(leaf.pods) == 1 else Rung.MIXED


def _is_hostname_odd(leaf: LeafDemand, view: View) -> bool:
    """Anti-affinity over hostname labels that are missing or shared: 1.37 looks at nodes or at labels, by a gate."""
    if not any(HOSTNAME in pod.apart for pod in leaf.pods):
        return False
    return not tables.base(view.snapshot, view.question).has_unique_hostnames


def _search_mixed(leaf: LeafDemand, bounds: LeafBounds, view: View, budget: Budget) -> Decision:
    kinds = bounds.kinds
    search = MixedSearch(leaf, bounds, view, budget)
    domains = {
        kind: list(
            zip(
                kinds.class_index[kinds.content(kind)].tolist(),
                kinds.node_count[kinds.content(kind)].tolist(),
                strict=True,
            )
        )
        for kind in range(len(kinds.starts))
        if bounds.holds[kind] >= leaf.needed
    }
    for attempt in (search.first_fit, search.exact):
        if attempt == search.exact:
            domains = {kind: domain for kind, domain in domains.items() if not exceeds(leaf, search, domain)}
            if not domains:
                return Decision(bounds, view, rung=Rung.MIXED)
        for kind, domain in domains.items():
            found = attempt(domain)
            if found is not None:
                make = partial(name_nodes, kinds.cells, int(kinds.example[kind]), found)
                return Decision(bounds, view, make=make)
    return Decision(bounds, view, rung=Rung.EXHAUSTED)


def _decide_tree(root: TreeDemand, view: View, budget: Budget) -> Decision:
    bounds = TreeBounds(root, view)
    if not bounds.cells.is_complete:
        return Decision(bounds, view, doubt=Reason(Doubt.POOL, "a pool's nodes under more than one topology key"))
    best = int(bounds.root_units.max(initial=0))
    if best < root.needed:
        return Decision(bounds, view, rung=_tree_rung(bounds))
    if not bounds.is_exact and not tree_resources_suffice(bounds, view):
        return Decision(bounds, view, rung=Rung.TREE)
    if any(pod.spread for pod in bounds.pods):
        return Decision(bounds, view, doubt=Reason(Doubt.SPREAD, "topology spread"))
    if any(pod.apart for pod in bounds.pods) and not bounds.cells.classes.base.has_unique_hostnames:
        return Decision(bounds, view, doubt=Reason(Doubt.HOSTNAME, "some nodes have no hostname label of their own"))
    if bounds.is_exact:
        return Decision(bounds, view, make=lambda: _tree_placements(bounds))
    found = TreeSearch(bounds, budget).greedy()
    if found is None:
        found = TreeSearch(bounds, budget).exact()
    if found is None:
        return Decision(bounds, view, rung=Rung.EXHAUSTED)
    return Decision(bounds, view, make=partial(_given, found))


def _tree_rung(bounds: TreeBounds) -> Rung:
    if not len(bounds.root_units):
        return Rung.NO_DOMAIN
    return Rung.TREE if any(fits.any() for fits in bounds.fits.values()) else Rung.ONE_POD


def _tree_placements(bounds: TreeBounds) -> tuple[Placement, ...]:
    found = TreeSearch(bounds, Budget(10**12)).greedy()
    if found is None:
        raise AssertionError("equal groups are placed one after another")
    return found


def _search_tree(leaf: LeafDemand, bounds: LeafBounds, view: View, budget: Budget) -> Decision:
    """A single group with limits that cross nodes, as a tree of one."""
    tree = TreeBounds(TreeDemand(needed=1, children=(leaf,)), view)
    if not tree.cells.is_complete:
        return Decision(bounds, view, doubt=Reason(Doubt.POOL, "a pool's nodes under more than one topology key"))
    found = TreeSearch(tree, budget).greedy() or TreeSearch(tree, budget).exact()
    if found is None:
        return Decision(bounds, view, rung=Rung.EXHAUSTED)
    alone = tuple(replace(one, group=()) for one in found)
    return Decision(bounds, view, make=partial(_given, alone))


def _given(placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    return placements


# ---- the answer ---------------------------------------------------------------------------------------------------
def _infeasible(demand: Demand, decision: Decision, with_explanation: bool) -> Infeasible:
    assert decision.rung is not None  # noqa: S101  the caller looked
    bounds, view = decision.bounds, decision.view
    holds = bounds.holds if isinstance(bounds, LeafBounds) else bounds.root_units
    proof = Proof(
        rung=decision.rung,
        question=view.question,
        needed=demand.root.needed,
        best=min(int(holds.max(initial=0)), demand.root.needed - 1),
        domain_count=int(bounds.kinds.domain_count.sum()) if isinstance(bounds, LeafBounds) else len(holds),
        snapshot_version=view.snapshot.version,
    )

    def fits(changed: Demand) -> bool:
        made = decide(changed.root, View(view.snapshot, view.question, view.optimistic), Budget(BUDGET_UNITS // 30))
        return made.make is not None and not _doubts(changed.root)

    return Infeasible(proof, explain.explanation(demand, bounds, view, fits if with_explanation else None))
