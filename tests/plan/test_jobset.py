"""JobSets: child Jobs, shared groups and start order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Job, JobSet, job, jobset
from webhook.plan.model import GroupOrigin, PodSet, PolicyKind


def role(name: str, pods: int, replicas: int = 1) -> tuple[str, Job, int]:
    return name, job().parallelism(pods).completions(pods), replicas


def two_roles(change: Any = lambda built: built, **worker: Any) -> JobSet:
    built = jobset().role("leader", change(job().parallelism(1).completions(1)))
    return built.role("worker", change(job().parallelism(2).completions(2)), replicas=3, **worker)


def by_role(built: JobSet) -> dict[str, PodSet]:
    return {pod_set.role: pod_set for pod_set in built.plan().all_pod_sets()}


def test_child_jobs_without_annotation_are_independent_pods() -> None:
    plan = two_roles().plan()

    assert plan.groups == ()
    assert [(pods.role, pods.pod_count, pods.replicas, pods.ranks) for pods in plan.pod_sets] == [
        ("leader", 1, 1, 1),
        ("worker", 6, 3, 2),
    ]
    assert plan.ignored == ()


def test_numbers_as_written_are_those_of_one_child_job() -> None:
    worker = by_role(two_roles())["worker"]

    assert (worker.pod_count_declared, worker.completions) == (2, 2)
    assert str(worker.pod_count_path) == "spec.replicatedJobs[1].template.spec.parallelism"
    assert str(worker.path) == "spec.replicatedJobs[1].template.spec.template"


def test_r23_scheduling_of_a_child_job_is_not_acted_on() -> None:
    plan = two_roles(lambda built: built.gang()).plan()

    assert plan.groups == ()
    assert [str(item.path) for item in plan.ignored] == [
        "spec.replicatedJobs[0].template.spec.scheduling",
        "spec.replicatedJobs[1].template.spec.scheduling",
    ]


def test_m04_a_delegated_role_has_one_group_for_each_child_job() -> None:
    plan = two_roles(lambda built: built.group_template("leaf")).plan()

    groups = list(plan.leaf_groups())
    assert [(group.origin, group.policy) for group in groups] == [(GroupOrigin.CONTROLLER, PolicyKind.UNKNOWN)] * 2
    assert [(group.group_count, group.pod_count, group.workload_template_name) for group in groups] == [
        (1, 1, "leaf"),
        (3, 2, "leaf"),
    ]
    assert str(groups[1].path) == (
        "spec.replicatedJobs[1].template.metadata.annotations[scheduling.k8s.io/group-template-name]"
    )
    assert plan.pod_sets == ()


def test_roles_that_name_one_pod_group_share_it() -> None:
    plan = two_roles(lambda built: built.scheduling_group("train")).plan()

    (group,) = plan.leaf_groups()
    assert (group.origin, group.name, group.pod_count) == (GroupOrigin.REFERENCED, "train", 7)
    assert [pods.role for pods in group.pod_sets] == ["leader", "worker"]


def test_groups_keep_the_order_of_the_roles() -> None:
    built = jobset().role("a", job().scheduling_group("one")).role("b", job().group_template("leaf"))
    plan = built.role("c", job().scheduling_group("one")).role("d", job()).plan()

    assert [[pods.role for pods in group.pod_sets] for group in plan.leaf_groups()] == [["a", "c"], ["b"]]
    assert [pods.role for pods in plan.pod_sets] == ["d"]


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_r11_a_role_that_depends_on_another_starts_after_it(status: str) -> None:
    pods = by_role(two_roles(depends_on=("leader", status)))

    assert (pods["worker"].starts_after, pods["worker"].starts_condition) == (("leader",), status)
    assert str(pods["worker"].starts_path) == "spec.replicatedJobs[1].dependsOn"
    assert pods["leader"].starts_after == ()


def test_of_two_conditions_the_weaker_is_claimed() -> None:
    built = two_roles(depends_on=("leader", "Complete"))
    built.spec["replicatedJobs"][1]["dependsOn"].append({"name": "other", "status": "Ready"})

    worker = by_role(built)["worker"]

    assert (worker.starts_after, worker.starts_condition) == (("leader", "other"), "Ready")


def test_in_order_every_role_waits_for_all_before_it() -> None:
    pods = by_role(two_roles().role("last", job()).in_order())

    assert [pods[name].starts_after for name in ("leader", "worker", "last")] == [
        (),
        ("leader",),
        ("leader", "worker"),
    ]
    assert str(pods["last"].starts_path) == "spec.startupPolicy.startupPolicyOrder"


def test_the_jobset_decides_whether_its_jobs_are_suspended() -> None:
    assert [pods.suspended for pods in two_roles().suspend().plan().all_pod_sets()] == [True, True]
    assert [pods.suspended for pods in jobset().role("a", job().suspend()).plan().all_pod_sets()] == [False]


def test_a_foreign_controller_of_the_jobset_leaves_no_numbers() -> None:
    plan = two_roles(lambda built: built.group_template("leaf")).managed_by("kueue.x-k8s.io/multikueue").plan()

    assert [(group.group_count, group.pod_count) for group in plan.leaf_groups()] == [(None, None)] * 2
    assert len(plan.unknown) == 1


def test_a_foreign_controller_of_one_child_job_leaves_that_role_without_numbers() -> None:
    built = jobset().role("mine", job()).role("theirs", job().managed_by("example.com/x"))

    plan = built.managed_by("jobset.sigs.k8s.io/jobset-controller").plan()

    assert [pods.pod_count for pods in plan.pod_sets] == [1, None]
    (reason,) = plan.unknown
    assert reason.startswith('spec.replicatedJobs[1].template.spec.managedBy is "example.com/x"')


@pytest.mark.parametrize("scheduling", [{}, {"policy": {"gang": {}}}, {"schedulingPolicy": {"gang": {"minCount": 8}}}])
def test_m06_m08_r11c_scheduling_of_the_jobset_itself_is_not_known(scheduling: dict[str, Any]) -> None:
    built = two_roles()
    built.spec["scheduling"] = scheduling

    plan = built.plan()

    assert len(plan.unknown) == 1
    assert sum(pods.pod_count or 0 for pods in plan.pod_sets) == 7
