"""Metrics of tier quotas. Labels are tiers, resources and quota names of TierQuotas, which admins write: bounded by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from webhook.quota.model import Reservation, TierQuota
from webhook.quota.usage import LARGEST_GANG

SECONDS_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SERIES_COUNT_MAX: Final = 500
"""Quotas x resources that get gauges of their own; more would be a metrics server's trouble, not a help."""

_LABELS: Final = ("quota", "tier", "resource")


class QuotaMetrics:
    """Implements webhook.quota.ledger.Reporter (every worker) and webhook.quota.recount.Journal (the leader)."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, _LABELS, registry=registry, multiprocess_mode="livemostrecent")

        self._hard = gauge("muster_quota_hard", "Limit of a TierQuota (cpu in cores), as the leader sees it")
        self._used = gauge("muster_quota_used", "What live objects use of it")
        self._reserved = gauge("muster_quota_reserved", "What was admitted and is not counted yet")
        self._seconds = Histogram(
            "muster_quota_charge_seconds",
            "One charge: reading, checking, writing, waiting for others",
            ("outcome",),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._orders = Counter(
            "muster_quota_orders",
            "Orders that rounds of the ledger served: more than rounds are batches",
            registry=registry,
        )
        self._rounds = Counter("muster_quota_rounds", "Rounds of the ledger: one read, one write", registry=registry)
        self._conflicts = Counter(
            "muster_quota_conflicts", "Writes that came second to somebody else's", registry=registry
        )
        self._retries = Counter("muster_quota_retries", "Orders that needed another round", registry=registry)
        self._lapsed = Counter(
            "muster_quota_lapsed", "Reservations whose object was never stored", ("quota",), registry=registry
        )
        self._drift = Counter(
            "muster_quota_drift_repaired", "Counts that found more than was charged", ("quota",), registry=registry
        )

    # -- the ledger -----------------------------------------------------------------------------------------------
    def round(self, order_count: int) -> None:
        self._rounds.inc()
        self._orders.inc(order_count)

    def conflict(self) -> None:
        self._conflicts.inc()

    def retry(self, order_count: int) -> None:
        self._retries.inc(order_count)

    def charged(self, outcome: str, seconds: float) -> None:
        self._seconds.labels(outcome).observe(seconds)

    # -- the leader -----------------------------------------------------------------------------------------------
    def lapsed(self, quota: TierQuota, reservations: Sequence[Reservation]) -> None:
        self._lapsed.labels(quota.name).inc(len(reservations))

    def drift(self, quota: TierQuota, amounts: Mapping[str, int]) -> None:
        del amounts
        self._drift.labels(quota.name).inc()

    def counted(self, quotas: Sequence[TierQuota]) -> None:
        rows = [(quota, name) for quota in quotas for name in sorted(quota.hard) if name != LARGEST_GANG]
        for quota, name in rows[:SERIES_COUNT_MAX]:
            labels = (quota.name, quota.tier, name)
            unit = 1000 if name == "cpu" else 1
            self._hard.labels(*labels).set(quota.hard[name] / unit)
            self._used.labels(*labels).set(quota.used.get(name, 0) / unit)
            self._reserved.labels(*labels).set(quota.reserved.get(name, 0) / unit)
