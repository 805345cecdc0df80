"""What the live quota tests share: replicas behind one address, the CRD, quotas, Jobs, and clients that repeat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml

from tests.builders import GPU, Job, job, priority_class
from tests.cluster.client import MERGE_PATCH, ApiClient, Response
from tests.cluster.cluster import Cluster
from tests.live.muster import Muster
from tests.support.cases import policy_document
from webhook.quota.model import Reservation, reservation_of

CRD_FILE = Path(__file__).parents[2] / "charts" / "muster" / "crds" / "tierquotas.yaml"
QUOTAS = "/apis/muster.dev/v1alpha1/tierquotas"
# A webhook that no one answers, a time-out, "try again": what a client may rightly repeat.
REPEATED = (429, 500, 502, 503, 504)
CLIENT_COUNT = 8
POLICY = policy_document({"tiers": [{"name": "gold", "priorityClasses": ["train-gold"]}], "chargeScale": True})


class Front:
    """One address for several replicas: TCP connections go to them in turn, past those that do not answer."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._count = len(ports)
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        server.close()
        self._loop.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._count):
            try:
                there = await asyncio.open_connection("127.0.0.1", next(self._ports))
            except OSError:
                continue
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
            return
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


class Replicas:
    """Several `muster serve` with workers and agent each, registered under one address."""

    def __init__(self, cluster: Cluster, directory: Path, count: int) -> None:
        self.cluster = cluster
        self.members = [Muster(cluster, directory, workers=1) for _ in range(count)]
        self._front = Front([member.port for member in self.members])
        self._directory = directory
        self.registration: Muster

    def __enter__(self) -> Self:
        self._front.__enter__()
        prepare(self.cluster)
        self.registration = Muster(self.cluster, self._directory, port=self._front.port)
        self.registration._write_policy(POLICY)
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(lambda member: member._spawn(), self.members))
        self.registration.register()
        return self

    def __exit__(self, *_: object) -> None:
        self.registration.unregister()
        for member in self.members:
            member.stop()
        self._front.__exit__()


def prepare(cluster: Cluster) -> None:
    """The CRD, the tier's PriorityClass, Muster's namespace for the Lease."""
    api = cluster.api
    crd = yaml.safe_load(CRD_FILE.read_text())
    api.create(crd).expect(201, 409)
    cluster.wait_for(lambda: api.get(QUOTAS).ok, 30, "TierQuotas to be served")
    api.create(priority_class("train-gold", 1000).dict()).expect(201, 409)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}).expect(201, 409)


@contextlib.contextmanager
def quota(cluster: Cluster, name: str, namespaces: list[str], hard: Mapping[str, Any]) -> Iterator[str]:
    """A counted TierQuota of tier gold; deleted at the end."""
    raw = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "TierQuota",
        "metadata": {"name": name},
        "spec": {"tier": "gold", "namespaces": namespaces, "hard": dict(hard)},
    }
    cluster.api.create(raw).expect(201)
    try:
        cluster.wait_for(
            lambda: (books(cluster, name).get("counted") or {}).get("scope"), 30, "the quota to be counted"
        )
        yield name
    finally:
        cluster.api.delete(f"{QUOTAS}/{name}")


def edit(cluster: Cluster, name: str, hard: Mapping[str, Any]) -> None:
    cluster.api.patch(f"{QUOTAS}/{name}", {"spec": {"hard": dict(hard)}}, MERGE_PATCH).expect(200)


def books(cluster: Cluster, name: str) -> dict[str, Any]:
    """The status."""
    status: dict[str, Any] = cluster.api.get(f"{QUOTAS}/{name}").expect().get("status") or {}
    return status


def reservations(cluster: Cluster, name: str) -> list[Reservation]:
    return [reservation_of(line) for line in (books(cluster, name).get("reservations") or "").splitlines()]


def settled(cluster: Cluster, name: str, resource: str = GPU, seconds: float = 30) -> int:
    """Waits until nothing is reserved; what is used then."""
    cluster.wait_for(lambda: not reservations(cluster, name), seconds, f"no reservations in {name}")
    return int(books(cluster, name)["used"][resource])


def gold(name: str, pods: int = 1, gpus: int = 1) -> Job:
    """Without a namespace: the request's path says it."""
    return (
        job(name).unset("metadata.namespace").parallelism(pods).completions(pods).gpu(gpus).priority_class("train-gold")
    )


def persistent(api: ApiClient, raw: Mapping[str, Any], namespace: str, seconds: float = 120) -> Response:
    """Creates like a patient client: repeats what may be repeated, takes AlreadyExists for its own earlier success."""
    end = time.monotonic() + seconds
    tries = 0
    while True:
        tries += 1
        try:
            answer = api.create(raw, namespace)
        except urllib3.exceptions.HTTPError:
            answer = Response(503, {"message": "no answer"}, [])
        if answer.status == 409 and tries > 1:
            return Response(201, answer.body, answer.warnings)
        if answer.status not in REPEATED or time.monotonic() > end:
            return answer
        time.sleep(0.2)


def repeated(send: Callable[[], Response], seconds: float = 40) -> Response:
    """The first answer that is not "try again"."""
    end = time.monotonic() + seconds
    while True:
        answer = send()
        if answer.status != 429 or time.monotonic() > end:
            return answer
        time.sleep(0.1)


def crowd(cluster: Cluster, namespace: str, raws: list[dict[str, Any]], seconds: float = 120) -> list[Response]:
    """All at once, each by a client of its own that repeats."""
    clients = [cluster.api_as(f"user-{number}", ("system:masters",)) for number in range(CLIENT_COUNT)]
    start = threading.Barrier(len(raws))

    def one(number: int) -> Response:
        start.wait()
        return persistent(clients[number % CLIENT_COUNT], raws[number], namespace, seconds)

    with ThreadPoolExecutor(len(raws)) as threads:
        return list(threads.map(one, range(len(raws))))


def jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs").expect()["items"]
    return items


def wait_used(cluster: Cluster, name: str, used: int, resource: str = GPU, seconds: float = 15) -> None:
    probe: Callable[[], bool] = lambda: int(books(cluster, name)["used"][resource]) == used  # noqa: E731
    cluster.wait_for(probe, seconds, f"{used} {resource} used in {name}: {books(cluster, name).get('used')}")
