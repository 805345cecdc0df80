"""AdmissionReview in, AdmissionReview out, exactly as kube-apiserver 1.37 speaks it."""

from __future__ import annotations

import json

import pytest

from tests.edge.reviews import UID, Recorder, answer, make_app, patch_of, pod, pod_group, post, review
from webhook.facts.model import Phase


def test_allowed_answer_byte_for_byte() -> None:
    """The most frequent answer says what the API server needs and nothing else."""
    got = post(make_app(), review(pod()))

    assert got.data == (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true,'
        b'"auditAnnotations":{"policy":"test"}}}' % UID.encode()
    )


def test_denied_answer_byte_for_byte() -> None:
    """A denial: message and causes say the same, and the audit log gets the verdict."""
    response = answer(make_app(), review(pod(label="deny")))

    verdict = json.loads(response["auditAnnotations"].pop("verdict"))
    assert response == {
        "uid": UID,
        "allowed": False,
        "status": {
            "status": "Failure",
            "message": "spec.parallelism: is 8, limit 4. Fix: set it to 4 [WAS801]",
            "reason": "Forbidden",
            "code": 403,
            "details": {
                "name": "p",
                "kind": "Pod",
                "causes": [
                    {
                        "reason": "WAS801",
                        "field": "spec.parallelism",
                        "message": "is 8, limit 4. Fix: set it to 4 [WAS801]",
                    }
                ],
            },
        },
        "auditAnnotations": {"policy": "test"},
    }
    assert verdict["allowed"] is False
    assert [violation["rule"] for violation in verdict["violations"]] == ["WAS801"]


def test_warned_answer() -> None:
    """A rule that warns: admitted, with a warning and no status."""
    response = answer(make_app(), review(pod(label="warn")))

    assert response["allowed"] is True
    assert response["warnings"] == ["spec.parallelism: is 8, limit 4. Fix: set it to 4 [WAS802]"]
    assert "status" not in response


def test_audited_answer() -> None:
    """A rule that audits: nobody sees it but the audit log."""
    response = answer(make_app(), review(pod(label="audit")))

    assert response["allowed"] is True
    assert "warnings" not in response
    assert json.loads(response["auditAnnotations"]["verdict"])["violations"][0]["action"] == "Audit"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("create", review(pod(label="deny"))),
        ("server-side dry run", review(pod(label="deny"), dry_run=True)),
        ("update", review(pod(label="deny", nodeName="n"), pod(), "UPDATE")),
        ("delete: only oldObject", review(None, pod(label="deny"), "DELETE")),
        ("deletecollection: no name", review(None, pod(label="deny"), "DELETE", name="")),
        ("resize subresource", review(pod(label="deny", nodeName="n"), pod(), "UPDATE", subresource="resize")),
        ("written as v1alpha3, sent as v1beta1", review(pod_group(label="deny"), request_version="v1alpha3")),
        ("v1alpha3 itself", review(pod_group(label="deny", version="v1alpha3"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_judged(name: str, body: dict) -> None:
    """Every form in which an object arrives is judged by what it holds."""
    response = answer(make_app(), body)

    assert response["allowed"] is False, name
    assert response["status"]["details"]["name"] in ("p", "pg")


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        ("subresource", review(pod(label="deny"), pod(), "UPDATE", subresource="status")),
        ("subresource", review(pod(label="deny"), pod(), "UPDATE", subresource="ephemeralcontainers")),
        (
            "subresource",
            review({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}, subresource="eviction"),
        ),
        (
            "subresource",
            review({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}}, subresource="binding"),
        ),
        ("operation", review(pod(label="deny"), operation="CONNECT")),
        ("kind", review({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})),
        ("nothing-changed", review(pod(label="deny"), pod(label="deny"), "UPDATE")),
    ],
)
def test_short_circuits_are_named(reason: str, body: dict) -> None:
    """What no rule looks at is admitted, and the audit log says why."""
    response = answer(make_app(), body)

    assert response["allowed"] is True
    assert response["auditAnnotations"]["short-circuit"] == reason


def test_unknown_version_is_admitted_with_a_warning() -> None:
    """An upgraded cluster must go on."""
    response = answer(make_app(), review(pod_group(label="deny", version="v2")))

    assert response["allowed"] is True
    assert "scheduling.k8s.io/v2 is newer than this Muster" in response["warnings"][0]
    assert "upgrade Muster" in response["warnings"][0]
    assert response["auditAnnotations"]["short-circuit"] == "unknown-version"


def test_an_old_version_asks_nobody_to_upgrade_muster() -> None:
    """CompositePodGroup began with v1alpha3: what came before is to be rewritten, whatever Muster knows."""
    body = review(pod_group(label="deny", version="v1alpha2"))
    body["request"]["kind"]["kind"] = "CompositePodGroup"

    [warning] = answer(make_app(), body)["warnings"]

    assert "is older than what Muster reads and Kubernetes 1.37 serves" in warning
    assert "write it as scheduling.k8s.io/v1alpha3" in warning
    assert "upgrade" not in warning


def test_generate_name_has_no_name_in_the_mutating_phase() -> None:
    """Neither name nor uid exist yet: the patch still goes to the right object, and the log can name it."""
    raw = pod()
    raw["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    recorder = Recorder()

    response = answer(make_app(observer=recorder), review(raw), "/mutate?timeout=5s")

    assert [operation["op"] for operation in patch_of(response)] == ["add", "add"]
    assert recorder.last.request is not None
    assert recorder.last.request.display_name == "train-*"


def test_patch_only_in_the_mutating_phase_and_never_empty() -> None:
    """The API server refuses a patch in a validating answer, and a patchType without a patch."""
    app = make_app()

    mutated = answer(app, review(pod()), "/mutate")

    assert mutated["patchType"] == "JSONPatch"
    assert patch_of(mutated) == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/muster-test-patched", "value": "yes"},
    ]
    assert mutated["warnings"] == ["a label was added [WAS999]"]
    done = pod()
    done["metadata"]["labels"] = {"muster-test-patched": "yes"}
    assert "patch" not in answer(app, review(done), "/mutate")
    assert "patch" not in answer(app, review(pod()), "/validate")


def test_unreadable_shape_is_422_and_names_the_field() -> None:
    """The object is bad, not the request: an AdmissionReview, whose causes hold the text (kubectl prints only these)."""
    response = answer(make_app(), review(pod(containers="none")))

    assert response["status"]["code"] == 422
    assert response["status"]["reason"] == "Invalid"
    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"] == "spec.containers"
    assert cause["reason"] == "WAS100"
    assert "expected a list, found a string" in cause["message"]


@pytest.mark.parametrize("path", ["/validate", "/validate/submit", "/validate/controllers", "/validate/another"])
def test_every_entry_judges_alike(path: str) -> None:
    """Entries differ in what an overload means, never in the verdict; an unknown name is an entry too."""
    recorder = Recorder()

    assert answer(make_app(observer=recorder), review(pod(label="deny")), path)["allowed"] is False

    entry = path.removeprefix("/validate").strip("/") or "default"
    assert recorder.last.entry == (entry if entry != "another" else "other")
    assert recorder.last.phase is Phase.VALIDATING


def test_nulls_and_unknown_fields_pass() -> None:
    """Go writes null for empty raw objects, and a newer API server may say more than we know."""
    body = review(pod())
    body["request"]["somethingNew"] = {"deep": [1, 2]}
    body["futureField"] = None
    body["request"]["options"] = None
    body["request"]["userInfo"]["groups"] = None

    assert answer(make_app(), body)["allowed"] is True


def test_last_of_equal_keys_counts() -> None:
    """As in Go's decoder: an object cannot show us one thing and store another."""
    text = json.dumps(review(pod())).replace('{"name": "p"', '{"labels": {"muster-test": "deny"}, "name": "p"', 1)
    doubled = text.replace('"object": {', '"object": {"apiVersion": "v1"}, "object": {', 1)

    assert doubled.count('"object"') == 2
    assert answer(make_app(), doubled.encode())["allowed"] is False
