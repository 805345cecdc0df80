"""The request log: what a line says, and what it never says."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.edge.reviews import SECRET, UID, make_app, pod, post, review
from webhook.observe.log import TEXT_LENGTH_MAX, make_logger
from webhook.observe.metrics import Metrics
from webhook.observe.observer import RequestObserver


def lines(*bodies: Any, log_format: Any = "json", path: str = "/validate/submit") -> list[str]:
    """What is logged for these requests."""
    stream = io.BytesIO()
    app = make_app(observer=RequestObserver(Metrics(()), make_logger(log_format, stream)))
    for body in bodies:
        post(app, body, path)
    return stream.getvalue().decode().splitlines()


def line(body: Any, path: str = "/validate/submit") -> dict[str, Any]:
    (text,) = lines(body, path=path)
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_one_line_per_request_says_who_what_and_how_long() -> None:
    """Everything a person needs to find a request again, and nothing else."""
    seen = line(review(pod("train", "deny"), dry_run=True))

    durations = {key: seen.pop(key) for key in list(seen) if key.endswith("_ms")}
    assert set(durations) == {"waited_ms", "decode_ms", "judge_ms", "respond_ms", "total_ms"}
    assert all(isinstance(value, float) and value >= 0 for value in durations.values())
    assert durations["total_ms"] >= durations["judge_ms"]
    assert seen.pop("timestamp").endswith("Z")
    assert seen == {
        "event": "admission",
        "level": "info",
        "uid": UID,
        "phase": "validating",
        "entry": "submit",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "train",
        "operation": "CREATE",
        "user": "alice",
        "dry_run": True,
        "outcome": "denied",
        "status": 200,
        "allowed": False,
        "code": 403,
        "denied": ["WAS801"],
        "warned": [],
        "unknown": 0,
        "patched": 0,
        "policy": "test",
    }


def test_warned_audited_and_short_circuits() -> None:
    """Each way to be admitted can be told apart."""
    assert line(review(pod(label="warn")))["warned"] == ["WAS802"]
    assert line(review(pod(label="audit")))["audited"] == ["WAS803"]
    assert line(review(pod(), pod(), "UPDATE"))["short_circuit"] == "nothing-changed"
    assert line(review(pod()), "/mutate")["patched"] == 2


def test_a_bug_is_logged_with_its_place_and_without_its_text() -> None:
    """The text of an exception may quote the object."""
    seen = line(review(pod(label="bug")))

    assert seen["level"] == "error"
    assert seen["uid"] == UID
    assert seen["rule"] == "WAS804"
    assert seen["error"] == "ValueError"
    assert seen["at"][-1].startswith("reviews.py:")
    assert "allowed" not in seen


def test_a_bad_request_says_why() -> None:
    """There is no uid to say."""
    seen = line(b"{")

    assert seen["level"] == "warning"
    assert seen["outcome"] == "bad-request"
    assert "no JSON" in seen["detail"]


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_line_holds_object_contents(log_format: str) -> None:
    """Env values, annotations, exception texts: none of it, in either format."""
    texts = lines(
        *(review(pod(label=label)) for label in ("", "deny", "warn", "audit", "bug")),
        review(pod(containers=SECRET)),
        json.dumps(review(pod())).encode()[:-5],
        log_format=log_format,
    )

    assert len(texts) == 7
    assert not [text for text in texts if SECRET in text]


def test_text_format_is_for_people() -> None:
    """One line too, and no JSON."""
    (text,) = lines(review(pod()), log_format="text")

    assert "admission" in text
    assert "outcome=allowed" in text


def test_nobody_writes_second_lines_or_endless_ones() -> None:
    """What a client sends is escaped and cut."""
    body = review(pod(), user='eve\n{"event":"forged"}' + "x" * 10_000)

    (text,) = lines(body)

    assert len(json.loads(text)["user"]) == TEXT_LENGTH_MAX
