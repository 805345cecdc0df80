"""batch/v1 Job and CronJob -> GangPlan.

Source: the Job controller of 1.37.2 (pkg/controller/job/job_scheduling_manager.go, getManagementMode):

| the Job has                                         | what the controller makes                                   |
|-----------------------------------------------------|-------------------------------------------------------------|
| `schedulingGroup` in its template                   | nothing: the Pods name a group that somebody else creates   |
| no controller owner                                 | a Workload and a PodGroup, basic without `spec.scheduling`  |
| a controller owner and the group-template annotation| a PodGroup from the owner's Workload                        |
| a controller owner, no annotation (a CronJob's Job) | nothing: `spec.scheduling` is stored and not acted on       |

All of it needs the gate WorkloadWithJob, which a plan does not know: rules ask `facts.gate`.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.objects import core
from webhook.objects.fieldpath import METADATA, SPEC, FieldPath
from webhook.plan.model import GangPlan, GroupOrigin, Ignored, LeafGroup, PodSet, PolicyKind
from webhook.plan.parts import (
    GROUP_TEMPLATE_ANNOTATION,
    JOB_CONTROLLER,
    claims,
    disruption_mode,
    foreign_manager,
    job_pod_set,
    job_size,
    policy_kind,
    referenced_group,
    referenced_name,
    split_by_group,
    topology,
    without_count,
)

_TEMPLATE_GROUP_WINS = (
    "the Pod template names a PodGroup by schedulingGroup, so the Job controller makes no group and does not act on "
    "spec.scheduling"
)
_OWNED_WITHOUT_ANNOTATION = (
    "1.37 makes no PodGroup for a Job with a controller owner and without annotation "
    "scheduling.k8s.io/group-template-name: its Pods run one by one"
)
_DELEGATED = (
    "the annotation scheduling.k8s.io/group-template-name takes the group from the owner's Workload, so the Job's own "
    "spec.scheduling is not acted on"
)
_CRONJOB = "1.37 makes no PodGroup for the Jobs of a CronJob: their Pods run one by one"
_ANNOTATION_WITHOUT_OWNER = (
    "1.37 reads the annotation only on a Job with a controller owner, and this one gets a PodGroup of its own"
)


def plan_job(api_version: str, namespace: str, job: core.Job) -> GangPlan:
    """Never raises."""
    pod_set = job_pod_set(job.spec, SPEC)
    base = GangPlan(kind="Job", api_version=api_version, namespace=namespace, name=job.metadata.name)
    if manager := foreign_manager(job.spec.managed_by, JOB_CONTROLLER):
        return _foreign(base, without_count(pod_set), manager, SPEC / "managedBy")
    groups, loose, ignored = job_parts(job.metadata, METADATA, job.spec, SPEC, pod_set)
    return replace(base, groups=groups, pod_sets=loose, ignored=ignored)


def plan_cronjob(api_version: str, namespace: str, cronjob: core.CronJob) -> GangPlan:
    """The plan of each Job that the CronJob will create. Never raises."""
    at = SPEC / "jobTemplate"
    template = cronjob.spec.job_template
    pod_set = job_pod_set(template.spec, at / "spec", suspended=bool(template.spec.suspend or cronjob.spec.suspend))
    base = GangPlan(kind="CronJob", api_version=api_version, namespace=namespace, name=cronjob.metadata.name)
    if manager := foreign_manager(template.spec.managed_by, JOB_CONTROLLER):
        return _foreign(base, without_count(pod_set), manager, at / "spec" / "managedBy")
    groups, loose, ignored = child_job_parts(
        template.metadata, at / "metadata", template.spec, at / "spec", pod_set, why_ignored=_CRONJOB, group_count=None
    )
    return replace(base, groups=groups, pod_sets=loose, ignored=ignored)


Parts = tuple[tuple[LeafGroup, ...], tuple[PodSet, ...], tuple[Ignored, ...]]


def job_parts(
    metadata: core.ObjectMeta, metadata_path: FieldPath, spec: core.JobSpec, spec_path: FieldPath, pod_set: PodSet
) -> Parts:
    """Groups, loose Pods and ignored fields of one Job object."""
    if metadata.controller() is not None:
        return child_job_parts(
            metadata, metadata_path, spec, spec_path, pod_set, why_ignored=_OWNED_WITHOUT_ANNOTATION, group_count=1
        )
    annotated = metadata.annotation(GROUP_TEMPLATE_ANNOTATION) is not None
    annotation_path = metadata_path / "annotations" / GROUP_TEMPLATE_ANNOTATION
    if spec.template.spec.scheduling_group is not None:
        group = referenced_group(referenced_name(spec.template), (pod_set,))
        ignored = _written_scheduling(spec, spec_path, _TEMPLATE_GROUP_WINS)
        if annotated:
            ignored = (*ignored, Ignored(path=annotation_path, why=_TEMPLATE_GROUP_WINS))
        return (group,), (), ignored
    ignored = (Ignored(path=annotation_path, why=_ANNOTATION_WITHOUT_OWNER),) if annotated else ()
    return (_root_group(spec, spec_path, pod_set),), (), ignored


def child_job_parts(
    metadata: core.ObjectMeta,
    metadata_path: FieldPath,
    spec: core.JobSpec,
    spec_path: FieldPath,
    pod_set: PodSet,
    *,
    why_ignored: str,
    group_count: int | None,
) -> Parts:
    """The same for a Job that has, or will have, a controller owner."""
    annotation_path = metadata_path / "annotations" / GROUP_TEMPLATE_ANNOTATION
    template_name = metadata.annotation(GROUP_TEMPLATE_ANNOTATION)
    if spec.template.spec.scheduling_group is not None:
        ignored = _written_scheduling(spec, spec_path, _TEMPLATE_GROUP_WINS)
        if template_name is not None:
            ignored = (*ignored, Ignored(path=annotation_path, why=_TEMPLATE_GROUP_WINS))
        return (referenced_group(referenced_name(spec.template), (pod_set,)),), (), ignored
    if template_name is not None:
        group = delegated_group(template_name, annotation_path, pod_set, group_count=group_count)
        return (group,), (), _written_scheduling(spec, spec_path, _DELEGATED)
    return (), (pod_set,), _written_scheduling(spec, spec_path, why_ignored)


def delegated_group(
    template_name: str, annotation_path: FieldPath, pod_set: PodSet, *, group_count: int | None
) -> LeafGroup:
    """The PodGroup that the Job controller makes from the owner's Workload: what it asks for stands there."""
    return LeafGroup(
        path=annotation_path,
        origin=GroupOrigin.CONTROLLER,
        policy=PolicyKind.UNKNOWN,
        workload_template_name=template_name,
        group_count=group_count,
        pod_sets=(pod_set,),
    )


def _root_group(spec: core.JobSpec, spec_path: FieldPath, pod_set: PodSet) -> LeafGroup:
    """The group of a Job without owner. A policy that is left out resolves to basic (workloadbuilder, 1.37.2)."""
    at = spec_path / "scheduling"
    policy_path = at / "schedulingPolicy"
    scheduling = spec.scheduling or core.JobSchedulingConfiguration()
    kind = policy_kind(scheduling.scheduling_policy)
    kind = PolicyKind.BASIC if kind is PolicyKind.UNKNOWN else kind
    written = scheduling.scheduling_policy.gang.min_count if scheduling.scheduling_policy.gang else None
    min_count = None
    if kind is PolicyKind.GANG:
        min_count = max(1, job_size(spec).parallelism) if written is None else written
    key, key_path = topology(scheduling.scheduling_constraints, at / "schedulingConstraints")
    return LeafGroup(
        path=at,
        origin=GroupOrigin.CONTROLLER,
        policy=kind,
        policy_path=policy_path,
        min_count=min_count,
        min_count_path=policy_path / "gang" / "minCount",
        min_count_explicit=written is not None,
        topology_key=key,
        topology_path=key_path,
        claims=claims(scheduling.resource_claims, at / "resourceClaims"),
        claims_path=at / "resourceClaims",
        disruption_mode=disruption_mode(scheduling.disruption_mode),
        disruption_mode_path=at / "disruptionMode",
        # The controller copies the class name of the Pod template into the group, and neither number nor policy.
        priority_class_name=spec.template.spec.priority_class_name,
        priority_class_path=spec_path / "template" / "spec" / "priorityClassName",
        pod_sets=(pod_set,),
    )


def _written_scheduling(spec: core.JobSpec, spec_path: FieldPath, why: str) -> tuple[Ignored, ...]:
    return () if spec.scheduling is None else (Ignored(path=spec_path / "scheduling", why=why),)


def _foreign(base: GangPlan, pod_set: PodSet, manager: str, path: FieldPath) -> GangPlan:
    """A controller that Muster does not know acts on the Job: it may make groups, Pods elsewhere, or none."""
    reason = f'{path} is "{manager}": what that controller makes of the Job is not known'
    groups, loose = split_by_group((pod_set,))
    return replace(base, groups=groups, pod_sets=loose, unknown=(reason,))
