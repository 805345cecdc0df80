"""Tier quotas against people who mean harm, or edit what they should not, on the real API server.

Reservations lapse after 8 s here, as in the other live tests of quotas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import GPU
from tests.cluster.client import MERGE_PATCH
from tests.cluster.cluster import Cluster
from tests.live.quota_cluster import QUOTAS, Replicas, books, gold, quota, repeated, settled

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
        {f"example.com/r{number}": "1Ei" for number in range(32)},
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
