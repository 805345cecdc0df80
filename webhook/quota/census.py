"""What lives, and what it is counted with: the leader's view of the cluster, fed by watches. Thread-safe, no I/O.

The view may be behind the cluster, but never jumps back: each kind's events are applied in order, and a list that
replaces them is newer. That is all the books need (docs/decisions/0006): an object that is stored and not seen yet has its
reservation; one that is gone and still seen counts a moment too long.

| object | counts |
|---|---|
| a controller (Job, JobSet, Deployment, ...) | the larger of its plan and the sum of what it owns |
| a Pod | its own request, and what it owns beside it (a LeaderWorkerSet's leader owns its workers) |
| finished, or a controller that is being deleted | nothing of its own; its Pods as long as they live |
| a Pod that is being deleted | until it is gone, or `TERMINATING_SECONDS_MAX` beyond its grace: its node is lost |
| a claim that several Pods use | once in its namespace, with the first that uses it |
| a child that a person wrote | by itself, beside its owner (a detached reservation says which) |
| a bare gang | its members, and the places up to minCount that no member has yet, at the largest member's price |
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from webhook.quota.book import Counted
from webhook.quota.model import Holder, OpenGroup
from webhook.quota.usage import LARGEST_GANG, Amounts, Charge, Joining, add, largest

LINGER_SECONDS = 0.5
"""What shrinks or goes counts so much longer. Watches of different kinds are not in step: the Pods that a Job left behind
may be seen a moment after its end."""

BEHIND_SECONDS_MAX = 90.0
"""While the watch of a kind is broken, whatever shrinks or goes counts on, so long at most: a Job's Pods may have come and not
been seen before their Job was deleted."""

TERMINATING_SECONDS_MAX = 900.0
"""A Pod that is being deleted for so much longer than its grace period, by the leader's clock, sits on a node that is gone.
Beside the grace period, which is the tenant's word: for as long as it says, the Pod may run on. Longer than the five minutes
after which the node lifecycle controller deletes."""

TOMBSTONE_SECONDS = 300.0
_DEPTH_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One object. charges: its own plan's; () where it no longer counts. owner_uid: of its controller, "" without one.
    min_count: of a PodGroup that is a bare gang. is_deleting, and how long it may take (grace_seconds), matter for Pods."""

    uid: str
    kind: str
    namespace: str
    name: str
    owner_uid: str = ""
    generation: int = 0
    charges: tuple[Charge, ...] = ()
    min_count: int | None = None
    is_deleting: bool = False
    grace_seconds: int = 0

    @property
    def is_pod(self) -> bool:
        return self.kind == "Pod"


@dataclass(slots=True)
class _Ghost:
    """What a node was until a moment ago."""

    node: Node
    until: float


class Census:
    """clock: monotonic seconds. on_change: called after each change, from the thread that made it; must not block."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._clock, self._on_change = clock, on_change
        self._lock = threading.RLock()
        self._nodes: dict[str, Node] = {}
        self._by_namespace: dict[str, dict[str, Node]] = {}
        self._ghosts: dict[str, _Ghost] = {}
        self._tombstones: dict[str, float] = {}
        self._deleting_since: dict[str, float] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._listed_at: dict[str, float] = {}
        self._behind_since: dict[str, float] = {}
        # What a namespace counts, until something in it changes: trees of owners never leave their namespace.
        self._present: dict[str, _Namespace] = {}

    # -- what the watches tell ------------------------------------------------------------------------------------
    def replace_kind(self, kind: str, nodes: Iterable[Node], started_at: float) -> None:
        """A whole list of one kind. started_at: by this clock, before the list was asked for."""
        new = {node.uid: node for node in nodes}
        with self._lock:
            gone = [uid for uid, node in self._nodes.items() if node.kind == kind and uid not in new]
            for uid in gone:
                self._remove(uid)
            for node in new.values():
                self._put(node)
            self._listed_at[kind] = started_at
            self._behind_since.pop(kind, None)
        self._on_change()

    def fall_behind(self, kind: str) -> None:
        """The watch of this kind is broken, until the next list."""
        with self._lock:
            self._behind_since.setdefault(kind, self._clock())

    def put(self, node: Node) -> None:
        with self._lock:
            self._put(node)
        self._on_change()

    def remove(self, uid: str) -> None:
        with self._lock:
            self._remove(uid)
        self._on_change()

    def set_labels(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        """Of a namespace; None: it is gone."""
        with self._lock:
            if labels is None:
                self._labels.pop(namespace, None)
            else:
                self._labels[namespace] = dict(labels)
        self._on_change()

    def listed_since(self, moment: float, kinds: Iterable[str]) -> bool:
        """Has every one of these kinds been listed, by a list that began after this moment?"""
        with self._lock:
            return all(kind in self._listed_at and self._listed_at[kind] > moment for kind in kinds)

    def labels(self, namespace: str) -> Mapping[str, str]:
        with self._lock:
            return self._labels.get(namespace, {})

    def settles_at(self) -> float | None:
        """When the next ghost or stuck Pod stops counting; None if nothing waits for time to pass."""
        with self._lock:
            now = self._clock()
            moments = [ghost.until for ghost in self._ghosts.values()]
            moments += map(self._stuck_at, self._deleting_since)
            return min((moment for moment in moments if moment > now), default=None)

    def view(self) -> View:
        """Everything as it counts now, unchanging: what is counted and what becomes of reservations must rest on one view."""
        with self._lock:
            now = self._clock()
            if any(now - since < BEHIND_SECONDS_MAX for since in self._behind_since.values()):
                for ghost in self._ghosts.values():
                    ghost.until = max(ghost.until, now + LINGER_SECONDS)
            for uid in [uid for uid, ghost in self._ghosts.items() if ghost.until <= now]:
                self._touch(self._ghosts.pop(uid).node.namespace)
            for uid in self._deleting_since:
                if now >= self._stuck_at(uid):
                    self._touch(self._nodes[uid].namespace)
            names = {*self._by_namespace, *(ghost.node.namespace for ghost in self._ghosts.values())}
            for name in names - self._present.keys():
                self._present[name] = _Namespace(self._as_it_counts(name, now))
            return View(dict(self._nodes), frozenset(self._tombstones), dict(self._labels), dict(self._present))

    # -- keeping ----------------------------------------------------------------------------------------------------
    def _put(self, node: Node) -> None:
        old = self._nodes.get(node.uid)
        now = self._clock()
        if old is not None and old.charges != node.charges:
            self._haunt(old, now)
        if not node.is_deleting:
            self._deleting_since.pop(node.uid, None)
        elif node.is_pod:
            self._deleting_since.setdefault(node.uid, now)
        self._nodes[node.uid] = node
        self._by_namespace.setdefault(node.namespace, {})[node.uid] = node
        self._touch(node.namespace)

    def _remove(self, uid: str) -> None:
        now = self._clock()
        node = self._nodes.pop(uid, None)
        if node is not None:
            rest = self._by_namespace[node.namespace]
            del rest[uid]
            if not rest:
                del self._by_namespace[node.namespace]
            if not node.is_pod:
                self._haunt(node, now)
            self._touch(node.namespace)
        self._deleting_since.pop(uid, None)
        self._tombstones[uid] = now
        for old in itertools.takewhile(
            lambda item: now - self._tombstones[item] > TOMBSTONE_SECONDS, list(self._tombstones)
        ):
            del self._tombstones[old]

    def _touch(self, namespace: str) -> None:
        self._present.pop(namespace, None)

    def _haunt(self, node: Node, now: float) -> None:
        ghost = self._ghosts.get(node.uid)
        if ghost is not None and ghost.until > now:
            node = replace(node, charges=_larger(node.charges, ghost.node.charges))
        self._ghosts[node.uid] = _Ghost(node, now + LINGER_SECONDS)

    def _as_it_counts(self, namespace: str, now: float) -> dict[str, Node]:
        """The nodes of a namespace: ghosts at their larger self, without Pods that are stuck."""
        present = dict(self._by_namespace.get(namespace, {}))
        for uid, ghost in self._ghosts.items():
            if ghost.node.namespace != namespace:
                continue
            node = present.get(uid)
            charges = ghost.node.charges if node is None else _larger(node.charges, ghost.node.charges)
            present[uid] = replace(node or ghost.node, charges=charges)
        for uid in [uid for uid in present if uid in self._deleting_since and now >= self._stuck_at(uid)]:
            del present[uid]
        return present

    def _stuck_at(self, uid: str) -> float:
        return self._deleting_since[uid] + self._nodes[uid].grace_seconds + TERMINATING_SECONDS_MAX


class _Namespace:
    """The nodes of one namespace at one moment, and what was counted of them."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self._counted: dict[tuple[str, frozenset[str]], Counted] = {}

    def counted(self, tier: str, detached: frozenset[str]) -> Counted:
        key = (tier, frozenset(uid for uid in detached if uid in self.nodes))
        if key not in self._counted:
            self._counted[key] = _Tally(self.nodes, tier, detached).counted()
        return self._counted[key]


class View:
    """A census at one moment."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        tombstones: frozenset[str],
        labels: Mapping[str, Mapping[str, str]],
        present: Mapping[str, _Namespace],
    ) -> None:
        self._nodes, self._tombstones, self._labels, self._present = nodes, tombstones, labels, present

    def node(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def min_count(self, group_uid: str) -> int | None:
        """Of a bare gang that is there."""
        group = self._nodes.get(group_uid)
        return None if group is None else group.min_count

    def is_gone(self, uid: str) -> bool:
        """Was it seen, and seen going?"""
        return uid in self._tombstones and uid not in self._nodes

    def labels(self, namespace: str) -> Mapping[str, str]:
        return self._labels.get(namespace, {})

    def count(self, tier: str, selects: Callable[[str], bool], detached: frozenset[str]) -> Counted:
        """Everything of one tier in the namespaces that `selects` takes. detached: uids counted apart from their owner."""
        parts = [found.counted(tier, detached) for name, found in sorted(self._present.items()) if selects(name)]
        return Counted(
            holders=[holder for part in parts for holder in part.holders],
            groups=[group for part in parts for group in part.groups],
        )


def _larger(one: tuple[Charge, ...], other: tuple[Charge, ...]) -> tuple[Charge, ...]:
    """Per tier and name the larger amount."""
    by_tier = {charge.tier: charge for charge in one}
    for charge in other:
        mine = by_tier.get(charge.tier)
        if mine is None:
            by_tier[charge.tier] = charge
        else:
            joining = max(mine.joining, charge.joining, key=lambda items: sum(item.pod_count for item in items))
            joined = Charge(tier=charge.tier, amounts={}, joining=joining).own
            # Of the whole: a Pod whose group is gone costs by itself what it cost as a member, and not both.
            whole = largest(mine.own, charge.own)
            by_tier[charge.tier] = Charge(
                tier=charge.tier,
                amounts={name: max(0, number - joined.get(name, 0)) for name, number in whole.items()},
                shared={**mine.shared, **charge.shared},
                joining=joining,
            )
    return tuple(by_tier.values())


@dataclass(slots=True)
class _Members:
    """Of one bare gang."""

    pod_count: int = 0
    per_pod: Amounts = field(default_factory=dict)
    once: Amounts = field(default_factory=dict)
    namespace: str = ""
    name: str = ""


class _Tally:
    """One tier in one namespace at one moment."""

    def __init__(self, nodes: Mapping[str, Node], tier: str, detached: frozenset[str]) -> None:
        self._nodes, self._tier = nodes, tier
        self._mine: list[Node] = []
        self._children: dict[str, list[Node]] = {}
        for node in nodes.values():
            owner = nodes.get(node.owner_uid)
            # A group owns no Pods: who writes that it does wants them to go with it.
            if owner is not None and owner.kind != "PodGroup" and node.uid not in detached:
                self._children.setdefault(node.owner_uid, []).append(node)
            else:
                self._mine.append(node)

    def counted(self) -> Counted:
        holders: list[Holder] = []
        groups: dict[str, _Members] = {}
        seen: set[str] = set()
        for node in self._mine:
            amounts, shared = self._subtree(node, 0)
            for key in shared.keys() - seen:
                add(amounts, shared[key])
            seen |= shared.keys()
            if any(amounts.values()):
                holders.append(Holder(kind=node.kind, namespace=node.namespace, name=node.name, amounts=amounts))
            for joining in self._joining(node):
                self._add_member(groups, node, joining)
        opened: list[OpenGroup] = []
        for uid, members in sorted(groups.items()):
            group = self._nodes.get(uid)
            if group is None or group.min_count is None:
                continue  # the group is gone or basic by now: its members count as they are
            open_count = max(0, group.min_count - members.pod_count)
            extra: Amounts = dict(members.once)
            add(extra, members.per_pod, open_count)
            holders.append(Holder(kind="PodGroup", namespace=group.namespace, name=group.name, amounts=extra))
            opened.append(OpenGroup(uid=uid, open=open_count, per_pod=members.per_pod if open_count else {}))
        return Counted(holders=holders, groups=opened)

    def _add_member(self, groups: dict[str, _Members], node: Node, joining: Joining) -> None:
        members = groups.setdefault(joining.group_uid, _Members(namespace=node.namespace, name=joining.group_name))
        members.pod_count += joining.pod_count
        members.per_pod = largest(members.per_pod, joining.per_pod)
        members.once = dict(joining.once)

    def _joining(self, node: Node) -> Iterable[Joining]:
        return (joining for charge in node.charges if charge.tier == self._tier for joining in charge.joining)

    def _own(self, node: Node) -> _Split:
        """The plan's Pods, those that join a bare gang included, without the places of others."""
        total: Amounts = {}
        shared: dict[str, Mapping[str, int]] = {}
        for charge in node.charges:
            if charge.tier == self._tier:
                add(total, {name: number for name, number in charge.own.items() if name != LARGEST_GANG})
                shared |= charge.shared
        return _split(total, shared)

    def _subtree(self, node: Node, depth: int) -> _Split:
        own, own_shared = self._own(node)
        if depth >= _DEPTH_MAX or node.uid not in self._children:
            return own, own_shared
        below: Amounts = {}
        below_shared: dict[str, Mapping[str, int]] = {}
        for child in self._children[node.uid]:
            amounts, claims = self._subtree(child, depth + 1)
            add(below, amounts)
            below_shared |= claims
        shared = own_shared | below_shared
        if node.is_pod:
            add(own, below)
            return own, shared
        return _split(largest(_whole(own, own_shared), _whole(below, below_shared)), shared)


_Split = tuple[Amounts, dict[str, Mapping[str, int]]]
"""(amounts without shared claims, those by key)"""


def _whole(amounts: Mapping[str, int], shared: Mapping[str, Mapping[str, int]]) -> Amounts:
    total = dict(amounts)
    for devices in shared.values():
        add(total, devices)
    return total


def _split(whole: Mapping[str, int], shared: dict[str, Mapping[str, int]]) -> _Split:
    if not shared:
        return dict(whole), shared
    held = _whole({}, shared)
    return {name: max(0, number - held.get(name, 0)) for name, number in whole.items()}, shared
