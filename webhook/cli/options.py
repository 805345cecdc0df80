"""Options that several commands have. One name, one short form and one meaning everywhere; a test compares them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from webhook.cluster.connection import Connection

# Policies that go by name.
SHIPPED = ("baseline", "strict", "staging-dry-run")

INPUT_METAVAR = "FILE|DIR|-"


def named(words: list[str] | None) -> list[str] | None:
    """Wrong usage where a name is empty: to Python it is the folder we are in, to a script a variable that is not set."""
    if words and "" in words:
        raise typer.BadParameter("a name is empty")
    return words


# What to judge: as words of their own, or after -f as kubectl has it. Read both by `given`.
Inputs = Annotated[
    list[str] | None,
    typer.Argument(metavar=INPUT_METAVAR, callback=named, help="manifests, folders, or - for standard input"),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        callback=named,
        help="the same as a word without -f; repeatable",
    ),
]
PolicyNames = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", callback=named, help=f"policy file, folder, or {', '.join(SHIPPED)}; repeatable"),
]
Inventory = Annotated[
    list[str] | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="FILE|DIR",
        callback=named,
        help="nodes and devices: kubectl get nodes,resourceslices,deviceclasses -o yaml; repeatable",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="for objects that name none")]
# Muster's own namespace. `--namespace` is its older name in these commands; in others that is the namespace of what is judged.
MUSTER_NAMESPACE = ("--muster-namespace", "--namespace")
Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="how the answer is written")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="default: $KUBECONFIG or ~/.kube/config")]


def shipped_folder() -> Path:
    """policies/: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parents[1]
    inside = package / "_policies"
    return inside if inside.is_dir() else package.parent / "policies"


def policy_path(name: str) -> Path:
    """A file or folder, or the file of a shipped policy."""
    return shipped_folder() / f"{name}.yaml" if name in SHIPPED else Path(name)


def kubeconfig_file(given: Path | None) -> Path:
    """The file that --kubeconfig names, else the first of $KUBECONFIG, else kubectl's own."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return given or Path(named or Path.home() / ".kube" / "config")


def connection_to(kubeconfig: Path | None, purpose: str) -> Connection:
    """The cluster of the kubeconfig. Exits with 2 where the file says of none; purpose: "look at"."""
    from webhook.cluster.connection import ConfigError, Connection  # slow: only for commands that need a cluster

    file = kubeconfig_file(kubeconfig)
    try:
        return Connection(file)
    except (ConfigError, OSError, ValueError) as error:
        hint = "" if file.is_file() else "; give --kubeconfig FILE, or set KUBECONFIG"
        print(f"no cluster to {purpose}: {file}: {error}{hint}", file=sys.stderr)
        raise typer.Exit(2) from None


def given(words: list[str] | None, files: list[str] | None) -> list[str]:
    """The inputs of a command. Wrong usage where there are none."""
    inputs = [*(words or ()), *(files or ())]
    if not inputs:
        raise typer.BadParameter("name at least one file or folder, or - for standard input", param_hint=INPUT_METAVAR)
    return inputs
