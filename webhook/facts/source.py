"""FactSource: where facts about the surroundings come from. Found, Absent (confirmed) or Unknown (with a reason).

Implemented by webhook.sources (a folder of manifests, a recording) and webhook.cluster (the live cluster). A rule may
deny on Absent and on Found, never on Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Query(NamedTuple):
    """A question about the surroundings. kind: a key of webhook.objects.kinds.BY_NAME. namespace: "" for
    cluster-scoped kinds. name: "" asks for all objects of the kind in the namespace (for a namespaced kind with
    namespace "" never: a rule may not list a whole cluster, except cluster-scoped kinds)."""

    kind: str
    namespace: str
    name: str

    @property
    def is_list(self) -> bool:
        return not self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name or '*'}"


@dataclass(frozen=True, slots=True)
class Found:
    """One raw object, or a tuple of raw objects for a list query (an empty list is Found(()))."""

    value: Mapping[str, Any] | tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """Confirmed: a live read said 404, or a set declared complete does not hold it."""


NOT_SERVED = "the API server does not serve this resource"
"""In the reason of an Unknown: there can be none of them, now."""


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str


Answer = Found | Absent | Unknown


class FactSource(Protocol):
    """`fresh`: answer by a live read, whatever a cache says (asked before anything is denied). Never raises: what
    cannot be read (timeout, forbidden, API not served) is Unknown with a reason. `deadline` is a time.monotonic()
    value after which the answer is of no use."""

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer: ...
