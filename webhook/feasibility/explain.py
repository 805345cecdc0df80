"""Why it does not fit, and the nearest changes after which it does. Every suggestion was tried on the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from webhook.feasibility.bounds import LeafBounds, TreeBounds, View, leaf_bounds
from webhook.feasibility.model import Demand, Doubt, LeafDemand, Part, PodDemand, Scope, Toleration, TreeDemand
from webhook.feasibility.nodefit import blocking_taints, causes, column
from webhook.feasibility.result import (
    Bottleneck,
    CauseKind,
    Change,
    Excluded,
    Explanation,
    Infeasible,
    Suggestion,
)
from webhook.inventory.snapshot import Taint
from webhook.inventory.tables import Classes, Ints
from webhook.objects.quantity import NANO, Quantity, text_of

Fits = Callable[[Demand], bool]
SUGGESTION_COUNT_MAX = 6
_CAUSE_COUNT_MAX = 4


def explanation(demand: Demand, bounds: LeafBounds | TreeBounds, view: View, fits: Fits | None) -> Explanation:
    """fits: asks the engine whether a changed demand has a place; None leaves suggestions out."""
    if isinstance(bounds, LeafBounds):
        assert isinstance(demand.root, LeafDemand)  # noqa: S101  made from it
        return _of_leaf(demand, demand.root, bounds, view, fits)
    assert isinstance(demand.root, TreeDemand)  # noqa: S101
    return _of_tree(demand, demand.root, bounds, view, fits)


def _of_leaf(demand: Demand, leaf: LeafDemand, bounds: LeafBounds, view: View, fits: Fits | None) -> Explanation:
    best = bounds.best
    kinds, classes = bounds.kinds, bounds.kinds.cells.classes
    hardest = _hardest(bounds)
    pod = leaf.pods[hardest]
    holds = int(bounds.holds[best]) if best >= 0 else 0
    if len(leaf.pods) > 1:
        holds = min(holds, leaf.needed - 1)
    entries = kinds.content(best) if best >= 0 else slice(0, 0)
    counts = kinds.node_count[entries]
    here = kinds.class_index[entries]
    return Explanation(
        name=demand.name,
        scope=demand.scope,
        needed=leaf.needed,
        unit="Pods",
        holds=holds,
        per_pod=pod.request,
        devices="" if pod.devices is None else pod.devices.words(),
        topology=kinds.cells.keys,
        best=tuple(kinds.cells.value(i, int(kinds.example[best])) or "" for i in range(len(kinds.cells.keys)))
        if best >= 0
        else (),
        domain_count=int(kinds.domain_count.sum()),
        node_count=len(classes.base.nodes),
        any_node=int(bounds.fits[hardest].max(initial=0)),
        largest=holds if bounds.is_exact and not _is_doubtful(pod) else None,
        excluded=tuple(_excluded(pod, bounds.fits[hardest], classes, (here, counts), view)),
        bottleneck=_bottleneck(pod, classes),
        suggestions=tuple(_suggestions(demand, bounds, fits, holds if bounds.is_exact else None)),
        role=pod.role,
    )


def _is_doubtful(pod: PodDemand) -> bool:
    """Its devices may not suffice for as many as the bound says."""
    return any(reason.doubt is Doubt.CLAIMS for reason in pod.unknowns)


def _of_tree(demand: Demand, root: TreeDemand, bounds: TreeBounds, view: View, fits: Fits | None) -> Explanation:
    units = bounds.root_units
    best = int(units.argmax()) if len(units) else -1
    holds = min(int(units[best]), root.needed - 1) if best >= 0 else 0
    pod = min(bounds.pods, key=lambda one: int(bounds.fits[one].max(initial=0)))
    cells = bounds.cells
    ids = bounds.partition(bounds.root_keys)[0]
    inside = np.flatnonzero(ids == best) if best >= 0 else np.zeros(0, dtype=np.int64)
    entries = np.flatnonzero(np.isin(cells.entry_cell, inside))
    rows = [cells.keys.index(key) for key in bounds.root_keys]
    return Explanation(
        name=demand.name,
        scope=demand.scope,
        needed=root.needed,
        unit="groups",
        holds=holds,
        per_pod=pod.request,
        devices="" if pod.devices is None else pod.devices.words(),
        topology=bounds.root_keys,
        best=tuple(cells.value(row, int(inside[0])) or "" for row in rows) if len(inside) else (),
        domain_count=len(units),
        node_count=len(cells.classes.base.nodes),
        any_node=int(bounds.fits[pod].max(initial=0)),
        largest=holds if bounds.is_exact else None,
        excluded=tuple(
            _excluded(
                pod, bounds.fits[pod], cells.classes, (cells.class_index[entries], cells.node_count[entries]), view
            )
        ),
        bottleneck=_bottleneck(pod, cells.classes),
        suggestions=tuple(_suggestions(demand, bounds, fits, holds if bounds.is_exact else None)),
        role=pod.role,
    )


def _hardest(bounds: LeafBounds) -> int:
    """The set that the fewest Pods of fit anywhere."""
    most = [int(caps.max(initial=0)) for caps in bounds.caps]
    return most.index(min(most))


# ---- what is in the way -------------------------------------------------------------------------------------------
def _excluded(
    pod: PodDemand, fits: Ints, classes: Classes, content: tuple[Ints, Ints], view: View
) -> Iterator[Excluded]:
    """Nodes of the best domain that hold no Pod of the set, each under its first cause, most nodes first. fits int64
    [class]; content: the domain's classes and how many nodes of each."""
    here, counts = content
    left = fits == 0
    found: list[Excluded] = []
    if not left[here].any():
        return
    for kind, subject, free in causes(pod, classes, view.snapshot, optimistic=view.optimistic):
        hit = left & ~free
        node_count = int(counts[hit[here]].sum())
        if node_count:
            has_none = kind is CauseKind.RESOURCE and not column(classes, subject)[here][hit[here]].any()
            words = f"without {subject}" if has_none else _cause_text(kind, subject)
            found.append(Excluded(kind, subject, words, node_count))
            left &= free
    yield from sorted(found, key=lambda one: -one.node_count)


def _cause_text(kind: CauseKind, subject: str) -> str:
    return {
        CauseKind.MISSING_LABEL: f"without label {subject}",
        CauseKind.SELECTOR: f"not {subject}",
        CauseKind.AFFINITY: "outside the required node affinity",
        CauseKind.TAINT: f"taint {subject}",
        CauseKind.PORTS: "host port taken",
        CauseKind.RESOURCE: f"with too little {subject}",
        CauseKind.DEVICES: "without matching devices",
        CauseKind.PODS: "no room for Pods",
    }[kind]


def _bottleneck(pod: PodDemand, classes: Classes) -> Bottleneck | None:
    """The resource of which one Pod asks more than any node has; the one that misses most."""
    found: list[tuple[float, Bottleneck]] = []
    for name, amount in pod.request:
        largest = int(column(classes, name).max(initial=0))
        if largest < amount:
            found.append((largest / amount, Bottleneck(resource=name, asked=amount, largest=largest)))
    return min(found, key=lambda pair: pair[0])[1] if found else None


# ---- what would help ----------------------------------------------------------------------------------------------
def _suggestions(
    demand: Demand, bounds: LeafBounds | TreeBounds, fits: Fits | None, largest: int | None
) -> Iterator[Suggestion]:
    if fits is None:
        return
    given = 0
    for suggestion, changed in _candidates(demand, bounds, largest):
        if changed is None or fits(changed):
            yield suggestion
            given += 1
            if given == SUGGESTION_COUNT_MAX:
                return


def _candidates(
    demand: Demand, bounds: LeafBounds | TreeBounds, largest: int | None
) -> Iterator[tuple[Suggestion, Demand | None]]:
    """Changes of one thing, with the demand to try; None where the bound itself is the proof."""
    root = demand.root
    if _has_topology(root):
        yield Suggestion(Change.NO_TOPOLOGY, "", 0, "without the topology key"), demand.without(Part.TOPOLOGY)
    yield from _fewer(demand, largest)
    pods = demand.pods()
    classes = bounds.kinds.cells.classes if isinstance(bounds, LeafBounds) else bounds.cells.classes
    for key, taints in _taints(pods, classes):
        # What is tried tolerates the key, whatever its value and effect.
        words = str(taints[0]) if len(taints) == 1 else f"{key} (operator Exists)"
        yield Suggestion(Change.TOLERATE, words, 0, f"by tolerating {words}"), _tolerating(demand, key)
    for requirement in dict.fromkeys(one for pod in pods for one in pod.selector):
        changed = _each_pod(demand, lambda pod, gone=requirement: _without(pod, gone))  # type: ignore[misc]
        yield Suggestion(Change.NO_SELECTOR, requirement.key, 0, f'without nodeSelector "{requirement.key}"'), changed
    if any(pod.affinity is not None for pod in pods):
        changed = demand.without(Part.NODE_AFFINITY)
        yield Suggestion(Change.NO_AFFINITY, "", 0, "without the required node affinity"), changed
    if any(pod.ports for pod in pods):
        yield Suggestion(Change.NO_PORTS, "", 0, "without host ports"), demand.without(Part.HOST_PORTS)
    if any(pod.apart for pod in pods):
        changed = _each_pod(demand, lambda pod: replace(pod, apart=(), apart_labels=()))
        yield Suggestion(Change.NO_ANTI_AFFINITY, "", 0, "without the required Pod anti-affinity"), changed
    yield from _less(demand, classes)


def _fewer(demand: Demand, largest: int | None) -> Iterator[tuple[Suggestion, Demand | None]]:
    """A smaller quorum. Where the bound is exact it needs no second look; else a few numbers are tried."""
    root = demand.root
    is_leaf = isinstance(root, LeafDemand)
    change, field = (Change.MIN_COUNT, "minCount") if is_leaf else (Change.MIN_GROUP_COUNT, "minGroupCount")
    if largest is not None:
        if 0 < largest < root.needed and demand.scope is Scope.GANG:
            doubtful = any(pod.unknowns for pod in demand.pods())
            tried = replace(demand, root=replace(root, needed=largest)) if doubtful else None
            yield Suggestion(change, "", largest, f"with {field} <= {largest}"), tried
        return
    tried_already: set[int] = set()
    for amount in (root.needed - 1, root.needed * 3 // 4, root.needed // 2, 1):
        if 0 < amount < root.needed and amount not in tried_already:
            tried_already.add(amount)
            changed = replace(demand, root=replace(root, needed=amount))
            yield Suggestion(change, "", amount, f"with {field} <= {amount}"), changed


def _less(demand: Demand, classes: Classes) -> Iterator[tuple[Suggestion, Demand | None]]:
    """A smaller request, where one Pod asks for more than any node has."""
    for pod in dict.fromkeys(demand.pods()):
        bottleneck = _bottleneck(pod, classes)
        if bottleneck is None or not bottleneck.largest:
            continue
        name, largest = bottleneck.resource, bottleneck.largest
        changed = _each_pod(demand, lambda one, name=name, largest=largest: _asking(one, name, largest))  # type: ignore[misc]
        text = f"with {name} <= {amount_text(name, largest)} in each Pod"
        yield Suggestion(Change.LESS, name, largest, text), changed


def _asking(pod: PodDemand, name: str, most: int) -> PodDemand:
    request = tuple((key, min(amount, most) if key == name else amount) for key, amount in pod.request)
    return replace(pod, request=request)


def _without(pod: PodDemand, gone: object) -> PodDemand:
    return replace(pod, selector=tuple(one for one in pod.selector if one != gone))


def _tolerating(demand: Demand, key: str) -> Demand:
    extra = Toleration(key=key, operator="Exists")

    def add(pod: PodDemand) -> PodDemand:
        return pod if pod.tolerations is None else replace(pod, tolerations=(*pod.tolerations, extra))

    return _each_pod(demand, add)


def _taints(pods: tuple[PodDemand, ...], classes: Classes) -> list[tuple[str, list[Taint]]]:
    """The first keys of taints that the Pods do not tolerate, each with all such taints of it."""
    found: dict[str, dict[Taint, None]] = {}
    for pod in pods:
        if pod.tolerations is not None:
            for taint in blocking_taints(pod, classes):
                found.setdefault(taint.key, {})[taint] = None
    return [(key, list(found[key])) for key in sorted(found)][:_CAUSE_COUNT_MAX]


def _each_pod(demand: Demand, change: Callable[[PodDemand], PodDemand]) -> Demand:
    def of(group: LeafDemand | TreeDemand) -> LeafDemand | TreeDemand:
        if isinstance(group, LeafDemand):
            return replace(group, pods=tuple(change(pod) for pod in group.pods))
        return replace(group, children=tuple(of(child) for child in group.children))

    return replace(demand, root=of(demand.root))


def _has_topology(group: LeafDemand | TreeDemand) -> bool:
    if group.topology_key:
        return True
    return isinstance(group, TreeDemand) and any(_has_topology(child) for child in group.children)


# ---- words --------------------------------------------------------------------------------------------------------
def text(found: Infeasible) -> str:
    """One line for a tenant: needed, best domain, what is excluded, the largest that fits, what would make it fit."""
    why = found.explanation
    fits = "fits " + ", or ".join(one.text for one in why.suggestions) if why.suggestions else ""
    rest = [part[0].upper() + part[1:] for part in (largest(why), fits) if part]
    return ". ".join([balance(why), *rest])


def balance(why: Explanation) -> str:
    """``gang "train" needs 4 Pods of nvidia.com/gpu: 8; the cluster holds 3 (nodes excluded: 2 without nvidia.com/gpu)``."""
    excluded = ""
    if why.excluded and not why.bottleneck:
        place = " there" if why.best else ""
        listed = ", ".join(f"{one.node_count} {one.text}" for one in why.excluded[:_CAUSE_COUNT_MAX])
        excluded = f" (nodes excluded{place}: {listed})"
    return f"{asks(why)}; {_best(why)}{excluded}"


def largest(why: Explanation) -> str:
    """``largest gang that fits: 3``; "" where none does, or nobody can tell."""
    if not why.largest or why.needed <= 1:
        return ""
    return f"largest {'gang' if why.unit == 'Pods' else 'number of groups'} that fits: {why.largest}"


def asks(why: Explanation) -> str:
    """``gang "train" needs 4 Pods of nvidia.com/gpu: 8``."""
    main = why.devices or ", ".join(f"{name}: {amount_text(name, amount)}" for name, amount in _main(why.per_pod))
    where = f" in one {'/'.join(why.topology)}" if why.topology else ""
    if why.scope is Scope.POD:
        return f'a Pod of "{why.name}" needs ' + (main or "a node") + where
    unit = why.unit if why.needed != 1 else why.unit[:-1]
    each = f" of {main}" if main else ""
    return f'gang "{why.name}" needs {why.needed} {unit}{each}{where}'


def _main(per_pod: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    """Devices tell more than cpu and memory; without any, all is said."""
    devices = [item for item in per_pod if "/" in item[0]]
    return devices or list(per_pod)


def _best(why: Explanation) -> str:
    if not why.domain_count:
        return "no node has that label" if why.topology else "there is no node"
    if why.bottleneck:
        name = why.bottleneck.resource
        if not why.bottleneck.largest:
            return f"no node has {name}"
        return f"the largest node has {name}: {amount_text(name, why.bottleneck.largest)}"
    if not why.holds:
        return "none holds any" if why.topology else "no node takes one"
    if not why.topology:
        return f"the cluster holds {why.holds}"
    return f'the best, "{"/".join(why.best)}", holds {why.holds}'


def amount_text(resource: str, amount: int) -> str:
    """An amount in the scheduler's units as a person would write it."""
    if resource == "cpu":
        return text_of("cpu", Quantity(amount * (NANO // 1000)))
    return text_of(resource, Quantity(amount * NANO))


# ---- muster explain -----------------------------------------------------------------------------------------------
def domain_rows(leaf: LeafDemand, view: View) -> Iterator[tuple[tuple[str, ...], int, int, tuple[Excluded, ...]]]:
    """Per domain: its values, its nodes, how many Pods it holds at most, and what limits it. Fullest first."""
    bounds = leaf_bounds(leaf, view)
    kinds, classes = bounds.kinds, bounds.kinds.cells.classes
    hardest = _hardest(bounds)
    for kind in np.argsort(-bounds.holds, kind="stable").tolist():
        entries = kinds.content(kind)
        counts, here = kinds.node_count[entries], kinds.class_index[entries]
        excluded = tuple(_excluded(leaf.pods[hardest], bounds.fits[hardest], classes, (here, counts), view))
        for cell in kinds.cells_of[kind]:
            values = tuple(kinds.cells.value(i, cell) or "" for i in range(len(kinds.cells.keys)))
            yield values, int(counts.sum()), int(bounds.holds[kind]), excluded
