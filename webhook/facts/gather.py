"""Fills the surroundings through a FactSource: asks what rules found missing, until nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from webhook.facts.source import Answer, FactSource, Found, Query
from webhook.objects.claims import device_classes
from webhook.plan.model import GangPlan, GroupOrigin

# A rule may follow references (Pod -> PodGroup -> Workload -> parent composites, at most 4 deep): each step is one
# round. More rounds than this is a rule that never settles, which is our bug.
ROUND_COUNT_MAX = 12


def foreseen(plan: GangPlan, namespace: str) -> set[Query]:
    """The questions that rules ask of nearly every such object: the groups it names, its priority classes, its claim
    templates. Asked beforehand they spare most rules their second run; one that no rule asks then costs a cached read.
    """
    queries = {
        Query("PodGroup", namespace, group.name)
        for group in plan.leaf_groups()
        if group.name and group.origin is GroupOrigin.REFERENCED
    }
    for pod_set in plan.all_pod_sets():
        if pod_set.template.spec.priority_class_name:
            queries.add(Query("PriorityClass", "", pod_set.template.spec.priority_class_name))
        for claim in pod_set.claims:
            if claim.resource_claim_template_name:
                queries.add(Query("ResourceClaimTemplate", namespace, claim.resource_claim_template_name))
    return queries


def foreseen_next(answers: Mapping[Query, Answer]) -> set[Query]:
    """What is asked once those are answered: the DeviceClasses that the claim templates name."""
    names: set[str] = set()
    for query, answer in answers.items():
        if query.kind == "ResourceClaimTemplate" and isinstance(answer, Found):
            names |= set(_device_classes(answer.value))
    return {Query("DeviceClass", "", name) for name in names}


def _device_classes(template: object) -> list[str]:
    try:
        return device_classes(template["spec"]["spec"])  # type: ignore[index]
    except (AttributeError, KeyError, TypeError):
        return []  # no template: the rules say what is wrong with it


def ask_all(source: FactSource, queries: Iterable[Query], *, fresh: bool, deadline: float) -> dict[Query, Answer]:
    """Answers for all queries, in a stable order. Never raises (FactSource does not)."""
    return {query: source.ask(query, fresh=fresh, deadline=deadline) for query in sorted(queries)}
