"""docs/rules/: one page per rule and mutation, from its docstring and META, and an index. `--check` only compares.

Run through `make docs`; `make check` fails when a page is stale.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from webhook.mutations.catalogue import MUTATIONS
from webhook.mutations.meta import Mutation
from webhook.rules.catalogue import CATALOGUE
from webhook.rules.meta import Rule

FOLDER = Path(__file__).parent.parent / "docs" / "rules"
FAMILIES = {
    "1": "Shape, minCount and barrier",
    "2": "References and claims",
    "3": "Namespaces, features, versions, ownership and writers",
    "4": "Tiers and quota",
    "5": "Topology and capacity",
    "9": "Mutations",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is stale")
    check = parser.parse_args().check
    wanted = {f"{rule.META.id}.md": _rule_page(rule) for rule in CATALOGUE}
    wanted |= {f"{mutation.META.id}.md": _mutation_page(mutation) for mutation in MUTATIONS}
    wanted["README.md"] = _index()
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


def _rule_page(rule: Rule) -> str:
    meta = rule.META
    rows = {
        "Kinds": ", ".join(sorted(meta.kinds)) if "*" not in meta.kinds else "all that Muster reads",
        "Operations": ", ".join(sorted(meta.operations)),
        "Default action": str(meta.default_action) if meta.default_action else "off",
        "Feature gate": meta.gate or "none",
        "Status": f"{meta.status} since {meta.since}",
    }
    if meta.also_checked_by_apiserver:
        rows["API server"] = "refuses it too, before any webhook: seen in `muster review` only"
    if meta.review_only:
        rows["Where"] = "`muster review` only"
    return _page(f"{meta.id} {meta.name}", meta.summary, rows, inspect.getdoc(rule) or "")


def _mutation_page(mutation: Mutation) -> str:
    meta = mutation.META
    rows = {
        "Kinds": ", ".join(sorted(meta.kinds)),
        "Operations": "CREATE",
        "Default": f"off; `mutations: {{{meta.id}: true}}` turns it on",
        "Feature gate": meta.gate or "none",
    }
    return _page(f"{meta.id} {meta.name}", meta.summary, rows, inspect.getdoc(mutation) or "")


def _page(title: str, summary: str, rows: dict[str, str], doc: str) -> str:
    _, _, body = doc.partition("\n")  # the first line is the title again
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return f"# {title}\n\n{summary}\n\n| | |\n|---|---|\n{table}\n\n{body.strip()}\n"


def _index() -> str:
    lines = ["# Rules", "", "Made from the code by `make docs`. Each ID is permanent.", ""]
    family = ""
    for entry in (*CATALOGUE, *MUTATIONS):
        meta = entry.META
        if meta.id[3] != family:
            family = meta.id[3]
            lines += ["", f"## {family}xx: {FAMILIES[family]}", "", "| ID | fault | default | what it checks |", "|---|---|---|---|"]
        action = getattr(meta, "default_action", "opt-in") or "off"
        lines.append(f"| [{meta.id}]({meta.id}.md) | {meta.name} | {action} | {meta.summary} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
