"""Prometheus metrics. Every label has a bounded set of values: nothing a client writes becomes a label.

They are served by path, `GET /metrics` on the admission port, not on a port of their own: any worker can add up the files
of all (multiprocess mode), so there is no further process, port, certificate or NetworkPolicy rule, and the agent's
metrics are in the same files. It holds no names, namespaces or users. The price is one thread for some milliseconds per
scrape.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from webhook.admission.evaluate import RuleError
from webhook.edge.observer import Observation, Outcome
from webhook.objects.kinds import KINDS
from webhook.observe.multiprocess import VARIABLE

# From 1 ms, where a plain verdict lies, to 30 s, the longest timeout a webhook may have.
SECONDS_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

OTHER: Final = "other"
_KINDS: Final = frozenset(kind.kind for kind in KINDS if kind.judged)
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
SHAPE_RULE: Final = "WAS100"
"""The ID of "unreadable shape", which is no rule of the catalogue."""


class Metrics:
    """The metrics of one process. rule_ids: those of the catalogue; any other becomes "other"."""

    def __init__(self, rule_ids: Collection[str], *, registry: CollectorRegistry | None = None) -> None:
        if VARIABLE in os.environ and not values.ValueClass._multiprocess:  # noqa: SLF001  there is no public word
            raise RuntimeError("prometheus-client was imported before webhook.observe.multiprocess.prepare ran")
        self._registry = registry = registry or CollectorRegistry()
        self._rule_ids = frozenset(rule_ids) | {SHAPE_RULE}
        self._children: dict[tuple[Any, ...], Any] = {}
        self._requests = Counter(
            "muster_admission_requests",
            "Admission requests by how they ended",
            ("phase", "entry", "kind", "operation", "verdict"),
            registry=registry,
        )
        self._seconds = Histogram(
            "muster_admission_seconds",
            "From the first byte of a request to its answer",
            ("phase", "entry"),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._waiting = Histogram(
            "muster_admission_waiting_seconds",
            "From the first byte of a request to a free thread",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._findings = Counter(
            "muster_rule_findings",
            "What rules found: Deny, Warn, Audit, or unknown where a rule could not be decided",
            ("rule", "action"),
            registry=registry,
        )
        self._short_circuits = Counter(
            "muster_short_circuits",
            "Requests no rule had to look at, by reason",
            ("phase", "reason"),
            registry=registry,
        )
        self._rule_errors = Counter(
            "muster_rule_errors",
            "Requests answered 500 because of a bug, by the rule that raised",
            ("rule",),
            registry=registry,
        )
        self._bad_requests = Counter(
            "muster_bad_requests",
            "Requests that were no AdmissionReview, by HTTP status",
            ("status",),
            registry=registry,
        )
        self._reload_failures = Counter(
            "muster_reload_failures",
            "Failed reloads of a file whose old version stays in use: policy or certificate",
            ("what",),
            registry=registry,
        )
        self._reload_failing = Gauge(
            "muster_reload_failing",
            "1 while a policy or certificate file cannot be used and its old version is served",
            ("what",),
            registry=registry,
            multiprocess_mode="livemax",
        )

    # -- requests -----------------------------------------------------------------------------------------------
    def count(self, seen: Observation) -> None:
        """One answered request."""
        phase = str(seen.phase)
        request = seen.request
        kind = operation = OTHER
        if request is not None:
            kind = request.kind.kind if request.kind.kind in _KINDS else OTHER
            operation = request.operation if request.operation in _OPERATIONS else OTHER
        self._child(self._requests, phase, seen.entry, kind, operation, str(seen.outcome)).inc()
        self._child(self._seconds, phase, seen.entry).observe(seen.total_seconds)
        self._waiting.observe(seen.waited_seconds)
        if seen.outcome is Outcome.BAD_REQUEST:
            self._child(self._bad_requests, str(seen.status)).inc()
        if seen.error is not None:
            rule = seen.error.rule_id if isinstance(seen.error, RuleError) else OTHER
            self._child(self._rule_errors, self._rule(rule)).inc()
        verdict = seen.verdict
        if verdict is None:
            return
        if verdict.short_circuit:
            self._child(self._short_circuits, phase, verdict.short_circuit).inc()
        for violation in verdict.violations:
            self._child(self._findings, self._rule(violation.rule), str(violation.action)).inc()
        for unknown in verdict.unknowns:
            self._child(self._findings, self._rule(unknown.rule), "unknown").inc()

    def _rule(self, rule_id: str) -> str:
        return rule_id if rule_id in self._rule_ids else OTHER

    def _child(self, metric: Any, *labels: str) -> Any:
        """`metric.labels` takes a lock and builds strings; the children are few and live for ever."""
        key = (metric, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    # -- reloads ------------------------------------------------------------------------------------------------
    def reloaded(self, what: str, *, failed: bool) -> None:
        """A policy or certificate file was looked at and has changed. what: "policy" or "certificate"."""
        if failed:
            self._reload_failures.labels(what).inc()
        self._reload_failing.labels(what).set(1 if failed else 0)

    # -- serving ------------------------------------------------------------------------------------------------
    def exposition(self) -> tuple[bytes, str]:
        """(body, content type) for a scrape: of all processes in multiprocess mode, else of this one."""
        registry = self._registry
        if VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST
