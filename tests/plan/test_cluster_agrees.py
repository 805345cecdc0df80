"""The plan against the real controllers of 1.37.2: what a Job becomes is what its plan says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import (
    Builder,
    Job,
    Raw,
    claim,
    claim_template,
    composite_pod_group,
    composite_template,
    cronjob,
    deployment,
    device_class,
    job,
    jobset,
    lws,
    pod,
    pod_group,
    pod_group_template,
    priority_class,
    replica_set,
    resource_quota,
    runtime_class,
    stateful_set,
    workload,
)
from tests.cluster.client import Response
from tests.cluster.cluster import Cluster
from webhook.plan.model import GangPlan, GroupOrigin, PolicyKind

BUILDERS: list[Builder] = [
    pod().gpu(8).scheduling_group("train").pod_claim("gpu", template="h200").gate("example.com/wait"),
    pod("a").sidecar("proxy", cpu="1").init("copy", cpu="2").pod_resources(requests={"cpu": "8"}).node_selector("a", "b"),
    job().parallelism(4).completions(4).gang().topology("rack").disruption("all").group_claim("gpu", template="h200").gpu(8),
    job("b").parallelism(4).completions(4).backoff_limit_per_index(1).active_deadline_seconds(60).suspend().basic(),
    job("c").generate_name("train-").env("WORLD_SIZE", "8").env_field("NAME", "metadata.name").env_from_config_map("x"),
    cronjob("nightly", job().gang()).suspend(),
    jobset().role("leader", job()).role("worker", job().parallelism(2), replicas=2, depends_on=("leader", "Ready")),
    jobset("ordered").role("leader", job()).role("worker", job()).in_order().suspend(),
    lws().replicas(2).size(4).leader_ready().leader(pod()),
    deployment().replicas(2).scheduling_group("serve"),
    replica_set(),
    stateful_set().parallel(),
    pod_group().gang(4).topology("rack").disruption("all").claim("gpu", template="h200").workload_ref("train", "leaf"),
    pod_group("basic").basic(),
    composite_pod_group().gang(2).topology("zone"),
    workload().controller("Job", "train").template(pod_group_template("leaf", 4), pod_group_template("rest")),
    workload("tree").composite(composite_template("root", pod_group_template("leaf", 4), min_group_count=1)),
    priority_class("gold", 1000, preemption_policy="Never"),
    claim_template("h200"),
    claim("shared", count=2),
    device_class("gpu.example.com", extended_resource="example.com/gpu"),
    runtime_class("kata", cpu="250m"),
    resource_quota(**{"count/podgroups.scheduling.k8s.io": "0"}),
]  # fmt: skip


@pytest.mark.parametrize("built", BUILDERS, ids=lambda built: f"{built.raw['kind']}-{built.metadata.get('name', 'x')}")
def test_the_api_server_takes_what_builders_make(built: Builder, control_plane: Cluster, namespace: str) -> None:
    """Strictly: no unknown field, no missing one."""
    if built.raw["kind"] in {"JobSet", "LeaderWorkerSet"}:
        control_plane.install_crds("jobset", "lws")
    if "namespace" in built.metadata:
        built.namespace(namespace)

    def send() -> Response:
        return control_plane.api.create(built.dict(), dryRun="All", fieldValidation="Strict")

    if built.raw["kind"] in {"JobSet", "LeaderWorkerSet"}:
        # Another test of the run may have had another schema installed; the API server changes over in a moment.
        control_plane.wait_for(lambda: send().ok, 30, f"the CRD of {built.raw['kind']} to be in force")
    response = send()

    response.expect(201)
    assert response.warnings == []


def root_jobs() -> dict[str, Job]:
    return {
        "plain": job().parallelism(2).completions(2),
        "nothing-written": job(),
        "gang": job().parallelism(3).completions(3).gang(),
        "gang-of-two": job().parallelism(3).completions(3).gang(2),
        "more-than-completions": job().parallelism(4).completions(2).gang(),
        "work-queue": job().parallelism(3).gang(),
        "no-pods-yet": job().parallelism(0).gang(),
        "suspended": job().parallelism(2).completions(2).gang().suspend(),
        "brings-a-group": job().parallelism(2).completions(2).scheduling_group("elsewhere"),
        "brings-a-group-and-more": job().parallelism(2).completions(2).scheduling_group("elsewhere").gang(),
        "annotated-root": job().parallelism(2).completions(2).gang().group_template("leaf"),
    }


def owned_jobs() -> dict[str, Job]:
    return {
        "owned": job().parallelism(2).completions(2).gang(),
        "delegated": job().parallelism(2).completions(2).gang().group_template("leaf"),
    }


def test_a_job_becomes_what_its_plan_says(control_plane: Cluster, namespace: str) -> None:
    """Pods, PodGroup, policy and minCount of each Job, made by the real Job controller."""
    owner = control_plane.api.create(cronjob("owner").namespace(namespace).suspend().dict()).expect(201)
    leaf = (
        workload("parent").namespace(namespace).controller("CronJob", "owner").template(pod_group_template("leaf", 2))
    )
    control_plane.api.create(leaf.dict()).expect(201)
    jobs = root_jobs()
    for name, built in owned_jobs().items():
        jobs[name] = built.owner("CronJob", "owner", uid=owner["metadata"]["uid"])
    for name, built in jobs.items():
        built.metadata["name"] = name
        control_plane.api.create(built.namespace(namespace).dict()).expect(201)

    for name, built in jobs.items():
        plan = built.plan()
        seen = control_plane.wait_for(_settled(control_plane, namespace, name, plan), 60, f"Job {name} as planned")
        assert seen == expected(plan), name


Seen = tuple[int, str | None, int | None, set[str | None]]


def expected(plan: GangPlan) -> Seen:
    """(Pods, policy of the PodGroup made for the Job, its minCount, groups that the Pods name)."""
    (pods,) = plan.all_pod_sets()
    count = 0 if pods.suspended else pods.pod_count or 0
    group = next(plan.leaf_groups(), None)
    if group is None or group.origin is not GroupOrigin.CONTROLLER:
        return count, None, None, {group.name if group else None} if count else set()
    if group.policy is PolicyKind.UNKNOWN:  # delegated: the Workload's template says gang of 2
        return count, "gang", 2, {"own"} if count else set()
    return count, str(group.policy), group.min_count, {"own"} if count else set()


def _settled(cluster: Cluster, namespace: str, name: str, plan: GangPlan) -> Callable[[], Seen | None]:
    """The state once the Job controller has done as many Pods and groups as planned, else None."""

    def state() -> Seen | None:
        pods = [item for item in cluster.pods(namespace) if _owned_by(item, name)]
        path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
        groups = [item for item in cluster.api.get(path).expect(200)["items"] if _owned_by(item, name)]
        names = {group["metadata"]["name"] for group in groups}
        named = {_group_name(item, names) for item in pods}
        policy: Raw = groups[0]["spec"]["schedulingPolicy"] if groups else {}
        kind = next(iter(policy), None)
        seen = (len(pods), kind, policy.get("gang", {}).get("minCount"), named)
        return seen if seen == expected(plan) else None

    return state


def _owned_by(item: dict[str, Any], name: str) -> bool:
    owners = item["metadata"].get("ownerReferences", [])
    return any(owner["kind"] == "Job" and owner["name"] == name for owner in owners)


def _group_name(item: dict[str, Any], own: set[str]) -> str | None:
    name = item["spec"].get("schedulingGroup", {}).get("podGroupName")
    return "own" if name in own else name
