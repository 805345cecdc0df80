"""The catalogue of mutations holds together, and all of them at once stay idempotent and small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders import job, pod, pod_group, priority_class
from tests.mutations.support import mutate, mutate_twice
from webhook.admission.evaluate import RuleError
from webhook.facts.model import Facts
from webhook.mutations import was901_group_labels
from webhook.mutations.catalogue import MUTATIONS
from webhook.mutations.meta import Mutation
from webhook.objects.kinds import BY_NAME
from webhook.policy.model import GATES
from webhook.rules.catalogue import CATALOGUE

FOLDER = Path(was901_group_labels.__file__).parent
ALL = tuple(mutation.META.id for mutation in MUTATIONS)


def test_ids_are_in_order_and_files_are_named_after_them() -> None:
    """One mutation, one ID, one file."""
    named = [f"{mutation.META.id.lower()}_{mutation.META.name.replace('-', '_')}" for mutation in MUTATIONS]

    assert list(ALL) == sorted(set(ALL))
    assert sorted(path.stem for path in FOLDER.glob("was*.py")) == named
    assert not set(ALL) & {rule.META.id for rule in CATALOGUE}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=ALL)
def test_each_says_what_it_does(mutation: Mutation) -> None:
    """A docstring with the three headings, known kinds and gate."""
    doc = mutation.__doc__ or ""

    assert re.fullmatch(r"WAS9\d{2}", mutation.META.id)
    assert [word for word in ("What it changes", "Why", "Left alone") if f"\n## {word}\n" not in doc] == []
    assert mutation.META.kinds <= set(BY_NAME)
    assert mutation.META.gate is None or mutation.META.gate in GATES


def test_all_together_on_a_job() -> None:
    """Two fields, two notes, and a second pass that changes nothing (reinvocation, R130)."""
    raw = job().parallelism(4).completions(4).gang().barrier("4").dict()
    policy = {"tiers": [{"name": "bronze", "priorityClasses": ["bronze"]}], "defaultTier": "bronze"}

    result = mutate_twice(raw, *ALL, around=[priority_class("bronze", 10).dict()], policy=policy)

    assert {operation["path"] for operation in result.patch} == {
        "/spec/template/spec/priorityClassName",
        "/spec/scheduling/disruptionMode",
    }
    assert len(result.notes) == 2


def test_all_together_on_a_pod() -> None:
    """Labels and claim names; unknown fields of a newer API stay as they are (R35)."""
    raw = pod().scheduling_group("train").pod_claim("gpus", template="t1").set("spec.newerField", {"a": [1]}).dict()
    group = pod_group("train").gang(2).claim("gpu", template="t1").dict()

    result = mutate_twice(raw, *ALL, around=[group])

    assert result.obj["spec"]["newerField"] == {"a": [1]}
    assert result.obj["metadata"]["labels"] == {"muster.dev/pod-group": "train"}
    assert result.obj["spec"]["resourceClaims"][0]["name"] == "gpu"


def test_an_unknown_field_is_never_touched() -> None:
    """Every operation of every patch is an add or replace of one field, never of the whole spec (R35)."""
    result = mutate(pod().scheduling_group("train").dict(), *ALL)

    assert all(
        operation["path"].count("/") >= 2 and operation["op"] in ("add", "replace") for operation in result.patch
    )


def test_a_mutation_that_raises_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered as an error, never as a silent allow."""

    def broken(facts: Facts) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(was901_group_labels, "mutate", broken)
    with pytest.raises(RuleError, match="WAS901"):
        mutate(pod().scheduling_group("train").dict(), "WAS901")
