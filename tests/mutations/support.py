"""Runs the mutating phase as the API server does, and applies what comes back."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch

from tests.support.cases import NAMESPACE, NOW, FixedPolicies, policy_document, request_for, with_namespace
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.objects.request import UserInfo
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

Raw = dict[str, Any]
ALICE = UserInfo(username="alice", groups=("tenants",))


@dataclass(frozen=True)
class Mutated:
    """What one call of the webhook makes of an object."""

    obj: Raw
    verdict: Verdict

    @property
    def patch(self) -> list[Raw]:
        return [dict(operation) for operation in self.verdict.patch]

    @property
    def notes(self) -> list[str]:
        return list(self.verdict.patch_notes)


def mutate(
    raw: Raw, *rules: str, around: Sequence[Raw] = (), policy: Raw | None = None, user: UserInfo = ALICE
) -> Mutated:
    """One mutating call with the given mutations on. around: objects that exist already."""
    policies = FixedPolicies(policy_document({**(policy or {}), "mutations": dict.fromkeys(rules, True)}))
    pipeline = Pipeline(
        policies=lambda: policies,
        source=ObjectSetSource([with_namespace(item) for item in around], complete=True, default_namespace=NAMESPACE),
        clock=lambda: NOW,
    )
    before = copy.deepcopy(raw)
    verdict = pipeline.judge(request_for(raw, None, user=user), Phase.MUTATING, time.monotonic() + 60)
    assert raw == before, "the object in the request must not be changed in place"
    patched = jsonpatch.apply_patch(raw, [dict(operation) for operation in verdict.patch])
    return Mutated(patched, verdict)


def mutate_twice(raw: Raw, *rules: str, **options: Any) -> Mutated:
    """The first call, and the proof that a second one on its result (reinvocation) changes nothing."""
    first = mutate(raw, *rules, **options)
    second = mutate(first.obj, *rules, **options)
    assert second.patch == []
    assert second.notes == []
    return first


def changed(mutated: Mutated) -> dict[str, Any]:
    """The patch as pointer -> value."""
    return {operation["path"]: operation["value"] for operation in mutated.patch}
