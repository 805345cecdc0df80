"""Health, readiness, version: for kubelets and people."""

from __future__ import annotations

from tests.edge.reviews import answer, make_app, pod, review


def test_healthz_says_only_that_the_process_answers() -> None:
    """It stays well while not ready: a restart would not help."""
    app = make_app(ready=lambda: ["the policy is not loaded"])

    assert app.test_client().get("/healthz").status_code == 200


def test_readyz_gives_the_reasons() -> None:
    """503 until nothing is missing; asked anew each time."""
    reasons = ["no policy", "no facts"]
    app = make_app(ready=lambda: list(reasons))

    got = app.test_client().get("/readyz")

    assert got.status_code == 503
    assert got.get_json() == {"ready": False, "reasons": ["no policy", "no facts"]}
    reasons.clear()
    got = app.test_client().get("/readyz")
    assert got.status_code == 200
    assert got.get_json() == {"ready": True, "reasons": []}


def test_a_request_that_comes_before_readiness_is_judged() -> None:
    """The Service does not route to us yet; who asks all the same gets the best answer there is."""
    app = make_app(ready=lambda: ["no facts"])

    assert answer(app, review(pod(label="deny")))["allowed"] is False


def test_version() -> None:
    """What is running here."""
    assert make_app().test_client().get("/version").get_json() == {"version": "test"}
