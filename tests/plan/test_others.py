"""Pods, LeaderWorkerSets, Deployments, ReplicaSets and StatefulSets."""

from __future__ import annotations

import pytest

from tests.builders import Replicated, deployment, lws, pod, replica_set, stateful_set
from webhook.objects import core
from webhook.objects.kinds import KINDS
from webhook.plan.adapters import ADAPTERS, plan_of
from webhook.plan.model import GroupOrigin


def test_every_planned_kind_has_an_adapter_and_no_other() -> None:
    assert {kind.kind for kind in KINDS if kind.planned} == set(ADAPTERS)


def test_a_kind_without_adapter_has_an_empty_plan() -> None:
    plan = plan_of(
        "PriorityClass", "scheduling.k8s.io/v1", "", core.PriorityClass(metadata=core.ObjectMeta(name="gold"))
    )

    assert (plan.kind, plan.name, plan.groups, plan.pod_sets) == ("PriorityClass", "gold", (), ())


# ---- Pod --------------------------------------------------------------------------------------------------------
def test_a_plain_pod_is_independent_and_is_its_own_template() -> None:
    plan = pod("worker-0").label("app", "train").priority(7).plan()

    (pod_set,) = plan.pod_sets
    assert (plan.groups, pod_set.pod_count, str(pod_set.spec_path)) == ((), 1, "spec")
    assert pod_set.template.metadata.labels == {"app": "train"}
    assert pod_set.template.spec.priority == 7


def test_a_pod_in_a_group_is_one_pod_of_it() -> None:
    plan = pod().scheduling_group("train").pod_claim("gpu", template="h200").plan()

    (group,) = plan.leaf_groups()
    assert (group.origin, group.name, group.pod_count) == (GroupOrigin.REFERENCED, "train", 1)
    assert str(group.path) == "spec.schedulingGroup"
    assert [str(claim.path) for claim in group.pod_sets[0].claims] == ["spec.resourceClaims[0]"]


def test_a_scheduling_group_without_name_is_a_group_without_name() -> None:
    built = pod()
    built.spec["schedulingGroup"] = {}

    (group,) = built.plan().leaf_groups()
    assert group.name is None


# ---- LeaderWorkerSet --------------------------------------------------------------------------------------------
def test_a_leader_worker_set_has_one_leader_and_size_minus_one_workers_per_replica() -> None:
    plan = lws().replicas(3).size(4).plan()

    assert [(pods.role, pods.pod_count, pods.replicas, pods.ranks) for pods in plan.pod_sets] == [
        ("leader", 3, 3, 1),
        ("worker", 9, 3, 3),
    ]


def test_replicas_and_size_default_to_one_leader() -> None:
    plan = lws().plan()

    assert [(pods.role, pods.pod_count) for pods in plan.pod_sets] == [("leader", 1)]


def test_the_leader_uses_the_worker_template_unless_it_has_its_own() -> None:
    shared = lws().size(2).plan().pod_sets
    own = lws().size(2).leader(pod().scheduler_name("other")).plan().pod_sets

    assert [str(pods.path) for pods in shared] == ["spec.leaderWorkerTemplate.workerTemplate"] * 2
    assert [str(pods.path) for pods in own] == [
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
    ]
    assert own[0].template.spec.scheduler_name == "other"


def test_all_replicas_share_the_group_that_the_templates_name() -> None:
    (group,) = lws().replicas(3).size(4).scheduling_group("serve").plan().leaf_groups()

    assert (group.origin, group.name, group.pod_count, group.group_count) == (GroupOrigin.REFERENCED, "serve", 12, 1)


def test_leader_and_workers_may_be_in_different_groups() -> None:
    built = lws().size(3).scheduling_group("workers").leader(pod().scheduling_group("leaders"))

    assert [(group.name, group.pod_count) for group in built.plan().leaf_groups()] == [("leaders", 1), ("workers", 2)]


def test_with_leader_ready_workers_start_after_the_leader() -> None:
    leader, worker = lws().size(2).leader_ready().plan().pod_sets

    assert (worker.starts_after, worker.starts_condition, str(worker.starts_path)) == (
        ("leader",),
        "Ready",
        "spec.startupPolicy",
    )
    assert leader.starts_after == ()
    assert lws().size(2).plan().pod_sets[1].starts_after == ()


# ---- Deployment, ReplicaSet, StatefulSet --------------------------------------------------------------------------
@pytest.mark.parametrize("built", [deployment(), replica_set(), stateful_set()], ids=lambda built: built.raw["kind"])
def test_equal_pods_without_group_are_independent(built: Replicated) -> None:
    plan = built.replicas(5).plan()

    assert (plan.groups, [pods.pod_count for pods in plan.pod_sets]) == ((), [5])
    assert plan.kind == built.raw["kind"]


@pytest.mark.parametrize("built", [deployment(), replica_set(), stateful_set()], ids=lambda built: built.raw["kind"])
def test_r18_a_named_group_holds_all_replicas(built: Replicated) -> None:
    (group,) = built.replicas(2).scheduling_group("pg").plan().leaf_groups()

    assert (group.origin, group.name, group.pod_count) == (GroupOrigin.REFERENCED, "pg", 2)


def test_replicas_default_to_one() -> None:
    assert [pods.pod_count for pods in deployment().unset("spec.replicas").plan().pod_sets] == [1]


def test_a_stateful_set_starts_its_pods_one_after_another_unless_told_otherwise() -> None:
    (ordered,) = stateful_set().plan().pod_sets
    (parallel,) = stateful_set().parallel().plan().pod_sets
    (plain,) = deployment().plan().pod_sets

    assert (ordered.starts_condition, str(ordered.starts_path)) == ("OrderedReady", "spec.podManagementPolicy")
    assert (parallel.starts_condition, plain.starts_condition) == ("", "")
    assert ordered.starts_after == ()
