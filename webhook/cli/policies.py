"""The policy of an offline command: files, the name of a shipped one, or none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from webhook.admission.known import KNOWN
from webhook.policy.load import LoadedPolicies, PolicyError, default_policies, load_policies

SHIPPED = ("baseline", "strict", "staging-dry-run")


def shipped_folder() -> Path:
    """policies/: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parents[1]
    inside = package / "_policies"
    return inside if inside.is_dir() else package.parent / "policies"


def policies_from(names: Sequence[str]) -> tuple[LoadedPolicies, str]:
    """(policies, their name). Exits with 2 and every fault where a file cannot be used."""
    if not names:
        loaded = default_policies()
        return loaded, loaded.policy.metadata.name
    paths = [shipped_folder() / f"{name}.yaml" if name in SHIPPED else Path(name) for name in names]
    try:
        loaded = load_policies(paths, known=KNOWN, today=datetime.now(UTC).date())
    except PolicyError as error:
        print(error, file=sys.stderr)
        if any(path.suffix == "" and not path.exists() for path in paths):
            print(f"policies that go by name: {', '.join(SHIPPED)}", file=sys.stderr)
        raise typer.Exit(2) from None
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return loaded, loaded.policy.metadata.name
