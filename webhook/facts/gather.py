"""Fills the surroundings through a FactSource: asks what rules found missing, until nothing is."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.facts.source import Answer, FactSource, Query

# A rule may follow references (Pod -> PodGroup -> Workload -> parent composites, at most 4 deep): each step is one
# round. More rounds than this is a rule that never settles, which is our bug.
ROUND_COUNT_MAX = 12


def ask_all(source: FactSource, queries: Iterable[Query], *, fresh: bool, deadline: float) -> dict[Query, Answer]:
    """Answers for all queries, in a stable order. Never raises (FactSource does not)."""
    return {query: source.ask(query, fresh=fresh, deadline=deadline) for query in sorted(queries)}
