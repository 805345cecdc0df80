"""Tier quotas on the real API server, with three separate replicas behind one address.

Reservations lapse after 10 s here: no request of these tests takes longer, and nobody wants to wait 90 s.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import GPU, deployment, lws, pod, pod_group, resource_quota, stateful_set
from tests.cluster.client import MERGE_PATCH, Response
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
    reservations,
    settled,
    wait_used,
)
from tests.support.recorded import write_section
from webhook.quota.model import problem_in_hard

pytestmark = pytest.mark.processes

DOCUMENT = Path(__file__).parents[2] / "docs" / "quota-shown.md"
LONG_FORM = pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "prove", reason="the long form: make prove")
CRON_CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"


@pytest.fixture(scope="module")
def replicas(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_RESERVATION_SECONDS", "10")
        with Replicas(control_plane, tmp_path_factory.mktemp("replicas"), 3) as replicas:
            yield replicas


@pytest.fixture
def cluster(replicas: Replicas) -> Cluster:
    return replicas.cluster


@pytest.fixture
def sixteen(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A quota of 16 GPUs for the test's namespace; both have the same name."""
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        yield namespace


def create(cluster: Cluster, namespace: str, raw: dict[str, Any], **query: str) -> Response:
    """As kubectl does: "try again" is repeated."""
    return repeated(lambda: cluster.api.create(raw, namespace, **query))


def delete_job(cluster: Cluster, namespace: str, name: str, policy: str = "Background") -> None:
    cluster.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", {"propagationPolicy": policy}).expect()


def patch_job(cluster: Cluster, namespace: str, name: str, spec: dict[str, Any]) -> Response:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    return repeated(lambda: cluster.api.patch(path, {"spec": spec}, MERGE_PATCH))


def pods_of(cluster: Cluster, namespace: str, count: int) -> list[dict[str, Any]]:
    return cluster.wait_for(
        lambda: found if len(found := cluster.pods(namespace)) == count else [], 20, f"{count} Pods in {namespace}"
    )


# ---- concurrency ------------------------------------------------------------------------------------------------
def test_two_hundred_into_fifty(cluster: Cluster, namespace: str) -> None:
    """200 concurrent Jobs into a quota for 50: exactly 50, and the books say so."""
    with quota(cluster, namespace, [namespace], {GPU: 50}):
        answers = crowd(cluster, namespace, [gold(f"j-{number}").dict() for number in range(200)])

        statuses = Counter(answer.status for answer in answers)
        assert statuses == {201: 50, 403: 150}, statuses
        assert len(jobs(cluster, namespace)) == 50
        assert settled(cluster, namespace) == 50


def test_two_gangs_race_for_the_last_places(cluster: Cluster, sixteen: str) -> None:
    """Exactly one, whole: eight Pods of one of them and none of the other."""
    race(cluster, sixteen)


def race(cluster: Cluster, namespace: str) -> str:
    """A line for the table: who asked first is anybody's guess."""
    gangs = [gold(name, pods=8, gpus=2).gang().dict() for name in ("left", "right")]

    answers = crowd(cluster, namespace, gangs)

    assert sorted(answer.status for answer in answers) == [201, 403]
    pods = pods_of(cluster, namespace, 8)
    owners = {found["metadata"]["ownerReferences"][0]["name"] for found in pods}
    used = settled(cluster, namespace)
    assert (len(owners), used) == (1, 16)
    return f"{answers[0].status} | {answers[1].status} | {len(pods)}, all of {owners.pop()} | {used}"


@pytest.mark.prove
@LONG_FORM
def test_ten_races(cluster: Cluster, new_namespace: Callable[..., str]) -> None:
    """Two Jobs of 8 Pods with 2 GPUs each, sent at the same moment, into a quota of 16."""
    rows = ["| race | answer to left | answer to right | Pods | used |", "|---|---|---|---|---|"]
    for number in range(10):
        namespace = new_namespace("race")
        with quota(cluster, namespace, [namespace], {GPU: 16}):
            rows.append(f"| {number + 1} | {race(cluster, namespace)} |")
    said = "Two gangs of 8 Pods with 2 GPUs each, sent at the same moment, into a quota of 16 GPUs."
    write_section(DOCUMENT, "Two gangs race for the last places", f"{said}\n\n" + "\n".join(rows))


def test_r43_two_jobs_of_all_there_is(cluster: Cluster, sixteen: str) -> None:
    """Two processes that both see room; and R45: the third, straight after, is refused whatever has been seen stored."""
    answers = crowd(cluster, sixteen, [gold(name, gpus=16).dict() for name in ("a", "b")])

    assert sorted(answer.status for answer in answers) == [201, 403]
    assert create(cluster, sixteen, gold("c", gpus=16).dict()).status == 403


def test_r45_the_third_straight_after_two(cluster: Cluster, namespace: str) -> None:
    """Nobody has counted the first two yet: their reservations stand."""
    with quota(cluster, namespace, [namespace], {"pods": 2}):
        answers = [cluster.api.create(gold(name).dict(), namespace) for name in ("a", "b", "c")]

        assert [answer.status for answer in answers[:2]] == [201, 201]
        assert answers[2].status in (403, 429)
        assert create(cluster, namespace, gold("c").dict()).status == 403


def test_r46_what_is_finished_does_not_count(cluster: Cluster, sixteen: str) -> None:
    """Pods of 16 GPUs that succeeded, failed or were evicted lie about, and a Job for 8 is let in."""
    for name, phase in (("done", "Succeeded"), ("broken", "Failed"), ("evicted", "Failed")):
        one = pod(name).unset("metadata.namespace").gpu(16).priority_class("train-gold").dict()
        create(cluster, sixteen, one).expect(201)
        cluster.set_pod_phase(sixteen, name, phase)
        settled(cluster, sixteen)
        wait_used(cluster, sixteen, 0)

    create(cluster, sixteen, gold("a", gpus=8).dict()).expect(201)
    assert settled(cluster, sixteen) == 8


def test_r48_a_restart_of_everything_forgets_nothing(cluster: Cluster, replicas: Replicas, sixteen: str) -> None:
    """All replicas are killed; the first Job that one of them answers, as soon as it is ready, is refused."""
    create(cluster, sixteen, gold("a", gpus=16).dict()).expect(201)
    for member in replicas.members:
        member.kill()
    assert cluster.api.create(gold("b", gpus=16).dict(), sixteen).status == 500
    replicas.members[0].start_again()

    assert cluster.api.create(gold("b", gpus=16).dict(), sixteen).status in (403, 429)
    assert create(cluster, sixteen, gold("b", gpus=16).dict()).status == 403
    for member in replicas.members[1:]:
        member.start_again()
    assert len(jobs(cluster, sixteen)) == 1


def test_r122_a_burst_of_one_big_gang(cluster: Cluster, replicas: Replicas, namespace: str) -> None:
    """400 Pods of one group, 20 at a time, each judged and charged: all get in, one more does not. How long it took is
    printed: the machine decides that, too."""
    with quota(cluster, namespace, [namespace], {"pods": 400}):
        group = pod_group("big").unset("metadata.namespace").gang(400).priority_class("train-gold").dict()
        create(cluster, namespace, group).expect(201)

        def member(number: int) -> int:
            one = pod(f"w-{number}").unset("metadata.namespace").scheduling_group("big").priority_class("train-gold")
            return create(cluster, namespace, one.dict()).status

        known = len(judged_ms(replicas, "Pod"))
        with ThreadPoolExecutor(20) as threads:
            assert Counter(threads.map(member, range(400))) == {201: 400}
        took = sorted(judged_ms(replicas, "Pod")[known:])

        assert len(took) >= 400
        print(
            f"400 Pods: judged and charged in {took[len(took) // 2]:.0f} ms (p50), {took[-len(took) // 100]:.0f} ms (p99)"
        )
        assert settled(cluster, namespace, "pods") == 400
        assert member(400) == 403


def judged_ms(replicas: Replicas, kind: str) -> list[float]:
    """What Muster's request log gives for judging each created object of a kind, the charge included."""
    lines = replicas.registration.log.read_text(errors="replace").splitlines()
    wanted = [line for line in lines if f'"kind":"{kind}"' in line and '"operation":"CREATE"' in line]
    return [float(json.loads(line)["judge_ms"]) for line in wanted if line.startswith("{")]


def test_several_quotas_all_or_none(cluster: Cluster, sixteen: str) -> None:
    with quota(cluster, f"{sixteen}-all", [sixteen, "elsewhere"], {GPU: 4}):
        answer = create(cluster, sixteen, gold("a", gpus=8).dict())

        assert answer.status == 403
        assert f'(TierQuota "{sixteen}-all") allows 4 nvidia.com/gpu, none in use' in answer.body["message"]
        assert not reservations(cluster, sixteen)


# ---- what is admitted and never stored ----------------------------------------------------------------------------
def test_r42_already_exists_after_admission_is_given_back(cluster: Cluster, namespace: str) -> None:
    with quota(cluster, namespace, [namespace], {GPU: 32}):
        create(cluster, namespace, gold("a", gpus=16).dict()).expect(201)
        wait_used(cluster, namespace, 16)

        create(cluster, namespace, gold("a", gpus=16).dict()).expect(409)

        assert books(cluster, namespace)["reserved"] == {GPU: "16"}
        assert settled(cluster, namespace, seconds=25) == 16
        create(cluster, namespace, gold("b", gpus=16).dict()).expect(201)


def test_a_later_plugin_s_no_is_given_back(cluster: Cluster, sixteen: str) -> None:
    none = resource_quota("none", **{"count/jobs.batch": "0"}).namespace(sixteen).dict()
    create(cluster, sixteen, none).expect(201)
    counted = f"/api/v1/namespaces/{sixteen}/resourcequotas/none"
    cluster.wait_for(lambda: cluster.api.get(counted).body.get("status", {}).get("hard"), 20, "the ResourceQuota")

    answer = create(cluster, sixteen, gold("a", gpus=16).dict())

    assert "exceeded quota: none" in answer.body["message"]
    assert settled(cluster, sixteen, seconds=25) == 0
    cluster.api.delete(counted).expect()
    create(cluster, sixteen, gold("a", gpus=16).dict()).expect(201)


def test_r125_dry_run_reserves_nothing(cluster: Cluster, sixteen: str) -> None:
    before = cluster.api.get(f"{QUOTAS}/{sixteen}").expect()["metadata"]["resourceVersion"]
    for number in range(50):
        create(cluster, sixteen, gold(f"a-{number}", gpus=16).dict(), dryRun="All").expect(201)
    assert create(cluster, sixteen, gold("b", gpus=17).dict(), dryRun="All").status == 403

    assert cluster.api.get(f"{QUOTAS}/{sixteen}").expect()["metadata"]["resourceVersion"] == before
    create(cluster, sixteen, gold("a", gpus=16).dict()).expect(201)


def test_a_reserved_place_is_try_again_and_a_taken_one_is_no(cluster: Cluster, sixteen: str) -> None:
    """The first answer may be 429 with a time to wait, which clients repeat by themselves; a second later it is 403."""
    create(cluster, sixteen, gold("a", gpus=16).dict()).expect(201)
    first = cluster.api.create(gold("b", gpus=1).dict(), sixteen)

    assert first.status in (403, 429)
    if first.status == 429:
        assert first.body["details"]["retryAfterSeconds"] == 1
        assert "16 are reserved for objects that are not seen stored yet" in first.body["message"]
    assert create(cluster, sixteen, gold("b", gpus=1).dict()).status == 403


# ---- life of an object --------------------------------------------------------------------------------------------
def test_growing_shrinking_finishing(cluster: Cluster, sixteen: str) -> None:
    """Growth pays the difference; what shrinks, finishes or goes is free again, and the table is right in about a second."""
    create(cluster, sixteen, gold("a", pods=2, gpus=4).dict()).expect(201)
    pods_of(cluster, sixteen, 2)
    patch_job(cluster, sixteen, "a", {"parallelism": 1}).expect(200)
    wait_used(cluster, sixteen, 4)

    create(cluster, sixteen, gold("b", gpus=8).dict()).expect(201)
    patch_job(cluster, sixteen, "a", {"parallelism": 2}).expect(200)
    assert settled(cluster, sixteen) == 16
    refused = create(cluster, sixteen, gold("c", gpus=1).dict())
    assert refused.status == 403
    assert "In use: job/" in refused.body["message"]

    running = next(found for found in cluster.pods(sixteen) if found["metadata"]["labels"]["job-name"] == "b")
    cluster.set_pod_phase(sixteen, running["metadata"]["name"], "Succeeded")
    started = time.monotonic()
    wait_used(cluster, sixteen, 8)
    assert time.monotonic() - started < 5
    create(cluster, sixteen, gold("c", gpus=8).dict()).expect(201)


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "leaderworkerset"])
def test_kubectl_scale_pays_for_its_growth(cluster: Cluster, sixteen: str, kind: str) -> None:
    """Beyond the limit it is refused, up to it it is charged, and down it is free again."""
    cluster.install_crds("lws")
    built = {"deployment": deployment("serve"), "statefulset": stateful_set("serve"), "leaderworkerset": lws("serve")}
    gold_one = built[kind].set("spec.replicas", 2).unset("metadata.namespace").gpu(4).priority_class("train-gold")
    create(cluster, sixteen, gold_one.dict()).expect(201)
    assert settled(cluster, sixteen) == 8

    def scale(replicas: int) -> str:
        done = cluster.kubectl("-n", sixteen, "scale", kind, "serve", f"--replicas={replicas}", check=False)
        return done.stdout + done.stderr

    refused = scale(5)
    assert 'admission webhook "scale.muster.dev" denied the request' in refused
    assert "allows 16 nvidia.com/gpu, 8 in use" in refused
    assert "scaled" in scale(4)
    assert settled(cluster, sixteen) == 16
    assert create(cluster, sixteen, gold("a").dict()).status == 403
    assert "scaled" in scale(1)
    wait_used(cluster, sixteen, 4)


def test_an_ordinary_object_is_scaled_whatever_the_quota(cluster: Cluster, namespace: str) -> None:
    with quota(cluster, namespace, [namespace], {GPU: 0, "pods": 0}):
        web = deployment("web").replicas(1).unset("metadata.namespace").dict()
        create(cluster, namespace, web).expect(201)

        done = cluster.kubectl("-n", namespace, "scale", "deployment", "web", "--replicas=3")

        assert "scaled" in done.stdout
        assert settled(cluster, namespace) == 0


def test_a_resized_pod_pays_for_its_growth(cluster: Cluster, namespace: str) -> None:
    """pods/resize, on a Pod that is bound: no kubelet runs here, so only what is asked for changes."""
    with quota(cluster, namespace, [namespace], {"cpu": "4"}):
        made = pod("one").unset("metadata.namespace").requests(cpu="1").priority_class("train-gold").dict()
        create(cluster, namespace, made).expect(201)
        assert settled(cluster, namespace, "cpu") == 1

        def resize(cpu: str) -> Response:
            container = {"name": made["spec"]["containers"][0]["name"], "resources": {"requests": {"cpu": cpu}}}
            path = f"/api/v1/namespaces/{namespace}/pods/one/resize"
            return repeated(lambda: cluster.api.patch(path, {"spec": {"containers": [container]}}))

        refused = resize("6")
        assert refused.status == 403, refused.body
        assert "allows 4 cpu, 1 in use" in refused.body["message"]
        resize("3").expect(200)
        assert settled(cluster, namespace, "cpu") == 3


def test_r115_suspended_pays_at_resume(cluster: Cluster, sixteen: str) -> None:
    for name in ("a", "b"):
        create(cluster, sixteen, gold(name, gpus=16).suspend().dict()).expect(201)
    patch_job(cluster, sixteen, "a", {"suspend": False}).expect(200)

    refused = patch_job(cluster, sixteen, "b", {"suspend": False})

    assert refused.status == 403
    assert "16 in use" in refused.body["message"]
    assert settled(cluster, sixteen) == 16


def test_r49_a_limit_lowered_under_use(cluster: Cluster, sixteen: str) -> None:
    create(cluster, sixteen, gold("a", pods=2, gpus=8).dict()).expect(201)
    wait_used(cluster, sixteen, 16)
    edit(cluster, sixteen, {GPU: 8})

    patch_job(cluster, sixteen, "a", {"activeDeadlineSeconds": 3600}).expect(200)
    refused = create(cluster, sixteen, gold("b", gpus=1).dict())
    patch_job(cluster, sixteen, "a", {"parallelism": 1}).expect(200)

    assert "allows 8 nvidia.com/gpu, 16 in use, this Job asks for 1" in refused.body["message"]
    exceeded = {item["type"]: item for item in books(cluster, sixteen)["conditions"]}["Exceeded"]
    assert exceeded["status"] in ("True", "False")
    wait_used(cluster, sixteen, 8)


def test_orphans_count_by_themselves(cluster: Cluster, sixteen: str) -> None:
    create(cluster, sixteen, gold("a", pods=2, gpus=8).dict()).expect(201)
    names = [found["metadata"]["name"] for found in pods_of(cluster, sixteen, 2)]
    delete_job(cluster, sixteen, "a", "Orphan")
    cluster.wait_for(lambda: not jobs(cluster, sixteen), 20, "the Job to go")

    time.sleep(2)
    assert books(cluster, sixteen)["used"] == {GPU: "16"}
    assert create(cluster, sixteen, gold("b").dict()).status == 403
    for name in names:
        cluster.api.delete(f"/api/v1/namespaces/{sixteen}/pods/{name}", gracePeriodSeconds=0).expect()
    wait_used(cluster, sixteen, 0)


def test_a_pod_that_cannot_go_still_counts(cluster: Cluster, sixteen: str) -> None:
    """Terminating, held by a finalizer: its device is not free."""
    stuck = pod("stuck").unset("metadata.namespace").gpu(16).priority_class("train-gold").dict()
    stuck["metadata"]["finalizers"] = ["example.com/hold"]
    create(cluster, sixteen, stuck).expect(201)
    path = f"/api/v1/namespaces/{sixteen}/pods/stuck"
    cluster.api.delete(path, gracePeriodSeconds=0).expect()

    wait_used(cluster, sixteen, 16)
    assert create(cluster, sixteen, gold("a").dict()).status == 403
    cluster.api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH).expect()
    wait_used(cluster, sixteen, 0)


def test_namespace_deletion_frees_everything(cluster: Cluster, new_namespace: Callable[..., str]) -> None:
    namespace = new_namespace("quota-going")
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        create(cluster, namespace, gold("a", pods=2, gpus=8).dict()).expect(201)
        pods_of(cluster, namespace, 2)
        cluster.delete_namespace(namespace)
        wait_used(cluster, namespace, 0, seconds=40)


# ---- children -----------------------------------------------------------------------------------------------------
def test_children_of_a_live_owner_are_covered_and_a_forged_one_pays(cluster: Cluster, namespace: str) -> None:
    with quota(cluster, namespace, [namespace], {GPU: 16}):
        owner = create(cluster, namespace, gold("a", pods=2, gpus=6).dict()).expect(201)
        pods_of(cluster, namespace, 2)
        assert settled(cluster, namespace) == 12
        forged = pod("forged").unset("metadata.namespace").gpu(4).priority_class("train-gold")
        forged.owner("Job", "a", uid=owner["metadata"]["uid"])
        second = pod("second").unset("metadata.namespace").gpu(1).priority_class("train-gold")
        second.owner("Job", "a", uid=owner["metadata"]["uid"])

        create(cluster, namespace, forged.dict()).expect(201)

        wait_used(cluster, namespace, 16)
        assert create(cluster, namespace, second.dict()).status == 403
        rows = reservations(cluster, namespace)
        assert [(row.name, row.settled) for row in rows] == [("forged", True)]
        cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/forged", gracePeriodSeconds=0).expect()
        cluster.wait_for(lambda: not reservations(cluster, namespace), 20, "the forged Pod out of the books")
        wait_used(cluster, namespace, 12)


def test_r127_each_job_of_a_cronjob_pays(cluster: Cluster, sixteen: str) -> None:
    """As the CronJob controller creates them, through the entry that fails open: over the limit it is told no."""
    controller = cluster.api_as(CRON_CONTROLLER, ("system:masters",))
    first = gold("nightly-1", gpus=16).owner("CronJob", "nightly", uid="0d2a0e5b-0c7a-4b7e-9a52-0d6e6f0f1a11").dict()
    second = gold("nightly-2", gpus=16).owner("CronJob", "nightly", uid="0d2a0e5b-0c7a-4b7e-9a52-0d6e6f0f1a11").dict()

    assert controller.create(first, sixteen).status == 201
    assert repeated(lambda: controller.create(second, sixteen)).status == 403


def test_a_bare_gang_is_charged_whole_at_its_first_pod(cluster: Cluster, sixteen: str) -> None:
    group = pod_group("gang").unset("metadata.namespace").gang(4).priority_class("train-gold").dict()
    create(cluster, sixteen, group).expect(201)
    members = [
        pod(f"w-{number}")
        .unset("metadata.namespace")
        .gpu(4)
        .scheduling_group("gang")
        .priority_class("train-gold")
        .dict()
        for number in range(5)
    ]

    create(cluster, sixteen, members[0]).expect(201)
    wait_used(cluster, sixteen, 16)
    assert create(cluster, sixteen, gold("a").dict()).status == 403
    answers = crowd(cluster, sixteen, members[1:4])
    assert [answer.status for answer in answers] == [201, 201, 201]
    assert settled(cluster, sixteen) == 16
    assert create(cluster, sixteen, members[4]).status == 403


# ---- what people see ----------------------------------------------------------------------------------------------
def test_kubectl_get_tierquotas(cluster: Cluster, sixteen: str) -> None:
    create(cluster, sixteen, gold("a", gpus=8).dict()).expect(201)
    wait_used(cluster, sixteen, 8)
    settled(cluster, sixteen)

    header, row = cluster.kubectl("get", "tierquotas", sixteen).stdout.splitlines()

    assert header.split() == ["NAME", "TIER", "NAMESPACES", "HARD", "USED", "RESERVED", "AGE"]
    assert row.split()[:6] == [sixteen, "gold", sixteen, f"{GPU}=16", f"{GPU}=8", f"{GPU}=0"]


def test_a_tenant_hits_the_limit_shrinks_finishes_and_gets_in(cluster: Cluster, sixteen: str) -> None:
    """kubectl as alice, start to end."""
    tenant(cluster, sixteen)


@pytest.mark.prove
@LONG_FORM
def test_the_tenant_is_recorded(cluster: Cluster, sixteen: str) -> None:
    said = "alice may do what she likes in team-a, and TierQuota team-a allows the tier gold 16 GPUs there."
    transcript = "\n".join(tenant(cluster, sixteen))
    write_section(DOCUMENT, "A tenant at the limit", f"{said}\n\n```\n{transcript}\n```")


def tenant(cluster: Cluster, sixteen: str) -> list[str]:
    """The transcript."""
    cluster.grant("alice", sixteen)
    lines: list[str] = []

    def alice(*words: str, stdin: Any = None, note: str = "") -> str:
        done = cluster.kubectl("-n", sixteen, *words, stdin=stdin, user="alice", check=False)
        said = (done.stdout + done.stderr).strip().replace(sixteen, "team-a")
        lines.append(f"$ kubectl {shlex.join(words)}{note and '   # ' + note}\n{said}")
        return said

    first, second = gold("train-7", pods=2, gpus=8).dict(), gold("train-8", pods=2, gpus=4).dict()
    assert "created" in alice("create", "-f", "-", stdin=first, note="train-7: 2 Pods x 8 GPUs")
    wait_used(cluster, sixteen, 16)
    refused = alice("create", "-f", "-", stdin=second, note="train-8: 2 Pods x 4 GPUs")
    assert (
        'tier "gold" of team-a allows 16 nvidia.com/gpu, 16 in use, this Job asks for 8 (2 Pods x 4); 8 are missing. '
        "In use: job/train-7 (16)"
    ) in refused
    alice("patch", "job", "train-7", "-p", '{"spec":{"parallelism":1}}')
    wait_used(cluster, sixteen, 8)
    assert "created" in alice("create", "-f", "-", stdin=second, note="train-8 again")
    assert settled(cluster, sixteen) == 16
    table = cluster.kubectl("get", "tierquotas", sixteen).stdout.replace(sixteen, "team-a").splitlines()
    lines.append("$ kubectl get tierquotas\n" + "\n".join("   ".join(row.split()) for row in table))
    for number in range(2):
        left = pods_of(cluster, sixteen, 3 - number) if not number else cluster.pods(sixteen)
        running = [item for item in left if item["metadata"]["labels"]["job-name"] == "train-7"]
        running = [item for item in running if item["status"]["phase"] == "Pending"]
        cluster.set_pod_phase(sixteen, running[0]["metadata"]["name"], "Succeeded")
        cluster.wait_for(lambda: len(cluster.pods(sixteen, "job-name=train-7")) == 2, 20, "the next Pod")
    wait_used(cluster, sixteen, 8)
    lines.append("# both Pods of train-7 have succeeded")
    table_of_jobs = lambda: cluster.kubectl("-n", sixteen, "get", "jobs").stdout  # noqa: E731
    cluster.wait_for(lambda: "Complete" in table_of_jobs(), 20, "train-7 to be complete")
    assert "Complete" in alice("get", "jobs")
    assert "created" in alice("create", "-f", "-", stdin=gold("train-9", gpus=8).dict(), note="train-9: 1 Pod x 8 GPUs")
    return lines


def test_the_example_is_one_that_the_api_server_takes(cluster: Cluster) -> None:
    example = yaml.safe_load((Path(__file__).parents[2] / "examples" / "tierquota.yaml").read_text())

    cluster.api.create(example, dryRun="All").expect(201)


@pytest.mark.parametrize(
    ("hard", "word"),
    [
        ({"limits.nvidia.com/gpu": 1}, "name the resource itself"),
        ({"requests.cpu": 1}, "name the resource itself"),
        ({"gpus": 1}, "must be cpu, memory"),
        ({GPU: "-1"}, "quantities of 0 or more"),
        ({GPU: "many"}, "quantities of 0 or more"),
        ({GPU: "500m"}, "whole number"),
        ({GPU: "1000m"}, "whole number"),
        ({"cpu": 1.5}, "integer"),
        ({GPU: " 1"}, "quantities of 0 or more"),
        ({GPU: "0" * 41}, "may not be more than 40"),
        ({f"a/b{number}": 1 for number in range(33)}, "must have at most 32 items"),
        ({}, "at least 1"),
    ],
)
def test_r60_a_limit_that_nothing_would_ever_meet_is_an_error(
    cluster: Cluster, hard: dict[str, Any], word: str
) -> None:
    raw = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "TierQuota",
        "metadata": {"name": "wrong"},
        "spec": {"tier": "gold", "hard": hard},
    }

    answer = cluster.api.create(raw)

    assert answer.status == 422
    assert word in answer.body["message"]
    assert problem_in_hard(hard), "a file says the same"


def test_metrics_say_what_the_ledger_did(replicas: Replicas, sixteen: str) -> None:
    create(replicas.cluster, sixteen, gold("a", gpus=8).dict()).expect(201)
    wait_used(replicas.cluster, sixteen, 8)
    texts = [member.get("/metrics")[1].decode() for member in replicas.members]

    assert any("muster_quota_charge_seconds_count" in text for text in texts)
    used = f'muster_quota_used{{quota="{sixteen}",resource="{GPU}",tier="gold"}} 8.0'
    assert any(used in text for text in texts)
