"""`muster explain`: the whole reasoning on capacity as a table: per domain how many Pods fit, and what limits it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from webhook.cli.options import Files, Inputs, Inventory, Namespace, Output, PolicyNames, given
from webhook.feasibility import explain as engine_words
from webhook.feasibility.bounds import View
from webhook.feasibility.demand import demands
from webhook.feasibility.devices import ClaimKey, Specs, with_devices
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import Demand, LeafDemand, Profile
from webhook.feasibility.result import Feasible, Infeasible, Result
from webhook.inventory.snapshot import Question, Snapshot
from webhook.objects.kinds import find, split_api_version
from webhook.objects.read import ShapeError, read
from webhook.objects.words import plural
from webhook.plan.adapters import plan_of
from webhook.policy.model import Policy
from webhook.reports.entry import Unreadable
from webhook.sources.manifests import Manifest

DOMAIN_ROWS_MAX = 20
# Wider than any row: what goes into a file or a pipe is read by programs and editors, which fold it themselves.
UNCUT_WIDTH = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the engine says of one question that a manifest raises."""

    manifest: Manifest
    demand: Demand
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One domain: its values ("" for the whole cluster), how many nodes it has, how many Pods of the group it could
    hold and holds beside what runs now, and what limits it."""

    domain: str
    node_count: int
    fits: int
    fits_now: int
    limits: tuple[str, ...]


def explain(
    words: Inputs = None,
    files: Files = None,
    inventory: Inventory = None,
    policy: PolicyNames = None,
    namespace: Namespace = "default",
    output: Output = "text",
    every: Annotated[bool, typer.Option("--all", help=f"every domain, not only the {DOMAIN_ROWS_MAX} best")] = False,
) -> None:
    """Show why a gang fits or not, domain by domain.

    Exit 0: nothing is impossible, 1: something is, 2: something unreadable, or wrong usage.
    """
    from webhook.cli.inventories import snapshot_from
    from webhook.cli.policies import policies_from
    from webhook.cli.review import read_inputs

    inputs = given(words, files)
    policies, _ = policies_from(policy or [])
    snapshot = snapshot_from(inventory or [], policies.policy.spec.cluster)
    if snapshot is None:
        print(
            "give the nodes by --inventory FILE: `muster inventory export` and `kubectl get "
            "nodes,resourceslices,deviceclasses -o yaml` print them",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    manifests, unreadable = read_inputs(inputs)
    answers, shapeless = answers_for(manifests, namespace, snapshot, policies.policy)
    unreadable += shapeless
    rows = None if every else DOMAIN_ROWS_MAX
    if output == "json":
        print(json.dumps(_as_dict(answers, unreadable, snapshot, rows), indent=2, ensure_ascii=False))
    else:
        _print(answers, unreadable, snapshot, rows)
    raise typer.Exit(2 if unreadable else int(any(isinstance(one.result, Infeasible) for one in answers)))


def answers_for(
    manifests: Sequence[Manifest], namespace: str, snapshot: Snapshot, policy: Policy
) -> tuple[list[Answer], list[Unreadable]]:
    """One for each question that the manifests raise, in their order; and the objects whose shape cannot be read."""
    specs = claim_specs(manifests)
    drivers = policy.spec.parameters.on_demand_drivers
    answers: list[Answer] = []
    shapeless: list[Unreadable] = []
    for manifest in manifests:
        try:
            for asked in demands_of(manifest, namespace, snapshot, policy):
                demand = with_devices(asked, snapshot, specs, on_demand_drivers=drivers)
                answers.append(Answer(manifest=manifest, demand=demand, result=evaluate(demand, snapshot)))
        except ShapeError as error:
            line = manifest.line_of(error.field)
            shapeless.append(Unreadable(file=manifest.file, line=line, message=f"{error}; {error.fix}"))
    return answers, shapeless


def claim_specs(manifests: Sequence[Manifest]) -> Specs:
    """The specs of ResourceClaims and ResourceClaimTemplates among the manifests, whatever namespace they name."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for manifest in manifests:
        kind, metadata, spec = (manifest.raw.get(key) for key in ("kind", "metadata", "spec"))
        if isinstance(metadata, dict) and isinstance(spec, dict):
            inner = spec.get("spec") if kind == "ResourceClaimTemplate" else spec
            found[str(kind), str(metadata.get("name"))] = inner if isinstance(inner, dict) else {}

    def spec_of(key: ClaimKey) -> Mapping[str, Any] | None:
        _, claim, template = key
        return found.get(("ResourceClaimTemplate", template) if template else ("ResourceClaim", claim or ""))

    return spec_of


def demands_of(manifest: Manifest, namespace: str, snapshot: Snapshot, policy: Policy) -> tuple[Demand, ...]:
    """The questions that an object raises; () for a kind without Pods. Raises ShapeError."""
    group, _ = split_api_version(str(manifest.raw.get("apiVersion") or ""))
    kind = find(group, str(manifest.raw.get("kind")))
    if kind is None or not kind.planned:
        return ()
    obj = read(manifest.raw, kind.type)
    metadata = manifest.raw.get("metadata")
    where = str((metadata if isinstance(metadata, dict) else {}).get("namespace") or namespace)
    plan = plan_of(kind.kind, str(manifest.raw["apiVersion"]), where, obj)
    gates = policy.spec.cluster.feature_gates
    profile = Profile(
        schedulers=policy.spec.cluster.schedulers,
        topology=gates.get("TopologyAwareWorkloadScheduling", True),
        gangs=gates.get("GenericWorkload", True),
    )
    return demands(plan, profile=profile, runtime_overheads=snapshot.runtime_overheads)


# ---- as text ------------------------------------------------------------------------------------------------------
def _print(answers: Sequence[Answer], unreadable: Sequence[Unreadable], snapshot: Snapshot, rows: int | None) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = UNCUT_WIDTH
    for bad in unreadable:
        console.print(str(bad), style="red", markup=False)
    for answer in answers:
        console.print(_picture(answer, snapshot, rows))
    if not answers and not unreadable:
        console.print("nothing here makes Pods that kube-scheduler places", markup=False)
    if answers and not any(node.used for node in snapshot.nodes):
        console.print(
            'The column "now" is as if nothing ran: the inventory has no Pods (`muster inventory export --pods` has).',
            markup=False,
        )
    if hindrance := snapshot.denial_hindrance():
        console.print(f"No denial would rest on this inventory: {hindrance}.", markup=False)


def _picture(answer: Answer, snapshot: Snapshot, rows: int | None) -> RenderableType:
    """The answer and its tables."""
    manifest, demand, result = answer.manifest, answer.demand, answer.result
    kind = str(manifest.raw.get("kind"))
    style = {"never": "red", "possible": "green"}.get(_word(result), "yellow")
    parts: list[RenderableType] = [Text(f'\n{manifest.file}:{manifest.line} {kind} "{demand.name}"', style="bold")]
    parts.append(Text(_words(demand, result), style=style))
    if demand.skip is None:
        tables = [(leaf, list(_rows(leaf, snapshot))) for leaf in _shown(demand)]
        parts += [_table(leaf, found, rows) for leaf, found in tables if found]
    return Group(*parts)


def _word(result: Result) -> str:
    if isinstance(result, Infeasible):
        return "never"
    return "possible" if isinstance(result, Feasible) else "unknown"


def _words(demand: Demand, result: Result) -> str:
    if isinstance(result, Infeasible):
        return f"never: {engine_words.text(result)}"
    if isinstance(result, Feasible):
        placed = ", ".join(f"{one.pod_count} on {one.node}" for one in result.witness.placements[:8])
        more = " and more" if len(result.witness.placements) > 8 else ""
        return f"not provably impossible: {demand.root.needed} fit, for example {placed}{more}"
    return "unknown: " + "; ".join(reason.text for reason in result.reasons)


def _shown(demand: Demand) -> Iterator[LeafDemand]:
    """Each distinct group once. A tree's outer key stands for a leaf that has none of its own."""
    outer = demand.root.topology_key
    seen: dict[LeafDemand, None] = {}
    for leaf in demand.leaves():
        seen.setdefault(replace(leaf, copies=1, topology_key=leaf.topology_key or outer), None)
    yield from seen


def _table(leaf: LeafDemand, found: Sequence[Row], rows: int | None) -> Table:
    where = f"one {leaf.topology_key}" if leaf.topology_key else "the cluster"
    table = Table(title=f"needs {plural(leaf.needed, 'Pod')} in {where}", title_justify="left")
    for heading in (leaf.topology_key or "cluster", "nodes", "Pods that fit", "now", "what limits it"):
        is_number = heading in ("nodes", "Pods that fit", "now")
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in found[:rows]:
        style = "green" if row.fits >= leaf.needed else ""
        numbers = (str(row.node_count), str(row.fits), str(row.fits_now))
        table.add_row(Text(row.domain or "(all nodes)"), *numbers, Text(", ".join(row.limits)), style=style)
    if rows is not None and len(found) > rows:
        table.caption = f"and {len(found) - rows} more (--all)"
    return table


# ---- as JSON ------------------------------------------------------------------------------------------------------
def _as_dict(
    answers: Sequence[Answer], unreadable: Sequence[Unreadable], snapshot: Snapshot, rows: int | None
) -> dict[str, Any]:
    """{objects: [{file, line, kind, name, answer, text, groups: [{needed, topologyKey, domains: [...]}]}],
    denialHindrance, unreadable}. answer: never, possible or unknown."""
    return {
        "objects": [
            {
                "file": one.manifest.file,
                "line": one.manifest.line,
                "kind": str(one.manifest.raw.get("kind")),
                "name": one.demand.name,
                "answer": _word(one.result),
                "text": _words(one.demand, one.result),
                "groups": [
                    {
                        "needed": leaf.needed,
                        "topologyKey": leaf.topology_key,
                        "domains": [
                            {
                                "domain": row.domain,
                                "nodes": row.node_count,
                                "fits": row.fits,
                                "now": row.fits_now,
                                "limits": list(row.limits),
                            }
                            for row in list(_rows(leaf, snapshot))[:rows]
                        ],
                    }
                    for leaf in (_shown(one.demand) if one.demand.skip is None else ())
                ],
            }
            for one in answers
        ],
        "denialHindrance": snapshot.denial_hindrance(),
        "unreadable": [{"file": bad.file, "line": bad.line, "message": bad.message} for bad in unreadable],
    }


# ---- domain by domain ---------------------------------------------------------------------------------------------
def _rows(leaf: LeafDemand, snapshot: Snapshot) -> Iterator[Row]:
    """Fullest first."""
    now = {values: holds for values, _, holds, _ in engine_words.domain_rows(leaf, View(snapshot, Question.NOT_NOW))}
    for values, node_count, holds, excluded in engine_words.domain_rows(leaf, View(snapshot, Question.NEVER)):
        scarce = _scarcest(leaf, values, snapshot) if holds else ()
        limits = (*scarce, *(f"{one.node_count} {one.text}" for one in excluded))
        fits_now = now.get(values, 0)
        yield Row(domain="/".join(values), node_count=node_count, fits=holds, fits_now=fits_now, limits=limits)


def _scarcest(leaf: LeafDemand, values: tuple[str, ...], snapshot: Snapshot) -> Iterator[str]:
    """The resource of which the domain's nodes hold fewest Pods, for one kind of Pod; nothing where they hold none."""
    if len(leaf.pods) != 1:
        return
    nodes = [
        node.capacity(Question.NEVER)
        for node in snapshot.nodes
        if leaf.topology_key is None or (node.labels.get(leaf.topology_key),) == values
    ]
    asked = (("pods", 1), *leaf.pods[0].request)
    rooms = [(sum(have.get(name, 0) // amount for have in nodes), name, amount) for name, amount in asked]
    room, name, amount = min(rooms)
    if room:
        yield f"{engine_words.amount_text(name, amount)} of {name} per Pod"
