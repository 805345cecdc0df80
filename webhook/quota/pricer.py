"""Live objects -> census nodes: each priced as the ledger priced it when it was admitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from webhook.facts.gather import ROUND_COUNT_MAX, ask_all
from webhook.facts.source import Absent, Answer, FactSource, Found, Query
from webhook.facts.surroundings import Surroundings
from webhook.objects import core
from webhook.objects.kinds import Kind, find, split_api_version
from webhook.objects.read import ShapeError, read
from webhook.plan.adapters import plan_of
from webhook.policy.effective import EffectivePolicy
from webhook.quota.book import Fate, recounted
from webhook.quota.census import Census, Node
from webhook.quota.charging import SurroundingPrices
from webhook.quota.model import KIND, QuotaError, TierQuota, from_raw
from webhook.quota.usage import Charge, price

# Whatever has Pods, and the groups that bare Pods join. A CronJob's Jobs are tops: it is charged nothing itself.
COUNTED_KINDS = (
    "Job", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet", "PodGroup", "Pod",
)  # fmt: skip

UNPRICED = -1
"""A generation older than any."""

READ_SECONDS_MAX = 2.0
MEMORY_SECONDS = 10.0
GROUP_MEMORY_SECONDS = 1.0
"""Of a PodGroup: it may be deleted and made anew, and Pods that are priced by the old one open no places in the new one."""
MEMORY_COUNT_MAX = 10_000


class PriceError(Exception):
    """An object cannot be priced now, since something it refers to could not be read. node: with what could be priced, and
    of no generation, so that no reservation of the object settles on it."""

    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.node = node


class Memory:
    """A FactSource that asks again only after a while (`MEMORY_SECONDS`): a thousand Jobs name the same few classes and templates. What is
    absent is asked for every time: it may be there a moment later, and what was priced without it stays as it is."""

    def __init__(self, source: FactSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._answers: dict[Query, tuple[float, Answer]] = {}

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        at, answer = self._answers.get(query, (float("-inf"), Absent()))
        now = self._clock()
        if fresh or now - at > (GROUP_MEMORY_SECONDS if query.kind == "PodGroup" else MEMORY_SECONDS):
            answer = self._source.ask(query, fresh=fresh, deadline=deadline)
            if isinstance(answer, Found):
                if len(self._answers) > MEMORY_COUNT_MAX:
                    self._answers.clear()
                self._answers[query] = (now, answer)
        return answer


class Pricer:
    """raw object -> Node, by the rules of webhook.quota. effective: the policy of a namespace, now. is_live: the source is a
    cluster, where whatever there is can be listed."""

    def __init__(
        self, source: FactSource, effective: Callable[[str], EffectivePolicy], *, is_live: bool = False
    ) -> None:
        self._is_live = is_live
        self._memory = Memory(source)
        self._effective = effective

    def node(self, kind: Kind, raw: Mapping[str, Any]) -> Node | None:
        """None for an object that can never be counted. Raises PriceError."""
        try:
            obj = read(raw, kind.type)
        except ShapeError:
            return None
        metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
        owner = metadata.controller()
        node = Node(
            uid=metadata.uid,
            kind=kind.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            owner_uid=owner.uid if owner is not None else "",
            generation=metadata.generation or 0,
            is_deleting=metadata.deletion_timestamp is not None,
            grace_seconds=metadata.deletion_grace_period_seconds or 0,
        )
        if isinstance(obj, core.PodGroup):
            gang = obj.spec.scheduling_policy.gang
            if owner is not None or gang is None:
                return None
            return replace(node, min_count=gang.min_count)
        name = f"{kind.kind} {metadata.namespace}/{metadata.name}"
        try:
            if not _still_counts(obj, raw, node):
                return node
            charges, failed = self._charges(kind, metadata.namespace, _what_is_left(obj))
        except Exception as bug:  # ours: one object must not stop the count of all others
            raise PriceError(f"{name}: {bug!r}", replace(node, generation=UNPRICED)) from bug
        if failed:
            raise PriceError(f"{name}: {failed[0]}", replace(node, generation=UNPRICED, charges=charges))
        return replace(node, charges=charges)

    def _charges(self, kind: Kind, namespace: str, obj: core.Base) -> tuple[tuple[Charge, ...], list[str]]:
        """(charges, why some of them could not be read)"""
        policy = self._effective(namespace)
        plan = plan_of(kind.kind, kind.api_version, namespace, obj)
        deadline = time.monotonic() + READ_SECONDS_MAX
        answers: dict[Query, Answer] = {}
        for _ in range(ROUND_COUNT_MAX):
            surroundings = Surroundings(answers)
            prices = SurroundingPrices(surroundings, policy, namespace)
            charges = price(plan, prices, suspended=policy.parameters.charge_suspended)
            if not surroundings.missing:
                break
            answers |= ask_all(self._memory, surroundings.missing, fresh=False, deadline=deadline)
        return charges, [*prices.failed, *(prices.unlisted if self._is_live else ())]


def _still_counts(obj: core.Base, raw: Mapping[str, Any], node: Node) -> bool:
    """A finished object, and a controller that is being deleted, make no more Pods; a Pod counts until it is gone."""
    if isinstance(obj, core.Pod):
        return obj.status.phase not in ("Succeeded", "Failed")
    return not node.is_deleting and not _is_finished(raw)


def _is_finished(raw: Mapping[str, Any]) -> bool:
    """Job: Complete, Failed. JobSet: Completed, Failed."""
    conditions = (raw.get("status") or {}).get("conditions")
    return any(
        isinstance(item, Mapping)
        and item.get("type") in ("Complete", "Completed", "Failed")
        and item.get("status") == "True"
        for item in (conditions if isinstance(conditions, list) else ())
    )


def _what_is_left(obj: core.Base) -> core.Base:
    """A Job makes no more Pods at a time than completions are missing."""
    if not isinstance(obj, core.Job) or obj.spec.completions is None:
        return obj
    succeeded = (obj.status or {}).get("succeeded") or 0
    left = max(0, obj.spec.completions - succeeded)
    parallelism = 1 if obj.spec.parallelism is None else obj.spec.parallelism
    spec = msgspec.structs.replace(obj.spec, parallelism=min(parallelism, left))
    return msgspec.structs.replace(obj, spec=spec)


# ---- a set of files as a cluster ----------------------------------------------------------------------------------
def is_quota(raw: Mapping[str, Any]) -> bool:
    return raw.get("kind") == KIND and split_api_version(str(raw.get("apiVersion") or ""))[0] == "muster.dev"


def quotas_among(objects: Iterable[Mapping[str, Any]]) -> list[TierQuota]:
    """The TierQuotas of a set of manifests, with the books they bring along. Raises QuotaError."""
    quotas = [from_raw(raw, is_stored=False) for raw in objects if is_quota(raw)]
    if damaged := next((quota for quota in quotas if quota.damage), None):
        raise QuotaError(f'TierQuota "{damaged.name}" cannot be read: {damaged.damage}')
    return [replace(quota, counted_scope=quota.scope) for quota in quotas]


def counted_among(
    quotas: Iterable[TierQuota],
    objects: Iterable[Mapping[str, Any]],
    source: FactSource,
    effective: Callable[[str], EffectivePolicy],
) -> list[TierQuota]:
    """The quotas with what these objects use, as if all of them lived. What cannot be priced is not counted: a set of files
    need not be whole."""
    census = Census()
    pricer = Pricer(source, effective)
    for number, raw in enumerate(objects):
        kind = find(split_api_version(str(raw.get("apiVersion") or ""))[0], str(raw.get("kind") or ""))
        if kind is None or kind.kind not in COUNTED_KINDS:
            continue
        try:
            node = pricer.node(kind, raw)
        except PriceError:
            continue
        if node is not None:
            census.put(replace(node, uid=node.uid or f"file-{number}"))
    view = census.view()

    def counted(quota: TierQuota) -> TierQuota:
        found = view.count(quota.tier, lambda namespace: quota.selects(namespace, {}), frozenset())
        return recounted(quota, found, lambda _: Fate.KEEP, "").quota

    return [counted(quota) for quota in quotas]
