"""The endpoints as OpenAPI 3.1, served at GET /openapi.json: what a caller may send and what comes back.

Not generated: it is the other description of the wire, against which schemathesis tests the first one, the code.
"""

from __future__ import annotations

from typing import Any, Final

from webhook.edge.response import WARNING_LENGTH_MAX
from webhook.edge.review import UID_LENGTH_MAX

_Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_OBJECT_OR_NULL: Final[_Schema] = {"type": ["object", "null"]}
_BODY_TOO_LARGE: Final = "the body is larger than 7 MiB"


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: dict[str, _Schema], required: tuple[str, ...] = (), **more: Any) -> _Schema:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def _json(schema: _Schema, description: str) -> _Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_GVK = _object({"group": _TEXT, "version": _TEXT, "kind": {"type": "string", "minLength": 1}}, ("kind",))
_GVR = _object({"group": _TEXT, "version": _TEXT, "resource": _TEXT})

_REQUEST = _object(
    {
        "uid": {"type": "string", "minLength": 1, "maxLength": UID_LENGTH_MAX},
        "kind": _GVK,
        "resource": _GVR,
        "subResource": _TEXT,
        "requestKind": {"anyOf": [_object({"group": _TEXT, "version": _TEXT, "kind": _TEXT}), {"type": "null"}]},
        "requestResource": {"anyOf": [_GVR, {"type": "null"}]},
        "requestSubResource": _TEXT,
        "name": _TEXT,
        "namespace": _TEXT,
        "operation": _TEXT,
        "userInfo": _object(
            {
                "username": _TEXT,
                "uid": _TEXT,
                "groups": {"type": ["array", "null"], "items": _TEXT},
                "extra": {"type": ["object", "null"], "additionalProperties": {"type": "array", "items": _TEXT}},
            }
        ),
        "object": _OBJECT_OR_NULL,
        "oldObject": _OBJECT_OR_NULL,
        "dryRun": {"type": ["boolean", "null"]},
        "options": _OBJECT_OR_NULL,
    },
    ("uid", "kind"),
)

_CAUSE = _object({"reason": _TEXT, "message": _TEXT, "field": _TEXT}, ("reason", "message"), additionalProperties=False)

_DETAILS = _object(
    {
        "name": _TEXT,
        "group": _TEXT,
        "kind": _TEXT,
        "uid": _TEXT,
        "causes": {"type": "array", "items": _CAUSE},
        "retryAfterSeconds": {"type": "integer", "minimum": 1},
    },
    additionalProperties=False,
)

_DENIAL = _object(
    {
        "status": {"const": "Failure"},
        "message": {"type": "string", "minLength": 1},
        "reason": {"enum": ["Forbidden", "Invalid", "TooManyRequests"]},
        "code": {"enum": [403, 422, 429]},
        "details": _DETAILS,
    },
    ("status", "message", "reason", "code", "details"),
    additionalProperties=False,
)

_RESPONSE: Final[_Schema] = {
    **_object(
        {
            "uid": {"type": "string", "minLength": 1, "maxLength": UID_LENGTH_MAX},
            "allowed": {"type": "boolean"},
            "status": _DENIAL,
            "patch": {"type": "string", "contentEncoding": "base64", "minLength": 1},
            "patchType": {"const": "JSONPatch"},
            "auditAnnotations": {"type": "object", "additionalProperties": _TEXT},
            "warnings": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "minLength": 1, "maxLength": WARNING_LENGTH_MAX},
            },
        },
        ("uid", "allowed"),
        additionalProperties=False,
        dependentRequired={"patch": ["patchType"], "patchType": ["patch"]},
    ),
    "if": {"properties": {"allowed": {"const": False}}},
    "then": {"required": ["status"]},
    "else": {"properties": {"status": False}},
}

_STATUS = _object(
    {
        "kind": {"const": "Status"},
        "apiVersion": {"const": "v1"},
        "status": {"const": "Failure"},
        "message": {"type": "string", "minLength": 1},
        "reason": _TEXT,
        "code": {"type": "integer", "minimum": 400, "maximum": 599},
        "details": _DETAILS,
    },
    ("kind", "apiVersion", "status", "message", "reason", "code"),
    additionalProperties=False,
)


def _review(part: str, schema: _Schema) -> _Schema:
    return _object(
        {"apiVersion": {"const": "admission.k8s.io/v1"}, "kind": {"const": "AdmissionReview"}, part: schema},
        ("apiVersion", "kind", part),
    )


def _admission(summary: str, *, named: bool) -> _Schema:
    timeout = {
        "name": "timeout",
        "in": "query",
        "description": 'how long the caller waits, a Go duration ("5s"); anything else counts as 10 s',
        "schema": _TEXT,
    }
    entry = {
        "name": "entry",
        "in": "path",
        "required": True,
        "description": 'which registered webhook calls; "controllers", "traps" and "scale" are those with failurePolicy Ignore',
        "schema": {"type": "string", "minLength": 1},
    }
    return {
        "post": {
            "summary": summary,
            "parameters": [timeout, *([entry] if named else [])],
            "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("ReviewRequest")}}},
            "responses": {
                "200": _json(_ref("ReviewResponse"), "the verdict, whatever it is"),
                "400": _json(_ref("Status"), "the body is no AdmissionReview"),
                "413": _json(_ref("Status"), _BODY_TOO_LARGE),
                "415": _json(_ref("Status"), "the body is not application/json"),
            },
        }
    }


def _get(summary: str, **answers: _Schema) -> _Schema:
    return {
        "get": {"summary": summary, "responses": {code.removeprefix("_"): answer for code, answer in answers.items()}}
    }


def openapi(version: str) -> dict[str, Any]:
    """The document, as plain JSON data."""
    ready = _object({"ready": {"type": "boolean"}, "reasons": {"type": "array", "items": _TEXT}}, ("ready", "reasons"))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Muster", "version": version, "description": "Admission webhook of Muster"},
        "paths": {
            "/validate": _admission("judge an object", named=False),
            "/validate/{entry}": _admission("judge an object, as a named entry", named=True),
            "/mutate": _admission("complete an object", named=False),
            "/mutate/{entry}": _admission("complete an object, as a named entry", named=True),
            "/healthz": _get("does the process answer", _200=_json(_object({"status": {"const": "ok"}}), "yes")),
            "/readyz": _get("is it ready", _200=_json(ready, "yes"), _503=_json(ready, "no, and why")),
            "/version": _get("what is running", _200=_json({"type": "object"}, "names and versions")),
            "/openapi.json": _get("this document", _200=_json({"type": "object"}, "OpenAPI 3.1")),
        },
        "components": {
            "schemas": {
                "ReviewRequest": _review("request", _REQUEST),
                "ReviewResponse": _review("response", _RESPONSE) | {"additionalProperties": False},
                "Status": _STATUS,
            }
        },
    }
