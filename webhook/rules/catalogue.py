"""CATALOGUE: every rule, in the order of its ID. Explicit, so that nothing is registered by being imported."""

from __future__ import annotations

from webhook.rules import (
    was101_min_count_above_pod_count,
)
from webhook.rules.meta import Rule

CATALOGUE: tuple[Rule, ...] = (
    was101_min_count_above_pod_count,
)

BY_ID: dict[str, Rule] = {rule.META.id: rule for rule in CATALOGUE}
