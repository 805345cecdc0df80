"""The muster.dev annotations by which a person says what no Kubernetes field holds.

Each reader gives None where the annotation is not written, and else a `Written` with either a value or an error text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from webhook.objects.core import ObjectMeta
from webhook.objects.fieldpath import FieldPath

T = TypeVar("T")

BARRIER = "muster.dev/barrier"
CHECKPOINT_INTERVAL = "muster.dev/checkpoint-interval"
EXPECTED_RUN_TIME = "muster.dev/expected-run-time"

_RANGE = re.compile(r"([0-9]{1,9})(?:\s*\.\.\s*([0-9]{1,9}))?\Z")
_SECONDS = re.compile(r"[0-9]{1,18}\Z")
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|μs|ms|s|m|h)")
_UNIT_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
# time.Duration of Go: 2^63-1 nanoseconds.
_SECONDS_MAX = Fraction(2**63 - 1, 10**9)


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """Exactly one of `value` and `error` is set. text: as written. path: the annotation's own path."""

    text: str
    path: FieldPath
    value: T | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PodRange:
    """How many Pods the application waits for: between minimum and maximum, both included; equal if fixed."""

    minimum: int
    maximum: int


def annotation_path(metadata_path: FieldPath, key: str) -> FieldPath:
    """``metadata.annotations[muster.dev/barrier]``"""
    return metadata_path / "annotations" / key


def annotated_barrier(metadata: ObjectMeta, metadata_path: FieldPath) -> Written[PodRange] | None:
    """`muster.dev/barrier`: ``"8"`` or ``"4..8"`` Pods."""
    text = metadata.annotation(BARRIER)
    if text is None:
        return None
    path = annotation_path(metadata_path, BARRIER)
    match = _RANGE.match(text.strip())
    if match is None:
        return Written(text, path, error='must be a number of Pods such as "8", or a range such as "4..8"')
    minimum = int(match[1])
    maximum = int(match[2]) if match[2] is not None else minimum
    if minimum < 1:
        return Written(text, path, error="must ask for at least 1 Pod")
    if maximum < minimum:
        return Written(text, path, error=f"must not end ({maximum}) before it starts ({minimum})")
    return Written(text, path, value=PodRange(minimum, maximum))


def checkpoint_interval(metadata: ObjectMeta, metadata_path: FieldPath) -> Written[Fraction] | None:
    """`muster.dev/checkpoint-interval`, in seconds."""
    return _duration(metadata, metadata_path, CHECKPOINT_INTERVAL)


def expected_run_time(metadata: ObjectMeta, metadata_path: FieldPath) -> Written[Fraction] | None:
    """`muster.dev/expected-run-time`, in seconds."""
    return _duration(metadata, metadata_path, EXPECTED_RUN_TIME)


def parse_duration(text: str) -> Fraction | None:
    """Seconds of ``30m``, ``1h30m``, ``1.5h`` (Go's time.ParseDuration without sign) or of plain seconds ``1800``.

    None where it is no duration, or one that Go cannot hold (about 292 years)."""
    if _SECONDS.match(text):
        seconds = Fraction(int(text))
    else:
        seconds, position = Fraction(0), 0
        while position < len(text):
            part = _PART.match(text, position)
            if part is None:
                return None
            seconds += Fraction(part[1] if part[1][-1] != "." else part[1] + "0") * _UNIT_SECONDS[part[2]]
            position = part.end()
        if position == 0:
            return None
    return seconds if seconds <= _SECONDS_MAX else None


def _duration(metadata: ObjectMeta, metadata_path: FieldPath, key: str) -> Written[Fraction] | None:
    text = metadata.annotation(key)
    if text is None:
        return None
    path = annotation_path(metadata_path, key)
    seconds = parse_duration(text.strip())
    if seconds is None:
        error = 'must be a duration in hours, minutes and seconds such as "30m" or "48h" (there are no days)'
        return Written(text, path, error=error)
    if seconds == 0:
        return Written(text, path, error="must be longer than zero")
    return Written(text, path, value=seconds)
