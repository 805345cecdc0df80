"""The IDs that a policy may speak of: the rules and mutations of this version, and the quota's."""

from __future__ import annotations

from typing import Final

from webhook.mutations.catalogue import MUTATIONS
from webhook.policy.load import Known
from webhook.quota.charging import RULE as QUOTA_RULE
from webhook.rules.catalogue import CATALOGUE

KNOWN: Final = Known(
    rules=frozenset(rule.META.id for rule in CATALOGUE) | {QUOTA_RULE},
    mutations=frozenset(mutation.META.id for mutation in MUTATIONS),
)
