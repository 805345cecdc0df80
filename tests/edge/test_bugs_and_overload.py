"""Our own bugs (500) and too much work (429 or a warning): never a traceback, never a silent allow."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.edge.reviews import CATALOGUE, SECRET, UID, Recorder, answer, make_app, pod, post, review, rule
from webhook.admission.evaluate import RuleError
from webhook.edge.observer import Observation, Outcome
from webhook.edge.worker import WAITING_KEY


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_rule_that_raises_is_500_with_the_uid(monkeypatch: pytest.MonkeyPatch, debug: str) -> None:
    """failurePolicy decides; whoever reads the API server's log finds our log line by the uid."""
    monkeypatch.setenv("FLASK_DEBUG", debug)
    recorder = Recorder()

    got = post(make_app(observer=recorder), review(pod(label="bug")))

    assert got.status_code == 500
    assert got.get_json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "Muster failed on this request; its log has the cause under this uid",
        "reason": "InternalError",
        "code": 500,
        "details": {"uid": UID},
    }
    assert recorder.last.outcome is Outcome.ERROR
    assert isinstance(recorder.last.error, RuleError)
    assert recorder.last.error.rule_id == "WAS804"
    assert recorder.last.verdict is None


def test_a_bug_in_one_request_leaves_the_next_alone() -> None:
    """Nothing is kept between requests."""
    app = make_app()

    assert post(app, review(pod(label="bug"))).status_code == 500
    assert answer(app, review(pod()))["allowed"] is True


def test_a_bug_outside_the_rules_is_500_too() -> None:
    """Whatever raises, wherever."""
    app = make_app(ready=lambda: 1 / 0)

    got = app.test_client().get("/readyz")

    assert got.status_code == 500
    assert got.get_json()["reason"] == "InternalError"
    assert b"ZeroDivision" not in got.data


class Broken:
    """An observer whose disk is full."""

    def observe(self, _observation: Observation) -> None:
        raise OSError(28, "No space left on device")


def test_a_broken_observer_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """The verdict stands, and stderr says what is wrong."""
    assert answer(make_app(observer=Broken()), review(pod(label="deny")))["allowed"] is False
    assert "the observer raised" in caplog.text


@pytest.mark.parametrize("label", ["", "deny", "warn", "audit", "bug"])
@pytest.mark.parametrize("body", [review(pod()), b"{", review(pod(containers=SECRET))], ids=["good", "bad", "shape"])
def test_no_answer_holds_a_traceback_or_a_secret(label: str, body: Any) -> None:
    """Env values and exception texts stay inside."""
    if isinstance(body, dict) and label:
        body = json.loads(json.dumps(body))
        body["request"]["object"]["metadata"]["labels"] = {"muster-test": label}

    got = post(make_app(), body)

    assert b"Traceback" not in got.data
    assert b".py" not in got.data
    assert SECRET.encode() not in got.data


class Held:
    """A rule that waits until it is let go, so that requests pile up."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()

    def run(self, facts: Any) -> Any:
        if (facts.metadata.labels or {}).get("muster-test") == "hold":
            self.entered.release()
            assert self.let_go.wait(30)
        return ()


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/validate/submit", True),
        ("/validate", True),
        ("/validate/another", True),
        ("/validate/controllers", False),
        ("/validate/traps", False),
    ],
)
def test_overload(path: str, refused: bool) -> None:
    """Above the limit a Fail entry says 429 (kubectl repeats it), an Ignore entry admits with a warning; both counted."""
    held = Held()
    recorder = Recorder()
    app = make_app((*CATALOGUE, rule("WAS805", held.run)), observer=recorder, in_flight_max=2)
    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(answer, app, review(pod(label="hold")), path) for _ in range(2)]
        for _ in busy:
            assert held.entered.acquire(timeout=30)

        third = answer(app, review(pod(label="deny")), path)
        elsewhere = answer(
            app, review(pod(label="deny")), "/validate/submit" if not refused else "/validate/controllers"
        )
        seen = recorder.seen[0]
        held.let_go.set()

        assert all(request.result()["allowed"] for request in busy)
    assert third["allowed"] is not refused
    assert third["auditAnnotations"]["short-circuit"] == "overload"
    if refused:
        assert third["status"]["code"] == 429
        assert third["status"]["reason"] == "TooManyRequests"
        assert third["status"]["details"]["retryAfterSeconds"] == 1
        assert "try again" in third["status"]["message"]
        assert "warnings" not in third
        assert seen.outcome is Outcome.OVERLOAD_DENIED
    else:
        assert "admitted unchecked" in third["warnings"][0]
        assert seen.outcome is Outcome.OVERLOAD_ADMITTED
    assert elsewhere["status"]["code"] == 403  # entries do not share their limit
    assert answer(app, review(pod(label="deny")), path)["status"]["code"] == 403


def test_requests_that_wait_for_a_thread_count() -> None:
    """With few threads nothing ever runs in excess: what piles up waits in the worker, which says how many."""
    app = make_app(in_flight_max=10)
    data = json.dumps(review(pod(label="deny"))).encode()

    def code(waiting: int) -> int:
        got = app.test_client().post(
            "/validate/submit", data=data, content_type="application/json", environ_overrides={WAITING_KEY: waiting}
        )
        return int(got.get_json()["response"]["status"]["code"])

    assert code(9) == 403
    assert code(10) == 429


def test_overloaded_mutation_is_left_out() -> None:
    """A patch is a convenience: admitted without it."""
    app = make_app(in_flight_max=1)

    got = app.test_client().post("/mutate", json=review(pod()), environ_overrides={WAITING_KEY: 5})

    response = got.get_json()["response"]
    assert response["allowed"] is True
    assert "patch" not in response
    assert response["warnings"]


def test_a_bad_request_is_bad_even_under_overload() -> None:
    """Without a uid nothing can be answered."""
    got = (
        make_app()
        .test_client()
        .post(
            "/validate/submit", data=b"{", content_type="application/json", environ_overrides={WAITING_KEY: 1_000_000}
        )
    )

    assert got.status_code == 400
