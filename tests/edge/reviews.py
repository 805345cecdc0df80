"""AdmissionReviews as kube-apiserver 1.37 sends them, a tiny rule catalogue, and an application around both."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from tests.support.cases import NOW, FixedPolicies, policy_document
from webhook.admission.pipeline import Pipeline
from webhook.edge.app import IN_FLIGHT_MAX, create_app
from webhook.edge.observer import Observation
from webhook.facts.model import Facts
from webhook.mutations.meta import Change, MutationMeta
from webhook.objects.fieldpath import FieldPath
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.rules.meta import RuleMeta
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Action, Finding, Unresolved

Raw = dict[str, Any]
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
SECRET = "sesame-5f2d"
"""A text in objects and exceptions that no answer and no log line may hold."""

Check = Callable[[Facts], Iterable[Finding | Unresolved]]


@dataclass(frozen=True)
class FakeRule:
    """A rule without a module; `run` is its check."""

    META: RuleMeta
    run: Check

    def check(self, facts: Facts) -> Iterable[Finding | Unresolved]:
        return self.run(facts)


def rule(
    rule_id: str,
    run: Check,
    *,
    kinds: Sequence[str] = ("*",),
    action: Action | None = Action.DENY,
    operations: Sequence[str] = ("CREATE", "UPDATE", "DELETE"),
    subresources: Sequence[str] = ("", "resize"),
) -> FakeRule:
    meta = RuleMeta(
        id=rule_id,
        name="fake-fault",
        summary="a rule of the tests",
        kinds=frozenset(kinds),
        operations=frozenset(operations),
        subresources=frozenset(subresources),
        default_action=action,
    )
    return FakeRule(meta, run)


def finding(message: str = "is 8, limit 4", fix: str = "set it to 4", path: str = "spec.parallelism") -> Finding:
    return Finding(field=FieldPath(path.split(".")), message=message, fix=fix, seen=8, limit=4)


def wants(label: str) -> Check:
    """Denies what carries the label `muster-test: <label>`, so that one catalogue serves many tests."""

    def run(facts: Facts) -> Iterable[Finding]:
        if (facts.metadata.labels or {}).get("muster-test") == label:
            yield finding()

    return run


def raises(facts: Facts) -> Iterable[Finding]:
    """A bug: raises for objects that are labelled for it."""
    if (facts.metadata.labels or {}).get("muster-test") == "bug":
        raise ValueError(f"could not read {SECRET}")
    return ()


@dataclass(frozen=True)
class FakeMutation:
    """Sets the label `muster-test-patched` on every Pod."""

    META: MutationMeta = field(
        default_factory=lambda: MutationMeta(
            id="WAS999", name="fake-mutation", summary="of the tests", kinds=frozenset({"Pod"})
        )
    )

    @staticmethod
    def mutate(_facts: Facts) -> Iterable[Change]:
        yield Change(
            path=FieldPath.of("metadata", "labels", "muster-test-patched"),
            value="yes",
            note="a label was added [WAS999]",
        )


CATALOGUE = (
    rule("WAS801", wants("deny")),
    rule("WAS802", wants("warn"), action=Action.WARN),
    rule("WAS803", wants("audit"), action=Action.AUDIT),
    rule("WAS804", raises),
)


@dataclass
class Recorder:
    """An Observer that remembers."""

    seen: list[Observation] = field(default_factory=list)

    def observe(self, observation: Observation) -> None:
        self.seen.append(observation)

    @property
    def last(self) -> Observation:
        return self.seen[-1]


def make_app(
    catalogue: Sequence[Any] = CATALOGUE,
    *,
    observer: Any = None,
    policy: Raw | None = None,
    objects: Sequence[Raw] = (),
    in_flight_max: int = IN_FLIGHT_MAX,
    ready: Callable[[], list[str]] = list,
    metrics: Callable[[], tuple[bytes, str]] | None = None,
) -> Flask:
    document = policy_document(policy or {"mutations": {"WAS999": True}})
    pipeline = Pipeline(
        policies=lambda: FixedPolicies(document),
        source=ObjectSetSource(objects, complete=True),
        catalogue=catalogue,
        mutations=(FakeMutation(),),
        clock=lambda: NOW,
    )
    return create_app(
        pipeline,
        observer or Recorder(),
        ready=ready,
        version={"version": "test"},
        metrics=metrics,
        in_flight_max=in_flight_max,
    )


def pod(name: str = "p", label: str = "", **spec: Any) -> Raw:
    metadata: Raw = {"name": name, "namespace": "team-a"}
    if label:
        metadata["labels"] = {"muster-test": label}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "env": [{"name": "TOKEN", "value": SECRET}]}], **spec},
    }


def pod_group(name: str = "pg", label: str = "", version: str = "v1beta1") -> Raw:
    raw = pod(name, label) | {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup"}
    return raw | {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}


def review(
    new: Raw | None,
    old: Raw | None = None,
    operation: str = "CREATE",
    *,
    name: str | None = None,
    subresource: str = "",
    dry_run: bool = False,
    user: str = "alice",
    request_version: str | None = None,
) -> Raw:
    """An AdmissionReview with every field that kube-apiserver 1.37 writes (admission/v1 types.go, admissionreview.go)."""
    raw = new if new is not None else old
    assert raw is not None
    group, version = split_api_version(raw["apiVersion"])
    kind = {"group": group, "version": version, "kind": raw["kind"]}
    plural = BY_NAME[raw["kind"]].plural if raw["kind"] in BY_NAME else raw["kind"].lower() + "s"
    resource = {"group": group, "version": version, "resource": plural}
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    request: Raw = {
        "uid": UID,
        "kind": kind,
        "resource": resource,
        "requestKind": kind | {"version": request_version or version},
        "requestResource": resource | {"version": request_version or version},
        "name": raw["metadata"].get("name", "") if name is None else name,
        "namespace": "team-a",
        "operation": operation,
        "userInfo": {
            "username": user,
            "uid": "u-1",
            "groups": ["tenants", "system:authenticated"],
            "extra": {"a": ["b"]},
        },
        "object": new,
        "oldObject": old,
        "dryRun": dry_run,
        "options": {"kind": options.get(operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"},
    }
    if subresource:
        request |= {"subResource": subresource, "requestSubResource": subresource}
    if not request["name"]:
        del request["name"]
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def post(app: Flask, body: Raw | bytes, path: str = "/validate/submit?timeout=5s", **headers: str) -> TestResponse:
    """One request, with the headers of the API server."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "Content-Type": "application/json",
        "Accept": "application/json, */*",
        "User-Agent": "kube-apiserver-admission",
    }
    return app.test_client().post(path, data=data, headers=given | headers)


def answer(app: Flask, body: Raw | bytes, path: str = "/validate/submit?timeout=5s") -> Raw:
    """The AdmissionResponse, checked for what the API server checks: 200, GVK, uid, the fields it knows."""
    got = post(app, body, path)
    assert got.status_code == 200, got.data
    assert got.content_type == "application/json"
    document = got.get_json()
    assert set(document) == {"apiVersion", "kind", "response"}
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Raw = document["response"]
    assert set(response) <= {"uid", "allowed", "status", "patch", "patchType", "auditAnnotations", "warnings"}
    assert response["uid"] == UID
    assert ("patch" in response) == ("patchType" in response)
    if path.startswith("/validate"):
        assert "patch" not in response
    if not response["allowed"]:
        assert response["status"]["code"] in (403, 422, 429)
        assert response["status"]["message"]
    return response


def patch_of(response: Raw) -> list[Raw]:
    operations: list[Raw] = json.loads(base64.b64decode(response["patch"]))
    return operations
