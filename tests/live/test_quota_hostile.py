"""Tier quotas against people who mean harm, or edit what they should not, on the real API server.

Reservations lapse after 8 s here, as in the other live tests of quotas.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.builders import GPU, claim, deployment
from tests.cluster.client import MERGE_PATCH
from tests.cluster.cluster import Cluster
from tests.live.quota_cluster import (
    QUOTAS,
    Replicas,
    books,
    crowd,
    edit,
    gold,
    jobs,
    quota,
    repeated,
    settled,
    wait_used,
)
from webhook.quota.model import problem_in_hard

pytestmark = pytest.mark.processes

RESERVATION_SECONDS = 8


@pytest.fixture(scope="module")
def replicas(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_RESERVATION_SECONDS", str(RESERVATION_SECONDS))
        with Replicas(control_plane, tmp_path_factory.mktemp("replicas"), 2) as replicas:
            yield replicas


@pytest.fixture
def cluster(replicas: Replicas) -> Cluster:
    return replicas.cluster


# ---- kubectl edit --subresource=status --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "status",
    [
        {"reservations": "garbage\nmore garbage"},
        {"used": {GPU: "much"}},
        {"groups": "a -1 -"},
        {"reservations": "a b Job n x 1 nvidia.com/gpu=-1000000"},
        {"holders": "x" * 1_300_000},
        None,
    ],
    ids=["no line", "no number", "negative places", "negative reservation", "as large as etcd takes", "wiped"],
)
def test_a_status_edited_by_hand_stops_one_quota_and_heals(
    cluster: Cluster, new_namespace: Callable[..., str], status: dict[str, Any] | None
) -> None:
    """Before, one unreadable status was 429 for every tier of the cluster, and nobody ever wrote it anew."""
    here, there = new_namespace(), new_namespace()
    with quota(cluster, here, [here], {GPU: 16}), quota(cluster, there, [there], {GPU: 16}):
        cluster.api.create(gold("lives", gpus=4).dict(), here).expect(201)
        assert settled(cluster, here) == 4
        stored = cluster.api.get(f"{QUOTAS}/{here}").expect()
        stored["status"] = {**stored["status"], **status} if status is not None else {}

        cluster.api.put(f"{QUOTAS}/{here}/status", stored).expect(200)
        broken_at = time.monotonic()

        answer = cluster.api.create(gold("meanwhile").dict(), here)
        assert answer.status == 429, answer.body
        if status is not None:
            assert "cannot be read and has to be counted anew" in str(answer.body)
        cluster.api.create(gold("elsewhere").dict(), there).expect(201)
        repeated(lambda: cluster.api.create(gold("after").dict(), here)).expect(201)
        assert time.monotonic() - broken_at > RESERVATION_SECONDS - 1
        assert settled(cluster, here) == 5
        assert settled(cluster, there) == 1


@pytest.mark.parametrize("status", [{"counted": {"scope": "x", "by": "me"}}, {"used": {GPU: "-5"}}, {"used": {GPU: 0}}])
def test_a_count_edited_by_hand_is_put_right(cluster: Cluster, namespace: str, status: dict[str, Any]) -> None:
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        cluster.api.create(gold("lives", gpus=4).dict(), namespace).expect(201)
        assert settled(cluster, namespace) == 4

        cluster.api.patch(f"{QUOTAS}/{namespace}/status", {"status": status}, MERGE_PATCH).expect(200)

        cluster.wait_for(lambda: int(books(cluster, namespace)["used"][GPU]) == 4, 15, "the count to be right again")
        repeated(lambda: cluster.api.create(gold("after", gpus=12).dict(), namespace)).expect(201)
        assert settled(cluster, namespace) == 16


# ---- hard -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "hard",
    [
        {"cpu": "1n", "memory": "1e30", "pods": "1e3", "gangs": 0},
        {GPU: 2**63 - 1, "memory": "9E", "cpu": "9223372036854775807"},
        {"example.com/nobody-knows": 5, "hugepages-2Mi": "1", "largest-gang": "0"},
        {"a.deviceclass.resource.k8s.io/devices": "0", f"{'x' * 253}/{'Y' * 62}": 1},
        {f"example.com/r{number}": "1Gi" for number in range(32)},
    ],
    ids=["tiny and huge", "the largest", "unknown", "long", "many"],
)
def test_whatever_hard_the_api_server_takes_is_counted(cluster: Cluster, namespace: str, hard: dict[str, Any]) -> None:
    """One TierQuota that Muster could not read would be one that nobody gets past."""
    with quota(cluster, namespace, [namespace], hard):
        assert {condition["type"]: condition["status"] for condition in books(cluster, namespace)["conditions"]} == {
            "Counted": "True",
            "Exceeded": "False",
        }


@pytest.mark.parametrize("name", ["nvidia.com/gpu ", "nvidia.com/g=u", "a/b,c", "a/b;c", "a/b/c", "/b", "a/", "a/b\nc"])
def test_a_name_in_hard_that_no_resource_has_is_refused(cluster: Cluster, namespace: str, name: str) -> None:
    raw = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "TierQuota",
        "metadata": {"name": namespace},
        "spec": {"tier": "gold", "namespaces": [namespace], "hard": {name: 1}},
    }

    answer = cluster.api.create(raw)

    assert answer.status == 422, answer.body
    assert "must be names of resources" in str(answer.body)
    assert problem_in_hard(raw["spec"]["hard"]), "a file says the same"


# ---- what other admission adds ----------------------------------------------------------------------------------
def test_a_limit_range_does_not_make_a_job_pay_twice(cluster: Cluster, namespace: str) -> None:
    """Its defaults are in the Pods and not in the template. Before, each Pod had to pay its GPUs again, and a Job that was
    admitted into the last places never got one."""
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "1Gi"}}]}
    raw = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": limits}
    cluster.api.create(raw, namespace).expect(201)
    with quota(cluster, namespace, [namespace], {GPU: 16, "cpu": 2}):
        repeated(lambda: cluster.api.create(gold("train", pods=2, gpus=8).dict(), namespace)).expect(201)

        cluster.wait_for(lambda: len(cluster.pods(namespace)) == 2, 30, "both Pods")
        assert settled(cluster, namespace) == 16
        assert settled(cluster, namespace, "cpu") == 2


def test_a_claim_that_all_replicas_name_is_used_once(cluster: Cluster, namespace: str) -> None:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "shared.example.com"},
    }
    cluster.api.create({**device_class, "spec": {}}).expect(201, 409)
    one = claim("one", "shared.example.com").unset("metadata.namespace").dict()
    cluster.api.create(one, namespace).expect(201)
    hard = "shared.example.com.deviceclass.resource.k8s.io/devices"
    top = deployment("serve").replicas(3).priority_class("train-gold").pod_claim("g", claim="one")
    with quota(cluster, namespace, [namespace], {hard: 1}):
        answer = repeated(lambda: cluster.api.create(top.unset("metadata.namespace").dict(), namespace))
        answer.expect(201)

        cluster.wait_for(lambda: len(cluster.pods(namespace)) == 3, 30, "all Pods")
        assert settled(cluster, namespace, hard) == 1
        assert books(cluster, namespace)["conditions"][1]["status"] == "False"


# ---- the quota itself ---------------------------------------------------------------------------------------------
def staying_pods(cluster: Cluster, namespace: str, count: int, besides: str = "") -> list[str]:
    """The names of the Pods that nobody deletes, once there are ``count`` of them besides one."""

    def names() -> list[str]:
        pods = (pod["metadata"] for pod in cluster.pods(namespace))
        staying = [pod["name"] for pod in pods if "deletionTimestamp" not in pod and pod["name"] != besides]
        return staying if len(staying) == count else []

    return cluster.wait_for(names, 30, f"{count} Pods")


def test_ordinary_changes_pass_whatever_the_quota_is_like(cluster: Cluster, namespace: str) -> None:
    """Labels, finalizers, status, shrinking and deletion of what is charged, with the quota far exceeded, and unreadable."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/lives"
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        held = gold("lives", pods=4, gpus=4).set("metadata.finalizers", ["example.com/held"])
        repeated(lambda: cluster.api.create(held.dict(), namespace)).expect(201)
        assert settled(cluster, namespace) == 16
        edit(cluster, namespace, {GPU: 1})
        for broken, count in ((False, 3), (True, 2)):
            if broken:
                wrong = {"status": {"reservations": "x"}}
                cluster.api.patch(f"{QUOTAS}/{namespace}/status", wrong, MERGE_PATCH).expect(200)
            label = {"metadata": {"labels": {"broken": str(broken)}, "annotations": {"a": str(broken)}}}
            cluster.api.patch(path, label, MERGE_PATCH).expect(200)
            cluster.api.patch(f"{path}/status", {"status": {}}, MERGE_PATCH).expect(200)
            cluster.api.patch(path, {"spec": {"parallelism": count}}, MERGE_PATCH).expect(200)
            # The Job controller chooses whom it takes out: which Pod stays is known afterwards.
            pod = staying_pods(cluster, namespace, count)[0]
            where = f"/api/v1/namespaces/{namespace}/pods/{pod}"
            cluster.api.patch(where, label, MERGE_PATCH).expect(200)
            cluster.api.delete(where, {"gracePeriodSeconds": 0}).expect(200)
            staying_pods(cluster, namespace, count, besides=pod)
        cluster.api.delete(path, {"propagationPolicy": "Background"}).expect(200, 202)
        cluster.api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH).expect(200)
        cluster.wait_for(lambda: cluster.api.get(path).status == 404, 10, "the Job to be gone")


def test_a_quota_made_anew_counts_what_lives(cluster: Cluster, namespace: str) -> None:
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        cluster.api.create(gold("lives", gpus=12).dict(), namespace).expect(201)
        assert settled(cluster, namespace) == 12
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        assert books(cluster, namespace)["used"] == {GPU: "12"}
        repeated(lambda: cluster.api.create(gold("more", gpus=5).dict(), namespace)).expect(403)


def test_a_selector_that_changes_counts_the_others(cluster: Cluster, new_namespace: Callable[..., str]) -> None:
    here, there = new_namespace(), new_namespace()
    with quota(cluster, here, [here], {GPU: 16}), quota(cluster, f"{here}-2", [here, there], {GPU: 24}):
        repeated(lambda: cluster.api.create(gold("a", gpus=12).dict(), here)).expect(201)
        repeated(lambda: cluster.api.create(gold("b", gpus=8).dict(), there)).expect(201)
        cluster.api.patch(f"{QUOTAS}/{here}", {"spec": {"namespaces": [there]}}, MERGE_PATCH).expect(200)

        # Both quotas apply there now: 8 more would fit into the first, and 4 into the second.
        refused = repeated(lambda: cluster.api.create(gold("c", gpus=8).dict(), there))
        assert refused.status == 403, refused.body
        assert settled(cluster, here) == 8
        repeated(lambda: cluster.api.create(gold("d", gpus=4).dict(), there)).expect(201)
        assert (settled(cluster, here), settled(cluster, f"{here}-2")) == (12, 24)


def test_a_lease_that_is_taken_away_lets_nobody_past(cluster: Cluster, namespace: str) -> None:
    """Somebody deletes it, again and again: both replicas lead, one after the other and at the same time."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-tier-quotas"
    stop = threading.Event()

    def take() -> None:
        while not stop.wait(0.7):
            cluster.api.delete(lease)

    thief = threading.Thread(target=take)
    with quota(cluster, namespace, [namespace], {GPU: 20}):
        thief.start()
        try:
            answers = crowd(cluster, namespace, [gold(f"j-{number}").dict() for number in range(60)])
        finally:
            stop.set()
            thief.join()
        assert len(jobs(cluster, namespace)) <= 20
        # Who met a place that was only reserved for too long may have given up; nobody got 201 beyond.
        assert sum(answer.status == 201 for answer in answers) == 20, Counter(answer.status for answer in answers)
        assert settled(cluster, namespace, seconds=60) == 20


def test_leaders_that_stand_still_let_nobody_past(cluster: Cluster, replicas: Replicas, namespace: str) -> None:
    """Each agent in turn is stopped for longer than the Lease lasts, wherever it is just then, and goes on as if it had not been:
    with a view that is old, and with a write that it was about to make."""
    pids = [member.agent_pid() for member in replicas.members]
    stop = threading.Event()

    def pause() -> None:
        for pid in itertools.cycle(pids):
            os.kill(pid, signal.SIGSTOP)
            stop.wait(8.0)
            os.kill(pid, signal.SIGCONT)
            if stop.wait(5.0):
                return

    end = time.monotonic() + 40.0

    def churn(worker: int) -> Counter[int]:
        """Creates, and deletes most of it again, so that places come back while nobody may be counting."""
        statuses: Counter[int] = Counter()
        while time.monotonic() < end:
            name = f"j-{worker}-{statuses.total()}"
            status = cluster.api.create(gold(name).dict(), namespace).status
            statuses[status] += 1
            if status == 201 and statuses[201] % 4:
                path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
                cluster.api.delete(path, {"propagationPolicy": "Background"})
            time.sleep(0.1)
        return statuses

    most = 0
    thread = threading.Thread(target=pause)
    with quota(cluster, namespace, [namespace], {GPU: 10}):
        thread.start()
        try:
            with ThreadPoolExecutor(8) as threads:
                answers = [threads.submit(churn, worker) for worker in range(8)]
                while not all(answer.done() for answer in answers):
                    most = max(most, len(jobs(cluster, namespace)))
                    time.sleep(0.1)
        finally:
            stop.set()
            thread.join()
        statuses = sum((answer.result() for answer in answers), Counter[int]())
        assert most <= 10
        assert statuses.keys() <= {201, 403, 429}, statuses
        assert statuses[201], statuses
        wait_used(cluster, namespace, len(jobs(cluster, namespace)), seconds=60)
        assert settled(cluster, namespace) == len(jobs(cluster, namespace))
