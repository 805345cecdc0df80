"""The engine's word on a pair."""

from __future__ import annotations

from tests.judge import pairs
from tests.judge.pairs import Pair, Raw
from webhook.feasibility.check import faults
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import DEFAULT_PROFILE, Profile
from webhook.feasibility.result import Feasible, Infeasible, Result
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Snapshot

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
    return build([*nodes, pairs.RUNTIME_CLASS], Settings(is_file=True))
