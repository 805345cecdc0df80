"""The three answers, and what they carry. Pure data."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from webhook.feasibility.model import Reason, Scope
from webhook.inventory.snapshot import Question


class Rung(enum.StrEnum):
    """Which step of the ladder proved it: the necessary condition that no domain meets."""

    NO_DOMAIN = "no domain"  # no node carries the topology keys
    ONE_POD = "one Pod"  # a single Pod fits no node of any domain
    SUM = "sum of nodes"  # identical Pods per node, summed per domain (exact)
    MIXED = "mixed sets"  # no choice of the sets' Pods can fit any domain
    TREE = "nested groups"  # too few children of a composite fit any domain
    EXHAUSTED = "exhausted search"  # every arrangement was tried


class CauseKind(enum.StrEnum):
    """Why a node holds no Pod of a set."""

    MISSING_LABEL = "missing-label"  # a label that topology spread or Pod affinity asks for
    SELECTOR = "node-selector"
    AFFINITY = "node-affinity"
    TAINT = "taint"
    PORTS = "host-ports"
    RESOURCE = "resource"
    DEVICES = "devices"
    PODS = "pods"


@dataclass(frozen=True, slots=True)
class Excluded:
    """Nodes of the best domain that hold no Pod, by the first cause. subject: the resource, taint or label key."""

    kind: CauseKind
    subject: str
    text: str
    node_count: int


class Change(enum.StrEnum):
    """Which single change was tried."""

    NO_TOPOLOGY = "no-topology"
    MIN_COUNT = "min-count"
    MIN_GROUP_COUNT = "min-group-count"
    TOLERATE = "tolerate"
    NO_SELECTOR = "no-selector"
    NO_AFFINITY = "no-affinity"
    NO_PORTS = "no-ports"
    NO_ANTI_AFFINITY = "no-anti-affinity"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change after which the engine found a place. subject: taint, label key or resource; amount: the most."""

    change: Change
    subject: str
    amount: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The resource that limits a Pod set on the best nodes. largest: the most any node has of it; asked: per Pod."""

    resource: str
    asked: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """needed: Pods, or children of a composite (`unit`), that have to be placed together. holds: how many of them the
    best domain takes, at most. best: its values, by key, () without a topology key. largest: the largest gang that
    fits, 0 for none, None where the engine cannot tell exactly. per_pod: what one Pod of the set in question asks; devices: what
    its claims ask, in words.

    node_count, domain_count: nodes and domains that were looked at. any_node: how many Pods one node holds at most.
    """

    name: str
    scope: Scope
    needed: int
    unit: str
    holds: int
    per_pod: tuple[tuple[str, int], ...]
    devices: str
    topology: tuple[str, ...]
    best: tuple[str, ...]
    domain_count: int
    node_count: int
    any_node: int
    largest: int | None
    excluded: tuple[Excluded, ...] = ()
    bottleneck: Bottleneck | None = None
    suggestions: tuple[Suggestion, ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Why no placement exists: in none of `domain_count` domains is there room for more than `best` of `needed`.

    A proof of `demand.without(Part.X)` does not rest on X: that is how a caller asks what a Pod mutator may undo.
    """

    rung: Rung
    question: Question
    needed: int
    best: int
    domain_count: int
    snapshot_version: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Some Pods of one set on one node. group: child index and copy at each level, () for a single leaf."""

    group: tuple[tuple[int, int], ...]
    pod_index: int
    node: str
    pod_count: int


@dataclass(eq=False)
class Witness:
    """A placement that webhook/feasibility/check.py accepts. Made only when somebody looks."""

    make: Callable[[], tuple[Placement, ...]] = field(repr=False)

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        return self.make()


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No placement exists."""

    proof: Proof
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Feasible:
    """Not provably impossible: a placement exists, which greedy kube-scheduler may still miss."""

    witness: Witness


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither proved. reasons: at least one, sorted."""

    reasons: tuple[Reason, ...]


Result = Infeasible | Feasible | Unknown
