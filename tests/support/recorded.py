"""Sections of a document that long runs write (`make prove`): each run replaces its own and leaves the others alone."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path


def write_section(document: Path, heading: str, body: str) -> None:
    """The text under `## heading`, with the day on which it was recorded; the document's other sections stay. A new one
    goes to the end."""
    text = document.read_text()
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    cores = os.cpu_count()
    section = f"## {heading}\n\nRecorded on {date}, {cores} cores shared with other work.\n\n{body.strip()}\n"
    known = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if known.search(text) is None:
        text = f"{text.rstrip()}\n\n## {heading}\n"
    new = known.sub(lambda _: section + "\n", text)
    document.write_text(new.rstrip() + "\n")
