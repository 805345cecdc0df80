"""The GangPlan: the tree of groups an object will become. Every kind is turned into one before any rule runs.

Rules read the plan and know no kinds. Each part carries the field path it came from, so a rule can name the field.
`None` for a number means unknown (not zero): a rule must not deny on it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from webhook.objects.core import PodTemplateSpec
from webhook.objects.fieldpath import FieldPath


class GroupOrigin(enum.StrEnum):
    """Who makes the PodGroup object."""

    CONTROLLER = "controller"  # a controller compiles it from this object (Job .spec.scheduling, delegated child Job)
    REFERENCED = "referenced"  # the Pods name it by schedulingGroup; somebody else creates it ("bring your own")
    ITSELF = "itself"  # the object is the PodGroup or CompositePodGroup
    TEMPLATE = "template"  # a podGroupTemplate in a Workload: runtime groups are made from it, how many is not said


class PolicyKind(enum.StrEnum):
    BASIC = "basic"
    GANG = "gang"
    UNKNOWN = "unknown"  # a referenced group that has not been looked up


class DisruptionModeKind(enum.StrEnum):
    SINGLE = "single"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClaim:
    """One entry of a group's resourceClaims, or of a Pod's. A Pod claim is the group's only if all three are equal."""

    name: str
    resource_claim_name: str | None
    resource_claim_template_name: str | None
    path: FieldPath

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        return (self.name, self.resource_claim_name, self.resource_claim_template_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """An elastic Pod set: the application starts with `pod_count_min` and grows to `pod_count_max`."""

    pod_count_min: int
    pod_count_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods of one role made from one template.

    role: the replicatedJob's or template's name, "" where there is only one.
    template / path: the Pod template and where it stands (``spec.template``); for a bare Pod its own spec and ``""``.
    pod_count: Pods that may exist at the same time *per group* (after completions are taken into account);
      `pod_count == replicas * ranks` where both are known.
    pod_count_path: the field that sets it. pod_count_declared: the number as written there (parallelism, size, ...).
    completions: Pods that may ever succeed, None where unbounded or not applicable. Like pod_count_declared it is as
      written, so for a JobSet's role it is of one child Job: both are comparable with each other.
    starts_after: roles of the same plan that must reach `starts_condition` ("Ready", "Complete") before this one's
      Pods are created. `starts_condition` is "OrderedReady", with no role in starts_after, where the Pods of this set
      are created one after another, each only when the one before is Ready (StatefulSet).
    suspended: the Pods are not created until somebody resumes the object.
    replicas: equal child Jobs or leader-worker groups of this role per group; 1 if the kind has none, None if unknown.
    ranks: how many Pods share one "replica" of the role (a LeaderWorkerSet's workers, a JobSet's parallelism); 1 if none.
    active_deadline_seconds: a Job's own deadline, which runs while its Pods are pending. The Pod's own one starts with
      the Pod: template.spec.active_deadline_seconds.
    """

    role: str
    template: PodTemplateSpec
    path: FieldPath
    pod_count: int | None
    pod_count_path: FieldPath
    pod_count_declared: int | None = None
    completions: int | None = None
    completions_path: FieldPath | None = None
    starts_after: tuple[str, ...] = ()
    starts_condition: str = ""
    starts_path: FieldPath | None = None
    suspended: bool = False
    replicas: int | None = 1
    ranks: int | None = 1
    backoff_limit_per_index: int | None = None
    backoff_limit_per_index_path: FieldPath | None = None
    active_deadline_seconds: int | None = None
    active_deadline_path: FieldPath | None = None
    #: The Pod's own resourceClaims entries, with their paths. Made once: many rules read them.
    claims: tuple[PlannedClaim, ...] = field(init=False, repr=False, compare=False)
    #: Of the Pod's spec.
    spec_path: FieldPath = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec_path", self.path / "spec")
        at = self.spec_path / "resourceClaims"
        claims = tuple(
            PlannedClaim(
                name=claim.name,
                resource_claim_name=claim.resource_claim_name,
                resource_claim_template_name=claim.resource_claim_template_name,
                path=at.at(index),
            )
            for index, claim in enumerate(self.template.spec.resource_claims or ())
        )
        object.__setattr__(self, "claims", claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafGroup:
    """One PodGroup to be (or `group_count` equal ones).

    path: where the scheduling settings stand (``spec.scheduling``, ``spec``, ``spec.podGroupTemplates[0]``).
    name: the PodGroup's name where it is known before it exists; None for groups a controller will name.
    min_count: minCount as it will be stored (explicit, or the controller's default); None if basic or unknown.
    min_count_path: the field to change. min_count_explicit: False where the controller derives it (follows scaling).
    disruption_mode: as written; None where it is left out (the API server makes that `single` in the PodGroup).
    workload_template_name: "" where an empty group-template-name annotation asks for the Workload's first template.
    group_count: how many equal groups the object makes (a JobSet's delegated child Jobs); None if unknown.
    pod_sets: who will be in it, as far as this object says. A referenced group may get Pods from elsewhere too.
    """

    path: FieldPath
    origin: GroupOrigin
    policy: PolicyKind
    name: str | None = None
    template_name: str | None = None
    policy_path: FieldPath = FieldPath()  # noqa: RUF009  a frozen tuple
    min_count: int | None = None
    min_count_path: FieldPath = FieldPath()  # noqa: RUF009
    min_count_explicit: bool = False
    topology_key: str | None = None
    topology_path: FieldPath | None = None
    claims: tuple[PlannedClaim, ...] = ()
    claims_path: FieldPath = FieldPath()  # noqa: RUF009
    disruption_mode: DisruptionModeKind | None = None
    disruption_mode_path: FieldPath = FieldPath()  # noqa: RUF009
    priority_class_name: str | None = None
    priority_class_path: FieldPath = FieldPath()  # noqa: RUF009
    priority: int | None = None
    preemption_policy: str | None = None
    workload_name: str | None = None
    workload_template_name: str | None = None
    parent_name: str | None = None
    group_count: int | None = 1
    pod_sets: tuple[PodSet, ...] = ()

    @property
    def pod_count(self) -> int | None:
        """Pods that may exist at the same time in one group, as far as this object says; None if unknown, which it
        is too where the object says nothing of the Pods (a PodGroup, a Workload's template)."""
        if not self.pod_sets:
            return None
        return total(pod_set.pod_count for pod_set in self.pod_sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeGroup:
    """One CompositePodGroup to be. `children_known`: the children listed are all there will ever be (a controller's
    plan), as opposed to templates of which any number of runtime groups may be made."""

    path: FieldPath
    origin: GroupOrigin
    policy: PolicyKind
    children: tuple[LeafGroup | CompositeGroup, ...]
    children_known: bool = False
    name: str | None = None
    template_name: str | None = None
    min_group_count: int | None = None
    min_group_count_path: FieldPath = FieldPath()  # noqa: RUF009
    topology_key: str | None = None
    topology_path: FieldPath | None = None
    disruption_mode: DisruptionModeKind | None = None
    priority_class_name: str | None = None
    priority_class_path: FieldPath = FieldPath()  # noqa: RUF009
    priority: int | None = None
    preemption_policy: str | None = None
    workload_name: str | None = None
    workload_template_name: str | None = None
    parent_name: str | None = None


Group = LeafGroup | CompositeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Something written that 1.37 will not act on: a CronJob's `spec.scheduling`, a child Job's without annotation."""

    path: FieldPath
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """groups: the roots, in field order. pod_sets: Pods in no group of their own (independent). unknown: reasons why
    the plan is not complete, in words (a foreign `managedBy`). ignored: see Ignored."""

    kind: str
    api_version: str
    namespace: str
    name: str
    groups: tuple[Group, ...] = ()
    pod_sets: tuple[PodSet, ...] = ()
    unknown: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = field(default=())
    # What the methods of the same names give. Made once: every rule walks them.
    _leaf_groups: tuple[LeafGroup, ...] = field(init=False, repr=False, compare=False)
    _composite_groups: tuple[CompositeGroup, ...] = field(init=False, repr=False, compare=False)
    _all_pod_sets: tuple[PodSet, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        leaves: list[LeafGroup] = []
        composites: list[CompositeGroup] = []
        stack: list[Group] = list(reversed(self.groups))
        while stack:
            group = stack.pop()
            if isinstance(group, LeafGroup):
                leaves.append(group)
            else:
                composites.append(group)
                stack.extend(reversed(group.children))
        grouped = [pod_set for leaf in leaves for pod_set in leaf.pod_sets]
        object.__setattr__(self, "_leaf_groups", tuple(leaves))
        object.__setattr__(self, "_composite_groups", tuple(composites))
        object.__setattr__(self, "_all_pod_sets", (*grouped, *self.pod_sets))

    def leaf_groups(self) -> Iterator[LeafGroup]:
        """All leaves of all trees, in field order."""
        return iter(self._leaf_groups)

    def composite_groups(self) -> Iterator[CompositeGroup]:
        """All inner nodes, parents before children."""
        return iter(self._composite_groups)

    def all_pod_sets(self) -> Iterator[PodSet]:
        """Every Pod set, grouped or not."""
        return iter(self._all_pod_sets)


def total(counts: Iterator[int | None]) -> int | None:
    """The sum, or None as soon as one part is unknown."""
    result = 0
    for count in counts:
        if count is None:
            return None
        result += count
    return result
