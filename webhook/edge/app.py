"""The Flask application: `POST /validate[/<entry>]`, `POST /mutate[/<entry>]`, health, version, metrics.

Nothing is global: `create_app` is given its parts. A view does three things, each in a file of its own: read (review.py),
judge (the pipeline), answer (response.py). HTTP 200 whenever an AdmissionReview can be answered, whatever it says; 4xx
where the request cannot be read as one; 500 where Muster has a bug, so that the failurePolicy decides.

Entries are the registered webhooks of one phase. Their name tells what an overloaded Muster answers: `controllers`, `traps`
and `scale` are registered with failurePolicy Ignore (webhook/registration/render.py), so they admit with a warning, as
`/mutate` does, whose patches are conveniences.
Every other entry may be the one with failurePolicy Fail, where admitting unseen is no option: 429, which kubectl repeats.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from webhook.admission.pipeline import Pipeline
from webhook.edge import response as answers
from webhook.edge import review
from webhook.edge.observer import Observation, Observer, Outcome
from webhook.edge.openapi import openapi
from webhook.edge.worker import RECEIVED_KEY, WAITING_KEY
from webhook.facts.model import Phase
from webhook.objects.request import AdmissionRequest
from webhook.verdict import Verdict

IN_FLIGHT_MAX: Final = 256
"""Requests of one entry that a worker process has in hand, running or waiting for a thread. At a few milliseconds each
the last of them is answered in about a second, well inside the usual timeouts of 5 to 10 s."""

_ENTRIES: Final = ("default", "submit", "controllers", "traps", "scale", "other")
_IGNORED_ENTRIES: Final = frozenset({"controllers", "traps", "scale"})
_JSON: Final = "application/json"
_LENGTH_DIGITS_MAX: Final = 18  # of a content length: int() of a text without limit is slow, and raises beyond 4,300
_log = logging.getLogger("muster.edge")


class Entry:
    """One registered webhook: reads, judges and answers, counts what is in flight, and tells the observer."""

    def __init__(self, phase: Phase, name: str, pipeline: Pipeline, observer: Observer, in_flight_max: int) -> None:
        self.phase = phase
        self.name = name
        self._admits_on_overload = name in _IGNORED_ENTRIES or (phase is Phase.MUTATING and name == "default")
        self._pipeline = pipeline
        self._observer = observer
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._lock = threading.Lock()

    def answer(self, environ: Mapping[str, Any]) -> tuple[int, bytes]:
        """(HTTP status, JSON body). Never raises."""
        with self._lock:
            self._in_flight += 1
            load = self._in_flight
        try:
            return self._answer(environ, overloaded=load + environ.get(WAITING_KEY, 0) > self._in_flight_max)
        finally:
            with self._lock:
                self._in_flight -= 1

    def _answer(self, environ: Mapping[str, Any], *, overloaded: bool) -> tuple[int, bytes]:
        started = time.monotonic()
        received: float = environ.get(RECEIVED_KEY, started)
        admission: AdmissionRequest | None = None
        verdict: Verdict | None = None
        error: Exception | None = None
        detail = ""
        decoded = judged = started
        try:
            admission = _read(environ)
            decoded = judged = time.monotonic()
            if overloaded:
                verdict = self._overload()
            else:
                deadline = review.deadline(environ.get("QUERY_STRING", ""), received)
                verdict = self._pipeline.judge(admission, self.phase, deadline)
            judged = time.monotonic()
            status, body = 200, answers.admission_review(admission, verdict, self.phase)
            outcome = _outcome(verdict)
        except review.BadRequestError as bad:
            outcome, status, detail = Outcome.BAD_REQUEST, bad.status, bad.message
            body = answers.http_error(status, detail)
        except Exception as bug:  # noqa: BLE001  whatever it is: answered 500, counted and logged with the uid
            outcome, status, error, verdict = Outcome.ERROR, 500, bug, None
            body = answers.http_error(
                500, "Muster failed on this request; its log has the cause under this uid", _uid(admission)
            )
        ended = time.monotonic()
        self._tell(
            Observation(
                phase=self.phase,
                entry=self.name,
                outcome=outcome,
                status=status,
                request=admission,
                verdict=verdict,
                error=error,
                detail=detail,
                waited_seconds=started - received,
                decode_seconds=decoded - started,
                judge_seconds=judged - decoded,
                respond_seconds=ended - judged,
                total_seconds=ended - received,
            )
        )
        return status, body

    def _overload(self) -> Verdict:
        if self._admits_on_overload:
            note = "Muster has too many requests in hand: admitted unchecked"
            return Verdict(short_circuit="overload", notes=(note,))
        note = f"Muster has more than {self._in_flight_max} requests in hand: nothing was checked, try again in 1 s"
        return Verdict(short_circuit="overload", notes=(note,), code=429, retry_after_seconds=1)

    def _tell(self, observation: Observation) -> None:
        try:
            self._observer.observe(observation)
        except Exception:  # noqa: BLE001  a full disk behind the log must not stop a cluster: the answer stands
            _log.exception("the observer raised")


def create_app(
    pipeline: Pipeline,
    observer: Observer,
    *,
    ready: Callable[[], list[str]],
    version: Mapping[str, str],
    metrics: Callable[[], tuple[bytes, str]] | None = None,
    in_flight_max: int = IN_FLIGHT_MAX,
) -> Flask:
    """ready: the reasons why not, empty when ready. version: what GET /version says. metrics: (body, content type) for
    GET /metrics, or None for none."""
    app = Flask("webhook", static_folder=None)
    app.debug = False  # whatever FLASK_DEBUG says
    app.url_map.merge_slashes = False
    _add_admission(app, pipeline, observer, in_flight_max)
    _add_health(app, ready, version, metrics)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        answer = _json(status, answers.http_error(status, f"{error.name.lower()}: {request.method} is not served here"))
        if "Allow" in (headers := dict(error.get_headers())):
            answer.headers["Allow"] = headers["Allow"]
        return answer

    @app.errorhandler(Exception)
    def bug(error: Exception) -> Response:
        _log.error("a view raised", exc_info=error)
        return _json(500, answers.http_error(500, "Muster failed on this request; its log has the cause"))

    return app


def _add_admission(app: Flask, pipeline: Pipeline, observer: Observer, in_flight_max: int) -> None:
    entries = {
        (phase, name): Entry(phase, name, pipeline, observer, in_flight_max)
        for phase in (Phase.VALIDATING, Phase.MUTATING)
        for name in _ENTRIES
    }

    app.wsgi_app = _Direct(app.wsgi_app, entries)  # type: ignore[method-assign]  # as Flask's documentation has it

    def answer(phase: Phase, entry: str) -> Response:
        return _json(*(entries.get((phase, entry)) or entries[phase, "other"]).answer(request.environ))

    @app.post("/validate")
    @app.post("/validate/<entry>")
    def validate(entry: str = "default") -> Response:
        return answer(Phase.VALIDATING, entry)

    @app.post("/mutate")
    @app.post("/mutate/<entry>")
    def mutate(entry: str = "default") -> Response:
        return answer(Phase.MUTATING, entry)


class _Direct:
    """Gives a POST to a known entry straight to it. Flask's context, routing and Response cost 50 µs of the 300 that a
    Pod takes, and an entry uses none of them. Everything else, unknown entries included, goes on to Flask."""

    def __init__(self, flask_app: Callable[..., Any], entries: Mapping[tuple[Phase, str], Entry]) -> None:
        self._flask_app = flask_app
        roots = {Phase.VALIDATING: "/validate", Phase.MUTATING: "/mutate"}
        self._by_path = {
            roots[phase] + ("" if name == "default" else f"/{name}"): entry for (phase, name), entry in entries.items()
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        entry = self._by_path.get(environ.get("PATH_INFO", "")) if environ["REQUEST_METHOD"] == "POST" else None
        if entry is None:
            answer: Iterable[bytes] = self._flask_app(environ, start_response)
            return answer
        status, body = entry.answer(environ)
        headers = [("Content-Type", _JSON), ("Content-Length", str(len(body)))]
        start_response(f"{status} {HTTP_STATUS_CODES[status]}", headers)
        return (body,)


def _add_health(
    app: Flask,
    ready: Callable[[], list[str]],
    version: Mapping[str, str],
    metrics: Callable[[], tuple[bytes, str]] | None,
) -> None:
    @app.get("/healthz")
    def healthz() -> Response:
        """The process answers: nothing else, or a restart would be the answer to a slow API server."""
        return _json(200, answers.to_json({"status": "ok"}))

    @app.get("/readyz")
    def readyz() -> Response:
        reasons = ready()
        return _json(503 if reasons else 200, answers.to_json({"ready": not reasons, "reasons": reasons}))

    @app.get("/version")
    def show_version() -> Response:
        return _json(200, answers.to_json(dict(version)))

    description = answers.to_json(openapi(version.get("version", "")))

    @app.get("/openapi.json")
    def show_openapi() -> Response:
        return _json(200, description)

    if metrics is not None:
        read_metrics = metrics

        @app.get("/metrics")
        def show_metrics() -> Response:
            body, content_type = read_metrics()
            return Response(body, content_type=content_type)


def _read(environ: Mapping[str, Any]) -> AdmissionRequest:
    """The request in a WSGI environment. Raises BadRequestError."""
    review.check_content_type(environ.get("CONTENT_TYPE", ""))
    if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
        raise review.BadRequestError(415, "the body must not be compressed")
    announced = environ.get("CONTENT_LENGTH") or "0"
    if not announced.isdecimal() or not announced.isascii() or len(announced) > _LENGTH_DIGITS_MAX:
        raise review.BadRequestError(400, "the content length is no number")
    size = int(announced)
    review.check_size(size)
    body: bytes = environ["wsgi.input"].read(size)
    if len(body) != size:
        raise review.BadRequestError(400, f"the body has {len(body)} bytes, {size} were announced")
    return review.parse(body)


def _outcome(verdict: Verdict) -> Outcome:
    if verdict.short_circuit == "overload":
        return Outcome.OVERLOAD_ADMITTED if verdict.allowed else Outcome.OVERLOAD_DENIED
    if not verdict.allowed:
        return Outcome.DENIED
    return Outcome.WARNED if verdict.warnings else Outcome.ALLOWED


def _uid(admission: AdmissionRequest | None) -> str:
    return admission.uid if admission is not None else ""


def _json(status: int, body: bytes) -> Response:
    return Response(body, status=status, content_type=_JSON)
