"""What 1.37.2 does without Muster and with it: every item of tests/live/shown/, played on one real control plane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.shown_run import GATES, Facts, Record, load_items, missing, run
from webhook.rules.catalogue import CATALOGUE

SHOWN_CASES = {"R03", "R11", "R23", "R24", "R26", "R38", "R65", "R66", "R76"}


def test_what_1_37_does(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Each item is seen as its file says: what becomes of the object without Muster, and kubectl's answer with it."""
    cluster = start_control_plane(ControlPlaneOptions(feature_gates=GATES))

    for record in run(cluster, tmp_path, load_items()):
        with subtests.test(record.item.name):
            assert record.problems() == []


def test_every_trap_and_case_is_shown() -> None:
    """WAS121 to WAS140 as far as they exist, and the cases that the README of the project promises."""
    items = load_items()
    shown = {rule for item in items for rule in item.rules}
    traps = {rule.META.id for rule in CATALOGUE if "WAS121" <= rule.META.id <= "WAS140"}

    assert traps - shown == set()
    assert SHOWN_CASES - {item.case for item in items} == set()


def test_each_item_is_watched_and_answered() -> None:
    """No file that would pass whatever is seen."""
    for item in load_items():
        assert item.without, item.name
        assert item.with_["answer"] in ("denied", "warned", "refused", "accepted"), item.name
        assert bool(item.lost) == bool(item.ways), item.name
        assert bool(item.rules) == (item.with_["answer"] != "accepted"), item.name


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"pods": 2, "bound": 1, "groups": 1, "events": ["FailedCreate", "quota"], "conditions": "none"}, ""),
        ({"quiet": "Job other"}, ""),
        ({"quiet": "Job train"}, "an event speaks of Job train"),
        ({"pods": 1}, "pods: wanted 1, found 2"),
        ({"groups": 2}, "groups: wanted 2, found 1"),
        ({"events": "none"}, "events: wanted none"),
        ({"events": ["FailedCreate", "volume"]}, "events: no 'volume'"),
        ({"conditions": "SchedulerError"}, "conditions: no 'SchedulerError'"),
    ],
)
def test_facts_are_compared(wanted: dict[str, object], problem: str) -> None:
    """The helper that every item rests on."""
    facts = Facts(pods=2, bound=1, groups=("train: basic",), events=("FailedCreate (Job train): exceeded quota",))

    found = missing(facts, wanted)

    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_an_unexpected_answer_is_a_problem() -> None:
    """A denial where a warning is wanted, and another rule than the item's."""
    item = next(item for item in load_items() if item.name == "gated-member")
    good = Record(item, facts=Facts(pods=2), after="Warning: spec: waits [WAS131]\npod/train-1 created")

    denied = Record(item, facts=good.facts, after="Error: webhook denied the request: spec: waits [WAS131]")
    other = Record(item, facts=good.facts, after="Warning: spec: waits [WAS132]")

    assert good.problems() == []
    assert len(denied.problems()) == len(other.problems()) == 1
