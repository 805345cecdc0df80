"""The policy of an offline command: files, the name of a shipped one, or none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from webhook.admission.known import KNOWN
from webhook.cli.options import SHIPPED, policy_path
from webhook.policy.load import LoadedPolicies, PolicyError, default_policies, load_policies


def policies_from(names: Sequence[str]) -> tuple[LoadedPolicies, str]:
    """(policies, their name). Exits with 2 and every fault where a file cannot be used."""
    if not names:
        loaded = default_policies()
        return loaded, loaded.policy.metadata.name
    paths = [policy_path(name) for name in names]
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
