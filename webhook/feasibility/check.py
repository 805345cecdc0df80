"""The independent checker: is this placement one that kube-scheduler's filters allow? Slow, plain, no tables.

It shares no code with the bounds and the search but the data types and the requirement and toleration tests, so a
witness that passes here does not pass by the engine's own mistake.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from webhook.feasibility.devices import Need
from webhook.feasibility.devices_check import node_faults
from webhook.feasibility.model import Demand, GroupDemand, LeafDemand, PodDemand, TreeDemand
from webhook.feasibility.result import Placement
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.snapshot import Node, Question, Snapshot
from webhook.inventory.tables import HOSTNAME, NAME_KEY

GroupPath = tuple[tuple[int, int], ...]


def faults(
    demand: Demand, placements: tuple[Placement, ...], snapshot: Snapshot, question: Question = Question.NEVER
) -> list[str]:
    """Everything that is wrong with the placement; empty if it is a witness."""
    nodes = {node.name: node for node in snapshot.nodes if node.counts(question)}
    missing = sorted({one.node for one in placements} - nodes.keys())
    if missing:
        return [f"no such node: {missing[0]}"]
    found: list[str] = []
    for node_name in sorted({one.node for one in placements}):
        here = [(_pod_of(demand.root, one), one.pod_count) for one in placements if one.node == node_name]
        found += _node_faults(nodes[node_name], here, question)
    by_group: dict[GroupPath, list[Placement]] = defaultdict(list)
    for one in placements:
        by_group[one.group].append(one)
    found += _group_faults(demand.root, (), by_group, nodes)
    return found + _apart_faults(demand.root, placements, nodes) + device_faults(demand, placements, snapshot, question)


def device_faults(
    demand: Demand, placements: tuple[Placement, ...], snapshot: Snapshot, question: Question = Question.NEVER
) -> list[str]:
    """What devices_check.py finds wrong with the placement."""
    inventory = snapshot.devices
    if not isinstance(inventory, DeviceInventory):
        return []
    nodes = {node.name: node for node in snapshot.nodes}
    entries = []
    for one in placements:
        pod = _pod_of(demand.root, one)
        if isinstance(pod.devices, Need):
            # A group's claim exists once per group, a claim by name (its identity has no entry name) once at all.
            shared = tuple(
                ((one.group if identity[0] else (), identity), claim) for identity, claim in pod.devices.shared_claims
            )
            entries.append((nodes[one.node], pod.devices.own, shared, one.pod_count))
    return node_faults(inventory, entries, question)


def _pod_of(root: GroupDemand, one: Placement) -> PodDemand:
    group = root
    for index, _ in one.group:
        assert isinstance(group, TreeDemand)  # noqa: S101  a path has one step per level
        group = group.children[index]
    assert isinstance(group, LeafDemand)  # noqa: S101
    return group.pods[one.pod_index]


def _node_faults(node: Node, here: list[tuple[PodDemand, int]], question: Question) -> list[str]:
    found = []
    capacity = node.capacity(question)
    used: Counter[str] = Counter()
    for pod, count in here:
        used["pods"] += count
        for name, amount in pod.request:
            used[name] += amount * count
        if why := _refuses(node, pod):
            found.append(f"{node.name}: {why}")
    found += [
        f"{node.name}: {amount} of {name}, has {capacity.get(name, 0)}"
        for name, amount in used.items()
        if amount > capacity.get(name, 0)
    ]
    taken = [set(node.used_ports) if question is Question.NOT_NOW else set()]
    taken += [set(pod.ports) for pod, count in here for _ in range(count)]
    for index, ports in enumerate(taken):
        for other in taken[index + 1 :]:
            if any(_same_port(one, two) for one in ports for two in other):
                found.append(f"{node.name}: a host port twice")
    return found


def _same_port(one: tuple[str, str, int], two: tuple[str, str, int]) -> bool:
    return one[1:] == two[1:] and (one[0] == two[0] or "0.0.0.0" in (one[0], two[0]))  # noqa: S104


def _refuses(node: Node, pod: PodDemand) -> str:
    """Why the node's labels or taints refuse the Pod; "" if they do not."""
    labels = {**node.labels, NAME_KEY: node.name}
    for key in pod.needed_keys:
        if key not in labels:
            return f"no label {key}"
    for requirement in pod.selector:
        if not requirement.holds(labels.get(requirement.key)):
            return f"not {requirement}"
    if pod.affinity is not None and not any(
        all(requirement.holds(labels.get(requirement.key)) for requirement in term.labels + term.names)
        for term in pod.affinity
    ):
        return "outside the node affinity"
    for taint in node.taints if pod.tolerations is not None else ():
        if not any(one.tolerates(taint.key, taint.value, taint.effect) for one in pod.tolerations or ()):
            return f"taint {taint}"
    return ""


def _group_faults(
    group: GroupDemand, path: GroupPath, by_group: Mapping[GroupPath, list[Placement]], nodes: Mapping[str, Node]
) -> list[str]:
    inside = [one for key, placed in by_group.items() if key[: len(path)] == path for one in placed]
    found = []
    if group.topology_key is not None:
        values = {nodes[one.node].labels.get(group.topology_key) for one in inside}
        if None in values or len(values) > 1:
            found.append(f"{path}: spans {sorted(map(str, values))} of {group.topology_key}")
        if isinstance(group, LeafDemand) and group.domain is not None and values != {group.domain}:
            found.append(f"{path}: not in {group.domain}")
    if isinstance(group, LeafDemand):
        placed = Counter[int]()
        for one in inside:
            placed[one.pod_index] += one.pod_count
        if placed.total() < group.needed:
            found.append(f"{path}: {placed.total()} of {group.needed} Pods")
        for index, count in placed.items():
            limit = group.pods[index].count
            if limit is not None and count > limit:
                found.append(f"{path}: {count} Pods of a set of {limit}")
        return found
    children = {key[len(path)] for key in by_group if len(key) > len(path) and key[: len(path)] == path}
    for index, copy in sorted(children):
        copies = group.children[index].copies
        if copies is not None and copy >= copies:
            found.append(f"{path}: copy {copy} of {copies}")
        found += _group_faults(group.children[index], (*path, (index, copy)), by_group, nodes)
    if len(children) < group.needed:
        found.append(f"{path}: {len(children)} of {group.needed} groups")
    return found


def _apart_faults(root: GroupDemand, placements: tuple[Placement, ...], nodes: Mapping[str, Node]) -> list[str]:
    """Pods of equal labels that keep each other away share no domain."""
    seen: Counter[tuple[object, str, str]] = Counter()
    for one in placements:
        pod = _pod_of(root, one)
        for key in pod.apart:
            value = nodes[one.node].labels.get(key)
            if value is not None or key == HOSTNAME:
                seen[pod.apart_labels, key, value or one.node] += one.pod_count
    return [f"{count} Pods in {key}={value}" for (_, key, value), count in seen.items() if count > 1]
