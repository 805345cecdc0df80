"""jobset.x-k8s.io/v1alpha2 JobSet -> GangPlan.

A JobSet makes `replicas` child Jobs of each replicatedJob; every child has the JobSet as controller owner, so what
plan.job says of a child Job holds for it. Start order (jobset v0.11.1, pkg/controllers/jobset_controller.go): a role
with `dependsOn`, or every role under startupPolicyOrder InOrder, has no Jobs before the roles it waits for are there.
The JobSet's `suspend` overrides the one in its Job templates.
"""

from __future__ import annotations

from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.plan.job import child_job_parts
from webhook.plan.model import GangPlan, Ignored, LeafGroup, PodSet
from webhook.plan.parts import (
    JOB_CONTROLLER,
    foreign_manager,
    job_pod_set,
    split_by_group,
    starting,
    without_count,
)

JOBSET_CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"

_CHILD_WITHOUT_ANNOTATION = (
    "a child Job of a JobSet has a controller owner, and without the annotation scheduling.k8s.io/group-template-name "
    "on its template 1.37 makes no PodGroup for it: its Pods run one by one and spec.scheduling is not acted on"
)
_OWN_SCHEDULING = (
    "spec.scheduling of a JobSet is proposed upstream and in no released CRD: what groups a controller makes of it is "
    "not known"
)


def plan_jobset(api_version: str, namespace: str, jobset: core.JobSet) -> GangPlan:
    """Roles that name the same PodGroup by schedulingGroup share one group. Never raises."""
    spec = jobset.spec
    unknown = [_OWN_SCHEDULING] if spec.scheduling is not None else []
    manager = foreign_manager(spec.managed_by, JOBSET_CONTROLLER)
    if manager:
        unknown.append(f'spec.managedBy is "{manager}": what that controller makes of the JobSet is not known')
    delegated: list[LeafGroup] = []
    others: list[PodSet] = []
    ignored: list[Ignored] = []
    for index in range(len(spec.replicated_jobs or ())):
        own_groups, pod_set, passed_over = _role(jobset, index, unknown, counted=manager is None)
        delegated.extend(own_groups)
        ignored.extend(passed_over)
        if not own_groups:
            others.append(pod_set)
    referenced, loose = split_by_group(others)
    groups = sorted((*delegated, *referenced), key=lambda group: group.pod_sets[0].path)
    return GangPlan(
        kind="JobSet",
        api_version=api_version,
        namespace=namespace,
        name=jobset.metadata.name,
        groups=tuple(groups),
        pod_sets=loose,
        unknown=tuple(unknown),
        ignored=tuple(ignored),
    )


def _role(
    jobset: core.JobSet, index: int, unknown: list[str], *, counted: bool
) -> tuple[tuple[LeafGroup, ...], PodSet, tuple[Ignored, ...]]:
    """The delegated groups of one replicatedJob (one for each child Job) or, without them, its Pods of all children."""
    role = (jobset.spec.replicated_jobs or ())[index]
    at = (SPEC / "replicatedJobs").at(index)
    job_path = at / "template" / "spec"
    job = role.template.spec
    replicas = 1 if role.replicas is None else max(0, role.replicas)
    if manager := foreign_manager(job.managed_by, JOB_CONTROLLER):
        counted = False
        unknown.append(f'{job_path}.managedBy is "{manager}": what that controller makes of the Job is not known')

    def pods(job_count: int) -> PodSet:
        suspended = bool(jobset.spec.suspend)
        pod_set = job_pod_set(job, job_path, role=role.name, replicas=job_count, suspended=suspended)
        pod_set = _started(jobset, index, at, pod_set)
        return pod_set if counted else without_count(pod_set)

    groups, _, ignored = child_job_parts(
        role.template.metadata,
        at / "template" / "metadata",
        job,
        job_path,
        pods(1),
        why_ignored=_CHILD_WITHOUT_ANNOTATION,
        group_count=replicas if counted else None,
    )
    delegated = groups if job.template.spec.scheduling_group is None else ()
    return delegated, pods(replicas), ignored


def _started(jobset: core.JobSet, index: int, at: FieldPath, pod_set: PodSet) -> PodSet:
    """With the roles that come first. The API lets a JobSet use one of the two ways, never both."""
    roles = jobset.spec.replicated_jobs or ()
    depends_on = roles[index].depends_on or ()
    if depends_on:
        # Where the conditions differ, "Ready" claims less: a role that waits for Complete waits for Ready too.
        complete = all(item.status == "Complete" for item in depends_on)
        after = tuple(item.name for item in depends_on)
        return starting(pod_set, after=after, condition="Complete" if complete else "Ready", path=at / "dependsOn")
    policy = jobset.spec.startup_policy
    if policy is not None and policy.startup_policy_order == "InOrder" and index > 0:
        path = SPEC / "startupPolicy" / "startupPolicyOrder"
        return starting(pod_set, after=tuple(role.name for role in roles[:index]), condition="Ready", path=path)
    return pod_set
