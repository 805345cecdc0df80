"""A FactSource over a set of manifests: a folder, the files given to `muster review`, or a test's surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.facts.source import Absent, Answer, FactSource, Found, Query, Unknown
from webhook.objects.kinds import BY_NAME, find, split_api_version

Manifest = Mapping[str, Any]

# Every API server makes these itself; a set that is "all there is" still has them.
BUILT_IN_OBJECTS: tuple[Manifest, ...] = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
)


class ObjectSetSource:
    """Answers from a fixed set of raw objects.

    complete: the set is all there is, so what is not in it is Absent; else it is Unknown, since it may be in the
    cluster already or on its way. default_namespace: where a manifest without namespace will land.
    """

    def __init__(self, objects: Iterable[Manifest], *, complete: bool, default_namespace: str = "default") -> None:
        self._complete = complete
        self._objects: dict[Query, Manifest] = {}
        self._lists: dict[Query, list[Manifest]] = {}
        for raw in objects:
            query = query_of(raw, default_namespace)
            if query is None:
                continue
            everything = Query(query.kind, query.namespace, "")
            if query.name:
                self._objects[query] = raw
            self._lists.setdefault(everything, []).append(raw)

    def without(self, raw: Manifest) -> FactSource:
        """The same set as it is before this object is created: an object is not part of its own surroundings."""
        return _Without(self, raw, self._complete)

    def ask(self, query: Query, *, fresh: bool = False, deadline: float = 0.0) -> Answer:  # noqa: ARG002  Protocol
        if query.is_list:
            if self._complete:
                return Found(tuple(self._lists.get(query, ())))
            return Unknown(f"only the given files are known, not every {query.kind} of the cluster")
        raw = self._objects.get(query)
        if raw is not None:
            return Found(raw)
        if self._complete:
            return Absent()
        where = f' in namespace "{query.namespace}"' if query.namespace else ""
        return Unknown(f'{query.kind} "{query.name}"{where} is not among the given files')


class _Without:
    """A source that does not see one object (by identity: another of the same name stays visible)."""

    def __init__(self, source: ObjectSetSource, raw: Manifest, complete: bool) -> None:
        self._source, self._raw, self._complete = source, raw, complete

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        answer = self._source.ask(query, fresh=fresh, deadline=deadline)
        if not isinstance(answer, Found):
            return answer
        if isinstance(answer.value, tuple):
            return Found(tuple(item for item in answer.value if item is not self._raw))
        if answer.value is self._raw:
            return Absent() if self._complete else Unknown(f"{query} is the object under review")
        return answer


def query_of(raw: Manifest, default_namespace: str) -> Query | None:
    """The query that this manifest answers; None for kinds Muster does not read."""
    group, _ = split_api_version(str(raw.get("apiVersion") or ""))
    kind = find(group, str(raw.get("kind") or ""))
    metadata = raw.get("metadata")
    if kind is None or not isinstance(metadata, Mapping):
        return None
    namespace = str(metadata.get("namespace") or default_namespace) if BY_NAME[kind.kind].namespaced else ""
    return Query(kind.kind, namespace, str(metadata.get("name") or ""))
