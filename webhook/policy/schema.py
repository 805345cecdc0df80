"""The JSON schema of policy files, for editors and CI: policies/policy.schema.json is made from the model.

    python -m webhook.policy.schema           # write it
    python -m webhook.policy.schema --check   # exit 1 where it is not current

It says what shapes there are; what a name refers to (a rule, a tier) only `load_policies` knows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from webhook.policy.model import Policy, PolicyPart

SCHEMA_FILE = Path("policies/policy.schema.json")

_DOCUMENT: TypeAdapter[Policy | PolicyPart] = TypeAdapter(Annotated[Policy | PolicyPart, Field(discriminator="kind")])


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of one policy file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Muster policy, muster.dev/v1alpha1",
        **_closed(_DOCUMENT.json_schema(by_alias=True)),
    }


def _closed(part: Any) -> Any:
    """pydantic says which keys a mapping of rule IDs may have, but not that it may have no others."""
    if isinstance(part, dict):
        closed = {key: _closed(value) for key, value in part.items()}
        return closed | {"additionalProperties": False} if "patternProperties" in part else closed
    return [_closed(item) for item in part] if isinstance(part, list) else part


def schema_text() -> str:
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    """0: written, or current. 1: not current. 2: wrong usage."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m webhook.policy.schema [--check]\n")
        return 2
    if not arguments:
        SCHEMA_FILE.parent.mkdir(exist_ok=True)
        SCHEMA_FILE.write_text(schema_text())
        return 0
    current = SCHEMA_FILE.read_text() if SCHEMA_FILE.is_file() else ""
    if current != schema_text():
        sys.stderr.write(f"{SCHEMA_FILE} is not current; run: python -m webhook.policy.schema\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
