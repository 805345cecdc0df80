"""One option, one short form, one meaning in all commands."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from webhook.cli.main import app

# name -> its short form, everywhere.
SHORT = {"--policy": "-p", "--inventory": "-i", "--output": "-o", "--file": "-f"}
# Muster's own namespace; not to be mixed up with -n, the namespace of what is judged.
OWN_NAMESPACE = {"doctor", "inventory export", "registration render", "registration apply"}
# What -o knows where it is not text and json: this is for kubectl, not for people.
OUTPUT_WORDS = {"registration render": "yaml json"}
# Commands for which the option means something.
HAVE = {
    "--policy": {"review", "explain", "rules", "doctor", "serve", "registration render", "registration apply"},
    "--inventory": {"review", "explain"},
    "--file": {"review", "explain"},
    "--output": {"review", "explain", "rules", "doctor", "registration render", "inventory export"},
}


def commands() -> Iterator[tuple[str, Any]]:
    """(name, command) of each, members of families by two words."""
    root: Any = typer.main.get_command(app)
    context: Any = typer.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        members = getattr(command, "commands", {})
        if not members:
            yield name, command
        for member, inner in members.items():
            yield f"{name} {member}", inner


def options() -> dict[str, dict[str, Any]]:
    """option -> command -> parameter."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, command in commands():
        for parameter in command.params:
            for word in parameter.opts:
                found[word][name] = parameter
    return found


@pytest.mark.parametrize("option", sorted(SHORT))
def test_an_option_has_one_short_form_and_is_where_it_makes_sense(option: str) -> None:
    """Who knows one command knows the others."""
    found = options()

    assert set(found[option]) == HAVE[option]
    assert set(found[SHORT[option]]) == HAVE[option]


def test_what_is_repeatable_is_so_everywhere() -> None:
    """A policy in parts is given the same way to each command."""
    found = options()

    assert {one.multiple for option in ("--policy", "--inventory", "--file") for one in found[option].values()} == {
        True
    }


@pytest.mark.parametrize("command", sorted(HAVE["--output"] - {"inventory export"}))
def test_output_is_a_format(command: str) -> None:
    """-o says how, and never where. (`inventory export -o FILE` is older and still works.)"""
    result = CliRunner().invoke(app, [*command.split(), "-o", "nonsense"])

    said = " ".join(re.sub(r"\W+", " ", result.output).split())
    assert result.exit_code == 2
    assert f"is not one of {OUTPUT_WORDS.get(command, 'text json')}" in said


def test_old_spellings_work() -> None:
    """`--filename`, as kubectl calls it, was the name in `explain`; `--namespace` that of Muster's own namespace."""
    found = options()

    assert set(found["--filename"]) == HAVE["--file"]
    assert set(found["--muster-namespace"]) == OWN_NAMESPACE
    assert set(found["--namespace"]) == OWN_NAMESPACE | set(found["-n"])
    assert set(found["-n"]) == {"review", "explain", "rules"}


@pytest.mark.parametrize("words", [[], *(name.split() for name, _ in commands()), ["inventory"], ["registration"]])
def test_help_is_asked_for_in_both_ways(words: list[str]) -> None:
    """kubectl and helm take -h."""
    short, long = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))

    assert (short.exit_code, short.output) == (0, long.output)
    assert "Usage: " in short.output


def test_the_list_of_commands_is_a_list() -> None:
    """One line each: what a command ends with stands in its own help."""
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "130"}).stdout.splitlines()

    rows = [line.strip("│ ").split() for line in lines if line.startswith("│") and "--" not in line]
    assert [row[0] for row in rows] == [
        "demo",
        "doctor",
        "explain",
        "inventory",
        "registration",
        "review",
        "rules",
        "serve",
    ]
    assert not any("Exit" in row for row in rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reviw", "x.yaml"], 'no such command "reviw"; did you mean "review"?'),
        (["export"], 'no such command "export"; the commands are demo, doctor, explain'),
        (["inventory", "exprot"], "Did you mean 'export'?"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_next_one(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})

    assert result.exit_code == 2
    assert said in result.output


def test_serve_knows_shipped_policies_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `muster review -p strict` tried is served by the same word."""
    given: dict[str, Any] = {}

    def settings(overrides: dict[str, Any]) -> Any:
        given.update(overrides)
        raise typer.Exit(7)

    monkeypatch.setattr("webhook.cli.serve._settings", settings)
    result = CliRunner().invoke(app, ["serve", "-p", "strict", "-p", "own.yaml"])

    assert result.exit_code == 7
    assert [path.name for path in given["policy"]] == ["strict.yaml", "own.yaml"]
    assert given["policy"][0].is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["review", ""],
        ["review", "-f", ""],
        ["review", "-", "-p", ""],
        ["review", "-", "-i", ""],
        ["review", "-", "--quota", ""],
        ["explain", "-", "-i", ""],
        ["rules", "-p", ""],
        ["serve", "-p", ""],
        ["registration", "render", "-p", ""],
    ],
)
def test_an_empty_name_is_not_the_folder_we_are_in(words: list[str]) -> None:
    """`muster review "$MANIFESTS"`, where nobody set it."""
    result = CliRunner().invoke(app, words, input="")

    assert result.exit_code == 2
    assert "a name is empty" in result.output


@pytest.mark.parametrize("words", [["review"], ["explain", "-i", "nodes.yaml"]])
def test_nothing_to_read_is_wrong_usage(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)

    assert result.exit_code == 2
    assert "name at least one file or folder" in result.output
