"""WAS901: labels with the group's and the Workload's name on member Pods."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import pod, pod_group, workload
from tests.mutations.support import changed, mutate, mutate_twice
from webhook.mutations.was901_group_labels import label_value

GROUP = pod_group("train").gang(2).workload_ref("train-w", "workers").dict()


def test_a_member_gets_both_names() -> None:
    """The group from the Pod, the Workload from the group."""
    member = pod().label("app", "train").scheduling_group("train").dict()

    result = mutate_twice(member, "WAS901", around=[GROUP, workload("train-w").dict()])

    assert result.obj["metadata"]["labels"] == {
        "app": "train",
        "muster.dev/pod-group": "train",
        "muster.dev/workload": "train-w",
    }
    assert [operation["op"] for operation in result.patch] == ["add", "add"]
    assert all("[WAS901]" in note for note in result.notes)


def test_without_labels_the_parent_is_added_first() -> None:
    """A JSON patch may not add into a map that is not there."""
    result = mutate_twice(pod().scheduling_group("train").dict(), "WAS901")

    assert result.patch == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/muster.dev~1pod-group", "value": "train"},
    ]


def test_a_group_that_is_not_known_yet_gives_no_workload_label() -> None:
    """A Pod may come before its PodGroup."""
    result = mutate_twice(pod().scheduling_group("train").dict(), "WAS901")

    assert "muster.dev/workload" not in result.obj["metadata"]["labels"]


def test_a_label_of_our_name_with_another_value_is_put_right() -> None:
    """The label says which group the Pod is in; anything else would mislead a dashboard."""
    member = pod().label("muster.dev/pod-group", "other").scheduling_group("train").dict()

    result = mutate_twice(member, "WAS901")

    assert result.patch == [{"op": "replace", "path": "/metadata/labels/muster.dev~1pod-group", "value": "train"}]


def test_pods_without_group_and_mirror_pods_stay_as_they_are() -> None:
    """A kubelet would delete and make again a mirror Pod that differs from its own."""
    mirror = pod().annotation("kubernetes.io/config.mirror", "abc").scheduling_group("train").dict()

    assert mutate(pod().dict(), "WAS901").patch == []
    assert mutate(mirror, "WAS901").patch == []


def test_off_unless_a_policy_turns_it_on() -> None:
    """Every mutation is opt-in."""
    assert mutate(pod().scheduling_group("train").dict()).verdict.short_circuit == "no-mutation-enabled"


def test_not_where_the_gate_is_declared_off() -> None:
    """The API server will drop schedulingGroup, and the label would tell of a group that is none."""
    policy = {"cluster": {"featureGates": {"GenericWorkload": False}}}

    assert changed(mutate(pod().scheduling_group("train").dict(), "WAS901", policy=policy)) == {}


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", fullmatch=True)


@given(NAMES)
def test_every_name_becomes_a_legal_label_value(name: str) -> None:
    """At most 63 characters, beginning and ending with a letter or digit (apimachinery IsValidLabelValue)."""
    value = label_value(name)

    assert len(value) <= 63
    assert re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", value)
    assert value == name or len(name) > 63


def test_long_names_that_begin_alike_stay_apart() -> None:
    """The hash is of the whole name."""
    assert label_value("a" * 70) != label_value("a" * 71)
