"""Pages made from the code: docs/rules/ (one page per rule and mutation, from its docstring and META, and an index), and
docs/operations/settings-and-metrics.md. `--check` only compares.

Run through `make docs`; `make check` fails when a page is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import operations_page

from webhook.reports.pages import FAMILIES, Page, all_pages, markdown

DOCS = Path(__file__).parent.parent / "docs"
OPERATIONS = "operations/settings-and-metrics.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is stale")
    check = parser.parse_args().check
    pages = all_pages()
    wanted = {f"rules/{page.id}.md": markdown(page) for page in pages}
    wanted |= {"rules/README.md": _index(pages), OPERATIONS: operations_page.page()}
    files = [*(DOCS / "rules").glob("*.md"), DOCS / OPERATIONS]
    present = {path.relative_to(DOCS).as_posix(): path.read_text() for path in files if path.is_file()}
    stale = sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))
    if check:
        for name in stale:
            print(f"docs/{name} is not what the code says: run `make docs`")
        return 1 if stale else 0
    for name in stale:
        path = DOCS / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name])
        else:
            path.unlink()
    print(f"docs: {len(wanted)} pages, {len(stale)} changed")
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
