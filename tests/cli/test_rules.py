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
    gates = "cluster: {featureGates: {GenericWorkload: true}}"
    policy.write_text(HEAD + f"spec: {{{gates}, rules: {{WAS103: {{action: Off}}}}, overrides: [{override}]}}")

    here, lab = listed("--policy", policy), listed("--policy", policy, "--namespace", "lab")

    assert {here[rule]["default"] for rule in ("WAS101", "WAS103", "WAS901")} == {"Deny", "Warn", "opt-in"}
    assert [here[rule]["action"] for rule in ("WAS101", "WAS103", "WAS901")] == ["Deny", "off", "off"]
    assert [lab[rule]["action"] for rule in ("WAS100", "WAS101", "WAS103", "WAS901")] == ["Warn", "Warn", "off", "on"]
    hint = 'overrides change some of this (--namespace shows it): "o" in namespace lab'
    assert hint in run("--policy", policy).stdout.splitlines()
    assert "overrides" not in run("--policy", policy, "-n", "lab").stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tolerat"], ["WAS508"]),
        (["MISSING", "Priority"], ["WAS124"]),
        (["was90"], ["WAS901", "WAS902", "WAS903", "WAS904"]),
    ],
)
def test_other_words_search_names_and_summaries(words: list[str], found: list[str]) -> None:
    """The beginning of a word is enough, whatever its case; all words must be there; the list says of how many."""
    lines = run(*words).stdout.splitlines()

    assert [line.split()[0] for line in lines if line.startswith("  WAS")] == found
    assert lines[-1] == f"{len(found)} of {len(all_pages())} rules"


def test_a_word_is_not_found_inside_another() -> None:
    """Who asks for "ever" does not mean "never"."""
    assert run("toleration").exit_code == 0
    assert run("oleration").exit_code == 2


EXEMPTIONS = """spec:
  cluster: {featureGates: {GenericWorkload: true}}
  exemptions:
  - {name: torch, owner: alice, reason: r, expires: 2999-06-30, rules: [WAS103], scope: {namespaces: [team-a]},
     kinds: [Job, JobSet], objects: ["train-*"]}
  - {name: old, owner: bob, reason: r, expires: 2001-01-31, rules: [WAS103, WAS101], scope: {namespaces: [team-b, c]}}
  - name: by label
    owner: bob
    reason: r
    expires: 2999-06-30
    rules: [WAS103]
    scope: {namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: t, operator: NotIn, values: [x, z]}]}}
"""
TORCH = 'exempt until 2999-06-30: Job, JobSet named "train-*" in namespace team-a ("torch" of alice)'
OLD = 'exemption ended on 2001-01-31: every kind in namespaces team-b, c ("old" of bob)'
BY_LABEL = 'exempt until 2999-06-30: every kind in namespaces with labels a=b,t notin (x,z) ("by label" of bob)'


@pytest.fixture
def exempting(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + EXEMPTIONS)
    return path


def test_exemptions_stand_below_the_rule_that_they_exempt(exempting: Path) -> None:
    """Ended ones as well: who asks why a rule acts again wants to see them."""
    lines = run("-p", exempting).stdout.splitlines()

    at = [line.split()[0] for line in lines if line].index("WAS103")
    assert [line.strip() for line in [line for line in lines if line][at + 1 : at + 4]] == [TORCH, OLD, BY_LABEL]
    assert sum("exempt" in line and line.startswith("      ") for line in lines) == 4
    page = run("WAS101", "-p", exempting).stdout
    assert f'\nIn policy "p": Deny\n  {OLD}\n\n## What it checks' in page
    assert "exempt" not in run("WAS102", "-p", exempting).stdout


def test_in_a_namespace_only_its_exemptions_are_shown(exempting: Path) -> None:
    """Its labels are not known, so those by label may hold."""
    [entry] = listed("WAS103", "-p", exempting, "-n", "team-b").values()

    assert [(one["name"], one["ended"]) for one in entry["exemptions"]] == [("old", True), ("by label", False)]


def test_an_action_is_what_comes_of_it_with_the_gates_declared(tmp_path: Path) -> None:
    """A rule warns at most while nobody says that its gate is on, and says nothing where it is off."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD + "spec: {cluster: {featureGates: {GenericWorkload: true, CompositePodGroup: false}}}")

    found = listed("-p", policy)

    assert [found[rule]["action"] for rule in ("WAS102", "WAS139", "WAS111")] == ["Deny", "Warn", "off"]
    assert [found[rule]["default"] for rule in ("WAS102", "WAS139", "WAS111")] == ["Deny", "Deny", "Deny"]
    assert (
        'In policy "p": Warn (Deny once the policy declares the gate WorkloadWithJob)'
        in run("WAS139", "-p", policy).stdout
    )
    assert (
        'In policy "p": off (the policy declares the gate CompositePodGroup off)' in run("WAS111", "-p", policy).stdout
    )
    assert 'only warn because policy "p" does not declare cluster.featureGates' in run("-p", policy).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["WAS101", "WAS999"], 'there is no rule "WAS999"; `muster rules` lists all'),
        (["barrier-above-pods"], 'no rule has "barrier-above-pods" in its ID, name or summary; did you mean "barrier-'),
        (["priorty"], 'no rule has "priorty" in its ID, name or summary; did you mean "priority"?'),
        (["zebra"], 'no rule has "zebra" in its ID, name or summary; `muster rules` lists all'),
        (["min-count", "claim"], "no rule has all of min-count, claim; each alone is in some"),
        (["--policy", "missing.yaml"], "missing.yaml: cannot be read"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(words: list[str], message: str) -> None:
    result = run(*words)

    assert result.exit_code == 2
    assert message in result.stderr
