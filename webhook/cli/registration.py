"""`muster registration`: the webhook configurations that tell the API server what to send to Muster.

They follow from the policy: after a change of its tiers, guarded resources, trusted controllers, excluded namespaces,
mutations or of the gate WorkloadWithJob, apply them again. The chart renders the same.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import urllib3

from webhook.cli.options import MUSTER_NAMESPACE, Kubeconfig, PolicyNames, connection_to
from webhook.cli.policies import policies_from
from webhook.registration.keep import is_current, updated
from webhook.registration.render import ServiceRef, Target, render_webhook_configurations

JsonObject = dict[str, Any]

_ROOT = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}
# Somebody else (cert-manager, Helm) may write in between; more often than this is not by chance.
_ATTEMPT_COUNT_MAX = 5
_SECONDS_MAX = 10.0

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Render or apply the webhook configurations that follow from a policy.",
)

Service = Annotated[str, typer.Option(help="NAMESPACE/NAME[:PORT] of the Service that Muster listens behind")]
Url = Annotated[str | None, typer.Option(help="start of a URL instead of a Service: https://HOST:PORT")]
CaFile = Annotated[Path | None, typer.Option(help="PEM file of the CA that signed Muster's certificate")]
Namespace = Annotated[str, typer.Option(*MUSTER_NAMESPACE, help="Muster's own namespace, which never reaches it")]
Name = Annotated[str, typer.Option(help="name of the configurations")]
FailurePolicy = Annotated[Literal["Fail", "Ignore"], typer.Option(help="of the entry for what people submit")]
Timeout = Annotated[int, typer.Option(min=1, max=30, help="seconds")]


@app.command()
def render(
    policy: PolicyNames = None,
    service: Service = "muster-system/muster",
    url: Url = None,
    ca_file: CaFile = None,
    namespace: Namespace = "muster-system",
    name: Name = "muster",
    failure_policy: FailurePolicy = "Fail",
    timeout_seconds: Timeout = 5,
    output: Annotated[Literal["yaml", "json"], typer.Option("--output", "-o", help="how they are written")] = "yaml",
) -> None:
    """Print the configurations as one List.

    Exit 2: a policy or an option that cannot be used.
    """
    loaded, _ = policies_from(policy or [])
    target = _target(service, url, ca_file, namespace, name, failure_policy=failure_policy, timeout=timeout_seconds)
    items = render_webhook_configurations(loaded.policy, target)
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    sys.stdout.write(json.dumps(document, indent=2) + "\n" if output == "json" else to_yaml(document))


@app.command()
def apply(
    policy: PolicyNames = None,
    service: Service = "muster-system/muster",
    url: Url = None,
    ca_file: CaFile = None,
    namespace: Namespace = "muster-system",
    name: Name = "muster",
    failure_policy: FailurePolicy = "Fail",
    timeout_seconds: Timeout = 5,
    kubeconfig: Kubeconfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="let the API server check, store nothing")] = False,
) -> None:
    """Create or update the configurations in a cluster.

    Exit 1: the API server refused, or did not answer, 2: wrong usage. Without --ca-file an update keeps the CA bundle that is stored (cert-manager writes it there).
    """
    loaded, _ = policies_from(policy or [])
    target = _target(service, url, ca_file, namespace, name, failure_policy=failure_policy, timeout=timeout_seconds)
    rendered = {item["kind"]: item for item in render_webhook_configurations(loaded.policy, target)}
    store = _Store(connection_to(kubeconfig, "apply to"), dry_run=dry_run)
    try:
        for kind in _PLURALS:
            print(f"{kind}/{name} {store.put(kind, name, rendered.get(kind))}")
    except _RefusedError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


def to_yaml(document: JsonObject) -> str:
    """Block style, one expression a line: what people read and Helm parses."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 1_000_000
    yaml.representer.ignore_aliases = lambda _value: True  # entries share conditions; kubectl and people want them all
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _target(
    service: str,
    url: str | None,
    ca_file: Path | None,
    namespace: str,
    name: str,
    *,
    failure_policy: Literal["Fail", "Ignore"],
    timeout: int,
) -> Target:
    return Target(
        client=_url(url) if url is not None else _service(service),
        ca_bundle="" if ca_file is None else _ca_bundle(ca_file),
        own_namespace=namespace,
        name=name,
        failure_policy=failure_policy,
        timeout_seconds=timeout,
    )


def _service(text: str) -> ServiceRef:
    place, _, port = text.partition(":")
    namespace, slash, name = place.partition("/")
    if not (namespace and slash and name) or (port and not port.isdecimal()):
        _wrong(f'--service "{text}" must be NAMESPACE/NAME or NAMESPACE/NAME:PORT')
    return ServiceRef(namespace=namespace, name=name, port=int(port or 443))


def _url(text: str) -> str:
    if not text.startswith("https://") or "?" in text or "#" in text:
        _wrong(f'--url "{text}" must start with https:// and have no query: the API server calls nothing else')
    return text


def _ca_bundle(file: Path) -> str:
    try:
        text = file.read_bytes()
    except OSError as error:
        _wrong(f"--ca-file {file}: {error.strerror}")
    if b"-----BEGIN CERTIFICATE-----" not in text:
        _wrong(f"--ca-file {file} holds no PEM certificate")
    return base64.b64encode(text).decode()


def _wrong(message: str) -> Any:
    print(message, file=sys.stderr)
    raise typer.Exit(2)


# -- the cluster ------------------------------------------------------------------------------------------------------
class _RefusedError(Exception):
    """The API server did not do it; the message says what it said."""


class _Store:
    """Reads and writes one cluster's webhook configurations."""

    def __init__(self, connection: Any, *, dry_run: bool) -> None:
        self._connection = connection
        self._query = "?dryRun=All" if dry_run else ""

    def put(self, kind: str, name: str, rendered: JsonObject | None) -> str:
        """Makes the stored object what was rendered (None: nothing). Returns what was done, in one word."""
        collection = f"{_ROOT}/{_PLURALS[kind]}"
        path = f"{collection}/{name}"
        for _ in range(_ATTEMPT_COUNT_MAX):
            stored = self._get(path)
            if rendered is None:
                if stored is None:
                    return "not needed"
                status, body = self._send("DELETE", path, {})
                done = "deleted"
            elif stored is None:
                status, body = self._send("POST", collection, rendered)
                done = "created"
            else:
                wanted = updated(stored, rendered)
                if is_current(stored, wanted):
                    return "unchanged"
                status, body = self._send("PUT", path, wanted)
                done = "updated"
            if 200 <= status < 300:
                return done
            if status != 409:
                break
        raise _RefusedError(f"{kind}/{name}: the API server answered {status}: {_message(body)}")

    def _get(self, path: str) -> JsonObject | None:
        status, body = self._send("GET", path, None)
        if status == 404:
            return None
        if status != 200:
            raise _RefusedError(f"{path}: the API server answered {status}: {_message(body)}")
        stored: JsonObject = json.loads(body)
        return stored

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        from webhook.cluster.connection import why_unanswered  # slow: `render` needs no cluster

        query = "" if method == "GET" else self._query
        try:
            answer: tuple[int, bytes] = self._connection.send(method, path + query, body, _SECONDS_MAX)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            host = self._connection.host
            raise _RefusedError(f"the API server {host} did not answer ({why_unanswered(error)})") from None
        return answer


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]
