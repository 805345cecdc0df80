"""Raw objects become typed ones; what cannot is an error that names the field."""

from __future__ import annotations

import pytest

from tests.builders import Raw, job
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.kinds import BY_NAME, KINDS, find, split_api_version
from webhook.objects.read import ShapeError, read


def test_unknown_and_newer_fields_are_passed_over() -> None:
    raw = job().parallelism(4).set("spec.newerField", {"a": [1]}).set("kindOfMagic", True).dict()

    assert read(raw, core.Job).spec.parallelism == 4


def test_null_is_the_same_as_absent_at_any_depth() -> None:
    raw = job().set("metadata.labels", None).set("spec.template.metadata", None).set("spec.scheduling", None).dict()

    typed = read(raw, core.Job)

    assert (typed.metadata.labels, typed.spec.template.metadata, typed.spec.scheduling) == (
        None,
        core.ObjectMeta(),
        None,
    )


@pytest.mark.parametrize(
    ("raw", "field", "words"),
    [
        ({"spec": {"parallelism": "8"}}, "spec.parallelism", 'expected a whole number, found a string "8"'),
        ({"spec": {"parallelism": 3.5}}, "spec.parallelism", "expected a whole number, found the number 3.5"),
        ({"spec": {"suspend": "yes"}}, "spec.suspend", 'expected true or false, found a string "yes"'),
        ({"metadata": {"labels": {"a": "b", "c": 3}}}, "metadata.labels.c", "expected a string, found a number"),
        ({"spec": "sesame"}, "spec", "expected an object, found a string"),
        ({"spec": {"parallelism": "sesame"}}, "spec.parallelism", "expected a whole number, found a string"),
        ({"spec": {"template": {"spec": {"containers": [{"name": 3}]}}}}, "spec.template.spec.containers[0].name", "expected a string"),
        ({"spec": {"scheduling": "gang"}}, "spec.scheduling", "expected an object"),
        ({"metadata": []}, "metadata", "expected"),
        ({"metadata": {"name": None}, "spec": {"parallelism": True}}, "spec.parallelism", "expected a whole number, found true"),
        ({"spec": {"template": {"spec": {"containers": [None]}}}}, "spec.template.spec.containers[0]", "expected an object, found null"),
    ],
)  # fmt: skip
def test_a_wrong_type_names_the_field(raw: Raw, field: str, words: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read(raw, core.Job)

    assert str(caught.value.field) == field
    assert words in caught.value.message
    assert "sesame" not in caught.value.message
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        ({"parallelism": "8"}, "write 8 without quotes"),
        ({"parallelism": "eight"}, "write a whole number"),
        ({"suspend": "true"}, "write true without quotes"),
        ({"managedBy": 3}, "write it in quotes"),
        ({"template": {"spec": {"containers": {}}}}, "write a list, each item after a dash"),
        ({"template": []}, "write its members as lines of key: value"),
        (
            {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "1", "a/b": [1]}}}]}}},
            "write a number or a string",
        ),
    ],
)
def test_a_wrong_type_comes_with_what_to_write(spec: Raw, fix: str) -> None:
    """In the words of people who write manifests, not of Python."""
    with pytest.raises(ShapeError) as caught:
        read({"spec": spec}, core.Job)

    assert caught.value.fix == fix


def test_a_part_of_an_object_is_named_from_where_it_stands() -> None:
    with pytest.raises(ShapeError) as caught:
        read({"parallelism": []}, core.JobSpec, SPEC)

    assert str(caught.value.field) == "spec.parallelism"


def test_what_is_no_object_at_all_is_an_error_without_field() -> None:
    with pytest.raises(ShapeError) as caught:
        read([], core.Job)  # type: ignore[arg-type]

    assert str(caught.value) == caught.value.message


def test_the_controller_is_the_owner_that_says_so() -> None:
    built = job().owner("JobSet", "a", controller=False).owner("CronJob", "b")

    owner = built.typed().metadata.controller()

    assert (owner.kind, owner.name) == ("CronJob", "b")
    assert job().typed().metadata.controller() is None


def test_the_table_of_kinds_can_be_asked_both_ways() -> None:
    assert find("batch", "Job") is BY_NAME["Job"]
    assert find("batch", "Pod") is None
    assert BY_NAME["Job"].api_version == "batch/v1"
    assert BY_NAME["Pod"].api_version == "v1"
    assert len(BY_NAME) == len(KINDS)


@pytest.mark.parametrize(("text", "parts"), [("batch/v1", ("batch", "v1")), ("v1", ("", "v1")), ("", ("", ""))])
def test_an_api_version_is_split(text: str, parts: tuple[str, str]) -> None:
    assert split_api_version(text) == parts


@pytest.mark.parametrize(("old", "member"), [("Pod", "single"), ("PodGroup", "all")])
def test_a_disruption_mode_of_an_older_version_is_read_as_what_it_became(old: str, member: str) -> None:
    typed = read({"spec": {"disruptionMode": old}}, core.PodGroup)

    assert getattr(typed.spec.disruption_mode, member) == core.Empty()
    with pytest.raises(ShapeError):
        read({"spec": {"disruptionMode": "Sometimes"}}, core.PodGroup)
