"""What the real scheduler does with a pair: one after another on an otherwise empty cluster.

Placed means bound. Not placed means: unbound after the scheduler tried and said no, with nothing left to try. That is
greedy evidence for "impossible", never proof; the other direction is proof: what it places is possible.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tests.cluster.client import ApiError, Response, collection_path, object_path
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlaneOptions
from tests.judge import pairs
from tests.judge.pairs import NAMESPACE, GroupSpec, LeafSpec, Pair, Raw, TreeSpec

_POLL_SECONDS = 0.01
_FORGET_SECONDS_MAX = 60.0
# Without any attempt for so long, with everything known to the scheduler: it waits for something that will not come.
_SILENT_SECONDS = 2.0
_ROUND_SECONDS_MIN = 0.3
_ANSWER_SECONDS_MAX = 30.0
_ATTEMPTS = re.compile(
    r'^scheduler_(?:podgroup_)?schedule_attempts_total\{[^}]*result="(\w+)"[^}]*\} ([0-9.e+]+)$', re.MULTILINE
)
_PENDING = re.compile(r'^scheduler_pending_pods\{queue="(\w+)"\} ([0-9.e+]+)$', re.MULTILINE)


def options(**changes: Any) -> ControlPlaneOptions:
    """A control plane for many short pairs: no not-ready taint on new Nodes, and the shortest backoff there is."""
    wanted = ControlPlaneOptions(
        disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "DefaultTolerationSeconds"),
        scheduler_config={"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1},
        controllers="job-controller,podgroup-protection-controller,pod-garbage-collector-controller",
        flow_control=False,
    )
    return replace(wanted, **changes)


class RefusedError(Exception):
    """The API server does not take the pair's objects: no case for the scheduler."""


class _StaleNodeError(Exception):
    """A Pod was bound to a Node of another pair."""


@dataclass(frozen=True)
class Outcome:
    """placed: by question (the whole plan; for basic groups, each set). rounds: how often the scheduler said no. bound:
    how many Pods of each (group, set index) are bound. quorums: minCount of each group, 1 for basic ones."""

    placed: tuple[bool, ...]
    rounds: int
    bound: Mapping[tuple[str, str], int]
    quorums: Mapping[str, int]

    def has_placed(self, denied: tuple[str, str | None]) -> bool:
        """Was a group, or (with a set index) any Pod of a set, placed after all?"""
        group, set_index = denied
        if set_index is not None:
            return self.bound.get((group, set_index), 0) > 0
        return sum(count for (name, _), count in self.bound.items() if name == group) >= self.quorums[group]


@dataclass(frozen=True)
class _Metrics:
    refusals: float
    active: float
    pending: float


class Judge:
    """Runs pairs. Use as one caller at a time; `start` once per control plane."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._pool = ThreadPoolExecutor(8)

    def start(self) -> None:
        """Namespace, RuntimeClass, and the Workload that groups of a tree have to name."""
        namespace: Raw = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.api.create(namespace).expect(201, 409)
        self.cluster.api.create(pairs.RUNTIME_CLASS).expect(201, 409)

    def close(self) -> None:
        self._pool.shutdown()

    # ---- one pair -------------------------------------------------------------------------------------------------
    def run(self, pair: Pair, rounds_wanted: int = 1, after_refusal: Callable[[], None] = lambda: None) -> Outcome:
        """after_refusal: called once, after the first round without success. rounds_wanted: after how many rounds without success it counts as not placed. Raises RefusedError."""
        while True:
            self._wait(lambda m: not m.pending, "the last pair to be forgotten")
            try:
                return self._run(pair, rounds_wanted, after_refusal)
            except _StaleNodeError:
                continue
            finally:
                self._clean(pair)

    def _run(self, pair: Pair, rounds_wanted: int, after_refusal: Callable[[], None]) -> Outcome:
        self._create(pair.nodes)
        refusals = self._metrics().refusals
        if pair.job:
            self._create([pairs.job(pair)])
            return self._answer(pair, refusals, rounds_wanted, after_refusal)
        everyone = [pod for leaf in pairs.leaves(pair.root) for pod in pairs.pods(leaf)]
        first = pair.root.first if isinstance(pair.root, LeafSpec) else 0
        if first:
            early, everyone = everyone[:first], everyone[first:]
            self._create(early)
            self._wait(lambda m: m.pending == len(early), "the first Pods in the scheduler's queue")
            self._create(pairs.groups(pair.root))
            self._answer(replace(pair, root=_quorum(pair.root, first)), refusals, 1)
            refusals = self._metrics().refusals
            self._raise_quorum(pair.root)
            self._create(everyone)
        else:
            # Pods before groups: the scheduler looks at none of them until the root group is there.
            self._create(everyone)
            self._wait(lambda m: m.pending == len(everyone), "the Pods in the scheduler's queue")
            for group in pairs.groups(pair.root):
                self._create([group])
        return self._answer(pair, refusals, rounds_wanted, after_refusal)

    def _create(self, objects: Any) -> None:
        answers: list[Response] = list(self._pool.map(self.cluster.api.create, objects))
        for answer in answers:
            if answer.status in (400, 403, 422):
                raise RefusedError(str(answer.body.get("message")))
            answer.expect()

    def _raise_quorum(self, root: GroupSpec) -> None:
        (group,) = pairs.groups(root)
        assert isinstance(root, LeafSpec)
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": root.min_count}}}}
        self.cluster.api.patch(object_path(group), patch).expect()

    def _answer(
        self, pair: Pair, before: float, rounds_wanted: int, after_refusal: Callable[[], None] = lambda: None
    ) -> Outcome:
        """Until every question is answered with yes, or the scheduler has said no often enough. One round counts up to
        once per Pod and group; the next one comes after the backoff of a second."""
        start = time.monotonic()
        heard, last, rounds = before, start, 0
        while True:
            bound = self._bound(pair)
            placed = _placed(pair, bound)
            metrics = self._metrics()
            now = time.monotonic()
            if metrics.refusals != heard:
                if not rounds:
                    after_refusal()
                rounds += not rounds or now - last > _ROUND_SECONDS_MIN
                heard, last = metrics.refusals, now
            silent = not metrics.active and now - last > _SILENT_SECONDS
            if all(placed) or (rounds >= rounds_wanted and not metrics.active) or silent:
                # What was decided before the last word may still be on its way to the API server.
                return _outcome(pair, self._settled(pair, len(bound)), rounds)
            if now - start > _ANSWER_SECONDS_MAX:
                raise TimeoutError(f"{pair.name}: no answer of the scheduler: {metrics}")
            time.sleep(_POLL_SECONDS)

    def _settled(self, pair: Pair, seen: int) -> list[Raw]:
        """The bound Pods once two looks agree."""
        while True:
            time.sleep(_POLL_SECONDS)
            bound = self._bound(pair)
            if len(bound) == seen:
                return bound
            seen = len(bound)

    def _bound(self, pair: Pair) -> list[Raw]:
        """Raises _StaleNodeError where the scheduler had not yet heard that the last pair's Nodes are gone."""
        bound = [pod for pod in self.cluster.pods(NAMESPACE) if pod["spec"].get("nodeName")]
        names = {node["metadata"]["name"] for node in pair.nodes}
        if any(pod["spec"]["nodeName"] not in names for pod in bound):
            raise _StaleNodeError
        return bound

    # ---- cleaning -------------------------------------------------------------------------------------------------
    def _clean(self, pair: Pair) -> None:
        api = self.cluster.api
        if pair.job:
            body = {"propagationPolicy": "Background"}
            api.delete(object_path(pairs.job(pair)), body).expect(200, 404)
        group_api = "scheduling.k8s.io/v1alpha3"
        for kind in ("CompositePodGroup", "PodGroup", "Workload"):
            api.delete(collection_path(group_api, kind, NAMESPACE)).expect(200)
        paths = [f"/api/v1/nodes/{node['metadata']['name']}" for node in pair.nodes]
        deadline = time.monotonic() + _FORGET_SECONDS_MAX
        # The Job controller may make a Pod while its Job goes.
        while (found := self.cluster.pods(NAMESPACE)) and time.monotonic() < deadline:
            list(self._pool.map(self._delete_now, [object_path(_typed(pod)) for pod in found]))
        list(self._pool.map(lambda path: api.delete(path).expect(200, 404), paths))

    def _delete_now(self, path: str) -> None:
        self.cluster.api.delete(path, {"gracePeriodSeconds": 0}).expect(200, 404, 409)

    # ---- metrics --------------------------------------------------------------------------------------------------
    def _wait(self, holds: Callable[[_Metrics], bool], what: str) -> None:
        deadline = time.monotonic() + _FORGET_SECONDS_MAX
        while not holds(metrics := self._metrics()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited for {what}: {metrics}")
            time.sleep(_POLL_SECONDS)

    def _metrics(self) -> _Metrics:
        text = self.cluster.metrics("kube-scheduler")
        pending = {queue: float(value) for queue, value in _PENDING.findall(text)}
        return _Metrics(
            refusals=sum(float(value) for result, value in _ATTEMPTS.findall(text) if result != "scheduled"),
            active=pending.get("active", 0.0),
            pending=sum(pending.values()),
        )


def _typed(pod: Raw) -> Raw:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}


def _quorum(leaf: GroupSpec, min_count: int) -> LeafSpec:
    assert isinstance(leaf, LeafSpec)
    return replace(leaf, min_count=min_count, first=0)


def _outcome(pair: Pair, bound: Sequence[Raw], rounds: int) -> Outcome:
    counts: Counter[tuple[str, str]] = Counter()
    for pod in bound:
        labels = pod["metadata"]["labels"]
        counts[labels.get("judge-group", pair.root.name), labels.get("judge-set", "0")] += 1
    quorums = {leaf.name: leaf.min_count or 1 for leaf in pairs.leaves(pair.root)}
    return Outcome(_placed(pair, bound), rounds, counts, quorums)


def _placed(pair: Pair, bound: Sequence[Raw]) -> tuple[bool, ...]:
    """The answer to every question that the plan raises, in the order of `demands`."""
    root = pair.root
    if isinstance(root, LeafSpec) and root.min_count is None and not pair.job:
        return tuple(any(_is_in(pod, root.name, index) for pod in bound) for index in range(len(root.sets)))
    if pair.job:
        return (len(bound) >= (root.min_count or 1 if isinstance(root, LeafSpec) else 1),)
    return (_group_placed(root, bound),)


def _group_placed(group: GroupSpec, bound: Sequence[Raw]) -> bool:
    if isinstance(group, TreeSpec):
        return sum(_group_placed(child, bound) for child in group.children) >= (group.min_group_count or 1)
    return sum(pod["metadata"]["labels"]["judge-group"] == group.name for pod in bound) >= (group.min_count or 1)


def _is_in(pod: Raw, group: str, set_index: int) -> bool:
    labels = pod["metadata"]["labels"]
    return labels["judge-group"] == group and labels["judge-set"] == str(set_index)


__all__ = ["ApiError", "Judge", "Outcome", "RefusedError", "options"]
