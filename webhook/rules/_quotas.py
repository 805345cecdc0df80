"""ResourceQuotas on numbers of objects, as the API server's quota plugin counts them.

Source: k8s.io/apiserver v0.37.2 pkg/quota/v1/generic. A quota with a scope counts Pods only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.objects import core
from webhook.objects.quantity import Quantity, QuantityError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of one quota. remaining: hard - used, None where the quota was not counted yet."""

    quota: str
    resource: str
    hard: int
    remaining: int | None


def object_limits(quotas: tuple[core.ResourceQuota, ...], resource: str) -> Iterator[Limit]:
    """Limits on ``count/podgroups.scheduling.k8s.io`` and the like, in the order of the quotas' names; an unreadable
    number is passed over. The API server compares with the status, which follows the spec a moment later: the larger
    of the two counts, and a limit that the spec has no longer is none."""
    for quota in sorted(quotas, key=lambda quota: quota.metadata.name):
        status = quota.status or core.ResourceQuotaStatus()
        limits = [_count((place or {}).get(resource)) for place in (quota.spec.hard, status.hard)]
        is_gone = quota.spec.hard is not None and resource not in quota.spec.hard
        hard = None if is_gone else max((limit for limit in limits if limit is not None), default=None)
        used = _count((status.used or {}).get(resource))
        if hard is not None and not quota.spec.scopes and not quota.spec.scope_selector:
            remaining = None if used is None else hard - used
            yield Limit(quota=quota.metadata.name, resource=resource, hard=hard, remaining=remaining)


def _count(raw: core.RawQuantity | None) -> int | None:
    if raw is None:
        return None
    try:
        return Quantity.parse(raw).value()
    except QuantityError:
        return None
