"""Every fixture at the second height: bytes in, bytes out, through the Flask application.

Third height: tests/live/test_fixtures_live.py.
"""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from tests.support.cases import Case, judge, load_cases, pipeline_for
from webhook.edge.app import create_app
from webhook.facts.model import Phase

CASES = [case for case in load_cases() if case.phase is Phase.VALIDATING]


class Silent:
    """An observer that looks away."""

    def observe(self, observation: object) -> None:
        pass


@pytest.mark.parametrize("case", CASES, ids=str)
def test_over_http(case: Case) -> None:
    """The answer on the wire says what the pipeline says: allowed, code, the same rules, in the message or as warnings."""
    app = create_app(pipeline_for(case), Silent(), ready=list, version={})
    request = msgspec.to_builtins(case.request())
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    reply = app.test_client().post("/validate/submit?timeout=10s", json=review)

    response = json.loads(reply.data)["response"]
    verdict = judge(case)
    denied = {violation.rule for violation in verdict.denials}
    warned = {violation.rule for violation in verdict.violations if str(violation.action) == "Warn"}
    message = response.get("status", {}).get("message", "")
    assert reply.status_code == 200
    assert response["uid"] == request["uid"]
    assert response["allowed"] == verdict.allowed
    assert "patch" not in response
    assert set(re.findall(r"\[(WAS\d{3})\]", message)) == denied
    assert set(re.findall(r"\[(WAS\d{3})\]", " ".join(response.get("warnings", [])))) >= warned
    if denied:
        assert response["status"]["code"] == 403
        assert {cause["message"] for cause in response["status"]["details"]["causes"]}
