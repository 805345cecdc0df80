"""The last step of a validating request: who pays what, who is covered, and what the tenant reads."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import pytest

from tests.builders import GPU, NAMESPACE, cronjob, deployment, job, jobset, pod, pod_group, replica_set
from tests.quota.helpers import JOB_CONTROLLER, Desk, gold_job, quota, quota_denials
from tests.support.cases import request_for
from webhook.facts.model import Phase
from webhook.facts.source import Answer, Query, Unknown
from webhook.quota.book import Order
from webhook.quota.ledger import Undecided
from webhook.quota.model import HOLDER_COUNT_MAX, Holder
from webhook.quota.store import StoreError
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Action


def test_a_gang_that_fits_is_charged_whole() -> None:
    desk = Desk()

    verdict = desk.judge(gold_job(pods=2, gpus=8).dict())

    assert verdict.allowed
    assert desk.reserved() == 16
    assert verdict.versions.quota.startswith("gold-team-a@")
    assert verdict.charge is not None
    assert verdict.charge.amounts[GPU] == 16


def test_the_text_names_limit_use_request_and_holders() -> None:
    """The sentence of the issue."""
    desk = Desk()
    desk.judge(gold_job("train-7", pods=1, gpus=8).dict())

    verdict = desk.judge(gold_job("train-8", pods=2, gpus=8).dict())

    assert verdict.code == 403
    assert quota_denials(verdict) == [
        'tier "gold" of team-a allows 16 nvidia.com/gpu, 8 in use, this gang asks for 16 (2 Pods x 8); 8 are missing. In use: job/train-7 (8)'
    ]
    assert desk.reserved() == 8


def test_holders_are_five_at_most_biggest_first_and_of_the_own_namespace() -> None:
    desk = Desk(quota("all", namespaces=[], **{GPU: 40}))
    for number in range(1, 8):
        desk.judge(gold_job(f"j{number}", pods=1, gpus=number).dict())
    _charge_elsewhere(desk, "team-b")

    message = quota_denials(desk.judge(gold_job("late", pods=1, gpus=8).dict()))[0]

    assert message.endswith("In use: job/j7 (7), job/j6 (6), job/j5 (5), job/j4 (4), job/j3 (3), 11 by others")
    assert 'tier "gold" (TierQuota "all")' in message
    assert "secret" not in message


def test_who_is_not_listed_does_not_read_that_it_is_others() -> None:
    full = [
        Holder(kind="Job", namespace=f"n{number}", name="x", amounts={GPU: 1}) for number in range(HOLDER_COUNT_MAX)
    ]
    stored = quota("all", namespaces=[], **{GPU: 200})

    def in_use(holders: list[Holder]) -> str:
        desk = Desk(replace(stored, used={GPU: 200}, holders=tuple(holders)))
        return quota_denials(desk.judge(gold_job().dict()))[0]

    assert in_use(full[:3]).endswith("In use: all by others")
    assert in_use(full).endswith("In use: 200 by more objects than are listed")


def _charge_elsewhere(desk: Desk, namespace: str) -> None:
    outcome = desk.ledger.charge(
        "gold",
        Order(id="o", uid="o", kind="Job", namespace=namespace, name="secret", amounts={GPU: 8}),
        {},
        time.monotonic() + 5,
    )
    assert not isinstance(outcome, Undecided)


def test_r125_dry_run_says_the_same_and_reserves_nothing() -> None:
    desk = Desk()

    assert all(desk.judge(gold_job().dict(), dry_run=True).allowed for _ in range(50))
    assert quota_denials(desk.judge(gold_job(pods=3).dict(), dry_run=True))
    assert desk.reserved() == 0
    assert desk.judge(gold_job().dict()).allowed


def test_what_a_rule_denies_is_looked_up_and_not_charged() -> None:
    """Both are in the one answer."""
    desk = Desk()
    desk.judge(gold_job("train-7").dict())
    broken = gold_job("train-8").completions(1)

    verdict = desk.judge(broken.dict())

    assert {item.rule for item in verdict.denials} >= {"WAS410"}
    assert len({item.rule for item in verdict.denials}) > 1
    assert desk.reserved() == 16


def test_two_equal_jobs_both_pay() -> None:
    desk = Desk()
    for name in ("a", "b"):
        assert desk.judge(gold_job(name, pods=1, gpus=8).dict()).allowed

    assert desk.reserved() == 16
    assert not desk.judge(gold_job("c", pods=1, gpus=8).dict()).allowed


# ---- updates ----------------------------------------------------------------------------------------------------
def test_growth_pays_the_difference_and_shrinking_nothing() -> None:
    desk = Desk()
    small, large = gold_job(pods=1).uid("u").dict(), gold_job(pods=2).uid("u").dict()

    assert desk.judge(large, small).allowed
    assert desk.reserved() == 8
    assert desk.judge(small, large).allowed
    assert desk.reserved() == 8


def test_an_update_that_is_judged_twice_pays_once() -> None:
    """The API server repeats a PATCH inside one request when somebody else wrote the status; the generation is the same."""
    desk = Desk()
    small, large = gold_job(pods=1).uid("u"), gold_job(pods=2).uid("u").set("metadata.generation", 2)

    assert all(desk.judge(large.dict(), small.dict()).allowed for _ in range(3))
    assert desk.reserved() == 8
    larger = gold_job(pods=3).uid("u").set("metadata.generation", 2)
    assert quota_denials(desk.judge(larger.uid("other").dict(), small.uid("other").dict()))


def test_updates_of_an_object_without_generation_all_pay() -> None:
    desk = Desk(quota(**{GPU: 100}))
    small, large = gold_job(pods=1).uid("u"), gold_job(pods=2).uid("u").set("metadata.generation", 0)

    assert all(desk.judge(large.dict(), small.dict()).allowed for _ in range(3))
    assert desk.reserved() == 24


def test_r49_a_quota_lowered_under_use_lets_everything_through_that_does_not_grow() -> None:
    desk = Desk()
    desk.judge(gold_job("train", pods=2).dict())
    desk.store.put(replace(desk.book(), hard={GPU: 8}))
    old = gold_job(pods=2).uid("u")

    assert desk.judge(gold_job(pods=2).uid("u").label("x", "y").dict(), old.dict()).allowed
    assert desk.judge(gold_job(pods=1).uid("u").dict(), old.dict()).allowed
    grows = desk.judge(gold_job(pods=3).uid("u").dict(), old.dict())
    assert "allows 8 nvidia.com/gpu, 16 in use" in quota_denials(grows)[0]


def test_r115_a_suspended_job_pays_when_it_is_resumed() -> None:
    desk = Desk()

    assert desk.judge(gold_job(pods=4).suspend().uid("u").dict()).allowed
    assert desk.reserved() == 0
    resumed = desk.judge(gold_job(pods=2).suspend(False).uid("u").dict(), gold_job(pods=2).suspend().uid("u").dict())
    assert resumed.allowed
    assert desk.reserved() == 16
    again = desk.judge(gold_job("b").suspend(False).uid("v").dict(), gold_job("b").suspend().uid("v").dict())
    assert quota_denials(again)


def test_suspended_jobs_pay_at_creation_where_the_policy_says_so() -> None:
    desk = Desk(policy={"parameters": {"chargeSuspended": True}})

    assert quota_denials(desk.judge(gold_job(pods=4).suspend().dict()))


def test_a_template_that_changes_while_suspended_pays_at_resume_what_it_is_then() -> None:
    desk = Desk()
    old = gold_job(pods=1, gpus=4).suspend().uid("u").dict()
    new = gold_job(pods=1, gpus=8).suspend().uid("u").dict()

    assert desk.judge(new, old).allowed
    assert desk.reserved() == 0
    assert desk.judge(gold_job(pods=1, gpus=8).suspend(False).uid("u").dict(), new).allowed
    assert desk.reserved() == 8


# ---- children ---------------------------------------------------------------------------------------------------
def owner_job() -> dict[str, object]:
    return gold_job("train", pods=2, gpus=8).uid("job-uid").dict()


def member(uid: str = "job-uid", gpus: int = 8) -> dict[str, object]:
    built = pod("train-0").gpu(gpus).priority_class("train-gold")
    return built.owner("Job", "train", uid=uid).dict()


def test_what_a_controller_makes_for_a_live_owner_is_covered() -> None:
    desk = Desk(objects=[owner_job()])

    assert desk.judge(member(), user=JOB_CONTROLLER).allowed
    assert desk.reserved() == 0


@pytest.mark.parametrize(
    ("child", "trusted"),
    [(member(), False), (member("another-uid"), True)],
    ids=["a person wrote it", "its owner is gone"],
)
def test_other_children_pay_for_themselves(child: dict[str, object], trusted: bool) -> None:
    desk = Desk(quota(**{GPU: 32}), objects=[owner_job()])

    assert desk.judge(child, user=JOB_CONTROLLER if trusted else None).allowed
    assert desk.reserved() == 8
    assert desk.book().reservations[0].detached is not trusted


def test_what_admission_adds_to_a_child_is_paid_and_not_again_what_its_owner_paid() -> None:
    """A LimitRange's default cpu, a sidecar: the Pod asks for a resource that the template does not have. Before, it had to
    pay all of itself a second time, and a Job that was admitted into the last places never got its Pods."""
    desk = Desk(quota(**{GPU: 16, "cpu": "3"}), objects=[owner_job()])
    assert desk.judge(owner_job()).allowed

    for number in range(2):
        child = pod(f"train-{number}").gpu(8).priority_class("train-gold").owner("Job", "train", uid="job-uid")
        assert desk.judge(child.requests(cpu="1").dict(), user=JOB_CONTROLLER).allowed
        assert desk.book().reservations[-1].amounts == {"cpu": 1000}

    assert desk.reserved() == 16
    child = pod("train-2").gpu(8).priority_class("train-gold").owner("Job", "train", uid="job-uid")
    denied = quota_denials(desk.judge(child.requests(cpu="2").dict(), user=JOB_CONTROLLER))
    assert "2 in use, this Pod asks for 2" in denied[0]


def test_a_member_of_a_job_s_bare_gang_pays_what_admission_adds() -> None:
    """The Job's template names the group, so the Job has opened it: its Pods do not open it again."""
    group = pod_group("gang").gang(2).priority_class("train-gold").uid("g").dict()
    top = job("train").parallelism(2).gpu(8).priority_class("train-gold").scheduling_group("gang").uid("job-uid").dict()
    desk = Desk(quota(**{GPU: 16, "memory": "1Gi"}), objects=[group, top])
    assert desk.judge(top).allowed
    child = pod("train-0").gpu(8).priority_class("train-gold").scheduling_group("gang")
    child = child.owner("Job", "train", uid="job-uid").requests(memory="1Gi")

    assert desk.judge(child.dict(), user=JOB_CONTROLLER).allowed

    assert (desk.reserved(), desk.reserved("memory")) == (16, 1 << 30)


def test_a_child_beyond_the_plan_pays_what_is_beyond() -> None:
    """So it is counted: the larger of the owner's plan and the sum of its children."""
    desk = Desk(quota(**{GPU: 17}), objects=[owner_job()])
    assert desk.judge(owner_job()).allowed

    assert desk.judge(member(gpus=17), user=JOB_CONTROLLER).allowed
    assert desk.reserved() == 17


def test_a_deeper_owner_covers_too() -> None:
    """Deployment -> ReplicaSet -> Pod: the ReplicaSet that a rollout made is covered by the Deployment."""
    top = deployment("serve").replicas(2).gpu(8).priority_class("train-gold").uid("d").dict()
    desk = Desk(objects=[top])
    child = replica_set("serve-1").replicas(2).gpu(8).priority_class("train-gold").owner("Deployment", "serve", uid="d")

    assert desk.judge(child.dict(), user=JOB_CONTROLLER).allowed
    assert desk.reserved() == 0


def test_r127_a_cronjob_is_judged_and_each_of_its_jobs_pays() -> None:
    top = cronjob("nightly", gold_job()).uid("c")
    desk = Desk(objects=[top.dict()])

    assert desk.judge(top.dict()).allowed
    assert desk.reserved() == 0
    child = gold_job("nightly-1").owner("CronJob", "nightly", uid="c").dict()
    assert desk.judge(child, user=JOB_CONTROLLER).allowed
    assert desk.reserved() == 16
    assert quota_denials(desk.judge(child, user=JOB_CONTROLLER))


def test_child_jobs_of_a_jobset_are_covered() -> None:
    top = jobset("train").role("w", gold_job("w", pods=2).unset("spec.scheduling"), replicas=2).uid("js").dict()
    desk = Desk(quota(**{GPU: 32}), objects=[top])

    assert desk.judge(top).allowed
    assert desk.reserved() == 32
    child = gold_job("train-w-0", pods=2).unset("spec.scheduling").owner("JobSet", "train", uid="js").dict()
    assert desk.judge(child, user=JOB_CONTROLLER).allowed
    assert desk.reserved() == 32


def test_a_pod_that_is_resized_pays_its_growth_and_stays_its_owner_s() -> None:
    """pods/resize of a Job's Pod, by a person: the growth is charged, the Pod is not taken apart from its Job."""
    desk = Desk(quota(cpu="4"), objects=[owner_job()])
    owned = pod("train-0").priority_class("train-gold").owner("Job", "train", uid="job-uid").uid("p")
    old, new = owned.requests(cpu="1").dict(), owned.requests(cpu="3").set("metadata.generation", 2).dict()

    assert desk.judge(new, old, subresource="resize").allowed
    assert desk.book().reservations[0].amounts == {"cpu": 2000}
    assert not desk.book().reservations[0].detached
    larger = owned.requests(cpu="6").set("metadata.generation", 2).dict()
    assert "allows 4 cpu, none in use" in quota_denials(desk.judge(larger, old, subresource="resize"))[0]


# ---- bare gangs -------------------------------------------------------------------------------------------------
def bare(name: str, gpus: int = 4) -> dict[str, object]:
    return pod(name).gpu(gpus).scheduling_group("gang").priority_class("train-gold").dict()


def test_a_bare_gang_is_charged_whole_at_its_first_pod_and_once() -> None:
    group = pod_group("gang").gang(4).priority_class("train-gold").uid("g").dict()
    desk = Desk(objects=[group])

    for number in range(4):
        assert desk.judge(bare(f"w-{number}")).allowed
        assert desk.reserved() == 16
    assert quota_denials(desk.judge(bare("w-4")))


def test_two_bare_gangs_never_hold_half_of_the_quota_each() -> None:
    groups = [pod_group(name).gang(4).priority_class("train-gold").uid(name).dict() for name in ("gang", "other")]
    desk = Desk(objects=groups)
    rival = pod("r-0").gpu(4).scheduling_group("other").priority_class("train-gold").dict()

    assert desk.judge(bare("w-0")).allowed
    assert quota_denials(desk.judge(rival))
    assert all(desk.judge(bare(f"w-{number}")).allowed for number in range(1, 4))


def test_a_larger_member_pays_for_itself() -> None:
    group = pod_group("gang").gang(2).priority_class("train-gold").uid("g").dict()
    desk = Desk(quota(**{GPU: 40}), objects=[group])

    desk.judge(bare("w-0", gpus=4))
    desk.judge(bare("w-1", gpus=16))

    assert desk.reserved() == 8 + 16


# ---- policy and trouble -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", ["Warn", "Audit"])
def test_a_policy_that_only_warns_charges_what_fits_and_lets_the_rest_in(action: str) -> None:
    desk = Desk(policy={"rules": {"WAS410": {"action": action}}})

    verdict = desk.judge(gold_job(pods=3).dict())

    assert verdict.allowed
    assert [(item.rule, item.action) for item in verdict.violations] == [("WAS410", Action(action))]
    assert desk.reserved() == 0


def test_off_is_off() -> None:
    desk = Desk(policy={"rules": {"WAS410": {"action": "Off"}}})

    assert not desk.judge(gold_job(pods=3).dict()).violations


def test_undecided_is_429_with_a_time_and_names_the_reason() -> None:
    desk = Desk()
    desk.store.put(replace(desk.book(), counted_scope=""))

    verdict = desk.judge(gold_job().dict(), seconds=0.7)

    assert (verdict.code, verdict.retry_after_seconds, verdict.allowed) == (429, 1, False)
    assert "nothing is wrong with the object, try again in 1 s" in verdict.notes[0]


def test_a_place_that_is_only_reserved_is_not_a_no_yet() -> None:
    """Its object may never be stored: 429, with the whole text, until a count says what became of it (R45: in any case not
    admitted)."""
    desk = Desk()
    desk.ledger.is_live = True
    desk.judge(gold_job("a").dict())

    waits = desk.judge(gold_job("b").dict())

    assert (waits.code, waits.retry_after_seconds, waits.allowed) == (429, 1, False)
    assert "In use: job/a (16). Of these 16 are reserved for objects that are not seen stored yet" in waits.notes[0]
    desk.store.put(replace(desk.book(), used={GPU: 16}, reservations=()))
    assert desk.judge(gold_job("b").dict()).code == 403


def test_quotas_that_cannot_be_read_are_429_for_what_has_a_tier_and_nothing_for_the_rest() -> None:
    desk = Desk()

    def silent(_: float) -> list[object]:
        raise StoreError("the API server did not answer")

    desk.store.all = silent  # type: ignore[method-assign, assignment]

    assert desk.judge(gold_job().dict(), seconds=0.8).code == 429
    assert desk.judge(job().requests(cpu="1").dict(), seconds=0.8).allowed


def test_a_price_without_the_classes_is_no_price_in_a_live_cluster() -> None:
    class Unlisted(ObjectSetSource):
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            if query == Query("DeviceClass", "", ""):
                return Unknown("DeviceClass * could not be listed: the API server did not answer")
            return super().ask(query, fresh=fresh, deadline=deadline)

    desk = Desk()
    source = Unlisted(desk.objects, complete=True, default_namespace=NAMESPACE)
    request = request_for(gold_job().uid("u").dict(), None, "CREATE", None)

    assert desk.ask(request, source=source).allowed
    desk.ledger.is_live = True
    verdict = desk.ask(request, source=source)
    assert (verdict.code, verdict.retry_after_seconds) == (429, 1)
    assert "the DeviceClasses: DeviceClass * could not be listed" in verdict.notes[0]


def test_what_costs_nothing_does_not_wait_for_quotas_that_cannot_be_read() -> None:
    """Labels, finalizers, a deletion. Before, each of them waited for a list that did not come, as long as it could."""
    desk = Desk()
    asked: list[float] = []
    desk.store.all = lambda deadline: asked.append(deadline) or []  # type: ignore[method-assign,func-returns-value]
    old = gold_job().uid("u").dict()
    labelled = gold_job().uid("u").label("a", "b").set("metadata.finalizers", ["x/y"]).dict()
    deletion = msgspec.structs.replace(request_for(old, None, "CREATE", None), operation="DELETE", old_object=old)

    assert desk.judge(labelled, old).allowed
    assert desk.ask(deletion).allowed

    assert asked == []


@pytest.mark.parametrize("kind", ["CronJob", "PodGroup"])
def test_a_child_of_what_is_never_counted_is_no_child(kind: str) -> None:
    """kubectl create job --from=cronjob/x. Before, each such Job kept a line in the books for as long as it existed."""
    desk = Desk()

    assert desk.judge(gold_job("by-hand").owner(kind, "x", uid="c").dict()).allowed

    assert not desk.book().reservations[0].detached
    assert desk.reserved() == 16


def test_two_tiers_on_one_object_all_or_none() -> None:
    desk = Desk(quota("g", **{GPU: 16}), quota("s", tier="silver", **{GPU: 1}))
    built = jobset().role("a", gold_job("a")).role("b", job("b").gpu(2).priority_class("train-silver"))

    verdict = desk.judge(built.dict())

    assert ['tier "silver"' in text for text in quota_denials(verdict)] == [True]
    assert desk.reserved(name="g") == 0


def test_review_charges_one_after_the_other() -> None:
    """Offline, where no object has a uid."""
    desk = Desk()

    first = desk.judge(gold_job("a").dict(), phase=Phase.REVIEW)
    second = desk.judge(gold_job("b").dict(), phase=Phase.REVIEW)

    assert first.allowed
    assert quota_denials(second)


def test_the_largest_gang_is_a_limit_for_each() -> None:
    desk = Desk(quota(**{"largest-gang": 4}))

    assert all(desk.judge(gold_job(name, pods=4).dict()).allowed for name in "abc")
    assert quota_denials(desk.judge(gold_job("d", pods=5).dict())) == [
        'tier "gold" of team-a allows gangs of 4 Pods at most, this one has 5'
    ]


def test_gangs_and_pods_are_counted() -> None:
    desk = Desk(quota(gangs=2, pods=5))

    assert all(desk.judge(gold_job(name, pods=2).dict()).allowed for name in "ab")
    found = quota_denials(desk.judge(gold_job("c", pods=2).dict()))
    assert any("2 gangs, 2 in use" in text for text in found)
    assert any("5 pods, 4 in use" in text for text in found)
