"""The examples on the rules' pages: each parses, and the rule is silent on what it calls allowed and speaks on what it
calls denied.

An example shows what matters and leaves out the rest. `complete` fills in what the API server would want, CONTEXTS has
the surroundings that the page says in words, and where a fragment belongs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.rules.page_contexts import CONTEXTS, OTHERS
from tests.support.cases import Case, judge, merge
from webhook.objects.kinds import BY_NAME
from webhook.rules.catalogue import CATALOGUE

SIDES = ("Allowed", "Denied")
_TEMPLATE: dict[str, Any] = {"spec": {"restartPolicy": "Never"}}
_GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
_BASES: dict[str, dict[str, Any]] = {
    "Job": {"spec": {"template": _TEMPLATE}},
    "CronJob": {"spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}},
    "Deployment": {"spec": {"selector": {"matchLabels": {"app": "train"}}, "template": _TEMPLATE}},
    "PodGroup": {"spec": {}},
}
_CONTAINER = {"name": "main", "image": "pause:3.10"}


@dataclass(frozen=True)
class Example:
    rule: str
    side: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}-{self.side}"


def examples() -> list[Example]:
    found = []
    for rule in CATALOGUE:
        for side in SIDES:
            section = re.search(rf"\n## {side}\n(.*?)\n## ", rule.__doc__ or "", re.DOTALL)
            blocks = re.findall(r"```yaml\n(.*?)```", section[1], re.DOTALL) if section else []
            found += [Example(rule.META.id, side, block) for block in blocks]
    return found


EXAMPLES = examples()


def documents(example: Example) -> list[Any]:
    """Without the ellipses: ``...`` in a flow mapping or list stands for what does not matter."""
    return [_without_ellipses(item) for item in YAML(typ="safe", pure=True).load_all(example.text)]


def _without_ellipses(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ellipses(item) for key, item in value.items() if "..." not in (key, item)}
    if isinstance(value, list):
        return [_without_ellipses(item) for item in value if item != "..."]
    return value


def at(path: str, fragment: Any) -> Any:
    """The fragment under a path such as ``spec.template.spec.containers[]``."""
    for part in reversed(path.split(".") if path else []):
        fragment = {part.removesuffix("[]"): [fragment]} if part.endswith("[]") else {part: fragment}
    return fragment


def complete(kind: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The object with what every object of the kind has."""
    base = merge(
        {"metadata": {"name": "" if "generateName" in raw.get("metadata", {}) else "train"}}, _BASES.get(kind, {})
    )
    full = {"apiVersion": BY_NAME[kind].api_version, "kind": kind, **merge(base, raw)}
    _complete_parts(full)
    return full


def _complete_parts(value: Any) -> None:
    """Containers get a name and an image, Pod templates a container, group templates a policy, owners a uid."""
    if isinstance(value, list):
        for item in value:
            _complete_parts(item)
        return
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        for element in item if isinstance(item, list) else ():
            defaults = {
                "containers": _CONTAINER,
                "podGroupTemplates": _GANG,
                "ownerReferences": {"apiVersion": "jobset.x-k8s.io/v1alpha2", "uid": "1"},
            }.get(key, {})
            if isinstance(element, dict):
                element.update({name: default for name, default in defaults.items() if name not in element})
        if key == "template" and isinstance(item, dict) and not _is_job_template(item):
            item.setdefault("spec", {}).setdefault("containers", [dict(_CONTAINER)])
        _complete_parts(item)


def _is_job_template(item: Mapping[str, Any]) -> bool:
    """A replicatedJob's template holds a Job, whose own template holds the Pod."""
    return (
        "template" in item.get("spec", {})
        or "scheduling" in item.get("spec", {})
        or "annotations" in item.get("metadata", {})
    )


def case_of(example: Example) -> Case:
    """The last document is judged; those before it are there already."""
    context = {key: value for key, value in CONTEXTS.get(example.rule, {}).items() if key not in SIDES}
    context |= CONTEXTS.get(example.rule, {}).get(example.side, {})
    *before, last = documents(example)
    kind = last.get("kind") or context.get("kind", "Job")
    raw = last if "kind" in last or {"spec", "metadata"} & set(last) else at(context.get("at", ""), last)
    obj = complete(kind, raw)
    if "build" in context:
        obj, extra = context["build"](last)
        before = [*before, *extra]
    surroundings = [*context.get("surroundings", []), *(complete(item["kind"], item) for item in before)]
    header = {key: value for key, value in context.items() if key not in ("kind", "at", "build", "surroundings")}
    return Case(
        path=Path("page.yaml"),
        rule=example.rule,
        allow=example.side == "Allowed",
        header={"why": "an example", **header, "surroundings": surroundings},
        obj=obj,
    )


@pytest.mark.parametrize(
    "rule", [rule for rule in CATALOGUE if rule.META.id not in OTHERS], ids=lambda rule: rule.META.id
)
def test_both_sides_have_an_example(rule: Any) -> None:
    """A page without one says nothing to who reads it in a hurry."""
    assert {example.side for example in EXAMPLES if example.rule == rule.META.id} == set(SIDES)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_parses(example: Example) -> None:
    """It can be pasted into a file."""
    assert all(item is None or isinstance(item, dict) for item in documents(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_has_its_verdict(example: Example) -> None:
    """The rule of the page, and no word on others: an example is about one thing."""
    reason = OTHERS.get(example.rule)
    if reason:
        pytest.skip(reason)

    verdict = judge(case_of(example))

    found = [violation.line() for violation in verdict.violations if violation.rule == example.rule]
    assert (found == []) == (example.side == "Allowed"), (
        found,
        [v.line() for v in verdict.violations],
        verdict.unknowns,
    )
