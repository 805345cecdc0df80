"""WAS902: the PriorityClass of the namespace's default tier in templates that name none."""

from __future__ import annotations

import pytest

from tests.builders import Job, cronjob, job, jobset, lws, pod, pod_group, priority_class
from tests.mutations.support import Raw, changed, mutate, mutate_twice

POLICY: Raw = {
    "tiers": [{"name": "gold", "priorityClasses": ["gold"]}, {"name": "bronze", "priorityClasses": ["bronze", "tin"]}],
    "defaultTier": "bronze",
}
CLASS = priority_class("bronze", 10).dict()
FIELD = "/spec/template/spec/priorityClassName"


def test_a_gang_job_gets_the_first_class_of_the_default_tier() -> None:
    """The group that the Job controller makes copies it, so both agree."""
    result = mutate_twice(job().gang().dict(), "WAS902", around=[CLASS], policy=POLICY)

    assert result.patch == [{"op": "add", "path": FIELD, "value": "bronze"}]
    assert result.notes == [
        'spec.template.spec.priorityClassName: set to "bronze", the default of this namespace (tier "bronze") [WAS902]'
    ]


@pytest.mark.parametrize(
    ("raw", "pointers"),
    [
        (job().gpu(8).dict(), [FIELD]),
        (cronjob(of=job().gpu(8)).dict(), ["/spec/jobTemplate/spec/template/spec/priorityClassName"]),
        (
            jobset().role("a", of=job().gpu(8)).role("b", of=job()).dict(),
            [
                "/spec/replicatedJobs/0/template/spec/template/spec/priorityClassName",
                "/spec/replicatedJobs/1/template/spec/template/spec/priorityClassName",
            ],
        ),
        (
            lws().size(2).leader(pod()).gpu(8).dict(),
            [
                "/spec/leaderWorkerTemplate/leaderTemplate/spec/priorityClassName",
                "/spec/leaderWorkerTemplate/workerTemplate/spec/priorityClassName",
            ],
        ),
    ],
    ids=["job", "cronjob", "jobset", "leaderworkerset"],
)
def test_every_template_of_an_object_with_guarded_resources(raw: Raw, pointers: list[str]) -> None:
    """All templates of one object, so that its Pods have one priority."""
    result = mutate_twice(raw, "WAS902", around=[CLASS], policy=POLICY)

    assert changed(result) == dict.fromkeys(pointers, "bronze")


@pytest.mark.parametrize(
    "raw",
    [
        job().dict(),
        job().gang().priority_class("gold").dict(),
        job().gang().priority(7).dict(),
        job().scheduling_group("train").dict(),
        job().gang().owner("JobSet", "train").dict(),
        jobset().role("a", of=job().gpu(8).group_template("workers")).dict(),
        pod().gpu(8).dict(),
        pod_group().gang(2).dict(),
    ],
    ids=[
        "plain",
        "has a class",
        "has a number",
        "names a group with a class of its own",
        "is a child",
        "takes the group from its parent's Workload",
        "a Pod, whose number is filled in already",
        "a PodGroup, likewise",
    ],
)
def test_left_alone(raw: Raw) -> None:
    """A wrong class in a group's Pods makes kube-scheduler refuse the whole group."""
    around = [CLASS, pod_group("train").gang(1).dict()]

    assert changed(mutate(raw, "WAS902", around=around, policy=POLICY)) == {}


def test_a_class_that_does_not_exist_is_not_written() -> None:
    """Pods that name it are refused one by one."""
    assert changed(mutate(job().gang().dict(), "WAS902", policy=POLICY)) == {}


def test_a_job_gets_no_class_that_never_preempts() -> None:
    """1.37 refuses the PodGroup that the Job controller would make of it, and the Job never starts."""
    never = priority_class("bronze", 10, preemption_policy="Never").dict()

    assert changed(mutate(job().gang().dict(), "WAS902", around=[never], policy=POLICY)) == {}
    assert changed(mutate(lws().gpu(8).dict(), "WAS902", around=[never], policy=POLICY)) != {}


@pytest.mark.parametrize(
    "limits", [{"scope": {"namespaces": ["ml-*"]}}, {"subjects": {"groups": ["research"]}}], ids=["namespace", "user"]
)
def test_not_a_tier_that_is_closed_to_the_requester(limits: Raw) -> None:
    """WAS401 or WAS402 would deny what the mutation had written."""
    policy = {**POLICY, "tiers": [{"name": "bronze", "priorityClasses": ["bronze"], **limits}]}

    assert changed(mutate(job().gang().dict(), "WAS902", around=[CLASS], policy=policy)) == {}


def test_without_a_default_tier_nothing_happens() -> None:
    """Tiers alone say nothing of a default."""
    policy = {"tiers": POLICY["tiers"]}

    assert changed(mutate(job().gang().dict(), "WAS902", around=[CLASS], policy=policy)) == {}


def test_builders_make_what_the_cases_say() -> None:
    """The cases above rest on Jobs without a class."""
    plain: Job = job().gang()

    assert "priorityClassName" not in plain.pod_spec
