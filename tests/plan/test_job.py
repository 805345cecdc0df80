"""Jobs and CronJobs as the Job controller of 1.37.2 treats them."""

from __future__ import annotations

import pytest

from tests.builders import cronjob, job
from webhook.plan.model import DisruptionModeKind, GangPlan, GroupOrigin, LeafGroup, PolicyKind


def only_group(plan: GangPlan) -> LeafGroup:
    (group,) = plan.leaf_groups()
    return group


def paths(plan: GangPlan) -> list[str]:
    return [str(item.path) for item in plan.ignored]


def test_a_root_job_without_scheduling_is_a_basic_group() -> None:
    plan = job().parallelism(4).plan()

    group = only_group(plan)
    assert (group.origin, group.policy) == (GroupOrigin.CONTROLLER, PolicyKind.BASIC)
    assert (group.min_count, group.name, group.pod_count) == (None, None, 4)
    assert plan.pod_sets == ()


def test_a_gang_without_min_count_waits_for_parallelism() -> None:
    group = only_group(job().parallelism(8).gang().plan())

    assert (group.policy, group.min_count, group.min_count_explicit) == (PolicyKind.GANG, 8, False)
    assert str(group.min_count_path) == "spec.scheduling.schedulingPolicy.gang.minCount"


def test_a_written_min_count_is_kept() -> None:
    group = only_group(job().parallelism(8).gang(5).plan())

    assert (group.min_count, group.min_count_explicit) == (5, True)


@pytest.mark.parametrize(("parallelism", "min_count", "pods"), [(0, 1, 0), (None, 1, 1), (1, 1, 1)])
def test_r04_the_default_min_count_is_at_least_one(parallelism: int | None, min_count: int, pods: int) -> None:
    group = only_group(job().parallelism(parallelism).gang().plan())

    assert (group.min_count, group.pod_count) == (min_count, pods)


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods"),
    [(8, 4, 4), (4, 5, 4), (8, None, 8), (None, None, 1), (None, 3, 1), (0, 3, 0), (3, 0, 0)],
)
def test_r03_pods_that_can_exist_are_bounded_by_completions(
    parallelism: int | None, completions: int | None, pods: int
) -> None:
    built = job().parallelism(parallelism).completions(completions)

    (pod_set,) = built.plan().all_pod_sets()
    assert (pod_set.pod_count, pod_set.replicas, pod_set.ranks) == (pods, 1, pods)
    assert str(pod_set.pod_count_path) == "spec.parallelism"
    assert str(pod_set.completions_path) == "spec.completions"


def test_completions_and_parallelism_are_both_one_where_both_are_left_out() -> None:
    (pod_set,) = job().plan().all_pod_sets()

    assert (pod_set.completions, pod_set.pod_count_declared) == (1, 1)


def test_a_work_queue_has_no_number_of_completions() -> None:
    (pod_set,) = job().parallelism(4).plan().all_pod_sets()

    assert pod_set.completions is None


def test_every_setting_of_the_group_is_read_with_its_path() -> None:
    built = job().parallelism(2).gang().topology("rack").disruption("all").group_claim("gpu", template="h200")

    group = only_group(built.priority_class("gold").plan())

    assert (group.topology_key, str(group.topology_path)) == (
        "rack",
        "spec.scheduling.schedulingConstraints.topology[0].key",
    )
    assert group.disruption_mode is DisruptionModeKind.ALL
    assert [(claim.key, str(claim.path)) for claim in group.claims] == [
        (("gpu", None, "h200"), "spec.scheduling.resourceClaims[0]")
    ]
    assert (group.priority_class_name, str(group.priority_class_path)) == (
        "gold",
        "spec.template.spec.priorityClassName",
    )


def test_job_settings_that_rules_read_are_on_the_pod_set() -> None:
    built = job().parallelism(4).completions(4).backoff_limit_per_index(2).active_deadline_seconds(60).suspend()

    (pod_set,) = built.plan().all_pod_sets()

    assert (pod_set.backoff_limit_per_index, pod_set.active_deadline_seconds, pod_set.suspended) == (2, 60, True)
    assert str(pod_set.active_deadline_path) == "spec.activeDeadlineSeconds"
    assert str(pod_set.spec_path) == "spec.template.spec"


def test_a_scheduling_group_in_the_template_is_a_group_that_somebody_else_makes() -> None:
    plan = job().parallelism(4).scheduling_group("shared").plan()

    group = only_group(plan)
    assert (group.origin, group.policy, group.name) == (GroupOrigin.REFERENCED, PolicyKind.UNKNOWN, "shared")
    assert (group.min_count, group.pod_count) == (None, 4)
    assert str(group.path) == "spec.template.spec.schedulingGroup"
    assert plan.ignored == ()


def test_scheduling_beside_a_scheduling_group_is_not_acted_on() -> None:
    plan = job().gang().scheduling_group("shared").plan()

    assert only_group(plan).origin is GroupOrigin.REFERENCED
    assert paths(plan) == ["spec.scheduling"]


def test_a_child_job_without_annotation_has_independent_pods() -> None:
    plan = job().parallelism(17).gang().owner("CronJob", "nightly").plan()

    assert plan.groups == ()
    assert [pod_set.pod_count for pod_set in plan.pod_sets] == [17]
    assert paths(plan) == ["spec.scheduling"]


def test_an_owner_that_is_no_controller_changes_nothing() -> None:
    plan = job().gang().owner("JobSet", "train", controller=False).plan()

    assert only_group(plan).policy is PolicyKind.GANG


@pytest.mark.parametrize("template", ["leaf", ""])
def test_a_delegated_child_job_takes_its_group_from_the_owner(template: str) -> None:
    plan = job().parallelism(2).owner("JobSet", "train").group_template(template).plan()

    group = only_group(plan)
    assert (group.origin, group.policy) == (GroupOrigin.CONTROLLER, PolicyKind.UNKNOWN)
    assert (group.workload_template_name, group.workload_name, group.min_count) == (template, None, None)
    assert (group.group_count, group.pod_count) == (1, 2)
    assert plan.ignored == ()


def test_a_delegated_child_job_with_scheduling_of_its_own_is_told() -> None:
    plan = job().gang().owner("JobSet", "train").group_template("leaf").plan()

    assert paths(plan) == ["spec.scheduling"]


def test_the_annotation_on_a_root_job_is_not_acted_on() -> None:
    plan = job().gang().group_template("leaf").plan()

    assert only_group(plan).policy is PolicyKind.GANG
    assert paths(plan) == ["metadata.annotations[scheduling.k8s.io/group-template-name]"]


def test_a_scheduling_group_wins_over_the_annotation_too() -> None:
    owned = job().gang().owner("JobSet", "train").group_template("leaf").scheduling_group("shared").plan()
    root = job().group_template("leaf").scheduling_group("shared").plan()

    assert only_group(owned).origin is GroupOrigin.REFERENCED
    assert paths(owned) == ["spec.scheduling", "metadata.annotations[scheduling.k8s.io/group-template-name]"]
    assert paths(root) == ["metadata.annotations[scheduling.k8s.io/group-template-name]"]


def test_a_foreign_controller_makes_what_nobody_here_knows() -> None:
    plan = job().parallelism(8).gang().managed_by("kueue.x-k8s.io/multikueue").plan()

    assert plan.groups == ()
    assert [pod_set.pod_count for pod_set in plan.pod_sets] == [None]
    assert plan.unknown == (
        'spec.managedBy is "kueue.x-k8s.io/multikueue": what that controller makes of the Job is not known',
    )
    assert plan.ignored == ()


def test_pods_of_a_foreign_controller_still_name_their_group() -> None:
    group = only_group(job().scheduling_group("shared").managed_by("example.com/x").plan())

    assert (group.name, group.pod_count) == ("shared", None)


def test_the_built_in_controller_may_be_named() -> None:
    assert only_group(job().gang().managed_by("kubernetes.io/job-controller").plan()).policy is PolicyKind.GANG


def test_an_empty_policy_is_basic() -> None:
    built = job()
    built.spec["scheduling"] = {}

    assert only_group(built.plan()).policy is PolicyKind.BASIC


# ---- CronJob ----------------------------------------------------------------------------------------------------
def test_jobs_of_a_cronjob_are_independent_pods_and_their_scheduling_is_ignored() -> None:
    plan = cronjob("nightly", job().parallelism(17).gang().topology("rack")).plan()

    assert plan.groups == ()
    assert [(pod_set.pod_count, str(pod_set.path)) for pod_set in plan.pod_sets] == [
        (17, "spec.jobTemplate.spec.template")
    ]
    assert paths(plan) == ["spec.jobTemplate.spec.scheduling"]


def test_a_plain_cronjob_ignores_nothing() -> None:
    assert cronjob().plan().ignored == ()


def test_a_cronjob_may_delegate_and_may_bring_a_group() -> None:
    delegated = only_group(cronjob("nightly", job().group_template("leaf")).plan())
    brought = only_group(cronjob("nightly", job().scheduling_group("shared")).plan())

    assert (delegated.workload_template_name, delegated.group_count) == ("leaf", None)
    assert (brought.origin, brought.name) == (GroupOrigin.REFERENCED, "shared")


def test_a_cronjob_of_a_foreign_controller_is_unknown() -> None:
    plan = cronjob("nightly", job().managed_by("example.com/x")).plan()

    assert plan.unknown
    assert [pod_set.pod_count for pod_set in plan.pod_sets] == [None]


def test_a_suspended_cronjob_or_job_template_has_suspended_pods() -> None:
    assert [pod_set.suspended for pod_set in cronjob().suspend().plan().all_pod_sets()] == [True]
    assert [pod_set.suspended for pod_set in cronjob("n", job().suspend()).plan().all_pod_sets()] == [True]
    assert [pod_set.suspended for pod_set in cronjob().plan().all_pod_sets()] == [False]
