"""Facts: all that a rule may know about one request, frozen."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from webhook.facts.surroundings import Surroundings
from webhook.inventory.snapshot import Snapshot
from webhook.objects import core
from webhook.objects.request import AdmissionRequest
from webhook.plan.model import GangPlan, GroupOrigin
from webhook.policy.effective import EffectivePolicy

S = TypeVar("S")
T = TypeVar("T")


class Operation(enum.StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Phase(enum.StrEnum):
    """VALIDATING: a webhook request after the API server's own validation. MUTATING: before it. REVIEW: offline."""

    VALIDATING = "validating"
    MUTATING = "mutating"
    REVIEW = "review"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks, by request.userInfo. trusted: a controller of the policy's `trustedControllers` (never decided by
    ownerReferences, which anyone can write). system: the garbage collector or the namespace controller."""

    username: str
    groups: tuple[str, ...]
    trusted: bool
    system: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """obj / raw: the object judged, typed and as sent (for DELETE the object that goes). old / old_raw: the stored
    object of an UPDATE. kind and api_version are those of `raw` as the API server converted it. subresource: "" or
    "scale", "resize", "status", ... For a scale request `obj` is what is scaled (webhook/admission/scale.py). complete_set: what the surroundings do not
    hold does not exist (`review --complete`). now: timezone-aware, given by the root, since rules read no clock.
    inventory: the cluster's capacity, None where nobody gave one: then capacity is no question.
    """

    phase: Phase
    operation: Operation
    subresource: str
    request: AdmissionRequest
    requester: Requester
    kind: str
    api_version: str
    namespace: str
    name: str
    obj: core.Base
    raw: Mapping[str, Any]
    old: core.Base | None
    old_raw: Mapping[str, Any] | None
    plan: GangPlan
    old_plan: GangPlan | None
    policy: EffectivePolicy
    surroundings: Surroundings
    now: datetime
    complete_set: bool = False
    inventory: Snapshot | None = None

    def once(self, work: Callable[[Facts, S], T], subject: S) -> T:
        """``work(facts, subject)``, worked out once with these surroundings and shared by the rules. subject: the plan or
        a part of it. Not kept while it asks what has no answer yet: the rules run again once it has."""
        memo, key = self.surroundings.memo, (work, id(subject))
        known = memo.get(key)
        if known is not None:
            return known[1]  # type: ignore[no-any-return]  # the memo holds results of many types
        open_count = self.surroundings.open_count
        result = work(self, subject)
        if self.surroundings.open_count == open_count:
            memo[key] = (subject, result)  # the subject too: its id stays its own as long as it lives
        return result

    @property
    def metadata(self) -> core.ObjectMeta:
        return getattr(self.obj, "metadata", core.ObjectMeta())

    def gate(self, name: str) -> bool | None:
        """A feature gate of this cluster: the policy's word, else what this object proves, else None (not known).

        In the validating phase a gated field of a new object proves its gate: the API server drops the fields of a gate
        that is off before any webhook sees them (PrepareForCreate). On an UPDATE it keeps what was stored already, so
        there a field may be older than the gate's present state and proves nothing.
        """
        declared = self.policy.gate(name)
        if declared is not None:
            return declared
        created = self.phase is Phase.VALIDATING and self.operation is Operation.CREATE
        return True if created and _proves(name, self) else None


# The schema of a custom resource knows no gates: what is in it proves nothing about the API server's own kinds.
_CUSTOM = frozenset({"JobSet", "LeaderWorkerSet"})


def _proves(gate: str, facts: Facts) -> bool:
    plan = facts.plan
    if gate == "WorkloadWithJob":
        return isinstance(facts.obj, core.Job) and facts.obj.spec.scheduling is not None
    if gate == "GenericWorkload":
        # A component with WorkloadWithJob on and GenericWorkload off does not start: the one proves the other.
        return (
            facts.kind in ("Workload", "PodGroup", "CompositePodGroup")
            or (facts.kind not in _CUSTOM and any(p.template.spec.scheduling_group for p in plan.all_pod_sets()))
            or _proves("WorkloadWithJob", facts)
        )
    if gate == "CompositePodGroup":
        return facts.kind == "CompositePodGroup" or any(group.parent_name for group in plan.leaf_groups())
    if gate == "TopologyAwareWorkloadScheduling":
        return facts.kind == "PodGroup" and any(group.topology_key for group in plan.leaf_groups())
    if gate == "DRAWorkloadResourceClaims":
        if facts.kind == "PodGroup":
            return any(group.claims for group in plan.leaf_groups())
        return any(group.spec.resource_claims for group in _stored_groups(facts))
    if gate == "PodGroupPreemptionPolicy":
        return facts.kind == "PodGroup" and any(group.preemption_policy for group in plan.leaf_groups())
    return False


def _stored_groups(facts: Facts) -> list[core.PodGroup]:
    """The PodGroups that this object's Pods name: what is stored in them was not dropped either."""
    names = [group.name for group in facts.plan.leaf_groups() if group.origin is GroupOrigin.REFERENCED and group.name]
    looked = [facts.surroundings.pod_group(facts.namespace, name).value for name in names]
    return [pod_group for pod_group in looked if pod_group is not None]
