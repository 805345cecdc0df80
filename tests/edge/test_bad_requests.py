"""The request is bad, not the object: HTTP 4xx with a `v1` Status, and nothing of the body in it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.edge.reviews import SECRET, UID, Recorder, answer, make_app, pod, post, review
from webhook.edge.observer import Outcome
from webhook.edge.review import BODY_BYTES_MAX, DEPTH_MAX


def without(*path: str) -> dict[str, Any]:
    """A review that lacks one field."""
    body = review(pod())
    place = body
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return body


def changed(value: Any, *path: str) -> dict[str, Any]:
    """A review in which one field has another value."""
    body = review(pod())
    place = body
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return body


BAD = {
    "empty": (b"", "no JSON"),
    "not JSON": (b"apiVersion: v1", "no JSON"),
    "YAML's NaN": (b'{"kind": NaN}', "no JSON"),
    "not UTF-8": (b'{"kind": "\xff\xfe"}', "no JSON"),
    "byte order mark": (b"\xef\xbb\xbf{}", "no JSON"),
    "lone surrogate": (b'{"kind": "\\udc00x"}', "no JSON"),
    "two documents": (json.dumps(review(pod())).encode() * 2, "no JSON"),
    "cut off": (json.dumps(review(pod())).encode()[:-1], "no JSON"),
    "a list": (b"[]", "no JSON object"),
    "another kind": (json.dumps(pod()).encode(), "must be an AdmissionReview"),
    "an old version": (changed("admission.k8s.io/v1beta1", "apiVersion"), "admissionReviewVersions"),
    "no version": (without("apiVersion"), "must be an AdmissionReview"),
    "no kind": (without("kind"), "must be an AdmissionReview"),
    "no request": (without("request"), "no request"),
    "an answer instead": (changed(None, "request"), "no request"),
    "no uid": (without("request", "uid"), "uid"),
    "empty uid": (changed("", "request", "uid"), "uid"),
    "endless uid": (changed("u" * 129, "request", "uid"), "uid"),
    "no request.kind": (without("request", "kind"), "kind"),
    "empty request.kind": (changed({}, "request", "kind"), "request.kind.kind"),
    "object is a text": (changed(SECRET, "request", "object"), "request.object"),
    "operation is a number": (changed(7, "request", "operation"), "request.operation"),
    "a number without end": (changed(0, "request", "object", "n"), None),
    "depth bomb of lists at the top": (b"[" * 1_000_000, "no JSON object"),
    "depth bomb of lists": (b'{"request":{"uid":"u","kind":{},"object":{"a":' + b"[" * 1_000_000, "nests deeper"),
    "depth bomb of objects": (b'{"request":' * 100_000, "nests deeper"),
}
BAD["a number without end"] = (
    json.dumps(review(pod())).replace('"spec"', '"n": 1e999, "spec"', 1).encode(),
    "out of range",
)


@pytest.mark.parametrize("path", ["/validate/submit", "/mutate"])
@pytest.mark.parametrize("name", BAD)
def test_400(name: str, path: str) -> None:
    """No AdmissionReview can be answered: 400, in words, as a Status that Kubernetes clients can read."""
    body, words = BAD[name]
    recorder = Recorder()

    got = post(make_app(observer=recorder), body, path)

    status = got.get_json()
    assert got.status_code == 400
    assert {key: status[key] for key in ("kind", "apiVersion", "status", "reason", "code")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "BadRequest",
        "code": 400,
    }
    assert words in status["message"]
    assert SECRET.encode() not in got.data
    assert "Traceback" not in status["message"]
    assert recorder.last.outcome is Outcome.BAD_REQUEST
    assert recorder.last.detail == status["message"]


def nested(depth: int) -> dict[str, Any]:
    """A Pod with `depth` objects inside each other, itself included."""
    raw = pod()
    inner: dict[str, Any] = {}
    for _ in range(depth - 3):
        inner = {"d": inner}
    raw["metadata"]["annotations"] = inner
    return raw


def test_depth_limit_is_exact() -> None:
    """The deepest that is read is judged (annotations must be texts: 422), one more is refused."""
    app = make_app()

    assert answer(app, review(nested(DEPTH_MAX)))["status"]["code"] == 422
    assert post(app, review(nested(DEPTH_MAX + 1))).status_code == 400
    assert post(app, review(pod(), nested(DEPTH_MAX + 1), "UPDATE")).status_code == 400


def test_many_brackets_side_by_side_are_no_depth() -> None:
    """A JobSet of many roles has many objects, none deep."""
    assert answer(make_app(), review(pod(tolerations=[{"key": "a"}] * 2000)))["allowed"] is True


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/yaml", 415),
        ("application/vnd.kubernetes.protobuf", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_content_type(content_type: str, status: int) -> None:
    """415 for anything but JSON."""
    assert post(make_app(), review(pod()), **{"Content-Type": content_type}).status_code == status


def test_compressed_body_is_415() -> None:
    """The API server never compresses what it sends to webhooks; guessing would be one more parser."""
    assert post(make_app(), review(pod()), **{"Content-Encoding": "gzip"}).status_code == 415


def padded(size: int) -> bytes:
    """A whole AdmissionReview of exactly `size` bytes, most of it one annotation."""
    raw = pod(label="deny")
    raw["metadata"]["annotations"] = {"a": ""}
    room = size - len(json.dumps(review(raw)))
    raw["metadata"]["annotations"]["a"] = "x" * room
    return json.dumps(review(raw)).encode()


def test_body_of_7_mib_is_judged_and_one_byte_more_is_413() -> None:
    """Two objects of the API server's own limit and an envelope must pass."""
    app = make_app()
    largest = padded(BODY_BYTES_MAX)
    assert len(largest) == 7 * 1024 * 1024

    assert answer(app, largest)["status"]["code"] == 403
    got = post(app, padded(BODY_BYTES_MAX + 1))
    assert got.status_code == 413
    assert got.get_json()["reason"] == "RequestEntityTooLarge"


class Unreadable(io.RawIOBase):
    """A body that must not be read."""

    def readable(self) -> bool:
        return True

    def read(self, _size: int = -1) -> bytes:
        raise AssertionError("the body was read")


@pytest.mark.parametrize(
    ("length", "status"),
    [(str(BODY_BYTES_MAX + 1), 413), ("9" * 18, 413), ("9" * 5000, 400), ("-1", 400), ("1e3", 400), ("٣", 400)],
)
def test_content_length_is_checked_before_anything_is_read(length: str, status: int) -> None:
    """A size that cannot be right costs no memory."""
    app = make_app()
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/validate",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": length,
        "wsgi.input": Unreadable(),
    }
    got = app.test_client().open(environ_overrides=environ)

    assert got.status_code == status


def test_body_shorter_than_announced_is_400() -> None:
    """A caller that hangs up half-way is not judged on half an object."""
    data = json.dumps(review(pod())).encode()

    got = (
        make_app()
        .test_client()
        .post(
            "/validate",
            content_type="application/json",
            environ_overrides={"CONTENT_LENGTH": str(len(data) + 5), "wsgi.input": io.BytesIO(data)},
        )
    )

    assert got.status_code == 400
    assert "announced" in got.get_json()["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/validate", 405),
        ("PUT", "/validate/submit", 405),
        ("DELETE", "/mutate", 405),
        ("POST", "/healthz", 405),
        ("GET", "/", 404),
        ("POST", "/validate/a/b", 404),
        ("POST", "//validate", 404),
        ("GET", "/static/x", 404),
        ("GET", "/metrics", 404),
    ],
)
def test_what_is_not_served(method: str, path: str, status: int) -> None:
    """404 and 405 are JSON too, and 405 says what is allowed."""
    got = make_app().test_client().open(path, method=method)

    assert got.status_code == status
    assert got.get_json()["code"] == status
    assert ("Allow" in got.headers) == (status == 405)


def test_uid_of_a_good_request_is_echoed_as_it_came() -> None:
    """Any text that is short enough: the API server compares it byte by byte."""
    body = review(pod())
    body["request"]["uid"] = 'odd "uid" ü'

    assert post(make_app(), body).get_json()["response"]["uid"] == 'odd "uid" ü'
    assert UID not in post(make_app(), body).text
