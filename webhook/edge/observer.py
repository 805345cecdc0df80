"""What the edge tells about each request, and to whom. Implemented by webhook.observe, wired by webhook.wsgi."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from webhook.facts.model import Phase
from webhook.objects.request import AdmissionRequest
from webhook.verdict import Verdict


class Outcome(enum.StrEnum):
    """How a request ended. OVERLOAD_* are counted apart from verdicts: no rule was asked."""

    ALLOWED = "allowed"
    WARNED = "warned"
    DENIED = "denied"
    OVERLOAD_DENIED = "overload-denied"
    OVERLOAD_ADMITTED = "overload-admitted"
    BAD_REQUEST = "bad-request"
    ERROR = "error"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One answered request. `entry`: "submit", "controllers", "traps", "scale", "default" (no entry named) or "other".

    request is None where the body could not be read, verdict where no decision was made. error: the exception of an
    ERROR. detail: why the request was bad. Durations in seconds; waited: from the request's first byte to this thread,
    total: from the first byte to the answer.
    """

    phase: Phase
    entry: str
    outcome: Outcome
    status: int
    request: AdmissionRequest | None
    verdict: Verdict | None
    error: Exception | None = None
    detail: str = ""
    waited_seconds: float = 0.0
    decode_seconds: float = 0.0
    judge_seconds: float = 0.0
    respond_seconds: float = 0.0
    total_seconds: float = 0.0


class Observer(Protocol):
    """Called once per admission request, by many threads at once, just before the answer is written. Must be quick."""

    def observe(self, observation: Observation) -> None: ...
