"""The deadline: ?timeout= as a Go duration, minus a margin, counted from the request's first byte."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.edge.reviews import Recorder, pod, review
from webhook.edge.app import create_app
from webhook.edge.review import MARGIN_SECONDS, TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX, deadline, timeout_seconds
from webhook.edge.worker import RECEIVED_KEY
from webhook.verdict import Verdict


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=5s", 5.0),
        ("timeout=1m", 30.0),
        ("timeout=1.5s", 1.5),
        ("timeout=.5s", 0.5),
        ("timeout=1s500ms", 1.5),
        ("timeout=250ms", 0.25),
        ("a=b&timeout=7s&c=d", 7.0),
        ("timeout=10000h", TIMEOUT_SECONDS_MAX),
        ("", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=5", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=-5s", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=0s", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=5 s", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=٥s", TIMEOUT_SECONDS_DEFAULT),
        ("mytimeout=5s", TIMEOUT_SECONDS_DEFAULT),
        ("timeout=" + "9" * 10_000 + "s", TIMEOUT_SECONDS_DEFAULT),
    ],
)
def test_timeout(query: str, seconds: float) -> None:
    """What is not a positive Go duration is as if nothing were said."""
    assert timeout_seconds(query) == seconds


@given(st.text())
def test_timeout_of_any_query(query: str) -> None:
    """Never raises, always a usable number."""
    assert 0 < timeout_seconds(f"timeout={query}") <= TIMEOUT_SECONDS_MAX


def test_deadline_keeps_a_margin() -> None:
    """Half a second before the caller gives up; of a very short timeout, half."""
    assert deadline("timeout=5s", 100.0) == 105.0 - MARGIN_SECONDS
    assert deadline("timeout=600ms", 100.0) == pytest.approx(100.3)
    assert deadline("", 100.0) == 100.0 + TIMEOUT_SECONDS_DEFAULT - MARGIN_SECONDS


class Spy:
    """A pipeline that remembers the deadline it was given."""

    def __init__(self) -> None:
        self.deadlines: list[float] = []

    def judge(self, _request: object, _phase: object, until: float) -> Verdict:
        self.deadlines.append(until)
        return Verdict()


def test_deadline_counts_from_the_first_byte() -> None:
    """The caller's clock ran while the request waited for a thread."""
    spy = Spy()
    app = create_app(spy, Recorder(), ready=list, version={})  # type: ignore[arg-type]
    received = time.monotonic() - 3.0

    app.test_client().post("/validate?timeout=5s", json=review(pod()), environ_overrides={RECEIVED_KEY: received})

    assert spy.deadlines == [received + 5.0 - MARGIN_SECONDS]
