"""The muster.dev annotations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.core import ObjectMeta
from webhook.objects.fieldpath import METADATA
from webhook.plan.annotations import (
    PodRange,
    annotated_barrier,
    checkpoint_interval,
    expected_run_time,
    parse_duration,
)


def meta(key: str, text: str) -> ObjectMeta:
    return ObjectMeta(annotations={f"muster.dev/{key}": text})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), ("90s", 90), ("1800", 1800), ("500ms", Fraction(1, 2)),
        ("1us", Fraction(1, 10**6)), ("1µs", Fraction(1, 10**6)), ("1h1m1s1ms", 3661 + Fraction(1, 1000)), (".5h", 1800),
        ("1.h", 3600), ("48h", 172800),
    ],
)  # fmt: skip
def test_reads_durations_of_go_and_plain_seconds(text: str, seconds: Fraction) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "2d", "1h30", "-5m", "+5m", "1 h", "1H", "h1", ".h", "1e3s", "1..5h", "9" * 18, "3000000h", "١h"])  # fmt: skip
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


def test_an_annotation_has_a_value_or_an_error_and_its_path() -> None:
    good = checkpoint_interval(meta("checkpoint-interval", " 30m "), METADATA)
    bad = expected_run_time(meta("expected-run-time", "2d"), METADATA)

    assert good is not None
    assert bad is not None
    assert good.value == Fraction(1800)
    assert good.error is None
    assert str(good.path) == "metadata.annotations[muster.dev/checkpoint-interval]"
    assert bad.value is None
    assert bad.error is not None
    assert '"48h"' in bad.error
    assert bad.text == "2d"


def test_a_duration_of_nothing_is_an_error() -> None:
    written = checkpoint_interval(meta("checkpoint-interval", "0s"), METADATA)

    assert written is not None
    assert written.error == "must be longer than zero"


def test_what_is_not_written_is_none() -> None:
    for reader in (annotated_barrier, checkpoint_interval, expected_run_time):
        assert reader(ObjectMeta(), METADATA) is None


@pytest.mark.parametrize(("text", "value"), [("8", PodRange(8, 8)), ("4..8", PodRange(4, 8)), (" 4 .. 8 ", PodRange(4, 8))])  # fmt: skip
def test_a_barrier_is_a_number_or_a_range(text: str, value: PodRange) -> None:
    written = annotated_barrier(meta("barrier", text), METADATA)

    assert written is not None
    assert (written.value, written.error) == (value, None)


@given(hours=st.integers(0, 1000), minutes=st.integers(0, 59), seconds=st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@given(text=st.text(alphabet="0123456789.hmsun", max_size=30))
def test_any_text_is_read_or_not_and_nothing_else(text: str) -> None:
    seconds = parse_duration(text)

    assert seconds is None or seconds >= 0
