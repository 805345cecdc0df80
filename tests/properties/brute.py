"""Judge 2: every placement of a small cluster, tried one by one. Plain loops, none of the engine's code but its data.

`has_placement(demand, snapshot)` walks all assignments of all Pods to nodes (or to none) and asks at the end whether
the groups are complete. Pods of one set are interchangeable, so they go to nodes in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.feasibility.model import Demand, GroupDemand, LeafDemand, PodDemand, TreeDemand
from webhook.inventory.snapshot import Node, Question, Snapshot

HOSTNAME = "kubernetes.io/hostname"
NAME = "\0metadata.name"
ADDRESS_ANY = "0.0.0.0"  # noqa: S104  the wildcard of hostPort


@dataclass(frozen=True)
class Member:
    """One Pod: the group it belongs to, which set, and what it asks."""

    group: tuple[tuple[int, int], ...]
    set_index: int
    pod: PodDemand


def has_placement(demand: Demand, snapshot: Snapshot, question: Question = Question.NEVER) -> bool:
    nodes = [node for node in snapshot.nodes if node.counts(question)]
    members = list(_members(demand.root, ()))
    return _walk(demand.root, members, nodes, question, 0, [], 0)


def _members(group: GroupDemand, path: tuple[tuple[int, int], ...]) -> Iterator[Member]:
    if isinstance(group, LeafDemand):
        for index, pod in enumerate(group.pods):
            for _ in range(group.needed if pod.count is None else min(pod.count, group.needed)):
                yield Member(path, index, pod)
        return
    for index, child in enumerate(group.children):
        for copy in range(group.needed if child.copies is None else child.copies):
            yield from _members(child, (*path, (index, copy)))


def _walk(
    root: GroupDemand,
    members: list[Member],
    nodes: list[Node],
    question: Question,
    position: int,
    placed: list[tuple[Member, Node]],
    least: int,
) -> bool:
    if position == len(members):
        return _complete(root, (), placed)
    member = members[position]
    same = position > 0 and members[position - 1].group == member.group
    same = same and members[position - 1].set_index == member.set_index
    start = least if same else 0
    for index in range(start, len(nodes)):
        node = nodes[index]
        if _accepts(node, member.pod, [pod for pod, where in placed if where is node], placed, question):
            placed.append((member, node))
            if _walk(root, members, nodes, question, position + 1, placed, index):
                return True
            placed.pop()
    # Left out; the rest of the same set is then left out as well.
    return _walk(root, members, nodes, question, position + 1, placed, len(nodes))


def _accepts(
    node: Node, pod: PodDemand, here: list[Member], placed: list[tuple[Member, Node]], question: Question
) -> bool:
    capacity = node.capacity(question)
    if len(here) + 1 > capacity.get("pods", 0):
        return False
    for name, amount in pod.request:
        if sum(dict(other.pod.request).get(name, 0) for other in here) + amount > capacity.get(name, 0):
            return False
    if not labels_match(node, pod):
        return False
    for taint in node.taints if pod.tolerations is not None else ():
        if not any(tolerates(one, taint) for one in pod.tolerations or ()):
            return False
    if any(_same_port(one, two) for other in here for one in pod.ports for two in other.pod.ports):
        return False
    for key in pod.apart:
        value = node.labels.get(key)
        for other, where in placed:
            if other.pod.apart_labels == pod.apart_labels and key in other.pod.apart:
                other_value = where.labels.get(key)
                if value is not None and value == other_value:
                    return False
    return True


def labels_match(node: Node, pod: PodDemand) -> bool:
    labels = dict(node.labels)
    labels[NAME] = node.name
    if any(key not in labels for key in pod.needed_keys):
        return False
    if any(not _holds(one, labels) for one in pod.selector):
        return False
    terms = pod.affinity
    return terms is None or any(all(_holds(one, labels) for one in (*term.labels, *term.names)) for term in terms)


def _same_port(one: tuple[str, str, int], two: tuple[str, str, int]) -> bool:
    return one[1:] == two[1:] and (one[0] == two[0] or ADDRESS_ANY in (one[0], two[0]))


def _holds(requirement, labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(requirement.values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(requirement.values[0])
    raise AssertionError(requirement.operator)


def tolerates(toleration, taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _complete(group: GroupDemand, path: tuple[tuple[int, int], ...], placed: list[tuple[Member, Node]]) -> bool:
    inside = [(member, node) for member, node in placed if member.group[: len(path)] == path]
    if group.topology_key is not None:
        values = {node.labels.get(group.topology_key) for _, node in inside}
        if len(values) > 1 or None in values:
            return False
        if isinstance(group, LeafDemand) and group.domain is not None and values != {group.domain}:
            return False
    if isinstance(group, LeafDemand):
        return len(inside) >= group.needed
    assert isinstance(group, TreeDemand)
    children = {member.group[len(path)] for member, _ in inside}
    complete = sum(_complete(group.children[index], (*path, (index, copy)), placed) for index, copy in children)
    return complete == len(children) and complete >= group.needed
