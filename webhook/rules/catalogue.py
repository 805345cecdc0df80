"""CATALOGUE: every rule, in the order of its ID. Explicit, so that nothing is registered by being imported."""

from __future__ import annotations

from webhook.rules import (
    was101_min_count_above_pod_count,
    was301_job_scheduling_namespace,
    was302_composite_namespace,
    was303_topology_namespace,
    was304_shared_claims_namespace,
    was305_gate_off_field,
    was306_crd_drops_field,
    was307_retired_version,
    was308_old_disruption_mode,
    was309_unknown_field,
)
from webhook.rules.meta import Rule

CATALOGUE: tuple[Rule, ...] = (
    was101_min_count_above_pod_count,
    was301_job_scheduling_namespace,
    was302_composite_namespace,
    was303_topology_namespace,
    was304_shared_claims_namespace,
    was305_gate_off_field,
    was306_crd_drops_field,
    was307_retired_version,
    was308_old_disruption_mode,
    was309_unknown_field,
)

BY_ID: dict[str, Rule] = {rule.META.id: rule for rule in CATALOGUE}
