"""`python -m tests.live.shown`: plays the items of tests/live/shown/ and writes docs/what-1.37-does.md.

The run is tests/live/shown_run.py, which tests/live/test_shown.py asserts on.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.shown_run import ERROR, GATES, SECTIONS, Item, Json, Record, as_yaml, load_items, run

PAGE = Path(__file__).parents[2] / "docs" / "what-1.37-does.md"
_HEAD = """\
# What 1.37 does, without Muster and with it

Recorded on {date:%Y-%m-%d} by `python -m tests.live.shown`, which wrote this page; `tests/live/test_shown.py` checks the
same on each run. A real control plane of Kubernetes 1.37.2 (etcd 3.7.0, kube-apiserver, kube-controller-manager,
kube-scheduler, kubectl), with the gates {gates}. Two racks of four nodes and one node in no rack; no kubelet runs, so a
Pod that is bound was scheduled. Muster's policy declares the gates and is otherwise empty.

What is shown is what a terminal shows. Without Muster all objects were created together and watched for the time given;
"bound" counts Pods with a node, "in a group" those that name a PodGroup; events are the warnings, without those of Pods that were bound in the end.
"""


def page(records: Sequence[Record], date: datetime) -> str:
    """docs/what-1.37-does.md."""
    head = _HEAD.format(date=date, gates=", ".join(sorted(GATES)))
    parts = ["\n\n".join(textwrap.fill(part, 120, break_on_hyphens=False) for part in head.split("\n\n")) + "\n"]
    for section, heading in SECTIONS.items():
        parts.append(f"## {heading}\n")
        parts += [_shown(record) for record in records if record.item.section == section]
    return "\n".join(parts)


def _shown(record: Record) -> str:
    item = record.item
    rules = ", ".join(f"[{rule}](rules/{rule}.md)" for rule in item.rules)
    case = f"; case {item.case}" if item.case else ""
    lines = [f"### {_heading(item.title)}\n", f"{item.why} {'Rules: ' if rules else 'No rule'}{rules}{case}.\n"]
    if item.objects:
        lines.append(f"```yaml\n{_manifests(item.objects)}```\n")
    if item.surroundings:
        there = ", ".join(f"{raw['kind']} {raw['metadata'].get('name')!r}" for raw in item.surroundings)
        lines.append(f"There already: {there}. {item.told}\n".rstrip() + "\n")
    elif item.told:
        lines.append(f"{item.told}\n")
    if item.ways:
        lines += ["**Without Muster**\n", *_shown_ways(record)]
    else:
        lines += ["**Without Muster**\n", _terminal(_command(item), record.before), *_shown_facts(record)]
    lines += ["**With Muster**\n", _terminal(_command(item), record.after)]
    if item.review:
        lines.append(_terminal(f"muster review {item.name}.yaml --policy policy.yaml", record.review))
    return "\n".join(lines)


def _shown_events(events: Sequence[str]) -> Iterator[str]:
    """Two of each reason: retries write the same again with another name."""
    for reason, same in itertools.groupby(events, key=lambda line: line.partition(" ")[0]):
        lines = list(same)
        yield from (f"- event {line}" for line in lines[:2])
        if len(lines) > 2:
            yield f"- and {len(lines) - 2} more events {reason}"


def _heading(title: str) -> str:
    """With a capital, unless it begins with the name of a field."""
    first, _, rest = title.partition(" ")
    return f"{first.capitalize()} {rest}" if first.isalpha() and first.islower() else title


def _shown_ways(record: Record) -> Iterator[str]:
    for way, (answer, stored) in record.ways.items():
        kept = "nothing is stored" if stored is None else "stored without the field"
        yield f"{way}: {kept}.\n\n```\n{answer}\n```\n"


def _shown_facts(record: Record) -> Iterator[str]:
    facts = record.facts
    if not record.item.then and ERROR.search(record.before):
        return
    yield f"After {record.seconds:.0f} s:\n"
    yield from (f"- `kubectl get jobs` (name, status, completions): {line}" for line in facts.jobs)
    ended = f", {facts.finished} of them ended" if facts.finished else ""
    pods = f"{facts.pods} ({facts.bound} bound{ended}, {facts.grouped} in a group)" if facts.pods else "none"
    yield f"- Pods: {pods}"
    yield f"- PodGroups: {'; '.join(facts.groups) or 'none'}"
    if facts.groups:
        yield from (f"- condition of {line}" for line in facts.conditions)
    if facts.groups and not facts.conditions:
        yield "- conditions: none"
    yield from (f"- claim {line}" for line in facts.claims)
    yield from _shown_events(facts.events)
    if not facts.events:
        yield "- events: none"
    yield from (f"- what the API server tells the controller: {line}" for line in record.refusals)
    if "log" in record.item.without:
        yield from (f"- only in the Job controller's log: {line}" for line in facts.log[:1])
    yield ""


def _command(item: Item) -> str:
    ((verb, given),) = item.do.items()
    if verb == "create":
        return "kubectl create -f -"
    kind, _, name = (given if verb == "delete" else given["object"]).partition("/")
    words = f"kubectl {verb} {kind.lower()} {name or 'NAME'}"
    return f"{words} --wait=false" if verb == "delete" else f"{words} --type=merge -p '{json.dumps(given['with'])}'"


def _terminal(command: str, answer: str) -> str:
    return f"```\n$ {command}\n{answer.strip()}\n```\n"


def _manifests(objects: Sequence[Json]) -> str:
    return "---\n".join(as_yaml(raw) for raw in objects)


def main() -> int:
    """Runs everything and writes the page; 1 if something was seen that the items do not say, and no page then."""
    with tempfile.TemporaryDirectory(prefix="shown-") as directory:
        options = ControlPlaneOptions(feature_gates=GATES, directory=Path(directory) / "cluster")
        with ControlPlane(options) as cluster:
            records = run(cluster, Path(directory), load_items())
    wrong = {record.item.name: record.problems() for record in records if record.problems()}
    for name, problems in wrong.items():
        print(name, *problems, sep="\n  ", file=sys.stderr)
    if wrong:
        return 1
    PAGE.write_text(page(records, datetime.now(UTC)))
    print(f"wrote {PAGE.name}: {len(records)} items", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
