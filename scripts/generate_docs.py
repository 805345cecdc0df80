"""docs/rules/: one page per rule and mutation, from its docstring and META, and an index. `--check` only compares.

Run through `make docs`; `make check` fails when a page is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from webhook.reports.pages import FAMILIES, Page, all_pages, markdown

FOLDER = Path(__file__).parent.parent / "docs" / "rules"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is stale")
    check = parser.parse_args().check
    pages = all_pages()
    wanted = {f"{page.id}.md": markdown(page) for page in pages} | {"README.md": _index(pages)}
    present = {path.name: path.read_text() for path in FOLDER.glob("*.md")} if FOLDER.is_dir() else {}
    stale = sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))
    if check:
        for name in stale:
            print(f"docs/rules/{name} is not what the code says: run `make docs`")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        path = FOLDER / name
        if name in wanted:
            path.write_text(wanted[name])
        else:
            path.unlink()
    print(f"docs/rules: {len(wanted)} pages, {len(stale)} changed")
    return 0


def _index(pages: Sequence[Page]) -> str:
    lines = ["# Rules", "", "Made from the code by `make docs`. Each ID is permanent.", ""]
    family = ""
    for page in pages:
        if page.family != family:
            family = page.family
            lines += [
                "",
                f"## {family}xx: {FAMILIES[family]}",
                "",
                "| ID | fault | default | what it checks |",
                "|---|---|---|---|",
            ]
        lines.append(f"| [{page.id}]({page.id}.md) | {page.name} | {page.default} | {page.summary} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
