"""How often engine and scheduler agree, per feature, as a table in docs/judge-scheduler.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.judge.engine import FEASIBLE, NEVER, UNKNOWN
from tests.judge.pairs import Pair

DOCUMENT = Path(__file__).parents[2] / "docs" / "judge-scheduler.md"
_TEXT = """# Judge 1: the real kube-scheduler

`make prove` draws random inventories and plans, asks the engine of webhook/feasibility, and lets kube-scheduler 1.37.2
try each plan on an otherwise empty cluster (tests/judge/). *Placed* means bound. *Not placed* means unbound after the
scheduler refused in {never} rounds where the engine says never, {feasible} where it says feasible, {unknown} where it is not sure: it is greedy and
takes nothing back, so that is evidence, not proof. The quorum of each plan is drawn next to the engine's own edge: about half
just fit or just do not. One number has to be 0: **never and placed**, a false "impossible".

Last run: {date}, seed `{seed}`, {pairs} pairs, {refused} more refused by the API server. {scenarios}

| engine | placed | not placed |
|---|---|---|
| never | **{never_placed}** | {never_not} |
| feasible | {feasible_placed} | {feasible_not} (the scheduler is greedy) |
| unknown | {unknown_placed} | {unknown_not} |

The same pairs as objects through Muster's whole pipeline (the Job; or each PodGroup, and one Pod of each template):
{denied} capacity denials, none of an object that the scheduler placed.

Per feature (a pair has several):

| feature | never, placed | never, not | feasible, placed | feasible, not | unknown, placed | unknown, not |
|---|---|---|---|---|---|---|
{rows}
"""
_SCENARIOS = (
    "Beside them, tests/judge/test_scenarios.py: a Pod template changed by a MutatingAdmissionPolicy, the topology gate "
    "off in the scheduler only, allocatable that drops to 0 and returns."
)
_CELLS = tuple((word, placed) for word in (NEVER, FEASIBLE, UNKNOWN) for placed in (True, False))


@dataclass
class Agreement:
    """Counts of questions by (engine's word, placed), in all and per feature."""

    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    by_feature: dict[str, Counter[tuple[str, bool]]] = field(default_factory=dict)
    pair_count: int = 0
    refused: int = 0
    denied: int = 0

    def add(self, pair: Pair, answers: tuple[str, ...], placed: tuple[bool, ...]) -> None:
        self.pair_count += 1
        for cell in zip(answers, placed, strict=True):
            self.counts[cell] += 1
            for feature in pair.features:
                self.by_feature.setdefault(feature, Counter())[cell] += 1

    def line(self) -> str:
        """One line for the terminal."""
        cells = ", ".join(f"{word}/{'placed' if p else 'not placed'} {self.counts[word, p]}" for word, p in _CELLS)
        return f"{self.pair_count} pairs: {cells}; refused by the API server: {self.refused}; denied by Muster: {self.denied}"

    def document(self, seed: str, date: str, rounds: dict[str, int]) -> str:
        rows = [
            f"| {feature} | " + " | ".join(str(counts[cell]) for cell in _CELLS) + " |"
            for feature, counts in sorted(self.by_feature.items())
        ]
        return _TEXT.format(
            date=date,
            seed=seed,
            pairs=self.pair_count,
            refused=self.refused,
            **rounds,
            scenarios=_SCENARIOS,
            rows="\n".join(rows),
            denied=self.denied,
            **{f"{word}_{'placed' if placed else 'not'}": self.counts[word, placed] for word, placed in _CELLS},
        )
