"""Demand: what a GangPlan asks of the cluster, reduced to what kube-scheduler applies. Pure data.

READ THIS FIRST if you add a constraint (devices, for instance). A `Demand` is a tree: `TreeDemand` (composite) nodes
and `LeafDemand` nodes, whose `PodDemand`s are the Pod sets. Every field is a *necessary* condition in the scheduler's
own terms; what cannot be expressed goes into `unknowns` of the part it stands at: it is left out of proofs (sound) and
turns a witness into Unknown (honest). Equal parts compare equal (paths and names are left out of comparison), so that
64 equal leaves cost as much as one.

A new per-node constraint is: a field of PodDemand, one function in webhook/feasibility/nodefit.py `LIMITS` that gives
how many such Pods a class of nodes holds, the same check in check.py, and the cause's words in explain.py.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import PlannedClaim

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}\Z")


class Part(enum.StrEnum):
    """What can be left out of a demand: because the scheduler's configuration ignores it, because a Pod mutator may
    change it, or to ask which single constraint is in the way."""

    REQUESTS = "requests"
    TAINTS = "taints"
    NODE_SELECTOR = "node selector"
    NODE_AFFINITY = "node affinity"
    HOST_PORTS = "host ports"
    POD_AFFINITY = "pod affinity"
    SPREAD = "topology spread"
    CLAIMS = "claims"
    TOPOLOGY = "topology key"


class Doubt(enum.StrEnum):
    """Why an answer is unknown. The value is the metric's label."""

    CLAIMS = "claims"
    SPREAD = "topology-spread"
    POD_AFFINITY = "pod-affinity"
    VOLUMES = "volumes"
    MAPPED_RESOURCE = "mapped-resource"
    TOLERATION_OPERATOR = "toleration-operator"
    UNREADABLE = "unreadable"
    BUDGET = "budget"
    POD_COUNT = "pod-count"
    NODE_NAME = "node-name"
    SCHEDULER = "scheduler"
    PLAN = "plan"
    PODS_UNKNOWN = "pods-unknown"
    POOL = "autoscaled-pool"
    HOSTNAME = "hostname-label"


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """One reason for an unknown: the kind, for metrics, and the words."""

    doubt: Doubt
    text: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on a node label, as labels.Requirement matches. values: sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """value: the node's label, None without it. An operator that 1.37 does not know may match."""
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        if self.operator in ("Gt", "Lt"):
            return self._compares(value)
        return True

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        have, limit = as_int64(value), as_int64(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if self.operator == "Gt" else have < limit

    def __str__(self) -> str:
        values = ", ".join(f'"{value}"' for value in self.values)
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key} = {values or 'none'}"
        return f"{self.key} {self.operator}" + (f" ({values})" if self.values else "")


def as_int64(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Term:
    """One of the nodeSelectorTerms, which are ORed: all of its requirements hold, on labels and on the name."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """core/v1 Toleration; an empty effect or key matches every one."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Toleration.ToleratesTaint; Gt and Lt (an alpha gate) count as understood, which never proves too much."""
        if (self.effect and self.effect != effect) or (self.key and self.key != key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == value
        if self.operator in ("Gt", "Lt"):
            mine, taint = as_int64(self.value), as_int64(value)
            return mine is not None and taint is not None and (taint > mine if self.operator == "Gt" else taint < mine)
        return self.operator == "Exists"


@dataclass(frozen=True, slots=True)
class SpreadLimit:
    """A DoNotSchedule constraint with minDomains that selects the Pods themselves: where the cluster has fewer domains
    than `min_domains`, each holds at most `max_skew` of them, whatever other Pods exist."""

    key: str
    max_skew: int
    min_domains: int


class DeviceNeed(Protocol):
    """What the device engine (devices.py) makes of a Pod's claims. Hashable and equal where the need is equal.

    key: a tables.NodeKey, which tells nodes apart by the devices that count for this need.
    """

    @property
    def key(self) -> str: ...

    def limits(self, base: Any) -> Any:
        """int64 [code of `key` in this tables.Base]: at most how many such Pods a node holds."""

    def ceiling(self, base: Any) -> int:
        """At most how many such Pods all nodes together hold, by the devices that they share."""

    def device_count_max(self, base: Any) -> int:
        """For a need of one request: the most devices that one node has for it."""

    def words(self) -> str:
        """What one Pod asks, for texts."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """One Pod set. count: how many Pods there are (None: any number).

    request: resource -> amount > 0, in the scheduler's units, sorted by name. ignored names are not in it.
    selector: requirements that all hold; affinity: terms of which one holds (None: none asked; (): nothing matches).
    tolerations: None where taints are left out. ports: (ip, protocol, port); a set with any takes one node each.
    apart: topology keys of required anti-affinity against itself: one Pod per domain, nodes without the key are free.
    apart_labels: the Pods' labels where `apart` is set: sets that differ in them do not keep each other away.
    needed_keys: labels a node must have (topology spread and Pod affinity refuse a node without).
    claims: the Pod's own resourceClaims entries; what the device engine makes of them is in `devices`.
    served: extended resources that a DeviceClass may serve, and what that takes. pins: claims on devices of one node
    that the set's Pods share with others: all Pods with an equal pin are on one node.
    """

    count: int | None
    request: tuple[tuple[str, int], ...] = ()
    selector: tuple[Requirement, ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = ()
    ports: frozenset[tuple[str, str, int]] = frozenset()
    apart: tuple[str, ...] = ()
    apart_labels: tuple[tuple[str, str], ...] = ()
    needed_keys: tuple[str, ...] = ()
    spread: tuple[SpreadLimit, ...] = ()
    claims: tuple[tuple[str, str | None, str | None], ...] = ()
    devices: DeviceNeed | None = None
    served: tuple[tuple[str, DeviceNeed], ...] = ()
    pins: tuple[tuple[str, str | None, str | None], ...] = ()
    unknowns: tuple[Reason, ...] = ()
    role: str = field(default="", compare=False)
    path: FieldPath = field(default=FieldPath(), compare=False)
    planned_claims: tuple[PlannedClaim, ...] = field(default=(), compare=False)

    def without(self, parts: frozenset[Part]) -> PodDemand:
        """The same without some constraints: never harder to place."""
        changes: dict[str, object] = {}
        if Part.REQUESTS in parts:
            changes["request"] = ()
        if Part.TAINTS in parts:
            changes["tolerations"] = None
        if Part.NODE_SELECTOR in parts:
            changes["selector"] = ()
        if Part.NODE_AFFINITY in parts:
            changes["affinity"] = None
        if Part.HOST_PORTS in parts:
            changes["ports"] = frozenset()
        if Part.POD_AFFINITY in parts:
            changes["apart"] = ()
        if Part.SPREAD in parts:
            changes["spread"] = ()
        if parts & {Part.POD_AFFINITY, Part.SPREAD}:
            changes["needed_keys"] = ()
        if Part.CLAIMS in parts:
            changes["claims"] = ()
            changes["devices"] = None
            changes["pins"] = ()
        return replace(self, **changes) if changes else self  # type: ignore[arg-type]

    @property
    def label_keys(self) -> tuple[str, ...]:
        """Node labels that its selectors read, for the choice of node classes."""
        keys = {requirement.key for requirement in self.selector} | set(self.needed_keys)
        keys |= {need.key for _, need in self.served}
        if self.devices is not None:
            keys.add(self.devices.key)
        for term in self.affinity or ():
            keys |= {requirement.key for requirement in term.labels + term.names}
        return tuple(keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDemand:
    """One PodGroup: `needed` Pods of its sets at the same time, in one domain of topology_key.

    copies: equal groups that exist (None: any number); only a parent's minGroupCount reads it.
    domain: the only value of topology_key that counts (NOT_NOW, members are bound there); None: any.
    claims: the group's resourceClaims entries.
    """

    needed: int
    pods: tuple[PodDemand, ...]
    topology_key: str | None = None
    copies: int | None = 1
    domain: str | None = None
    claims: tuple[tuple[str, str | None, str | None], ...] = ()
    unknowns: tuple[Reason, ...] = ()
    name: str = field(default="", compare=False)
    path: FieldPath = field(default=FieldPath(), compare=False)
    needed_path: FieldPath = field(default=FieldPath(), compare=False)
    topology_path: FieldPath = field(default=FieldPath(), compare=False)

    def without(self, parts: frozenset[Part]) -> LeafDemand:
        pods = tuple(pod.without(parts) for pod in self.pods)
        if Part.TOPOLOGY in parts:
            return replace(self, pods=pods, topology_key=None, domain=None)
        return replace(self, pods=pods)

    def beside(self, placed_count: int, domain: str | None) -> LeafDemand:
        """What is left to place now, with members bound already: the rest of the quorum, in their domain. For NOT_NOW
        only: bound members may go away again, so they fix nothing for NEVER."""
        pods = tuple(
            pod if pod.count is None else replace(pod, count=max(1, pod.count - placed_count)) for pod in self.pods
        )
        needed = max(1, self.needed - placed_count)
        return replace(self, needed=needed, pods=pods if len(pods) == 1 else self.pods, domain=domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDemand:
    """A CompositePodGroup: `needed` of its children (counted with their copies) in one domain of topology_key."""

    needed: int
    children: tuple[LeafDemand | TreeDemand, ...]
    topology_key: str | None = None
    copies: int | None = 1
    unknowns: tuple[Reason, ...] = ()
    name: str = field(default="", compare=False)
    path: FieldPath = field(default=FieldPath(), compare=False)
    needed_path: FieldPath = field(default=FieldPath(), compare=False)
    topology_path: FieldPath = field(default=FieldPath(), compare=False)

    def without(self, parts: frozenset[Part]) -> TreeDemand:
        key = None if Part.TOPOLOGY in parts else self.topology_key
        return replace(self, children=tuple(child.without(parts) for child in self.children), topology_key=key)


GroupDemand = LeafDemand | TreeDemand


class Scope(enum.StrEnum):
    """What the question is about. GANG: the group as a whole. POD: any one Pod of a set that is no gang's (basic
    policy, no group, or a group whose other members are not known)."""

    GANG = "gang"
    POD = "pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One question: can `root` be placed at all.

    skip: set where it cannot be asked (another scheduler, spec.nodeName, an unknown plan): the answer is Unknown.
    suspended: its Pods are not created until somebody resumes the object, and may change until then.
    """

    root: GroupDemand
    scope: Scope = Scope.GANG
    name: str = ""
    skip: Reason | None = None
    suspended: bool = False

    def without(self, *parts: Part) -> Demand:
        """The same question without some constraints."""
        return replace(self, root=self.root.without(frozenset(parts))) if parts else self

    def with_every_member(self) -> Demand | None:
        """The same group with all of its Pods placed together, as most applications want it although minCount asks for
        fewer; None where their number is not known or it is the same question."""
        root = self.root
        if isinstance(root, TreeDemand) or any(pod.count is None for pod in root.pods):
            return None
        total = sum(pod.count or 0 for pod in root.pods)
        return replace(self, root=replace(root, needed=total)) if total > root.needed else None

    def leaves(self) -> tuple[LeafDemand, ...]:
        """All leaves, in field order."""
        result: list[LeafDemand] = []
        stack: list[GroupDemand] = [self.root]
        while stack:
            group = stack.pop()
            if isinstance(group, LeafDemand):
                result.append(group)
            else:
                stack.extend(reversed(group.children))
        return tuple(result)

    def pods(self) -> tuple[PodDemand, ...]:
        """All Pod sets, in field order."""
        return tuple(pod for leaf in self.leaves() for pod in leaf.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What of the scheduler is in force (policy, the cluster profile). The defaults are 1.37's with all gates on.

    schedulers: profile names it answers for. topology, gangs: the gates of the *scheduler*; where they are not known to
    be on, a proof that rests on them may not deny. ignored_resources, ignored_groups: NodeResourcesFitArgs and
    extenders' ignoredByScheduler. disabled: parts whose filter plugin is off.
    """

    schedulers: tuple[str, ...] = ("default-scheduler",)
    topology: bool = True
    gangs: bool = True
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    disabled: frozenset[Part] = frozenset()

    def ignores(self, resource: str) -> bool:
        return resource in self.ignored_resources or (
            "/" in resource and resource.split("/", 1)[0] in self.ignored_groups
        )


DEFAULT_PROFILE = Profile()
