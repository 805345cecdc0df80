"""Whatever an object holds: it has a price, the price is counted as it was charged, and the books hold it as text."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given

from tests.builders import GPU, NAMESPACE
from tests.quota.helpers import CLASSES, policies
from tests.strategies import Raw, planned_objects
from tests.support.cases import NOW, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.objects.kinds import Kind
from webhook.quota.book import Fate, recounted
from webhook.quota.census import Census
from webhook.quota.ledger import Ledger
from webhook.quota.model import TierQuota, from_raw, status_of, texts
from webhook.quota.pricer import COUNTED_KINDS, Pricer
from webhook.quota.store import InMemoryStore
from webhook.sources.folder import ObjectSetSource

HARD = dict.fromkeys((GPU, "cpu", "memory", "pods", "gangs", "rdma/ib", "hugepages-2Mi"), 2**62)


def template_specs(raw: Any) -> list[Raw]:
    """Whatever has containers."""
    if isinstance(raw, list):
        return [found for item in raw for found in template_specs(item)]
    if not isinstance(raw, dict):
        return []
    own = [raw] if "containers" in raw else []
    return own + [found for item in raw.values() for found in template_specs(item)]


@given(planned_objects())
def test_what_is_charged_is_what_is_counted(planned: tuple[Kind, Raw]) -> None:
    kind, raw = planned
    assume(kind.kind in COUNTED_KINDS and kind.kind != "PodGroup")
    raw = msgspec.json.decode(msgspec.json.encode(raw))
    raw |= {"apiVersion": kind.api_version, "kind": kind.kind}
    raw["metadata"] = {"name": "x", "namespace": NAMESPACE, "uid": "u", "generation": 1}
    raw.pop("status", None)
    for spec in template_specs(raw):
        spec["priorityClassName"] = "train-gold"
    source = ObjectSetSource(CLASSES, complete=True, default_namespace=NAMESPACE)
    quota = TierQuota(name="q", tier="gold", hard=HARD)
    store = InMemoryStore([quota])
    pipeline = Pipeline(policies=policies, source=source, clock=lambda: NOW, ledger=Ledger(store), catalogue=())

    verdict = pipeline.judge(request_for(raw, None, "CREATE", None), Phase.VALIDATING)

    assume(verdict.allowed)
    charged = store.all(0.0)[0]
    assert as_read(charged) == charged
    census = Census()
    node = Pricer(source, lambda name: policies().effective(name, {})).node(kind, raw)
    assert node is not None
    census.put(node)
    count = census.view().count("gold", lambda _: True, frozenset())
    counted = recounted(charged, count, lambda _: Fate.SETTLED, "me").quota
    assert as_read(counted) == counted
    assert counted.used == {name: charged.reserved.get(name, 0) for name in HARD}
    assert all(number >= 0 for charge in node.charges for number in charge.amounts.values())


def as_read(stored: TierQuota) -> TierQuota:
    raw = {
        "metadata": {"name": stored.name, "resourceVersion": stored.resource_version},
        "spec": {"tier": stored.tier, "hard": texts(stored.hard)},
        "status": status_of(stored),
    }
    return from_raw(raw)
