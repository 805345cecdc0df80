"""Bytes -> AdmissionRequest. What cannot be read as an AdmissionReview is a BadRequestError: the caller's fault, HTTP 4xx.

Three families of error, kept apart. BadRequestError (here): the request is bad, so no AdmissionReview can be answered.
ShapeError (webhook.objects.read): the object is bad, answered inside an AdmissionReview. Anything else is our bug, 500.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from webhook.objects.request import AdmissionRequest

MIB: Final = 1024 * 1024

BODY_BYTES_MAX: Final = 7 * MIB
"""kube-apiserver reads at most 3 MiB from its client (apiserver, server/config.go, MaxRequestBodyBytes) and an UPDATE
carries two such objects, object and oldObject: 6 MiB. One more for options, userInfo and the envelope."""

DEPTH_MAX: Final = 128
"""How deep objects and lists may nest in a request. The deepest known path of our kinds (a CompositePodGroup tree in a
Workload, a Pod's affinity in a JobSet, their managedFields) is below 40; the limit keeps everything behind it far from
Python's own recursion limit."""

UID_LENGTH_MAX: Final = 128
"""The API server sends a UUID (36). It is echoed and logged, so it may not be of any length."""

TIMEOUT_SECONDS_DEFAULT: Final = 10.0
"""timeoutSeconds of a webhook where nobody says otherwise (admissionregistration/v1)."""

TIMEOUT_SECONDS_MAX: Final = 30.0
"""The largest timeoutSeconds a webhook may have."""

MARGIN_SECONDS: Final = 0.5
"""Kept back for writing the answer and for the way back: an answer after the deadline is no answer."""

_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"


class BadRequestError(Exception):
    """The request is bad, not the object. `status`: 400, 413 or 415. `message`: one line, lower case, for the log of
    the API server and of whoever calls by hand; it holds nothing of the body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: Any = ""
    kind: Any = ""


# Decoders are immutable and thread-safe; building one costs more than decoding a request.
_REVIEW = msgspec.json.Decoder(_Review)
_TYPE_META = msgspec.json.Decoder(_TypeMeta)


def check_content_type(content_type: str) -> None:
    """`application/json`, with or without parameters. Raises BadRequestError (415)."""
    if content_type != "application/json" and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError(415, "the content type must be application/json")


def check_size(size: int) -> None:
    """Size in bytes of the body, announced or read. Raises BadRequestError (413)."""
    if size > BODY_BYTES_MAX:
        raise BadRequestError(413, f"the body has {size} bytes, at most {BODY_BYTES_MAX} are read")


def parse(body: bytes) -> AdmissionRequest:
    """The request of an `admission.k8s.io/v1` AdmissionReview. Raises BadRequestError (400), and nothing else.

    Unknown fields are passed over and of equal keys the last one counts, both as in Go.
    """
    try:
        review = _REVIEW.decode(body)
    except msgspec.ValidationError as error:
        _check_type(body)
        raise BadRequestError(400, f"the AdmissionReview is not of the expected shape: {_plain(error)}") from None
    except msgspec.DecodeError as error:
        raise BadRequestError(400, f"the body is no JSON: {_plain(error)}") from None
    except RecursionError:
        raise BadRequestError(400, _too_deep()) from None
    if review.api_version != _API_VERSION or review.kind != _KIND:
        raise BadRequestError(400, _wrong_type(review.api_version, review.kind))
    request = review.request
    if request is None:
        raise BadRequestError(400, "the AdmissionReview has no request")
    if not request.uid or len(request.uid) > UID_LENGTH_MAX:
        raise BadRequestError(400, f"request.uid must have 1 to {UID_LENGTH_MAX} characters")
    if not request.kind.kind:
        raise BadRequestError(400, "request.kind.kind is missing")
    # Nothing nests deeper than it has opening brackets, so the usual request is not walked at all.
    if body.count(b"{") + body.count(b"[") > DEPTH_MAX and _deeper_than(request, DEPTH_MAX):
        raise BadRequestError(400, _too_deep())
    return request


def _check_type(body: bytes) -> None:
    """The first thing to say about a foreign object is that it is no AdmissionReview. Raises BadRequestError (400)."""
    try:
        meta = _TYPE_META.decode(body)
    except msgspec.DecodeError:
        raise BadRequestError(400, "the body is no JSON object") from None
    except RecursionError:
        raise BadRequestError(400, _too_deep()) from None
    if meta.api_version != _API_VERSION or meta.kind != _KIND:
        raise BadRequestError(400, _wrong_type(meta.api_version, meta.kind))


def _wrong_type(api_version: Any, kind: Any) -> str:
    if kind == _KIND and isinstance(api_version, str) and api_version.startswith("admission.k8s.io/"):
        return f'an AdmissionReview must be of {_API_VERSION}: register the webhook with admissionReviewVersions ["v1"]'
    return f"the body must be an AdmissionReview of {_API_VERSION}"


def _too_deep() -> str:
    return f"the body nests deeper than {DEPTH_MAX} objects and lists"


def _plain(error: Exception) -> str:
    text = str(error).replace("`", "")
    return text[:1].lower() + text[1:]


def _deeper_than(request: AdmissionRequest, limit: int) -> bool:
    """Level by level, so that the walk itself cannot recurse."""
    level: list[Any] = [part for part in (request.object, request.old_object, request.options) if part is not None]
    for _ in range(limit):
        level = [
            item
            for part in level
            for item in (part.values() if isinstance(part, dict) else part)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


# Go's time.ParseDuration: "5s", "1m30s", "1.5s", "250ms". No sign, and no "µs", which the API server cannot mean.
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+\Z", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_TIMEOUT = re.compile(r"(?:\A|&)timeout=([^&]*)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def timeout_seconds(query: str) -> float:
    """`?timeout=` of a raw query string, in seconds: above 0, at most TIMEOUT_SECONDS_MAX.

    Not given or not a positive Go duration: the default, as PodSecurity admission does; a webhook that answers is worth
    more than one that insists. The API server rounds up to whole seconds, so the true deadline may be up to a second
    earlier when its own client set a short one; with the webhook's timeoutSeconds it is exact.
    """
    match = _TIMEOUT.search(query)
    text = match[1] if match else ""
    if len(text) > 32 or not _DURATION.match(text):
        return TIMEOUT_SECONDS_DEFAULT
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    return min(seconds, TIMEOUT_SECONDS_MAX) if seconds > 0 else TIMEOUT_SECONDS_DEFAULT


def deadline(query: str, received: float) -> float:
    """When the answer has to be ready, in time.monotonic() seconds. received: when the request's first byte came.

    MARGIN_SECONDS before the caller gives up, or half of a timeout that is shorter than twice the margin.
    """
    seconds = timeout_seconds(query)
    return received + max(seconds - MARGIN_SECONDS, seconds / 2)
