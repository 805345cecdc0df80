"""The leader's watches against an API server that compacts, breaks, restarts, or lacks a CRD; the Lease; live objects' prices."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from tests.builders import (
    GPU,
    Builder,
    Pod,
    claim,
    claim_template,
    deployment,
    job,
    jobset,
    pod,
    pod_group,
    replica_set,
)
from tests.quota.helpers import CLASSES, gold_job, policies
from webhook.cluster import census_feed
from webhook.cluster.census_feed import Feed
from webhook.cluster.connection import GoneError, Read, ReadState, WatchError
from webhook.cluster.lease import DURATION_SECONDS, Lease
from webhook.cluster.reconciler import EventJournal, look
from webhook.facts.source import NOT_SERVED, Answer, Found, Query, Unknown
from webhook.objects.kinds import BY_NAME
from webhook.quota.census import LINGER_SECONDS, Census
from webhook.quota.model import Reservation, TierQuota
from webhook.quota.pricer import Memory, PriceError, Pricer
from webhook.quota.recount import Seen
from webhook.sources.folder import ObjectSetSource


def pricer(*objects: Any) -> Pricer:
    source = ObjectSetSource([*CLASSES, *objects], complete=True)
    return Pricer(source, lambda name: policies().effective(name, {}))


class Script:
    """A connection that answers from a list: lists of Jobs, and watches that are lines or errors."""

    def __init__(self, lists: list[list[dict[str, Any]]], watches: list[Any]) -> None:
        self.lists, self.watches = lists, watches
        self.listed = 0
        self.stop = threading.Event()

    def get(self, path: str, timeout_seconds: float) -> Read:
        if "customresourcedefinitions" in path:
            return Read(ReadState.NOT_FOUND)
        items = self.lists[min(self.listed, len(self.lists) - 1)]
        self.listed += 1
        return Read(
            ReadState.OK, msgspec.json.encode({"metadata": {"resourceVersion": str(self.listed)}, "items": items})
        )

    def watch(self, path: str, resource_version: str, idle_seconds: float) -> Iterator[bytes]:
        if not self.watches:
            self.stop.set()
            return
        answer = self.watches.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for word, raw in answer:
            yield msgspec.json.encode({"type": word, "object": raw})


def live(name: str, gpus: int, uid: str) -> dict[str, Any]:
    return gold_job(name, pods=1, gpus=gpus).uid(uid).set("metadata.generation", 1).dict()


class Recorded(Census):
    """Notes which kinds fell behind."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: list[str] = []

    def fall_behind(self, kind: str) -> None:
        self.behind.append(kind)
        super().fall_behind(kind)


def run(script: Script, kind: str = "Job") -> Recorded:
    census = Recorded()
    said: list[str] = []
    feed = Feed(script, census, pricer(), kind, stop=script.stop, report=lambda word, _: said.append(word))  # type: ignore[arg-type]
    feed.run()
    time.sleep(LINGER_SECONDS + 0.05)
    script.said = said  # type: ignore[attr-defined]
    return census


def used(census: Census) -> int:
    return sum(item.amounts[GPU] for item in census.view().count("gold", lambda _: True, frozenset()).holders)


def test_a_compacted_watch_is_listed_again() -> None:
    """410 Gone: what happened in between is in the new list, what is gone is gone."""
    gone = {"code": 410, "message": "too old resource version"}
    script = Script([[live("a", 1, "u1"), live("b", 2, "u2")], [live("b", 4, "u2")]], [[("ERROR", gone)], []])

    census = run(script)

    assert script.listed == 2
    assert used(census) == 4
    assert census.view().is_gone("u1")


@pytest.mark.parametrize("trouble", [GoneError(), WatchError("ProtocolError")])
def test_a_broken_watch_is_listed_again(trouble: Exception) -> None:
    script = Script([[live("a", 1, "u1")], [live("a", 1, "u1"), live("b", 2, "u2")]], [trouble, []])

    census = run(script)

    assert used(census) == 3
    assert census.behind == ["Job"]


def test_events_are_followed() -> None:
    bookmark = {"metadata": {"resourceVersion": "9"}}
    events = [
        ("ADDED", live("a", 1, "u1")), ("MODIFIED", live("a", 4, "u1")), ("BOOKMARK", bookmark),
        ("ADDED", live("b", 2, "u2")), ("DELETED", live("b", 2, "u2")),
    ]  # fmt: skip

    assert used(run(Script([[]], [events, []]))) == 4


def test_a_crd_that_is_not_there_is_no_objects() -> None:
    class Absent(Script):
        def get(self, path: str, timeout_seconds: float) -> Read:
            if "customresourcedefinitions" in path:
                self.stop.set()
                return Read(ReadState.NOT_FOUND)
            return Read(ReadState.NOT_SERVED, reason="not served")

    census = run(Absent([[]], []), "JobSet")

    assert census.listed_since(0.0, ["JobSet"])


def test_a_server_that_does_not_serve_yet_is_not_no_objects() -> None:
    """404 for a kind whose CRD exists: the server has just started. Nothing may be counted from that."""

    class Starting(Script):
        def get(self, path: str, timeout_seconds: float) -> Read:
            if "customresourcedefinitions" in path:
                self.stop.set()
                return Read(ReadState.OK, b"{}")
            return Read(ReadState.NOT_SERVED, reason="not served")

    census = run(Starting([[]], []), "JobSet")

    assert not census.listed_since(float("-inf"), ["JobSet"])


# ---- prices -------------------------------------------------------------------------------------------------------
def charged(raw: dict[str, Any], *objects: Any) -> int:
    node = pricer(*objects).node(BY_NAME[raw["kind"]], raw)
    assert node is not None
    return sum(charge.amounts.get(GPU, 0) for charge in node.charges)


def test_what_is_finished_or_going_counts_nothing() -> None:
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    completed = {"conditions": [{"type": "Completed", "status": "True"}]}
    role = gold_job("w", pods=2, gpus=8)

    assert charged(gold_job().dict()) == 16
    assert charged(gold_job().set("status", complete).dict()) == 0
    assert charged(gold_job().deleting().dict()) == 0
    assert charged(jobset().role("w", role).dict()) == 16
    assert charged(jobset().role("w", role).set("status", completed).dict()) == 0
    bare = pod().gpu(4).priority_class("train-gold")
    assert [charged(bare.set("status", {"phase": phase}).dict()) for phase in ("Running", "Succeeded", "Failed")] == [
        4,
        0,
        0,
    ]


def test_a_job_counts_only_the_completions_that_are_missing() -> None:
    built = job().parallelism(4).completions(10).gpu(1).priority_class("train-gold")

    assert [charged(built.set("status", {"succeeded": done}).dict()) for done in (0, 5, 8, 10)] == [4, 4, 2, 0]


def test_only_a_bare_gang_is_a_group() -> None:
    prices = pricer()
    kind = BY_NAME["PodGroup"]

    assert prices.node(kind, pod_group().gang(4).uid("g").dict()).min_count == 4  # type: ignore[union-attr]
    assert prices.node(kind, pod_group().basic().dict()) is None
    assert prices.node(kind, pod_group().gang(4).owner("Job", "x").dict()) is None


def test_a_price_that_cannot_be_known_now_is_an_error() -> None:
    source = ObjectSetSource(CLASSES, complete=False)
    prices = Pricer(source, lambda name: policies().effective(name, {}))
    raw = job().pod_claim("g", template="missing").priority_class("train-gold").dict()

    with pytest.raises(PriceError, match="missing") as caught:
        prices.node(BY_NAME["Job"], raw)

    assert caught.value.node.charges
    assert caught.value.node.generation < 0


@pytest.mark.parametrize("kind", ["DeviceClass", "PriorityClass"])
def test_classes_that_cannot_be_listed_are_no_classes_only_where_there_can_be_none(kind: str) -> None:
    """Which tier, and which resource a device is, stands in them. Before, whatever was seen while the API server did not answer
    for a second was counted without its mapped devices, or not at all, until it changed."""

    class Unlisted(ObjectSetSource):
        reason = "the API server did not answer a moment ago"

        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            if query.kind == kind and query.is_list:
                return Unknown(f"{query} could not be listed: {self.reason}")
            return super().ask(query, fresh=fresh, deadline=deadline)

    source = Unlisted(CLASSES, complete=True)
    live_prices = Pricer(source, lambda name: policies().effective(name, {}), is_live=True)
    raw = job().gang().gpu(1).priority_class("train-gold" if kind == "DeviceClass" else "").dict()

    with pytest.raises(PriceError, match="did not answer"):
        live_prices.node(BY_NAME["Job"], raw)
    assert Pricer(source, lambda name: policies().effective(name, {})).node(BY_NAME["Job"], raw)
    source.reason = NOT_SERVED
    assert live_prices.node(BY_NAME["Job"], raw)


class Blind(ObjectSetSource):
    """Cannot read one claim template, ever, or for the first so many times."""

    def __init__(self, failures: float) -> None:
        super().__init__([*CLASSES, claim_template("a/b", "gpu.example.com").namespace("team-a").dict()], complete=True)
        self.failures = failures

    def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
        if query.kind == "ResourceClaimTemplate" and self.failures > 0:
            self.failures -= 1
            return Unknown("404: not served")
        return super().ask(query, fresh=fresh, deadline=deadline)


def fed(script: Script, source: ObjectSetSource, monkeypatch: pytest.MonkeyPatch) -> Census:
    monkeypatch.setattr(census_feed, "RETRY_SECONDS_MAX", 0.01)
    monkeypatch.setattr(census_feed, "UNPRICED_SECONDS", 0.0)
    census = Census()
    prices = Pricer(source, lambda name: policies().effective(name, {}))
    script.said = []  # type: ignore[attr-defined]
    report = lambda word, _: script.said.append(word)  # type: ignore[attr-defined]  # noqa: E731
    Feed(script, census, prices, "Job", stop=script.stop, report=report).run()  # type: ignore[arg-type]
    time.sleep(LINGER_SECONDS + 0.05)
    return census


def unpriceable() -> dict[str, Any]:
    return job("bad").pod_claim("g", template="a/b").gpu(4).priority_class("train-gold").uid("u2").dict()


def test_one_object_that_can_never_be_priced_does_not_stop_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JobSet may name a claim template "a/b", which no API server can have: its Pods are counted without that claim, and
    everybody else as ever. Before, one such object in any namespace ended all counting, and the books filled up."""
    script = Script(
        [[live("a", 1, "u1"), unpriceable()]], [[("MODIFIED", unpriceable()), ("ADDED", live("b", 2, "u3"))]]
    )

    census = fed(script, Blind(float("inf")), monkeypatch)

    assert used(census) == 7
    assert census.view().node("u2").generation < 0  # type: ignore[union-attr]
    assert script.listed == census_feed.PRICE_TRIES + 1
    assert "quota-price-failed" in script.said  # type: ignore[attr-defined]


def test_a_price_that_failed_for_a_moment_is_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted from a list with an object less."""
    script = Script([[live("a", 1, "u1"), unpriceable()]], [[]])

    census = fed(script, Blind(2), monkeypatch)

    assert script.listed == 3
    assert census.view().node("u2").generation >= 0  # type: ignore[union-attr]
    assert "quota-price-failed" not in script.said  # type: ignore[attr-defined]


def test_what_could_not_be_priced_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bookmark = {"metadata": {"resourceVersion": "9"}}
    script = Script([[unpriceable()]], [[("BOOKMARK", bookmark)]])

    census = fed(script, Blind(census_feed.PRICE_TRIES + 1), monkeypatch)

    assert census.view().node("u2").generation >= 0  # type: ignore[union-attr]


def test_a_bug_of_ours_is_one_object_s_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.quota.pricer.plan_of", lambda *_: 1 / 0)

    with pytest.raises(PriceError, match="Job team-a/train: ZeroDivisionError"):
        pricer().node(BY_NAME["Job"], gold_job().dict())


def test_what_was_absent_is_asked_for_again() -> None:
    """Of two Jobs that name one template, the second comes just after it. Seen: its absence was remembered for 10 s, the Job was
    counted without its devices, and so it stayed, since a pending Job has no events."""
    source = ObjectSetSource([*CLASSES], complete=True)
    prices = Pricer(source, lambda name: policies().effective(name, {}))
    raw = job().pod_claim("g", template="soon").priority_class("train-gold").uid("u").dict()

    def devices() -> int:
        node = prices.node(BY_NAME["Job"], raw)
        assert node is not None
        return sum(
            charge.amounts.get("gpu.example.com.deviceclass.resource.k8s.io/devices", 0) for charge in node.charges
        )

    assert devices() == 0
    prices._memory._source = ObjectSetSource([*CLASSES, claim_template("soon").dict()], complete=True)
    assert devices() == 1


def test_a_group_that_is_made_anew_is_another_one_within_a_second() -> None:
    """kubectl delete -f gang.yaml && kubectl create -f gang.yaml: the Pods that ended were priced by the old group, and the new
    ones joined it, too, for ten seconds or for as long as they were pending."""
    now = [0.0]

    def group(uid: str) -> ObjectSetSource:
        return ObjectSetSource([pod_group("gang").gang(2).uid(uid).dict()], complete=True)

    memory = Memory(group("old"), lambda: now[0])
    query = Query("PodGroup", "team-a", "gang")

    def uid() -> str:
        answer = memory.ask(query, fresh=False, deadline=0.0)
        assert isinstance(answer, Found)
        assert isinstance(answer.value, dict)
        return str(answer.value["metadata"]["uid"])

    assert uid() == "old"
    memory._source = group("new")
    now[0] = 1.1
    assert uid() == "new"


def test_a_pod_s_grace_is_read() -> None:
    raw = pod().deleting().set("metadata.deletionGracePeriodSeconds", 3600).dict()

    assert pricer().node(BY_NAME["Pod"], raw).grace_seconds == 3600  # type: ignore[union-attr]


# ---- claims that several Pods use ----------------------------------------------------------------------------------
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def devices(objects: list[Builder], *surroundings: Any) -> int:
    """Of all that live, as the leader counts them."""
    census, prices = Census(), pricer(*surroundings)
    for built in objects:
        raw = built.dict()
        node = prices.node(BY_NAME[raw["kind"]], raw)
        if node is not None:
            census.put(node)
    holders = census.view().count("gold", lambda _: True, frozenset()).holders
    return sum(holder.amounts.get(DEVICES, 0) for holder in holders)


def sharer(name: str, claim: str = "one") -> Pod:
    return pod(name).priority_class("train-gold").pod_claim("g", claim=claim).uid(name)


def test_r88_a_claim_that_many_pods_name_lives_once() -> None:
    """Before, four replicas that share one GPU were charged one and counted four: the quota was full of nothing."""
    top = deployment("d").replicas(4).priority_class("train-gold").pod_claim("g", claim="one").uid("d")
    below = replica_set("r").replicas(4).priority_class("train-gold").pod_claim("g", claim="one").uid("r")
    below.owner("Deployment", "d", uid="d")
    pods = [sharer(f"p{number}").owner("ReplicaSet", "r", uid="r") for number in range(4)]
    one, two = claim("one").dict(), claim("two").dict()

    assert devices([top], one) == 1
    assert devices([top, below, *pods], one) == 1
    assert devices(list(pods), one) == 1  # orphans
    assert devices([top, below, *pods, sharer("alone"), sharer("other", "two")], one, two) == 2


def test_r77_a_group_s_claim_lives_once_beside_what_each_pod_has() -> None:
    """The Pods of a gang name its claim as their own: what makes it the group's stands in the PodGroup."""
    template = claim_template("t").dict()
    top = job("train").gang().parallelism(3).completions(3).priority_class("train-gold").uid("j")
    top.group_claim("imex", template="t").pod_claim("imex", template="t").pod_claim("own", template="t")
    group = pod_group("pg").gang(3).claim("imex", template="t").owner("Job", "train", uid="j").uid("pg")
    pods = [
        pod(f"p{number}").priority_class("train-gold").scheduling_group("pg").uid(f"p{number}")
        .pod_claim("imex", template="t").pod_claim("own", template="t").owner("Job", "train", uid="j")
        for number in range(3)
    ]  # fmt: skip

    assert devices([top], template) == 4
    assert devices([top, *pods], template, group.dict()) == 4
    assert devices(list(pods), template, group.dict()) == 4  # orphans


def test_a_basic_group_s_claim_lives_once() -> None:
    template = claim_template("t").dict()
    group = pod_group("pg").basic().claim("shared", template="t").uid("pg")
    pods = [
        pod(f"p{number}").priority_class("train-gold").scheduling_group("pg").uid(f"p{number}")
        .pod_claim("shared", template="t")
        for number in range(3)
    ]  # fmt: skip

    assert devices(list(pods), template, group.dict()) == 1


def test_drift_is_an_event_once_a_minute_and_always_in_the_log() -> None:
    said: list[str] = []

    class Posts:
        bodies: ClassVar[list[dict[str, Any]]] = []

        def send(self, method: str, path: str, body: dict[str, Any], seconds: float) -> tuple[int, bytes]:
            self.bodies.append(body)
            return 201, b""

    posts = Posts()
    journal = EventJournal(posts, lambda word, _: said.append(word), None)  # type: ignore[arg-type]
    first, second = (TierQuota(name=name, uid=name, tier="gold", hard={GPU: 1}) for name in ("a", "b"))

    for _ in range(50):
        journal.drift(first, {GPU: 1})
    journal.drift(second, {GPU: 1})

    assert [body["involvedObject"]["name"] for body in posts.bodies] == ["a", "b"]
    assert said == ["quota-drift-repaired"] * 51


# ---- the look before a reservation lapses --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "answers", "seen"),
    [
        ("Job", [Read(ReadState.NOT_FOUND)], Seen.ABSENT),
        ("Job", [Read(ReadState.OK, b'{"metadata":{"uid":"u","generation":3}}')], Seen.PRESENT),
        ("Job", [Read(ReadState.OK, b'{"metadata":{"uid":"another"}}')], Seen.ABSENT),
        ("Pod", [Read(ReadState.OK, b'{"metadata":{"uid":"u"},"status":{"phase":"Failed"}}')], Seen.PAST),
        ("Job", [Read(ReadState.FAILED)], Seen.UNKNOWN),
        ("Job", [Read(ReadState.NOT_SERVED)], Seen.UNKNOWN),
        ("JobSet", [Read(ReadState.NOT_SERVED), Read(ReadState.OK)], Seen.UNKNOWN),
        ("JobSet", [Read(ReadState.NOT_SERVED), Read(ReadState.FAILED)], Seen.UNKNOWN),
        ("JobSet", [Read(ReadState.NOT_SERVED), Read(ReadState.NOT_FOUND)], Seen.ABSENT),
        ("CronJob", [], Seen.ABSENT),
        ("OfTomorrow", [], Seen.ABSENT),
    ],
    ids=["gone", "there", "another of that name", "finished", "no answer", "just started", "its CRD is there",
         "its CRD cannot be read", "its CRD was deleted", "never counted", "written by another version"],
)  # fmt: skip
def test_what_the_leader_sees_before_it_forgets(kind: str, answers: list[Read], seen: Seen) -> None:
    """Before, a reservation of a kind that is not there, by hand or since its CRD was deleted, stayed for ever."""

    class Scripted:
        def get(self, path: str, timeout_seconds: float) -> Read:
            return answers.pop(0)

    item = Reservation(id="i", uid="u", kind=kind, namespace="n", name="x")

    assert look(Scripted(), item).seen is seen  # type: ignore[arg-type]
    assert answers == []


# ---- the Lease ------------------------------------------------------------------------------------------------------
class Server:
    """The part of an API server that keeps one Lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None

    def get(self, path: str, timeout_seconds: float) -> Read:
        if self.lease is None:
            return Read(ReadState.NOT_FOUND)
        return Read(ReadState.OK, msgspec.json.encode(self.lease))

    def send(self, method: str, path: str, body: Any, timeout_seconds: float) -> tuple[int, bytes]:
        version = int((self.lease or {"metadata": {"resourceVersion": "0"}})["metadata"]["resourceVersion"])
        if method == "POST" and self.lease is not None:
            return 409, b""
        if method == "PUT" and body["metadata"]["resourceVersion"] != str(version):
            return 409, b""
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version + 1)}}
        return (201 if method == "POST" else 200), b""


def test_one_leader_whatever_the_clocks_say() -> None:
    """Two replicas an hour apart: the second takes over when the first has been silent for the whole duration, by its own
    clock; the first has stopped before that."""
    server, now = Server(), [0.0]
    first = Lease(server, "muster-system", "l", "first", clock=lambda: now[0])  # type: ignore[arg-type]
    second = Lease(server, "muster-system", "l", "second", clock=lambda: now[0] + 3600)  # type: ignore[arg-type]

    assert first.try_once()
    assert first.is_held()
    assert not second.try_once()
    for _ in range(20):
        now[0] += 1
        assert first.try_once()
        assert not second.try_once()
    for _ in range(DURATION_SECONDS):
        assert not (first.is_held() and second.is_held())
        now[0] += 1.0
        second.try_once()
    assert not first.is_held()
    now[0] += 1.0
    assert second.try_once()
    assert not first.try_once()


def test_a_leader_that_stops_gives_the_lease_up() -> None:
    server = Server()
    first = Lease(server, "n", "l", "first")  # type: ignore[arg-type]
    stop = threading.Event()
    keeper = threading.Thread(target=first.keep, args=(stop,))
    keeper.start()
    while not first.is_held():
        time.sleep(0.01)
    stop.set()
    keeper.join(5)

    assert Lease(server, "n", "l", "second").try_once()  # type: ignore[arg-type]


def test_a_lease_that_cannot_be_read_is_nobody_s() -> None:
    class Silent(Server):
        def get(self, path: str, timeout_seconds: float) -> Read:
            return Read(ReadState.FAILED, reason="no answer")

    assert not Lease(Silent(), "n", "l", "me").try_once()  # type: ignore[arg-type]
