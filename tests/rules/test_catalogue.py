"""The catalogue holds together: IDs, files, docstrings, fixtures, policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cases import RULES
from webhook.objects.kinds import BY_NAME
from webhook.policy.model import GATES
from webhook.rules.catalogue import CATALOGUE
from webhook.rules.meta import ANY_KIND, Rule, Status

HEADINGS = ("What it checks", "Why", "Fields read", "Allowed", "Denied", "Fix", "References")
FOLDER = Path(__file__).parents[2] / "webhook" / "rules"


def test_ids_and_names_are_unique_and_sorted() -> None:
    """One rule, one ID, one name, in order."""
    ids = [rule.META.id for rule in CATALOGUE]
    names = [rule.META.name for rule in CATALOGUE]

    assert ids == sorted(set(ids))
    assert len(names) == len(set(names))


def test_files_and_catalogue_are_one_to_one() -> None:
    """A rule file that the catalogue does not name would silently never run."""
    on_disk = sorted(path.stem for path in FOLDER.glob("was*.py"))
    named = sorted(f"{rule.META.id.lower()}_{rule.META.name.replace('-', '_')}" for rule in CATALOGUE)

    assert on_disk == named


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.META.id)
def test_rule_is_complete(rule: Rule) -> None:
    """Docstring headings, known kinds and gates, and a fixture on both sides."""
    meta = rule.META
    doc = rule.__doc__ or ""

    assert re.fullmatch(r"WAS\d{3}", meta.id)
    assert [heading for heading in HEADINGS if f"\n## {heading}\n" not in doc] == []
    assert meta.kinds <= {*BY_NAME, ANY_KIND}
    assert meta.gate is None or meta.gate in GATES
    assert meta.status is not Status.DEPRECATED or meta.replaced_by
    for side in ("allow", "deny"):
        assert list((RULES / meta.id / side).glob("*.yaml")), f"{meta.id} has no {side} fixture"


def test_no_orphan_fixtures() -> None:
    """A fixture folder without a rule is a rule that went missing."""
    assert {path.name for path in RULES.glob("WAS*")} <= {rule.META.id for rule in CATALOGUE}
