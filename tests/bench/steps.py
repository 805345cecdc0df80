"""`python -m tests.bench.steps`: microseconds per step of one request, in this process, without HTTP.

Each step is timed on its own, in interleaved rounds, so that a noisy moment hits all of them alike; the table shows the
fastest round (what the code costs) and the median (what this machine gave).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from tests.bench.reviews import body, job, jobset, member_pod, pipeline
from tests.edge.reviews import Raw
from webhook.edge.response import admission_review
from webhook.edge.review import parse
from webhook.facts.model import Phase
from webhook.facts.surroundings import Surroundings
from webhook.objects.kinds import BY_NAME
from webhook.objects.read import read
from webhook.plan.adapters import plan_of

ROUND_COUNT = 15
ROUND_SECONDS = 0.04


def steps(raw: Raw) -> dict[str, Callable[[], object]]:
    """name -> one run of that step."""
    judge = pipeline()
    data = body(raw)
    request = parse(data)
    kind = BY_NAME[raw["kind"]]
    obj = read(raw, kind.type)
    policy = judge._policy(request, time.monotonic() + 60)
    facts = judge._facts(request, Phase.VALIDATING, policy)
    verdict = judge.judge(request, Phase.VALIDATING)
    return {
        "decode": lambda: parse(data),
        "read": lambda: read(raw, kind.type),
        "plan": lambda: plan_of(kind.kind, request.kind.api_version, "team-a", obj),
        # Surroundings of its own each time: they keep what was looked up and worked out.
        "rules": lambda: judge._settle(
            replace(facts, surroundings=Surroundings({})), time.monotonic() + 60, fresh=False
        ),
        "respond": lambda: admission_review(request, verdict, Phase.VALIDATING),
        "all": lambda: admission_review(parsed := parse(data), judge.judge(parsed, Phase.VALIDATING), Phase.VALIDATING),
    }


def measure(parts: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """name -> (fastest, median) microseconds per run, over the rounds."""
    rounds: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(ROUND_COUNT):
        for name, part in parts.items():
            count, started = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - started) < ROUND_SECONDS:
                part()
                count += 1
            rounds[name].append(elapsed / count * 1e6)
    return {name: (min(times), statistics.median(times)) for name, times in rounds.items()}


def main() -> None:
    table = Table(title="microseconds per step: fastest round (median)")
    table.add_column("object")
    table.add_column("bytes", justify="right")
    subjects = {"Pod of a group": member_pod(), "gang Job": job(), "JobSet, 20 roles": jobset()}
    for index, (title, raw) in enumerate(subjects.items()):
        results = measure(steps(raw))
        if index == 0:
            for name in results:
                table.add_column(name, justify="right")
        cells = [f"{fastest:,.0f} ({median:,.0f})" for fastest, median in results.values()]
        table.add_row(title, f"{len(body(raw)):,}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
