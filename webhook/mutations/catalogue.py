"""MUTATIONS: every mutation, in the order of its ID. Explicit, like the rule catalogue."""

from __future__ import annotations

from webhook.mutations import (
    was901_group_labels,
    was902_default_priority_class,
    was903_disruption_mode_all,
    was904_claim_names_aligned,
)
from webhook.mutations.meta import Mutation

MUTATIONS: tuple[Mutation, ...] = (
    was901_group_labels,
    was902_default_priority_class,
    was903_disruption_mode_all,
    was904_claim_names_aligned,
)

BY_ID: dict[str, Mutation] = {mutation.META.id: mutation for mutation in MUTATIONS}
