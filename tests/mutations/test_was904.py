"""WAS904: Pod claim names aligned with the group's."""

from __future__ import annotations

import pytest

from tests.builders import Pod, deployment, job, pod, pod_group
from tests.mutations.support import Raw, changed, mutate, mutate_twice

GROUP = pod_group("train").gang(2).claim("gpu", template="t1").dict()


def member() -> Pod:
    return pod().scheduling_group("train")


def test_the_entry_and_its_uses_are_renamed() -> None:
    """A container that names the old claim would be refused."""
    raw = member().pod_claim("gpus", template="t1").init("fetch").dict()
    raw["spec"]["initContainers"][0]["resources"] = {"claims": [{"name": "gpus", "request": "one"}]}

    result = mutate_twice(raw, "WAS904", around=[GROUP])

    assert changed(result) == {
        "/spec/resourceClaims/0/name": "gpu",
        "/spec/initContainers/0/resources/claims/0/name": "gpu",
        "/spec/containers/0/resources/claims/0/name": "gpu",
    }
    assert {operation["op"] for operation in result.patch} == {"replace"}
    assert result.notes == [
        'spec.resourceClaims[0].name: "gpus" renamed to "gpu", the group\'s claim with the same reference [WAS904]'
    ]


def test_a_job_that_declares_both_sides() -> None:
    """The Job's own group is known without any look-up."""
    raw = job().gang().group_claim("gpu", template="t1").pod_claim("gpus", template="t1").dict()

    assert changed(mutate_twice(raw, "WAS904")) == {
        "/spec/template/spec/resourceClaims/0/name": "gpu",
        "/spec/template/spec/containers/0/resources/claims/0/name": "gpu",
    }


def test_a_template_that_names_a_group() -> None:
    """A Deployment's Pods join the PodGroup by name."""
    raw = deployment().scheduling_group("train").pod_claim("gpus", template="t1").dict()

    assert "/spec/template/spec/resourceClaims/0/name" in changed(mutate_twice(raw, "WAS904", around=[GROUP]))


@pytest.mark.parametrize(
    ("raw", "group"),
    [
        (member().pod_claim("gpu", template="t1").dict(), GROUP),
        (member().pod_claim("gpus", template="t2").dict(), GROUP),
        (member().pod_claim("gpus", claim="t1").dict(), GROUP),
        (member().pod_claim("gpu", template="t1").pod_claim("scratch", template="t1").dict(), GROUP),
        (member().pod_claim("gpu", template="t9").pod_claim("gpus", template="t1").dict(), GROUP),
        (member().pod_claim("a", template="t1").pod_claim("b", template="t1").dict(), GROUP),
        (
            member().pod_claim("gpus", template="t1").dict(),
            pod_group("train").gang(2).claim("gpu", template="t1").claim("nic", template="t1").dict(),
        ),
        (pod().pod_claim("gpus", template="t1").dict(), GROUP),
        (member().annotation("kubernetes.io/config.mirror", "a").pod_claim("gpus", template="t1").dict(), GROUP),
    ],
    ids=[
        "equal already",
        "another template",
        "a claim where the group has a template",
        "one is equal, the other is the Pod's own",
        "the group's name is taken",
        "two candidates in the Pod",
        "two candidates in the group",
        "in no group",
        "a mirror Pod",
    ],
)
def test_left_alone(raw: Raw, group: Raw) -> None:
    """Where something else can be meant, nothing is renamed."""
    assert changed(mutate(raw, "WAS904", around=[group])) == {}


def test_a_group_that_is_not_known_leaves_the_pod_alone() -> None:
    """A guess would be worse than a near miss that WAS201 tells of."""
    assert changed(mutate(member().pod_claim("gpus", template="t1").dict(), "WAS904")) == {}


def test_the_group_claim_is_matched_after_the_patch() -> None:
    """All three fields are equal then, which is what 1.37 compares."""
    result = mutate_twice(member().pod_claim("gpus", template="t1").dict(), "WAS904", around=[GROUP])

    assert result.obj["spec"]["resourceClaims"] == GROUP["spec"]["resourceClaims"]
