"""The connection to the API server: authentication and TLS by the kubernetes client, bodies read raw.

The generated model classes are not used: a V1Node takes 651 µs to build, a msgspec struct of what is needed 10 µs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import urllib3
import yaml
from kubernetes import client, config
from urllib3.exceptions import NameResolutionError, NewConnectionError, SSLError
from urllib3.response import BaseHTTPResponse

from webhook.facts.source import NOT_SERVED

# A kubeconfig or service account that cannot be used, for roots that say so.
ConfigError = config.ConfigException

# One list page; the API server's own clients (kubectl, informers) use 500.
PAGE_OBJECT_COUNT = 500


class ReadState(enum.Enum):
    OK = "ok"
    NOT_FOUND = "not found"  # the object is confirmed absent
    NOT_SERVED = "not served"  # the API server does not know the resource (a gate or a CRD is missing)
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Read:
    """body: the JSON bytes of the object or list where state is OK. reason: words where it is not."""

    state: ReadState
    body: bytes = b""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a creation would have led to. warnings: the Warning headers as they came."""

    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


class GoneError(Exception):
    """410: the watch's resourceVersion is too old; list again."""


class WatchError(Exception):
    """The watch ended with an error; the message is the API server's."""


class Connection:
    """Thread-safe; keeps a pool of connections. kubeconfig None means in-cluster (service account token). Raises
    ConfigError, or OSError, where there is nothing to connect with."""

    def __init__(self, kubeconfig: Path | None, *, pool_size: int = 16) -> None:
        settings = client.Configuration()
        settings.connection_pool_maxsize = pool_size
        settings.retries = False
        if kubeconfig is None:
            _load_service_account(settings)
        else:
            _load_kubeconfig(kubeconfig, settings)
        self._settings = settings
        self._pool: urllib3.PoolManager = client.ApiClient(settings).rest_client.pool_manager
        self.host: str = settings.host

    def get(self, path: str, timeout_seconds: float) -> Read:
        """One GET. Never raises: what cannot be read is FAILED with a reason that names no secret."""
        try:
            response = self._request("GET", path, timeout_seconds)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return Read(ReadState.FAILED, reason=f"the API server did not answer ({why_unanswered(error)})")
        return _classify(response.status, response.data)

    def send(
        self, method: str, path: str, body: Any, timeout_seconds: float, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """A write (registration, events). Returns (status, body); raises urllib3 HTTPError where nobody answers."""
        response = self._request(
            method, path, timeout_seconds, body=msgspec.json.encode(body), content_type=content_type
        )
        return response.status, response.data

    def dry_run(self, path: str, body: Any, timeout_seconds: float) -> DryRun:
        """A POST that everybody judges and nobody stores. Raises urllib3 HTTPError where nobody answers."""
        content = msgspec.json.encode(body)
        query = f"{path}?dryRun=All"
        response = self._request("POST", query, timeout_seconds, body=content, content_type="application/json")
        return DryRun(response.status, response.data, tuple(response.headers.getlist("Warning")))

    def watch(self, path: str, resource_version: str, idle_seconds: float, more: str = "") -> Iterator[bytes]:
        """The lines of a watch, one JSON event each, until the server ends it. more: further query
        parameters. Raises GoneError, WatchError."""
        query = f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={resource_version}&timeoutSeconds=240{more}"
        try:
            response = self._request("GET", query, idle_seconds, stream=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise WatchError(type(error).__name__) from error
        try:
            if response.status == 410:
                raise GoneError
            if response.status != 200:
                raise WatchError(f"HTTP {response.status}")
            yield from _lines(response)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise WatchError(type(error).__name__) from error
        finally:
            # Not drained: an unfinished watch has no end to read to.
            response.close()

    def _request(
        self,
        method: str,
        path: str,
        timeout_seconds: float,
        *,
        body: bytes | None = None,
        content_type: str = "",
        stream: bool = False,
    ) -> BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": "muster"}
        if content_type:
            headers["Content-Type"] = content_type
        bearer = self._settings.auth_settings().get("BearerToken")  # refreshes a token that is about to end
        if bearer is not None:
            headers[bearer["key"]] = str(bearer["value"])
        return self._pool.request(
            method,
            self.host + path,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=min(2.0, timeout_seconds), read=timeout_seconds),
            retries=False,
            preload_content=not stream,
        )


def _load_service_account(settings: Any) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except ConfigError as error:
        raise ConfigError(f"this is no Pod with a service account ({str(error).rstrip('.')})") from error


def _load_kubeconfig(file: Path, settings: Any) -> None:
    if not file.is_file():
        raise ConfigError("is a folder" if file.is_dir() else "no such file")
    try:
        content = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"is no kubeconfig: not YAML{f' at line {mark.line + 1}' if mark else ''}") from error
    if not isinstance(content, dict):  # the client itself falls over it
        raise ConfigError("is no kubeconfig")
    config.load_kube_config(config_file=str(file), client_configuration=settings)  # type: ignore[no-untyped-call]


def why_unanswered(error: Exception) -> str:
    """In words, without address or secret."""
    if isinstance(error, NameResolutionError):
        return "its name cannot be resolved"
    if isinstance(error, SSLError):
        inner = error.args[0] if error.args else None
        why = getattr(inner, "verify_message", None) or str(getattr(inner, "reason", None) or "failed")
        return f"TLS: {why.replace('_', ' ').lower()}"
    if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(error, NewConnectionError):
        return "timed out"
    cause = error.__cause__ if isinstance(error, urllib3.exceptions.HTTPError) else error
    strerror = getattr(cause, "strerror", None)
    return str(strerror).lower() if strerror else type(error).__name__


def _classify(status: int, body: bytes) -> Read:
    if status == 200:
        return Read(ReadState.OK, body)
    if status == 404:
        # An unknown object comes with a Status that has details; an unknown path is plain text or a bare Status.
        try:
            reply = msgspec.json.decode(body)
        except msgspec.DecodeError:
            reply = {}
        details = reply.get("details") if isinstance(reply, dict) else None
        if isinstance(details, dict) and details.get("name"):
            return Read(ReadState.NOT_FOUND)
        return Read(ReadState.NOT_SERVED, reason=NOT_SERVED)
    words = {
        401: "Muster's credentials were refused",
        403: "Muster may not read this (RBAC)",
        429: "the API server is busy",
    }
    return Read(ReadState.FAILED, reason=words.get(status, f"the API server answered {status}"))


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(64 * 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)
    if rest.strip():
        yield rest
