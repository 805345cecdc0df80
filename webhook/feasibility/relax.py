"""Stronger necessary conditions, asked only where the ladder leaves a group of mixed sets or a tree open.

Mixed sets: give each Pod of set i a weight v_i >= 0. Any placement is worth at most what its nodes can hold, and at
least what the `needed` lightest Pods weigh, so

    weight of the `needed` lightest Pods  >  sum over nodes of the heaviest arrangement of one node

is a proof for any weights. Good weights are those of the dual of the arrangement ("configuration") program; they are
approached by a few steps that raise the weight of what is short. Trees: each resource alone has to suffice for the
children that ask least of it.
"""

from __future__ import annotations

import numpy as np

from webhook.feasibility.bounds import MANY, TreeBounds, View, kinds_of_children, least_amount
from webhook.feasibility.model import GroupDemand, LeafDemand
from webhook.feasibility.nodefit import column, is_mapped
from webhook.feasibility.search import MixedSearch
from webhook.inventory.tables import MISSING, Cells

STEP_COUNT = 40
# Weights are floats; a proof has to exceed by more than their sums can be off.
SLACK = 1 + 1e-9


def exceeds(leaf: LeafDemand, search: MixedSearch, domain: list[tuple[int, int]]) -> bool:
    """Is the domain, a list of (class, node count), proved too small? Spends the search's budget."""
    counts = np.array([MANY if pod.count is None else pod.count for pod in leaf.pods], dtype=np.float64)
    limits = tuple(min(leaf.needed, MANY if pod.count is None else pod.count) for pod in leaf.pods)
    blocks, times = [], []
    for class_index, node_count in domain:
        arrangements = search.arrangements(class_index, limits)
        if arrangements:
            blocks.append(np.array(arrangements, dtype=np.float64))
            times.append(float(node_count))
    if not blocks:
        return True
    most = np.maximum(np.max([block.max(axis=0) for block in blocks], axis=0), 1e-3)
    for start in (1.0 / most, np.ones(len(counts))):
        weights = start / start.max()
        for step in range(STEP_COUNT):
            wanted = _lightest(weights, counts, leaf.needed)
            chosen = [block[int(np.argmax(block @ weights))] for block in blocks]
            supply = np.sum([one * count for one, count in zip(chosen, times, strict=True)], axis=0)
            if wanted @ weights > (supply @ weights) * SLACK:
                return True
            # What is short becomes heavier, what there is plenty of lighter.
            gap = (wanted - supply) / np.maximum(wanted + supply, 1.0)
            weights = weights * np.exp(gap / (1 + 0.25 * step))
            weights /= weights.max()
    return False


def _lightest(weights: np.ndarray, counts: np.ndarray, needed: int) -> np.ndarray:
    """float64 [set]: which `needed` Pods weigh least."""
    result = np.zeros(len(weights))
    left = float(needed)
    for index in np.argsort(weights, kind="stable"):
        result[index] = min(left, counts[index])
        left -= result[index]
    return result


def tree_resources_suffice(bounds: TreeBounds, view: View) -> bool:
    """Is there a domain of the root in which each resource alone suffices?"""
    cells = bounds.cells
    ids, count = bounds.partition(bounds.root_keys)
    inside = ids != MISSING
    able = np.max([fits > 0 for fits in bounds.fits.values()], axis=0)
    suffices = np.ones(count, dtype=np.bool_)
    for name in sorted({name for pod in bounds.pods for name, _ in pod.request}):
        if view.optimistic and is_mapped(view.snapshot, name):
            continue
        per_cell = _room(cells, np.where(able, column(cells.classes, name), 0).astype(np.float64))
        room = np.bincount(ids[inside], weights=per_cell[inside], minlength=count)
        suffices &= room * SLACK >= _least(bounds.root, name)
    return bool(suffices.any())


def _room(cells: Cells, per_class: np.ndarray) -> np.ndarray:
    return np.add.reduceat(per_class[cells.class_index] * cells.node_count, cells.indptr[:-1])


def _least(group: GroupDemand, resource: str) -> int:
    """What one copy of the group asks of a resource at the least."""
    if isinstance(group, LeafDemand):
        return least_amount(group, resource)
    left, amount = group.needed, 0
    for each, copies in sorted((_least(child, resource), copies) for child, copies in kinds_of_children(group)):
        taken = min(left, copies)
        amount += taken * each
        left -= taken
    return amount
