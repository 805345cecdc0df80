"""Judge 3: the same question as an integer program, for OR-tools' CP-SAT. Mid-size clusters, mixed sets and trees.

Variables: how many Pods of each set of each group go to each node; which groups are placed; which domain each placed
group chose. Selectors and taints are decided per node beforehand by the brute-force judge's own tests.
"""

from __future__ import annotations

import enum

from ortools.sat.python import cp_model

from tests.properties.brute import labels_match, tolerates
from webhook.feasibility.model import Demand, GroupDemand, LeafDemand, PodDemand
from webhook.inventory.snapshot import Node, Question, Snapshot

HOSTNAME = "kubernetes.io/hostname"


class Truth(enum.StrEnum):
    YES = "placeable"
    NO = "not placeable"
    UNDECIDED = "undecided"


def solve(demand: Demand, snapshot: Snapshot, question: Question = Question.NEVER, seconds: float = 20) -> Truth:
    program = _Program([node for node in snapshot.nodes if node.counts(question)], question)
    program.model.add(program.group(demand.root, [], ()) == 1)
    program.close()
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(program.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Truth.YES
    return Truth.NO if status == cp_model.INFEASIBLE else Truth.UNDECIDED


class _Program:
    def __init__(self, nodes: list[Node], question: Question) -> None:
        self.model = cp_model.CpModel()
        self.nodes = nodes
        self.capacity = [node.capacity(question) for node in nodes]
        # (set, variable) per node; a variable is how many Pods of the set are there
        self.on_node: list[list[tuple[PodDemand, cp_model.IntVar]]] = [[] for _ in nodes]

    def group(self, group: GroupDemand, allowed: list[list[cp_model.IntVar]], path: tuple) -> cp_model.IntVar:
        """1 if the group is placed. allowed: for each level above with a topology key, per node, whether its domain was
        chosen there."""
        placed = self.model.new_bool_var(f"placed{path}")
        if group.topology_key is not None:
            allowed = [*allowed, self._domain(group, placed, path)]
        if isinstance(group, LeafDemand):
            self._leaf(group, allowed, placed, path)
            return placed
        children = [
            self.group(child, allowed, (*path, (index, copy)))
            for index, child in enumerate(group.children)
            for copy in range(group.needed if child.copies is None else child.copies)
        ]
        self.model.add(sum(children) >= group.needed).only_enforce_if(placed)
        for child in children:
            self.model.add_implication(child, placed)
        return placed

    def _domain(self, group: GroupDemand, placed: cp_model.IntVar, path: tuple) -> list[cp_model.IntVar]:
        """Exactly one value of the key if the group is placed; per node the variable of its value (0 without one)."""
        values = sorted({node.labels[group.topology_key] for node in self.nodes if group.topology_key in node.labels})
        fixed = group.domain if isinstance(group, LeafDemand) else None
        chosen = {
            value: self.model.new_bool_var(f"in{path}{value}") for value in values if fixed is None or value == fixed
        }
        nowhere = self.model.new_constant(0)
        self.model.add(sum(chosen.values()) == placed)
        return [chosen.get(node.labels.get(group.topology_key), nowhere) for node in self.nodes]

    def _leaf(
        self, leaf: LeafDemand, allowed: list[list[cp_model.IntVar]], placed: cp_model.IntVar, path: tuple
    ) -> None:
        everything = []
        for index, pod in enumerate(leaf.pods):
            limit = leaf.needed if pod.count is None else min(pod.count, leaf.needed)
            of_set = []
            for at, node in enumerate(self.nodes):
                if not _accepts(node, pod):
                    continue
                variable = self.model.new_int_var(0, limit, f"x{path}{index}{at}")
                for domain in allowed:
                    self.model.add(variable == 0).only_enforce_if(domain[at].negated())
                self.on_node[at].append((pod, variable))
                of_set.append(variable)
            self.model.add(sum(of_set) <= limit)
            everything += of_set
        self.model.add(sum(everything) >= leaf.needed).only_enforce_if(placed)
        self.model.add(sum(everything) == 0).only_enforce_if(placed.negated())

    def close(self) -> None:
        """What all Pods on a node take together."""
        for at, members in enumerate(self.on_node):
            names = {name for pod, _ in members for name, _ in pod.request} | {"pods"}
            for name in names:
                total = sum(dict((*pod.request, ("pods", 1))).get(name, 0) * variable for pod, variable in members)
                self.model.add(total <= self.capacity[at].get(name, 0))
            for _, variable in (member for member in members if member[0].ports or HOSTNAME in member[0].apart):
                self.model.add(variable <= 1)


def _accepts(node: Node, pod: PodDemand) -> bool:
    taints = node.taints if pod.tolerations is not None else ()
    return labels_match(node, pod) and all(
        any(tolerates(one, taint) for one in pod.tolerations or ()) for taint in taints
    )
