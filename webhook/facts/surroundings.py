"""The surroundings of an object as rules see them: frozen answers, typed.

Rules ask for what they need and never fetch: a question that was not answered yet reads as Unknown and is noted in
`missing`. The pipeline fetches what is missing and evaluates again, until nothing is missing (docs/decisions/0002).
So no list of needs has to be kept beside each rule, and rules stay pure functions of frozen facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from webhook.facts.source import Absent, Answer, Found, Query, Unknown
from webhook.objects import core
from webhook.objects.kinds import BY_NAME

T = TypeVar("T")

NOT_ASKED = Unknown("not looked up yet")


class Looked(Generic[T]):
    """A typed answer: exactly one of `value` (found), `absent` (confirmed), `unknown` (the reason) is set."""

    __slots__ = ("absent", "unknown", "value")

    def __init__(self, value: T | None = None, *, absent: bool = False, unknown: str | None = None) -> None:
        self.value = value
        self.absent = absent
        self.unknown = unknown


class Surroundings:
    """Answers by query. What changes after construction is the record of questions: `asked`, and of those the open ones
    in `missing`; `open_count` goes up with every question that had no answer yet, asked before or not. An answer once
    given never changes; `learn` adds those that were missing. memo: what rules work out from these answers and share
    (Facts.once), so that it ends with them."""

    def __init__(self, answers: Mapping[Query, Answer]) -> None:
        self._answers = dict(answers)
        self._typed: dict[Query, Looked[object]] = {}
        self.missing: set[Query] = set()
        self.asked: set[Query] = set()
        self.open_count = 0
        self.memo: dict[tuple[object, int], tuple[object, Any]] = {}

    def learn(self, answers: Mapping[Query, Answer]) -> None:
        """The answers to what was missing; nothing is missing then."""
        self._answers |= answers
        self.missing = set()

    # -- by name ------------------------------------------------------------------------------------------------
    def pod_group(self, namespace: str, name: str) -> Looked[core.PodGroup]:
        return self._one(Query("PodGroup", namespace, name), core.PodGroup)

    def composite_pod_group(self, namespace: str, name: str) -> Looked[core.CompositePodGroup]:
        return self._one(Query("CompositePodGroup", namespace, name), core.CompositePodGroup)

    def workload(self, namespace: str, name: str) -> Looked[core.Workload]:
        return self._one(Query("Workload", namespace, name), core.Workload)

    def priority_class(self, name: str) -> Looked[core.PriorityClass]:
        return self._one(Query("PriorityClass", "", name), core.PriorityClass)

    def claim_template(self, namespace: str, name: str) -> Looked[core.ResourceClaimTemplate]:
        return self._one(Query("ResourceClaimTemplate", namespace, name), core.ResourceClaimTemplate)

    def claim(self, namespace: str, name: str) -> Looked[core.ResourceClaim]:
        return self._one(Query("ResourceClaim", namespace, name), core.ResourceClaim)

    def device_class(self, name: str) -> Looked[core.DeviceClass]:
        return self._one(Query("DeviceClass", "", name), core.DeviceClass)

    def namespace(self, name: str) -> Looked[core.Namespace]:
        return self._one(Query("Namespace", "", name), core.Namespace)

    def runtime_class(self, name: str) -> Looked[core.RuntimeClass]:
        return self._one(Query("RuntimeClass", "", name), core.RuntimeClass)

    def crd(self, name: str) -> Looked[core.CustomResourceDefinition]:
        """name: ``jobsets.jobset.x-k8s.io``."""
        return self._one(Query("CustomResourceDefinition", "", name), core.CustomResourceDefinition)

    def job(self, namespace: str, name: str) -> Looked[core.Job]:
        return self._one(Query("Job", namespace, name), core.Job)

    def pod(self, namespace: str, name: str) -> Looked[core.Pod]:
        return self._one(Query("Pod", namespace, name), core.Pod)

    def jobset(self, namespace: str, name: str) -> Looked[core.JobSet]:
        return self._one(Query("JobSet", namespace, name), core.JobSet)

    def any(self, kind: str, namespace: str, name: str) -> Looked[core.Base]:
        """Any kind of webhook.objects.kinds, typed as its row says."""
        return self._one(Query(kind, namespace, name), BY_NAME[kind].type)

    # -- lists --------------------------------------------------------------------------------------------------
    def priority_classes(self) -> Looked[tuple[core.PriorityClass, ...]]:
        return self._many(Query("PriorityClass", "", ""), core.PriorityClass)

    def device_classes(self) -> Looked[tuple[core.DeviceClass, ...]]:
        return self._many(Query("DeviceClass", "", ""), core.DeviceClass)

    def resource_quotas(self, namespace: str) -> Looked[tuple[core.ResourceQuota, ...]]:
        return self._many(Query("ResourceQuota", namespace, ""), core.ResourceQuota)

    def pods(self, namespace: str) -> Looked[tuple[core.Pod, ...]]:
        """All Pods of the namespace: a live list, so only for rare requests (DELETE of a group, a joining stranger)."""
        return self._many(Query("Pod", namespace, ""), core.Pod)

    def jobs(self, namespace: str) -> Looked[tuple[core.Job, ...]]:
        return self._many(Query("Job", namespace, ""), core.Job)

    def workloads(self, namespace: str) -> Looked[tuple[core.Workload, ...]]:
        return self._many(Query("Workload", namespace, ""), core.Workload)

    def pod_groups(self, namespace: str) -> Looked[tuple[core.PodGroup, ...]]:
        return self._many(Query("PodGroup", namespace, ""), core.PodGroup)

    def composite_pod_groups(self, namespace: str) -> Looked[tuple[core.CompositePodGroup, ...]]:
        return self._many(Query("CompositePodGroup", namespace, ""), core.CompositePodGroup)

    def claim_templates(self, namespace: str) -> Looked[tuple[core.ResourceClaimTemplate, ...]]:
        return self._many(Query("ResourceClaimTemplate", namespace, ""), core.ResourceClaimTemplate)

    def all_of(self, kind: str, namespace: str) -> Looked[tuple[core.Base, ...]]:
        """All objects of any kind of webhook.objects.kinds in the namespace, typed as its row says."""
        return self._many(Query(kind, namespace, ""), BY_NAME[kind].type)

    # -- machinery ----------------------------------------------------------------------------------------------
    def _answer(self, query: Query) -> Answer:
        self.asked.add(query)
        answer = self._answers.get(query)
        if answer is None:
            self.missing.add(query)
            self.open_count += 1
            return NOT_ASKED
        return answer

    def _one(self, query: Query, as_type: type[T]) -> Looked[T]:
        return self._look(query, as_type) if query.name else Looked(unknown="no name given")

    def _many(self, query: Query, as_type: type[T]) -> Looked[tuple[T, ...]]:
        return self._look(query, tuple[as_type, ...])  # type: ignore[valid-type]

    def _look(self, query: Query, as_type: type[T]) -> Looked[T]:
        typed = self._typed.get(query)
        if typed is None:
            answer = self._answer(query)
            typed = _typed(answer, as_type)
            if answer is not NOT_ASKED:
                self._typed[query] = typed
        return typed  # type: ignore[return-value]


def _typed(answer: Answer, as_type: type[object]) -> Looked[object]:
    if isinstance(answer, Unknown):
        return Looked(unknown=answer.reason)
    if isinstance(answer, Absent):
        return Looked(absent=True)
    assert isinstance(answer, Found)  # noqa: S101  the union is closed
    try:
        return Looked(msgspec.convert(answer.value, as_type))
    except msgspec.ValidationError as error:
        return Looked(unknown=f"unreadable: {error}")
