"""`muster doctor`: is this cluster what the policy says it is, and is Muster registered in it so that it works?

Reads, and creates by dry run only. What it may not read is a warning, never silence.
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote, urlsplit

import typer
import urllib3

from webhook.cli import diagnosis
from webhook.cli.diagnosis import Diagnosis, State, fail, ok, warn
from webhook.cli.options import MUSTER_NAMESPACE, Kubeconfig, Output, PolicyNames, connection_to
from webhook.cli.policies import policies_from
from webhook.policy.model import GATES, Policy
from webhook.registration.render import SUBMIT

if TYPE_CHECKING:
    from webhook.cluster.connection import Connection, DryRun

Raw = Mapping[str, Any]
Told = dict[str, bool | str]

_SECONDS_MAX = 10.0
_PAGE_OBJECT_COUNT = 500
_SCHEDULING = "/apis/scheduling.k8s.io"
_TIER_QUOTAS = "/apis/muster.dev/v1alpha1/tierquotas"
_REGISTRATION = "/apis/admissionregistration.k8s.io"
# The API server's own namespaces never reach Muster nor, as a rule, other people's policies: what comes back from there
# tells of nothing but the gates.
_QUIET_NAMESPACE = "kube-system"


class UnreadableError(Exception):
    """Something could not be read; the message says what and why."""


class Address(NamedTuple):
    host: str
    port: int


def doctor(
    policy: PolicyNames = None,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            *MUSTER_NAMESPACE, help="Muster's own namespace; default: that of the Service it is registered with"
        ),
    ] = None,
    tenant: Annotated[
        str, typer.Option(help="a namespace that Muster judges, for a Job that is sent to it by dry run")
    ] = "default",
    connect: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="where Muster is reached from here (kubectl port-forward)")
    ] = None,
    output: Output = "text",
) -> None:
    """Compare a cluster with the policy, and look whether Muster works in it. Stores nothing.

    Exit 0: nothing fails, 1: something does, 2: wrong usage.
    """
    loaded, policy_name = policies_from(policy or [])
    if not policy:
        # Else its fix for the registration would be that of another policy.
        print("note: no --policy: the cluster is compared with the defaults, not what its Muster runs", file=sys.stderr)
    patient = Patient(connection_to(kubeconfig, "look at"))
    address = None if connect is None else _address(connect)
    findings = list(examine(patient, loaded.policy, own_namespace=namespace, tenant=tenant, connect=address))
    failed = any(finding.state is State.FAIL for finding in findings)
    if output == "json":
        document = {"policy": policy_name, "ok": not failed, "findings": [_as_dict(finding) for finding in findings]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(findings)))
    raise typer.Exit(1 if failed else 0)


def examine(
    patient: Patient, policy: Policy, *, own_namespace: str | None, tenant: str, connect: Address | None
) -> Iterator[Diagnosis]:
    """All findings, in the order in which one explains the next. Ends early where no API server answers."""
    try:
        version = patient.get("/version")
    except UnreadableError as error:
        yield fail("api", f"no answer from {patient.host}: {error}", "check the kubeconfig and the network")
        return
    yield diagnosis.api_version(version, patient.host)

    served = patient.served_scheduling()
    told = gates_told(patient, served)
    yield from diagnosis.served_apis(served, keeps_groups=told["GenericWorkload"])
    yield from diagnosis.gates(policy, told)
    yield from _registered(patient, policy, own_namespace, tenant, connect)
    looks: tuple[tuple[str, Callable[[], Diagnosis]], ...] = (
        ("default-class", lambda: diagnosis.default_class(patient.items(f"{_SCHEDULING}/v1/priorityclasses"), told)),
        ("group-quotas", lambda: diagnosis.group_quotas(patient.items("/api/v1/resourcequotas"), told)),
        ("tier-quotas", lambda: diagnosis.tier_quotas(policy, patient.items_if_served(_TIER_QUOTAS))),
        ("pod-mutators", lambda: _mutators(patient, policy)),
    )
    for check, look in looks:
        try:
            yield look()
        except UnreadableError as error:
            yield _not_seen(check, error)


def _not_seen(check: str, error: UnreadableError) -> Diagnosis:
    return warn(check, f"could not be looked at: {error}", "run it as somebody who may read this")


def _mutators(patient: Patient, policy: Policy) -> Diagnosis:
    configurations = patient.items(f"{_REGISTRATION}/v1/mutatingwebhookconfigurations")
    policies = patient.items_if_served(
        *(f"{_REGISTRATION}/{version}/mutatingadmissionpolicies" for version in ("v1", "v1beta1"))
    )
    return diagnosis.pod_mutators(policy, configurations, policies)


# -- the cluster ------------------------------------------------------------------------------------------------------
class Patient:
    """What is read of one cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.host = connection.host

    def get(self, path: str) -> Raw:
        """Raises UnreadableError."""
        body = self._get(path)
        if body is None:
            raise UnreadableError(f"{path}: the API server does not serve it")
        return body

    def items(self, path: str) -> list[Raw]:
        """All objects of a collection. Raises UnreadableError."""
        found: list[Raw] = []
        token = ""
        while True:
            page = self.get(f"{path}?limit={_PAGE_OBJECT_COUNT}" + (f"&continue={quote(token)}" if token else ""))
            found += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    def items_if_served(self, *paths: str) -> list[Raw]:
        """Those of the first collection that is served, or none. Raises UnreadableError."""
        path = next((path for path in paths if self._get(f"{path}?limit=1") is not None), None)
        return [] if path is None else self.items(path)

    def served_scheduling(self) -> dict[str, frozenset[str]]:
        """Version of scheduling.k8s.io -> names of its resources. Empty where discovery may not be read."""
        found = {}
        for version in ("v1beta1", "v1alpha3"):
            try:
                body = self._get(f"{_SCHEDULING}/{version}")
            except UnreadableError:
                continue
            if body is not None:
                found[version] = frozenset(str(resource["name"]) for resource in body.get("resources") or ())
        return found

    def dry_run(self, api_version: str, plural: str, obj: Raw, namespace: str) -> DryRun | str:
        """What the creation would lead to, or why there is no answer."""
        from webhook.cluster.connection import why_unanswered

        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        path = f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
        try:
            return self._connection.dry_run(path, obj, _SECONDS_MAX)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return f"the API server did not answer ({why_unanswered(error)})"

    def _get(self, path: str) -> Raw | None:
        """None where it is not served."""
        from webhook.cluster.connection import ReadState

        read = self._connection.get(path, _SECONDS_MAX)
        if read.state is ReadState.NOT_SERVED:
            return None
        if read.state is not ReadState.OK:
            raise UnreadableError(f"{path.partition('?')[0]}: {read.reason or read.state.value}")
        body: Raw = json.loads(read.body)
        return body


# -- gates ------------------------------------------------------------------------------------------------------------
_POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "doctor", "image": "doctor"}]}
_BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


def gates_told(patient: Patient, served: Mapping[str, frozenset[str]]) -> Told:
    """Each gate of kube-apiserver: on, off, or why it cannot be told. The API server drops the field of a gate that is
    off from a new object, so an object that comes back without it tells."""
    grouped = {**_POD_SPEC, "schedulingGroup": {"podGroupName": "muster-doctor"}}
    job = {"suspend": True, "template": {"spec": _POD_SPEC}, "scheduling": _BASIC}
    told: Told = {
        "GenericWorkload": _kept(patient, "v1", "Pod", grouped, "schedulingGroup"),
        "WorkloadWithJob": _kept(patient, "batch/v1", "Job", job, "scheduling"),
    }
    version = next((version for version, resources in served.items() if "podgroups" in resources), None)
    if version is None:
        # Without GenericWorkload no component starts with any of the others.
        answer = False if told["GenericWorkload"] is False else "PodGroups are not served"
        return dict.fromkeys(GATES, answer) | told
    api = f"scheduling.k8s.io/{version}"
    topology = {**_BASIC, "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]}}
    claims = {**_BASIC, "resourceClaims": [{"name": "doctor", "resourceClaimTemplateName": "muster-doctor"}]}
    told["TopologyAwareWorkloadScheduling"] = _kept_by_group(patient, api, topology, "schedulingConstraints")
    told["DRAWorkloadResourceClaims"] = _kept_by_group(patient, api, claims, "resourceClaims")
    told["PodGroupPreemptionPolicy"] = _kept_by_group(patient, api, _BASIC, "preemptionPolicy")
    told["CompositePodGroup"] = "compositepodgroups" in served.get("v1alpha3", ()) or (
        False if "v1alpha3" in served else "scheduling.k8s.io/v1alpha3 is not served"
    )
    return told


def _kept_by_group(patient: Patient, api_version: str, spec: Raw, field: str) -> bool | str:
    """Twice where the global default class never preempts: it refuses every group that does not say so itself."""
    kept = _kept(patient, api_version, "PodGroup", spec, field)
    if "PreemptionPolicy" in str(kept):
        return _kept(patient, api_version, "PodGroup", {**spec, "preemptionPolicy": "Never"}, field)
    return kept


def _kept(patient: Patient, api_version: str, kind: str, spec: Raw, field: str) -> bool | str:
    """Is this field of the spec there in what would be stored?"""
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "muster-doctor"}, "spec": spec}
    answer = patient.dry_run(api_version, f"{kind.lower()}s", body, _QUIET_NAMESPACE)
    if isinstance(answer, str):
        return answer
    if answer.status != 201:
        return f"a {kind} by dry run was refused: {_message(answer.body)}"
    return field in (json.loads(answer.body).get("spec") or {})


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]


# -- registration and TLS ---------------------------------------------------------------------------------------------
def _registered(
    patient: Patient, policy: Policy, own_namespace: str | None, tenant: str, connect: Address | None
) -> Iterator[Diagnosis]:
    try:
        validating, mutating = (
            diagnosis.ours(patient.items(f"{_REGISTRATION}/v1/{word}webhookconfigurations"))
            for word in ("validating", "mutating")
        )
    except UnreadableError as error:
        yield _not_seen("registration", error)
        return
    yield from diagnosis.registration(policy, validating, mutating, own_namespace)
    if len(validating) == 1 and diagnosis.entry_of(validating[0], SUBMIT) is not None:
        yield from _certificates([*validating, *mutating], connect)
        yield _called(patient, tenant)


def _called(patient: Patient, tenant: str) -> Diagnosis:
    """Does the API server reach Muster? A Job whose annotation nobody can read makes WAS109 speak."""
    check = "calls"
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "muster-doctor", "annotations": {"muster.dev/expected-run-time": "doctor"}},
        "spec": {"suspend": True, "template": {"spec": _POD_SPEC}},
    }
    answer = patient.dry_run("batch/v1", "jobs", body, tenant)
    if isinstance(answer, str):
        return warn(check, f"nobody could tell whether the API server reaches Muster: {answer}", "run it again")
    message = _message(answer.body) if answer.status >= 300 else ""
    if f'failed calling webhook "{SUBMIT}"' in message:
        fix = "look at Muster's Pods, its Service and NetworkPolicies: new gangs are refused until it answers"
        return fail(check, f"the API server does not reach Muster: {message}", fix)
    if any("[WAS" in text for text in (message, *answer.warnings)):
        return ok(check, f'the API server reaches Muster, which judges namespace "{tenant}"')
    seen = message or "no word of Muster came back"
    fix = "give a namespace that is not excluded with --tenant; WAS109 speaks only where the policy lets it warn"
    return warn(check, f'a Job in namespace "{tenant}" by dry run did not show that Muster was asked: {seen}', fix)


def _certificates(configurations: Sequence[Raw], connect: Address | None) -> Iterator[Diagnosis]:
    """Does what Muster serves verify against the stored CA bundle, as the API server will try it?"""
    from webhook.tls.inspect import expiry, inspect_bundle, inspect_serving, probe

    check = "tls"
    entries = [entry for raw in configurations for entry in raw["webhooks"] if entry["name"] in diagnosis.OUR_ENTRIES]
    clients = [entry["clientConfig"] for entry in entries]
    bundles = {str(client.get("caBundle") or "") for client in clients}
    if len(bundles) > 1:
        yield fail(check, "the entries have different CA bundles", "run `muster registration apply` again")
        return
    try:
        bundle = base64.b64decode(bundles.pop(), validate=True)
    except binascii.Error as error:
        yield fail(check, f"the caBundle is no base64: {error}", "run `muster registration apply` again")
        return
    if not bundle:
        fix = "give --ca-file to `muster registration apply`, or let cert-manager fill it in"
        yield fail(check, "the entries have no caBundle", fix)
        return
    now = datetime.now(UTC)
    yield from _inspected(inspect_bundle(bundle, now=now))
    server_name, place = _place(clients[0])
    address = connect or place
    problems = probe(*address, server_name=server_name, ca_bundle_pem=bundle)
    try:
        leaf = ssl.get_server_certificate(address, timeout=_SECONDS_MAX).encode()
    except OSError:
        yield _unreachable(address, None if connect else clients[0].get("service"))
        return
    yield from _inspected(problems)
    yield from _inspected(inspect_serving(leaf, server_name=server_name, ca_bundle_pem=None, now=now))
    if not problems:
        ends = expiry(leaf)
        yield ok(check, f"verifies as {server_name}, and ends in {(ends - now).days} days ({ends:%Y-%m-%d})")


def _inspected(problems: Sequence[Any]) -> Iterator[Diagnosis]:
    for problem in problems:
        state = State.FAIL if problem.severity == "error" else State.WARN
        yield Diagnosis(check="tls", state=state, message=problem.message, fix=problem.fix)


def _place(client: Raw) -> tuple[str, Address]:
    """(the name that the certificate must have, where the API server connects to)."""
    service = client.get("service")
    if service:
        name = f"{service['name']}.{service['namespace']}.svc"
        return name, Address(name, service.get("port", 443))
    parts = urlsplit(client["url"])
    host = str(parts.hostname)
    return host, Address(host, parts.port or 443)


def _unreachable(address: Address, service: Raw | None) -> Diagnosis:
    """service: where only the cluster may be able to reach it."""
    message = f"{address.host}:{address.port} is not reached from here, so its certificate was not seen"
    if service is None:
        return fail("tls", message, "see that Muster runs and listens there")
    port = service.get("port", 443)
    forward = f"kubectl -n {service['namespace']} port-forward service/{service['name']} 8443:{port}"
    return warn("tls", message, f"run `{forward}` and give --connect 127.0.0.1:8443")


# -- the command ------------------------------------------------------------------------------------------------------
def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        print(f'--connect "{text}" must be HOST:PORT', file=sys.stderr)
        raise typer.Exit(2)
    return Address(host.strip("[]"), int(port))


def _lines(findings: Sequence[Diagnosis]) -> Iterator[str]:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        yield f"{finding.state:<4}  {finding.check:<{width}}  {finding.message}"
        if finding.fix:
            yield f"{'':<{width + 8}}fix: {finding.fix}"
    by_state = {state: sum(finding.state is state for finding in findings) for state in State}
    yield ", ".join(f"{count} {state}" for state, count in by_state.items())


def _as_dict(finding: Diagnosis) -> dict[str, str]:
    return {"check": finding.check, "state": str(finding.state), "message": finding.message, "fix": finding.fix}
