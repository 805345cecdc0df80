"""The records of judges 2 and 3: tables in docs/, written by `make prove`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.properties.exact import Truth

DOCS = Path(__file__).parents[2] / "docs"

_BRUTE_FORCE = """# Judge 2: brute force

`make prove` draws small clusters and demands with hypothesis and tries every placement of every Pod, one by one
(tests/properties/brute.py, which shares no code with the engine). One number has to be 0: **never, and a placement exists**.
Every *feasible* comes with a placement that an independent checker (webhook/feasibility/check.py) accepts.

Last run: {date}, seed `{seed}`, {count} cases that were judged both ways.

| engine | a placement exists | none exists |
|---|---|---|
{rows}

The other properties of tests/properties/test_engine_against_brute_force.py ran with {examples} examples each and the same seed,
and hold: more capacity never turns feasible into never, nor does leaving a constraint out; what is free is never more
than what there is; each suggested minCount has a placement, and one more has none; nodes whose labels are not known yet and
resources that a DeviceClass may serve never make a false never.
"""

_SOLVER = """# Judge 3: an exact solver

`make prove` draws mid-size cases (12 to 40 nodes, mixed roles, composite trees), most of them so large that they just fit or just
do not, and has CP-SAT (ortools) decide them (tests/properties/exact.py). The goal: unknown in fewer than 1 % of those that
the solver decides; *never* where a placement exists, or *feasible* where none does, is a fault.

Last run: {date}, seed `{seed}`, {count} cases, {decided} decided by the solver. Unknown: {unknown} ({share:.2%}).

| engine | a placement exists | none exists | the solver gave up |
|---|---|---|---|
{rows}

The engine's reasons for unknown:

| reason | cases |
|---|---|
{reasons}
"""


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def brute_force(table: Mapping[tuple[str, bool], int], *, seed: object, examples: int) -> str:
    """table: (the engine's word, does a placement exist) -> cases."""
    words = sorted({word for word, _ in table})
    rows = [f"| {word} | {table.get((word, True), 0):,} | {table.get((word, False), 0):,} |" for word in words]
    return _BRUTE_FORCE.format(
        date=today(), seed=seed, count=f"{sum(table.values()):,}", rows="\n".join(rows), examples=f"{examples:,}"
    )


def solver(table: Mapping[tuple[str, str], int], reasons: Counter[str], *, seed: int) -> str:
    """table: (the engine's word, the truth) -> cases. reasons: why unknown -> cases."""
    truths = tuple(Truth)
    words = sorted({word for word, _ in table})
    rows = [
        f"| {word} | " + " | ".join(f"{table.get((word, truth), 0):,}" for truth in truths) + " |" for word in words
    ]
    decided = sum(count for (_, truth), count in table.items() if truth != Truth.UNDECIDED)
    unknown = sum(count for (word, truth), count in table.items() if word == "unknown" and truth != Truth.UNDECIDED)
    return _SOLVER.format(
        date=today(),
        seed=seed,
        count=f"{sum(table.values()):,}",
        decided=f"{decided:,}",
        unknown=unknown,
        share=unknown / max(1, decided),
        rows="\n".join(rows),
        reasons="\n".join(f"| {reason} | {count} |" for reason, count in reasons.most_common()) or "| none | 0 |",
    )
