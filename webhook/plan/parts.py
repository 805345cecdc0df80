"""What several adapters share: policies, claims, topology keys and Pod sets, each read with its field path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import DisruptionModeKind, GroupOrigin, LeafGroup, PlannedClaim, PodSet, PolicyKind

# batch/v1: an absent value, or this one, means the built-in Job controller (k8s.io/api batch/v1 JobControllerName).
JOB_CONTROLLER = "kubernetes.io/job-controller"
# The controller makes a PodGroup for a child Job that carries this annotation (kubernetes-1.37, Job controller).
GROUP_TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"


def policy_kind(policy: core.SchedulingPolicy | core.CompositeSchedulingPolicy) -> PolicyKind:
    """UNKNOWN where neither is written: the API server refuses that in a group object."""
    if policy.gang is not None:
        return PolicyKind.GANG
    return PolicyKind.BASIC if policy.basic is not None else PolicyKind.UNKNOWN


def disruption_mode(mode: core.DisruptionMode | None) -> DisruptionModeKind | None:
    """None where nothing, or a member that 1.37 does not know, is written."""
    if mode is None:
        return None
    if mode.all is not None:
        return DisruptionModeKind.ALL
    return DisruptionModeKind.SINGLE if mode.single is not None else None


def topology(
    constraints: core.SchedulingConstraints | None, constraints_path: FieldPath
) -> tuple[str | None, FieldPath | None]:
    """The first topology key (the API allows one) and its path; (None, None) without one."""
    items = (constraints.topology if constraints is not None else None) or ()
    if not items or items[0].key is None:
        return None, None
    return items[0].key, (constraints_path / "topology").at(0) / "key"


def claims(items: Sequence[core.GroupResourceClaim] | None, claims_path: FieldPath) -> tuple[PlannedClaim, ...]:
    """A group's resourceClaims entries."""
    return tuple(
        PlannedClaim(
            name=item.name,
            resource_claim_name=item.resource_claim_name,
            resource_claim_template_name=item.resource_claim_template_name,
            path=claims_path.at(index),
        )
        for index, item in enumerate(items or ())
    )


def referenced_name(template: core.PodTemplateSpec) -> str | None:
    """The PodGroup that the template's Pods name, None where they name none (or leave the name out)."""
    group = template.spec.scheduling_group
    return None if group is None else group.pod_group_name


def referenced_group(name: str | None, pod_sets: Sequence[PodSet], *, group_count: int | None = 1) -> LeafGroup:
    """The group that Pods name by schedulingGroup: somebody else creates it, so what it asks for is not known here."""
    return LeafGroup(
        path=pod_sets[0].spec_path / "schedulingGroup",
        origin=GroupOrigin.REFERENCED,
        policy=PolicyKind.UNKNOWN,
        name=name,
        group_count=group_count,
        pod_sets=tuple(pod_sets),
    )


def split_by_group(pod_sets: Iterable[PodSet]) -> tuple[tuple[LeafGroup, ...], tuple[PodSet, ...]]:
    """Pod sets that name a PodGroup, gathered per name in field order, and those that name none."""
    by_name: dict[str | None, list[PodSet]] = {}
    loose: list[PodSet] = []
    for pod_set in pod_sets:
        if pod_set.template.spec.scheduling_group is None:
            loose.append(pod_set)
        else:
            by_name.setdefault(referenced_name(pod_set.template), []).append(pod_set)
    return tuple(referenced_group(name, sets) for name, sets in by_name.items()), tuple(loose)


@dataclass(frozen=True, slots=True)
class JobSize:
    """A Job's numbers as the Job controller uses them (SetDefaults_Job of 1.37.2): completions and parallelism are
    both 1 where both are left out; completions stays unbounded (None) for a work queue."""

    parallelism: int
    completions: int | None

    @property
    def pod_count(self) -> int:
        """Pods that may exist at the same time: the controller makes min(parallelism, completions - succeeded)."""
        count = self.parallelism if self.completions is None else min(self.parallelism, self.completions)
        return max(0, count)


def job_size(spec: core.JobSpec) -> JobSize:
    """The defaulted parallelism and completions."""
    if spec.parallelism is None and spec.completions is None:
        return JobSize(1, 1)
    return JobSize(1 if spec.parallelism is None else spec.parallelism, spec.completions)


def job_pod_set(
    spec: core.JobSpec, spec_path: FieldPath, *, role: str = "", replicas: int = 1, suspended: bool | None = None
) -> PodSet:
    """The Pods of one Job, or of `replicas` equal child Jobs that share a group. suspended: the parent's word, where
    a parent controls it."""
    size = job_size(spec)
    return PodSet(
        role=role,
        template=spec.template,
        path=spec_path / "template",
        pod_count=max(0, replicas) * size.pod_count,
        pod_count_path=spec_path / "parallelism",
        pod_count_declared=size.parallelism,
        completions=size.completions,
        completions_path=spec_path / "completions",
        suspended=bool(spec.suspend) if suspended is None else suspended,
        replicas=max(0, replicas),
        ranks=size.pod_count,
        backoff_limit_per_index=spec.backoff_limit_per_index,
        backoff_limit_per_index_path=spec_path / "backoffLimitPerIndex",
        active_deadline_seconds=spec.active_deadline_seconds,
        active_deadline_path=spec_path / "activeDeadlineSeconds",
    )


def without_count(pod_set: PodSet) -> PodSet:
    """The same Pods where somebody unknown decides how many there will be."""
    return replace(pod_set, pod_count=None, replicas=None, ranks=None)


def starting(pod_set: PodSet, *, after: Sequence[str], condition: str, path: FieldPath) -> PodSet:
    """The same Pods, created only after others."""
    return replace(pod_set, starts_after=tuple(after), starts_condition=condition, starts_path=path)


def foreign_manager(managed_by: str | None, built_in: str) -> str | None:
    """The name of a controller other than the built-in one, if `managedBy` names one."""
    return managed_by if managed_by and managed_by != built_in else None
