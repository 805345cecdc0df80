"""The `muster` command. Each subcommand is one module, imported only when it is run: `muster review` needs no gunicorn.

A new command is a line in COMMANDS: its name, its module, and there a function of the same name (or, for a family of
commands, a `typer.Typer`) under that attribute.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from webhook import __version__

COMMANDS: dict[str, str] = {
    "demo": "webhook.cli.demo:demo",
    "doctor": "webhook.cli.doctor:doctor",
    "explain": "webhook.cli.explain:explain",
    "inventory": "webhook.cli.inventory:app",
    "registration": "webhook.cli.registration:app",
    "review": "webhook.cli.review:review",
    "rules": "webhook.cli.rules:rules",
    "serve": "webhook.cli.serve:serve",
}


class _Lazy(TyperGroup):
    """Finds a command in COMMANDS by name and imports it then."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  click's signature
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        target = getattr(importlib.import_module(module), attribute)
        if not isinstance(target, typer.Typer):
            family = typer.Typer(add_completion=False)
            family.command(cmd_name)(target)
            target = family
        command = typer.main.get_command(target)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="muster",
    cls=_Lazy,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Admission webhook for Kubernetes 1.37 Workload-Aware Scheduling: does this gang pass muster?",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="print the version and stop")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the `muster` script."""
    app()


if __name__ == "__main__":
    main()
