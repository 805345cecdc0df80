"""Schemathesis: the application against its OpenAPI description, in-process, with the real catalogue."""

from __future__ import annotations

import schemathesis
from flask import Flask
from hypothesis import settings

from tests.edge.reviews import Recorder
from tests.support.cases import NOW, FixedPolicies, policy_document
from webhook.admission.pipeline import Pipeline
from webhook.edge.app import create_app
from webhook.edge.observer import Observer
from webhook.mutations.catalogue import MUTATIONS
from webhook.sources.folder import BUILT_IN_OBJECTS, ObjectSetSource


def make_real_app(observer: Observer) -> Flask:
    """The real rules and all mutations, over an empty world."""
    policies = FixedPolicies(policy_document({"mutations": {mutation.META.id: True for mutation in MUTATIONS}}))
    pipeline = Pipeline(
        policies=lambda: policies, source=ObjectSetSource(BUILT_IN_OBJECTS, complete=True), clock=lambda: NOW
    )
    return create_app(pipeline, observer, ready=list, version={"version": "test"})


schema = schemathesis.openapi.from_wsgi("/openapi.json", make_real_app(Recorder()))


@schema.parametrize()
@settings(max_examples=100)
def test_the_application_is_what_it_says(case: schemathesis.Case) -> None:
    """No 5xx, only described answers, in the described shape; what the schema forbids is refused."""
    case.call_and_validate()
