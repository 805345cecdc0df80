"""The engine's word on a pair."""

from __future__ import annotations

import time
from typing import Any

from tests.judge import pairs
from tests.judge.pairs import Pair, Raw
from tests.support.cases import FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.feasibility.check import faults
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import evaluate
from webhook.feasibility.model import DEFAULT_PROFILE, Profile
from webhook.feasibility.result import Feasible, Infeasible, Result
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Snapshot
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

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


# ---- the whole pipeline -------------------------------------------------------------------------------------------
def verdict_on(raw: Raw, pair: Pair, **cluster: Any) -> Verdict:
    """What Muster says of an object of the pair, by the inventory of its nodes. cluster: of the policy."""
    policies = FixedPolicies(policy_document({"cluster": cluster}))
    inventory = snapshot(pair.nodes)
    groups = [] if pair.job else list(pairs.groups(pair.root))
    pipeline = Pipeline(
        policies=lambda: policies, source=ObjectSetSource(groups, complete=True), inventory=lambda: inventory
    )
    return pipeline.judge(request_for(raw, None, namespace=pairs.NAMESPACE), Phase.VALIDATING, time.monotonic() + 60)


def denials(pair: Pair) -> list[tuple[str, str | None]]:
    """(group, None) for a Job or PodGroup that a capacity rule denies, (group, set index) for a Pod."""
    if pair.job:
        return [(pair.root.name, None)] if _is_denied(pairs.job(pair), pair) else []
    groups = [raw for raw in pairs.groups(pair.root) if raw["kind"] == "PodGroup"]
    found: list[tuple[str, str | None]] = [(raw["metadata"]["name"], None) for raw in groups if _is_denied(raw, pair)]
    for leaf in pairs.leaves(pair.root):
        first: dict[str, Raw] = {}
        for pod in pairs.pods(leaf):
            first.setdefault(pod["metadata"]["labels"]["judge-set"], pod)
        found += [(leaf.name, index) for index, pod in first.items() if _is_denied(_admitted(pod), pair)]
    return found


def _admitted(pod: Raw) -> Raw:
    """As it is after mutation: with the overhead of its RuntimeClass."""
    return pairs.as_pod(pod)


def _is_denied(raw: Raw, pair: Pair) -> bool:
    return any(one.rule.startswith("WAS5") for one in verdict_on(raw, pair, podMutators="none").denials)
