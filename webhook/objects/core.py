"""Typed subsets of core/v1, scheduling.k8s.io, batch/v1, apps/v1 and resource.k8s.io objects.

Source: k8s.io/api v0.37.2. Field names are the API's in snake case; every field is optional here, since the API
server has its own validation and Muster must not fail on what it does not need.
"""

from __future__ import annotations

from typing import Any

import msgspec

RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]


class Base(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All typed objects: immutable, camelCase on the wire, unknown fields passed over."""


# ---- metadata ---------------------------------------------------------------------------------------------------
class OwnerReference(Base, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Base, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    def annotation(self, key: str) -> str | None:
        return (self.annotations or {}).get(key)

    def controller(self) -> OwnerReference | None:
        """The owner reference with ``controller: true``, if any. Anyone can write one: it is no proof of origin."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


# ---- Pods -------------------------------------------------------------------------------------------------------
class ClaimName(Base, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(Base, frozen=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: tuple[ClaimName, ...] | None = None


class EnvVar(Base, frozen=True):
    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class ContainerPort(Base, frozen=True):
    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Base, frozen=True):
    name: str = ""
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[dict[str, Any], ...] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None


class PodResourceClaim(Base, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None
    source: dict[str, Any] | None = None  # the nested form of v1alpha2, pruned since 1.31


class PodSchedulingGroup(Base, frozen=True):
    pod_group_name: str | None = None


class SchedulingGate(Base, frozen=True):
    name: str = ""


class PodSpec(Base, frozen=True):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList | None = None
    runtime_class_name: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] | None = None
    host_network: bool | None = None
    volumes: tuple[dict[str, Any], ...] | None = None
    active_deadline_seconds: int | None = None
    eviction_responders: tuple[Any, ...] | None = None
    service_account_name: str | None = None
    restart_policy: str | None = None


class PodTemplateSpec(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodStatus(Base, frozen=True):
    phase: str | None = None


class Pod(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# ---- scheduling.k8s.io ------------------------------------------------------------------------------------------
class Empty(Base, frozen=True):
    """``{}``: presence is the value."""


class GangPolicy(Base, frozen=True):
    min_count: int | None = None


class CompositeGangPolicy(Base, frozen=True):
    min_group_count: int | None = None


class SchedulingPolicy(Base, frozen=True):
    basic: Empty | None = None
    gang: GangPolicy | None = None


class CompositeSchedulingPolicy(Base, frozen=True):
    basic: Empty | None = None
    gang: CompositeGangPolicy | None = None


class TopologyConstraint(Base, frozen=True):
    key: str | None = None


class SchedulingConstraints(Base, frozen=True):
    topology: tuple[TopologyConstraint, ...] | None = None


class DisruptionMode(Base, frozen=True):
    single: Empty | None = None
    all: Empty | None = None


class GroupResourceClaim(Base, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupTemplate(Base, frozen=True):
    name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[GroupResourceClaim, ...] | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroupTemplate(Base, frozen=True):
    name: str = ""
    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] | None = None
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] | None = None


class ControllerRef(Base, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class WorkloadSpec(Base, frozen=True):
    controller_ref: ControllerRef | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] | None = None
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] | None = None


class Workload(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class WorkloadRef(Base, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Base, frozen=True):
    workload_ref: WorkloadRef | None = None
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: tuple[GroupResourceClaim, ...] | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroup(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: dict[str, Any] | None = None


class CompositePodGroupSpec(Base, frozen=True):
    workload_ref: WorkloadRef | None = None
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroup(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CompositePodGroupSpec = CompositePodGroupSpec()


class PriorityClass(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


# ---- batch/v1 ---------------------------------------------------------------------------------------------------
class JobSchedulingConfiguration(Base, frozen=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    resource_claims: tuple[GroupResourceClaim, ...] | None = None


class JobSpec(Base, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    scheduling: JobSchedulingConfiguration | None = None


class Job(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: dict[str, Any] | None = None


class JobTemplateSpec(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Base, frozen=True):
    schedule: str = ""
    suspend: bool | None = None
    concurrency_policy: str | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


# ---- apps/v1 (Deployment, ReplicaSet, StatefulSet share what Muster reads) ---------------------------------------
class ReplicatedSpec(Base, frozen=True):
    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: dict[str, Any] | None = None
    pod_management_policy: str | None = None


class ReplicatedWorkload(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicatedSpec = ReplicatedSpec()


# ---- jobset.x-k8s.io/v1alpha2, leaderworkerset.x-k8s.io/v1 -------------------------------------------------------
class DependsOn(Base, frozen=True):
    name: str = ""
    status: str = ""


class ReplicatedJob(Base, frozen=True):
    name: str = ""
    group_name: str | None = None
    replicas: int | None = None
    template: JobTemplateSpec = JobTemplateSpec()
    depends_on: tuple[DependsOn, ...] | None = None


class StartupPolicy(Base, frozen=True):
    startup_policy_order: str = ""


class JobSetSpec(Base, frozen=True):
    replicated_jobs: tuple[ReplicatedJob, ...] | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    scheduling: dict[str, Any] | None = None  # proposed upstream, in no released CRD: kept raw


class JobSet(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()


class LeaderWorkerTemplate(Base, frozen=True):
    leader_template: PodTemplateSpec | None = None
    worker_template: PodTemplateSpec = PodTemplateSpec()
    size: int | None = None
    restart_policy: str | None = None
    sub_group_policy: dict[str, Any] | None = None


class LeaderWorkerSetSpec(Base, frozen=True):
    replicas: int | None = None
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str | None = None
    rollout_strategy: dict[str, Any] | None = None


class LeaderWorkerSet(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


# ---- what surrounds them ----------------------------------------------------------------------------------------
class Namespace(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class ResourceQuotaSpec(Base, frozen=True):
    hard: ResourceList | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(Base, frozen=True):
    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus | None = None


class PersistentVolumeClaimSpec(Base, frozen=True):
    access_modes: tuple[str, ...] | None = None


class PersistentVolumeClaim(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class ResourceClaim(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class ResourceClaimTemplateSpec(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None


class ResourceClaimTemplate(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClass(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None


class RuntimeClassOverhead(Base, frozen=True):
    pod_fixed: ResourceList | None = None


class RuntimeClass(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None


class CustomResourceDefinition(Base, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None


class Scale(Base, frozen=True):
    """autoscaling/v1 Scale: the object of ``<kind>/scale`` requests."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None
