"""What quota tests share: prices from a few objects, a pipeline with a ledger, requests with uids."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tests.builders import GPU, NAMESPACE, Builder, Job, job, namespace, priority_class
from tests.support.cases import NOW, FixedPolicies, merge, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.gather import ask_all
from webhook.facts.model import Phase
from webhook.facts.source import FactSource
from webhook.facts.surroundings import Surroundings
from webhook.objects.request import AdmissionRequest, UserInfo
from webhook.quota.charging import SurroundingPrices
from webhook.quota.ledger import Ledger
from webhook.quota.model import TierQuota, from_raw
from webhook.quota.store import InMemoryStore
from webhook.quota.usage import Amounts, Charge, price
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

TIERS = {
    "tiers": [
        {"name": "gold", "priorityClasses": ["train-gold"]},
        {"name": "silver", "priorityClasses": ["train-silver"]},
    ]
}
CLASSES = [priority_class("train-gold", 1000).dict(), priority_class("train-silver", 500).dict()]
JOB_CONTROLLER = UserInfo(username="system:serviceaccount:kube-system:job-controller")
_UIDS = itertools.count(1)


def policies(patch: Mapping[str, Any] | None = None) -> FixedPolicies:
    return FixedPolicies(policy_document(merge(TIERS, patch or {})))


def charges(
    built: Builder,
    surroundings: Iterable[Mapping[str, Any]] = (),
    policy: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[Charge, ...]:
    """The price of an object among others."""
    source = ObjectSetSource([*CLASSES, *surroundings], complete=True, default_namespace=NAMESPACE)
    effective = policies(policy).effective(NAMESPACE, {})
    answers: dict[Any, Any] = {}
    while True:
        looked = Surroundings(answers)
        result = price(built.plan(), SurroundingPrices(looked, effective, NAMESPACE), **options)
        if not looked.missing:
            return result
        answers |= ask_all(source, looked.missing, fresh=False, deadline=0.0)


def amounts(built: Builder, *surroundings: Mapping[str, Any], **options: Any) -> Amounts:
    """Of the one tier that is charged; nothing if none is."""
    found = charges(built, surroundings, **options)
    assert len(found) <= 1
    return dict(found[0].alone) if found else {}


def gold_job(name: str = "train", pods: int = 2, gpus: int = 8) -> Job:
    return job(name).gang().parallelism(pods).completions(pods).gpu(gpus).priority_class("train-gold")


def quota(
    name: str = "gold-team-a", tier: str = "gold", namespaces: Iterable[str] = (NAMESPACE,), **hard: int | str
) -> TierQuota:
    """``quota(**{GPU: 16})``; counted, nothing in use."""
    raw = {
        "metadata": {"name": name},
        "spec": {"tier": tier, "namespaces": list(namespaces), "hard": hard or {GPU: 16}},
    }
    read = from_raw(raw)
    return replace(read, counted_scope=read.scope)


class Desk:
    """A pipeline over an in-memory store, and the few words that tests need."""

    def __init__(
        self, *quotas: TierQuota, objects: Iterable[Mapping[str, Any]] = (), policy: Mapping[str, Any] | None = None
    ) -> None:
        self.store = InMemoryStore(quotas or [quota()])
        self.ledger = Ledger(self.store)
        self.objects = [*CLASSES, namespace().dict(), *objects]
        self._policies = policies(policy)

    def judge(
        self,
        new: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        user: UserInfo | None = None,
        dry_run: bool = False,
        phase: Phase = Phase.VALIDATING,
        subresource: str = "",
        seconds: float = 5.0,
    ) -> Verdict:
        """CREATE, or UPDATE with `old`. A created object gets a uid as the API server gives it."""
        raw = dict(new)
        raw["metadata"] = {"uid": f"uid-{next(_UIDS)}", "generation": 1} | dict(raw["metadata"])
        request = request_for(
            raw,
            None if old is None else dict(old),
            "CREATE" if old is None else "UPDATE",
            user,
            subresource=subresource,
        )
        return self.ask(msgspec.structs.replace(request, dry_run=dry_run), phase=phase, seconds=seconds)

    def ask(
        self,
        request: AdmissionRequest,
        *,
        phase: Phase = Phase.VALIDATING,
        seconds: float = 5.0,
        source: FactSource | None = None,
    ) -> Verdict:
        pipeline = Pipeline(
            policies=lambda: self._policies,
            source=source or ObjectSetSource(self.objects, complete=True, default_namespace=NAMESPACE),
            clock=lambda: NOW,
            ledger=self.ledger,
        )
        return pipeline.judge(request, phase, time.monotonic() + seconds)

    def book(self, name: str = "gold-team-a") -> TierQuota:
        return next(item for item in self.store.all(0.0) if item.name == name)

    def reserved(self, resource: str = GPU, name: str = "gold-team-a") -> int:
        return self.book(name).reserved.get(resource, 0)


def quota_denials(verdict: Verdict) -> list[str]:
    return [item.message for item in verdict.denials if item.rule == "WAS410"]
