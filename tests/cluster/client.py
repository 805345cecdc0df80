"""A thin JSON client for the Kubernetes REST API, and waiting helpers.

Thin on purpose: tests need the status code, the body and the Warning headers exactly as the API server sent them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import urllib3

JsonObject = dict[str, Any]
T = TypeVar("T")

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CONNECTIONS_MAX: Final = 32  # per client; more threads than that wait for a connection
_REQUEST_SECONDS: Final = 65.0  # the API server gives up a request after 60 s; its answer should still arrive
_POLL_SECONDS: Final = 0.1

# Kinds whose objects live in no namespace, as far as tests here use them.
_CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "DeviceTaintRule",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "RuntimeClass",
        "StorageClass",
        "TierQuota",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


class Response(NamedTuple):
    """An answer of the API server: HTTP status, decoded body, texts of its Warning headers in order."""

    status: int
    body: JsonObject
    warnings: list[str]

    @property
    def ok(self) -> bool:
        """True for a 2xx status."""
        return 200 <= self.status < 300

    def expect(self, *statuses: int) -> JsonObject:
        """The body, if the status is one of ``statuses`` (none given: any 2xx).

        Raises:
            ApiError: another status; the message holds the API server's text.
        """
        if self.status in statuses or (not statuses and self.ok):
            return self.body
        raise ApiError(self)


class ApiError(RuntimeError):
    """The API server answered with a status that the caller did not expect; ``response`` has all of it."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"HTTP {response.status}: {response.body.get('message', response.body)}")
        self.response = response


@dataclass(frozen=True)
class Credentials:
    """How a client proves who it is: a bearer token or a client certificate, and whom it acts as.

    ``impersonate`` and ``impersonate_groups`` become Impersonate headers; the real user needs the right to do so.
    """

    token: str | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()


class ApiClient:
    """JSON over HTTPS to one API server as one user; safe to share between threads."""

    def __init__(self, server: str, ca_file: Path, credentials: Credentials) -> None:
        self.server = server
        self._ca_file = ca_file
        self._credentials = credentials
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS_MAX,
            block=True,
            retries=False,
            timeout=_REQUEST_SECONDS,
            ca_certs=str(ca_file),
            cert_file=str(credentials.client_cert) if credentials.client_cert else None,
            key_file=str(credentials.client_key) if credentials.client_key else None,
        )

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> ApiClient:
        """A client of its own that impersonates ``user`` in exactly these groups (plus what authentication adds)."""
        credentials = replace(self._credentials, impersonate=user, impersonate_groups=tuple(groups))
        return ApiClient(self.server, self._ca_file, credentials)

    def close(self) -> None:
        """Closes its connections; the client opens new ones when it is used again."""
        self._pool.clear()

    def get(self, path: str, **query: str | int | bool) -> Response:
        """GET of a path such as ``/api/v1/nodes``; keyword arguments become the query string."""
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any], **query: str | int | bool) -> Response:
        """POST: creates in a collection."""
        return self.request("POST", path, body, query=query)

    def put(self, path: str, body: Mapping[str, Any], **query: str | int | bool) -> Response:
        """PUT: replaces one object."""
        return self.request("PUT", path, body, query=query)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: str | int | bool) -> Response:
        """PATCH with one of the *_PATCH content types of this module; a JSON patch is a list."""
        return self.request("PATCH", path, body, content_type=content_type, query=query)

    def delete(self, path: str, body: Mapping[str, Any] | None = None, **query: str | int | bool) -> Response:
        """DELETE of one object, or of a whole collection; ``body`` is DeleteOptions."""
        return self.request("DELETE", path, body, query=query)

    def create(self, obj: Mapping[str, Any], namespace: str | None = None, **query: str | int | bool) -> Response:
        """POST of a manifest to the collection of its apiVersion and kind.

        ``namespace`` wins over ``metadata.namespace``. Query example: ``dryRun="All", fieldValidation="Strict"``.
        """
        return self.post(collection_path(obj["apiVersion"], obj["kind"], _namespace(obj, namespace)), obj, **query)

    def text(self, path: str) -> str:
        """GET of something that is not JSON, for example ``/metrics``.

        Raises:
            ApiError: a status other than 2xx.
        """
        answer = self._pool.request("GET", self.server + path, headers=self._headers(None))
        content = answer.data.decode()
        if not 200 <= answer.status < 300:
            raise ApiError(Response(answer.status, {"message": content}, []))
        return content

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str | int | bool] | None = None,
    ) -> Response:
        """One request. A connection that fails raises what urllib3 raises; nothing is retried."""
        url = self.server + path
        if query:
            url += "?" + urlencode({k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()})
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers(content_type if data is not None else None)
        answer = self._pool.request(method, url, body=data, headers=headers)
        return Response(answer.status, _decode(answer.data), parse_warnings(answer.headers.getlist("Warning")))

    def _headers(self, content_type: str | None) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict({"Accept": "application/json, */*"})
        if content_type is not None:
            headers["Content-Type"] = content_type
        if self._credentials.token is not None:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        if self._credentials.impersonate is not None:
            headers["Impersonate-User"] = self._credentials.impersonate
            for group in self._credentials.impersonate_groups:
                headers.add("Impersonate-Group", group)
        return headers


def _decode(data: bytes) -> JsonObject:
    """The body as an object; what is no JSON object (a plain-text error) comes back as ``{"message": text}``."""
    try:
        decoded = json.loads(data) if data else {}
    except ValueError:
        return {"message": data.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": decoded}


def parse_warnings(headers: Sequence[str]) -> list[str]:
    """Texts of Warning headers: ``299 - "text"`` -> ``text``; several in one header are split."""
    texts = re.findall(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"', ", ".join(headers))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


# --- paths ------------------------------------------------------------------------------------------------------------


def collection_path(api_version: str, kind: str, namespace: str | None = None) -> str:
    """REST path of a kind's collection: ``("batch/v1", "Job", "a")`` -> ``/apis/batch/v1/namespaces/a/jobs``."""
    prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    if namespace is not None and kind not in _CLUSTER_SCOPED:
        prefix += f"/namespaces/{namespace}"
    return f"{prefix}/{_plural(kind)}"


def object_path(obj: Mapping[str, Any], namespace: str | None = None) -> str:
    """REST path of one object that has a name."""
    collection = collection_path(obj["apiVersion"], obj["kind"], _namespace(obj, namespace))
    return f"{collection}/{obj['metadata']['name']}"


def _namespace(obj: Mapping[str, Any], namespace: str | None) -> str | None:
    if obj["kind"] in _CLUSTER_SCOPED:
        return None
    return namespace or obj["metadata"].get("namespace", "default")


def _plural(kind: str) -> str:
    """Resource name of a kind by the rule that all kinds of Kubernetes but Endpoints follow."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch")):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") and lower[-2] not in "aeiou" else f"{lower}s"


# --- waiting ----------------------------------------------------------------------------------------------------------


def wait_for(predicate: Callable[[], T], timeout_seconds: float, what: str) -> T:
    """Polls until ``predicate()`` is truthy and returns that value.

    ``timeout_seconds`` only bounds a hang: give it room, it is no assertion on speed.

    Raises:
        TimeoutError: never truthy; the message names ``what`` and the last value seen.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout_seconds:g} s for {what}; last seen: {value!r}")
        time.sleep(_POLL_SECONDS)
