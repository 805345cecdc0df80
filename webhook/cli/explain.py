"""`muster explain`: the whole reasoning on capacity as a table: per domain how many Pods fit, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

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
from webhook.plan.adapters import plan_of
from webhook.policy.model import Policy
from webhook.sources.manifests import Manifest

DOMAIN_ROWS_MAX = 20


def explain(
    files: Annotated[list[str], typer.Option("--filename", "-f", metavar="FILE|DIR|-", help="manifests")],
    inventory: Annotated[list[str], typer.Option("--inventory", metavar="FILE|DIR", help="nodes and devices")],
    policy: Annotated[list[str] | None, typer.Option(help="policy file, or baseline, strict, staging-dry-run")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="for objects that name none")] = "default",
    every: Annotated[bool, typer.Option("--all", help=f"every domain, not only the {DOMAIN_ROWS_MAX} best")] = False,
) -> None:
    """Show why a gang fits or not, domain by domain. Exit 0: nothing is impossible, 1: something is, 2: unreadable."""
    from webhook.cli.inventories import snapshot_from
    from webhook.cli.policies import policies_from
    from webhook.cli.review import read_inputs

    policies, _ = policies_from(policy or [])
    snapshot = snapshot_from(inventory, policies.policy.spec.cluster)
    assert snapshot is not None  # noqa: S101  the option is required
    manifests, unreadable = read_inputs(files)
    console = Console(highlight=False)
    for bad in unreadable:
        console.print(f"{bad.file}:{bad.line}: cannot be read: {bad.message}", style="red", markup=False)
    rows = None if every else DOMAIN_ROWS_MAX
    impossible = False
    for manifest in manifests:
        for demand in demands_of(manifest, namespace, snapshot, policies.policy):
            demand = with_devices(  # noqa: PLW2901  the same question, with its claims filled in
                demand,
                snapshot,
                claim_specs(manifests),
                on_demand_drivers=policies.policy.spec.parameters.on_demand_drivers,
            )
            result = evaluate(demand, snapshot)
            impossible |= isinstance(result, Infeasible)
            console.print(picture(manifest, demand, result, snapshot, rows))
    if hindrance := snapshot.denial_hindrance():
        console.print(f"No denial would rest on this inventory: {hindrance}.", markup=False)
    raise typer.Exit(2 if unreadable else int(impossible))


def claim_specs(manifests: list[Manifest]) -> Specs:
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
    """The questions that an object raises; () for a kind without Pods or an unreadable shape."""
    group, _ = split_api_version(str(manifest.raw.get("apiVersion") or ""))
    kind = find(group, str(manifest.raw.get("kind")))
    if kind is None or not kind.planned:
        return ()
    try:
        obj = read(manifest.raw, kind.type)
    except ShapeError:
        return ()
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


def picture(manifest: Manifest, demand: Demand, result: Result, snapshot: Snapshot, rows: int | None) -> RenderableType:
    """The answer and its tables."""
    kind = str(manifest.raw.get("kind"))
    parts: list[RenderableType] = [Text(f"\n{manifest.file}:{manifest.line} {kind} {demand.name!r}", style="bold")]
    parts.append(_answer(demand, result))
    if demand.skip is None:
        parts += [_table(leaf, snapshot, rows) for leaf in _shown(demand)]
    return Group(*parts)


def _answer(demand: Demand, result: Result) -> Text:
    if isinstance(result, Infeasible):
        return Text(f"never: {engine_words.text(result)}", style="red")
    if isinstance(result, Feasible):
        placed = ", ".join(f"{one.pod_count} on {one.node}" for one in result.witness.placements[:8])
        more = " and more" if len(result.witness.placements) > 8 else ""
        return Text(f"not provably impossible: {demand.root.needed} fit, for example {placed}{more}", style="green")
    return Text("unknown: " + "; ".join(reason.text for reason in result.reasons), style="yellow")


def _shown(demand: Demand) -> Iterator[LeafDemand]:
    """Each distinct group once. A tree's outer key stands for a leaf that has none of its own."""
    outer = demand.root.topology_key
    seen: dict[LeafDemand, None] = {}
    for leaf in demand.leaves():
        seen.setdefault(replace(leaf, copies=1, topology_key=leaf.topology_key or outer), None)
    yield from seen


def _table(leaf: LeafDemand, snapshot: Snapshot, rows: int | None) -> Table:
    never = list(engine_words.domain_rows(leaf, View(snapshot, Question.NEVER)))
    today = {values: holds for values, _, holds, _ in engine_words.domain_rows(leaf, View(snapshot, Question.NOT_NOW))}
    table = Table(title=f"needs {leaf.needed} Pods in one {leaf.topology_key or 'cluster'}", title_justify="left")
    for heading in (leaf.topology_key or "cluster", "nodes", "Pods that fit", "now", "what limits it"):
        table.add_column(heading, justify="right" if heading in ("nodes", "Pods that fit", "now") else "left")
    for values, node_count, holds, excluded in never[:rows]:
        style = "green" if holds >= leaf.needed else ""
        name = "/".join(values) if values else "(all nodes)"
        scarce = _scarcest(leaf, values, snapshot) if holds else ()
        limits = ", ".join([*scarce, *(f"{one.node_count} {one.text}" for one in excluded)])
        table.add_row(name, str(node_count), str(holds), str(today.get(values, 0)), limits, style=style)
    if rows is not None and len(never) > rows:
        table.caption = f"and {len(never) - rows} more (--all)"
    return table


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
