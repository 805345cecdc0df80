"""The model of test_ledger_model.py, thousands of runs from fixed seeds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import seed as hypothesis_seed
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.quota.test_ledger_model import Admitted, Ledgers
from tests.support.recorded import write_section
from webhook.quota.ledger import Granted, Outcome

DOCUMENT = Path(__file__).parents[3] / "docs" / "quota-shown.md"
SEEDS = (1, 2, 3, 4)
RUN_COUNT = int(os.environ.get("QUOTA_RUNS", "2500"))
_SAID = """tests/properties/quota/test_ledger_model.py: three replicas, two leaders, two quotas on each charge; creations, growth,
shrinking, deletion, dry runs, edits of the limit and waiting in any order, and inside reads and writes lost requests, lost
answers, late writes, rivals, counts, moved limits, crashes, errors that nobody expects, and a process that stands still for
minutes. After every step: what lives and what may still be stored is never above
the limit (but where the limit was lowered) and never above the books; at the end of every run: nothing is reserved, and what
is used is what lives."""


@pytest.mark.prove
@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "prove", reason="the long form: make prove")
@pytest.mark.timeout(7200)
def test_many_runs() -> None:
    """The counts go to docs/quota-shown.md."""
    rows = ["| seed | runs | steps | of them requests | refused or undecided | seconds |", "|---|---|---|---|---|---|"]
    rows += [f"| {seed} | {long_run(seed)} |" for seed in SEEDS]
    write_section(DOCUMENT, "Any order of events", f"{_SAID}\n\n" + "\n".join(rows))


def long_run(seed: int) -> str:
    """Cells of the table."""
    counts = {"runs": 0, "steps": 0, "requests": 0, "refused": 0}

    class Counted(Ledgers):
        def check_invariants(self, *args: object, **options: object) -> None:
            counts["steps"] += 1
            super().check_invariants(*args, **options)  # type: ignore[arg-type]

        def charge(self, replica: int, asked: Admitted, *, commit: bool = True) -> Outcome:
            counts["requests"] += 1
            outcome = super().charge(replica, asked, commit=commit)
            counts["refused"] += not isinstance(outcome, Granted)
            return outcome

        def teardown(self) -> None:
            counts["runs"] += 1
            super().teardown()

    started = time.monotonic()
    hypothesis_seed(seed)(Counted)
    options = settings(max_examples=RUN_COUNT, stateful_step_count=80, database=None)
    run_state_machine_as_test(Counted, settings=options)  # type: ignore[no-untyped-call]
    cells = [f"{count:,}" for count in counts.values()] + [f"{time.monotonic() - started:.0f}"]
    return " | ".join(cells)
