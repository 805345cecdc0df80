"""Whatever an object holds, the engine answers: nothing a tenant writes makes it raise or run away."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Raw, job
from tests.feasibility.inventories import snapshot
from tests.strategies import planned_objects
from webhook.feasibility import explain
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Infeasible
from webhook.inventory.snapshot import Question
from webhook.objects.kinds import Kind
from webhook.objects.read import read
from webhook.plan.adapters import plan_of


def answers(plan: Any) -> None:
    for demand in demands(plan, is_sole=lambda _: True):
        for question in Question:
            result = evaluate(demand, snapshot(), question, budget_units=2000)
            if isinstance(result, Infeasible):
                assert explain.text(result)


@given(planned_objects())
def test_any_object_of_any_kind(planned: tuple[Kind, Raw]) -> None:
    kind, raw = planned
    answers(plan_of(kind.kind, kind.api_version, "team-a", read(raw, kind.type)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(("", "a", "In", "Exists", "metadata.name", "1")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "nodeAffinity",
                    "podAffinity",
                    "podAntiAffinity",
                    "requiredDuringSchedulingIgnoredDuringExecution",
                    "nodeSelectorTerms",
                    "matchExpressions",
                    "matchFields",
                    "matchLabels",
                    "labelSelector",
                    "namespaceSelector",
                    "namespaces",
                    "topologyKey",
                    "whenUnsatisfiable",
                    "maxSkew",
                    "minDomains",
                    "key",
                    "operator",
                    "values",
                    "value",
                    "effect",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
OBJECTS = JSON.filter(lambda value: isinstance(value, dict))


@given(OBJECTS, st.lists(OBJECTS, max_size=2), st.lists(OBJECTS, max_size=2))
def test_fields_that_are_kept_raw(affinity: Raw, tolerations: list[Raw], spread: list[Raw]) -> None:
    made = job().parallelism(3).completions(3).gang().gpu(1)
    made.pod_spec.update({"affinity": affinity, "tolerations": tolerations, "topologySpreadConstraints": spread})
    answers(made.plan())
