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
from webhook.objects.words import nearest

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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            guess = nearest(args[0], COMMANDS)
            hint = f'did you mean "{guess}"?' if guess else f"the commands are {', '.join(COMMANDS)}"
            ctx.fail(f'no such command "{args[0]}"; {hint}')
        return super().resolve_command(ctx, args)

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
    # As kubectl and helm have it; commands inherit it.
    context_settings={"help_option_names": ["--help", "-h"]},
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
