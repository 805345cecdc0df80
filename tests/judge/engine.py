"""The engine's word on a pair."""

from __future__ import annotations

from tests.judge import pairs
from tests.judge.pairs import Pair, Raw
from webhook.feasibility.check import faults
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import DEFAULT_PROFILE, Profile
from webhook.feasibility.result import Feasible, Infeasible, Result
from webhook.inventory.snapshot import LIFECYCLE_TAINTS, REPELLING_EFFECTS, Node, Snapshot, Taint
from webhook.objects.quantity import Quantity

NEVER, FEASIBLE, UNKNOWN = "never", "feasible", "unknown"


def answers(pair: Pair, profile: Profile = DEFAULT_PROFILE) -> tuple[str, ...]:
    """The engine's word on each question that the plan raises. Raises AssertionError where a witness is none."""
    inventory = snapshot(pair.nodes)
    overheads = inventory.runtime_overheads
    result = []
    for demand in demands(pairs.plan(pair), profile=profile, runtime_overheads=overheads):
        found = evaluate(demand, inventory, with_explanation=False)
        if isinstance(found, Feasible):
            wrong = faults(demand, found.witness.placements, inventory)
            assert not wrong, f"{pair.name} ({pair.seed}): a witness that is none: {wrong}"
        result.append(word(found))
    return tuple(result)


def answer(pair: Pair) -> str:
    """One word for the whole pair: "never" only if it is the word on every question."""
    words = set(answers(pair))
    return words.pop() if len(words) == 1 else FEASIBLE if FEASIBLE in words else UNKNOWN


def word(found: Result) -> str:
    return NEVER if isinstance(found, Infeasible) else FEASIBLE if isinstance(found, Feasible) else UNKNOWN


def snapshot(nodes: tuple[Raw, ...]) -> Snapshot:
    """The inventory of a pair: its Nodes, and the one RuntimeClass there is."""
    overhead = {name: Quantity.parse(text) for name, text in pairs.RUNTIME_CLASS["overhead"]["podFixed"].items()}
    return Snapshot(
        version="judge",
        nodes=tuple(_node(raw) for raw in nodes),
        runtime_overheads={pairs.RUNTIME_CLASS["metadata"]["name"]: overhead},
    )


def _node(raw: Raw) -> Node:
    amounts = {}
    for name, text in raw["status"]["allocatable"].items():
        quantity = Quantity.parse(text)
        amounts[name] = quantity.milli_value() if name == "cpu" else quantity.value()
    taints = tuple(
        Taint(taint["key"], taint.get("value", ""), taint["effect"])
        for taint in raw["spec"].get("taints") or ()
        if taint["effect"] in REPELLING_EFFECTS and taint["key"] not in LIFECYCLE_TAINTS
    )
    return Node(name=raw["metadata"]["name"], allocatable=amounts, labels=raw["metadata"]["labels"], taints=taints)
