"""`muster rules`: the list, and the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from webhook.admission.known import KNOWN
from webhook.cli.main import app
from webhook.reports.pages import all_pages, markdown
from webhook.rules.catalogue import CATALOGUE

HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["rules", *(str(word) for word in words)])


def listed(*words: str | Path) -> dict[str, dict[str, Any]]:
    result = run(*words, "-o", "json")
    assert result.exit_code == 0, result.output
    return {entry["id"]: entry for entry in json.loads(result.stdout)["rules"]}


def test_every_id_that_an_answer_may_carry_is_listed() -> None:
    assert set(listed()) == KNOWN.rules | KNOWN.mutations | {"WAS100"}
    assert list(listed()) == sorted(listed())


def test_the_table_has_a_line_for_each() -> None:
    lines = run().stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("  WAS")]

    assert [(row[0], row[1]) for row in rows] == [(page.id, page.name) for page in all_pages()]
    by_id = {row[0]: row for row in rows}
    assert by_id["WAS101"][2] == "Deny"
    assert by_id["WAS901"][2] == "opt-in"
    assert "1xx Shape, minCount and barrier" in lines


def test_a_page_says_what_the_docstring_says() -> None:
    rule = CATALOGUE[0]
    printed = run(rule.META.id).stdout

    assert printed.startswith(f"# {rule.META.id} {rule.META.name}\n\n{rule.META.summary}\n")
    assert f"Kinds:          {', '.join(sorted(rule.META.kinds))}" in printed
    assert (rule.__doc__ or "").strip().partition("\n")[2].strip() in printed
    assert "|---|" not in printed


def test_pages_are_found_by_id_or_fault_in_any_case_and_in_the_given_order() -> None:
    titles = [line for line in run("was103", "Min-Count-Above-Pod-Count").stdout.splitlines() if line.startswith("# ")]

    assert titles == ["# WAS103 min-count-below-barrier", "# WAS101 min-count-above-pod-count"]


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.id)
def test_every_page_says_why_and_what_to_do(page: Any) -> None:
    assert {"## What it checks", "## Why"} <= set(page.body.splitlines()) or page.family == "9"
    assert markdown(page).startswith(f"# {page.title}\n\n{page.summary}\n\n| | |\n")


def test_a_policy_says_what_each_rule_does_in_a_namespace(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    override = "{name: o, scope: {namespaces: [lab]}, actionMax: Warn, mutations: {WAS901: true}}"
    policy.write_text(HEAD + f"spec: {{rules: {{WAS103: {{action: Off}}}}, overrides: [{override}]}}")

    here, lab = listed("--policy", policy), listed("--policy", policy, "--namespace", "lab")

    assert {here[rule]["default"] for rule in ("WAS101", "WAS103", "WAS901")} == {"Deny", "Warn", "opt-in"}
    assert [here[rule]["action"] for rule in ("WAS101", "WAS103", "WAS901")] == ["Deny", "off", "off"]
    assert [lab[rule]["action"] for rule in ("WAS100", "WAS101", "WAS103", "WAS901")] == ["Warn", "Warn", "off", "on"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["WAS101", "WAS999"], 'there is no rule "WAS999"; `muster rules` lists all'),
        (["barrier-above-pods"], 'there is no rule "barrier-above-pods"; did you mean "barrier-above-pod-count"?'),
        (["--policy", "missing.yaml"], "missing.yaml: cannot be read"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(words: list[str], message: str) -> None:
    result = run(*words)

    assert result.exit_code == 2
    assert message in result.stderr
