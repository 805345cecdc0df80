"""The edge's Observer: counts and logs each request."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from webhook.edge.observer import Observation
from webhook.observe.log import log_request
from webhook.observe.metrics import Metrics


class RequestObserver:
    """Implements webhook.edge.observer.Observer. The metric first: it cannot fail, a log stream can."""

    def __init__(self, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._logger = logger

    def observe(self, observation: Observation) -> None:
        self._metrics.count(observation)
        log_request(self._logger, observation)
