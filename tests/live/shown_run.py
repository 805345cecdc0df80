"""What Kubernetes 1.37.2 does with the objects that Muster speaks about, without it and with it: a recorded run.

Each item is a file of tests/live/shown/; `run` plays them all on one real control plane. tests/live/shown.py makes the
page of it, tests/live/test_shown.py asserts what each file says must be seen.

An item's keys:

    title, why, section:            # for the page; sections are in SECTIONS
    rules: [WAS101]                 # exactly the rules of Muster's answer, besides those of capacity (5xx)
    case: R03                       # optional
    before: []                      # steps that make the surroundings, in both halves
    do: {create: {...}}             # what the tenant does with kubectl: create (one or several), delete or patch
    then: []                        # optional: steps after it, only without Muster
    told: "..."                     # optional: the sentence of the page that tells what `before` and `then` did
    without: {pods: 0, ...}         # what must be seen without Muster: see `missing`; `answer` are words of kubectl's,
                                    # `refused` those of the API server to a controller
    with: {answer: denied, says: [...]}   # denied, warned, accepted, or refused (by the API server itself)
    review: [...]                   # optional: words in the answer of `muster review` to the same objects
    ways: {...}                     # optional: the object sent by each of WAYS; words of each answer, and is it stored?
    lost: schedulingGroup           # with ways: words that what is stored must not hold
    crd: released | extended        # optional: the form of the JobSet CRD that must be in force
    alone: true                     # optional: it has effects on the whole cluster, so nothing else runs beside it

A step is one of `create`, `delete`, `patch`, `finish` (plays the kubelet), `bind` (plays another scheduler), `refused`
(an object that a controller would make and cannot), `wait` (for facts, as in `without`) and `pause` (seconds).
"{uid of Job/train}" in an object is replaced by the uid that this object got in the cluster, "{name of Workload}" by
the name of the namespace's only Workload.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.client import (
    APPLY_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiError,
    Response,
    collection_path,
    object_path,
)
from tests.cluster.cluster import WAS_GATES, KubectlError, rack_nodes
from tests.cluster.controlplane import ControlPlane
from tests.live.muster import Muster
from tests.support.cases import policy_document

ERROR = re.compile("^error", re.IGNORECASE | re.MULTILINE)  # how kubectl says so
ITEMS = Path(__file__).parent / "shown"
SECTIONS = {
    "shape": "Counts and shapes",
    "names": "Names",
    "priority": "Priorities",
    "quota": "Quotas",
    "ownership": "Who makes the group",
    "membership": "Pods and their group",
    "claims": "Claims and volumes",
    "tree": "Composite groups",
    "changes": "What is changed or deleted later",
    "versions": "Old versions and dropped fields",
}
GATES = {**WAS_GATES, "EvictionRequestAPI": True}
TENANT = "alice"
MAKER = "system:serviceaccount:kube-system:job-controller"  # Muster never refuses what the surroundings are made of
ROOM_SECONDS = 60.0  # bounds a hang, asserts nothing
QUIET_SECONDS = 15.0  # what never starts is watched for at least this long after everything was created
PARALLEL = 4
# Kinds that `delete` and `patch` of a step or of `do` may name.
API_VERSIONS = {
    "ConfigMap": "v1",
    "CronJob": "batch/v1",
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "Pod": "v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Workload": "scheduling.k8s.io/v1beta1",
    "CompositePodGroup": "scheduling.k8s.io/v1alpha3",
}
Json = dict[str, Any]


# -- items ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Item:
    """One file of tests/live/shown/; `name` is the file's and the namespace's."""

    name: str
    title: str
    why: str
    section: str
    rules: list[str]
    do: Json
    without: Json
    with_: Json
    case: str = ""
    told: str = ""
    before: list[Json] = field(default_factory=list)
    then: list[Json] = field(default_factory=list)
    review: list[str] = field(default_factory=list)
    ways: Json = field(default_factory=dict)
    lost: str = ""
    crd: str = ""
    alone: bool = False

    @property
    def objects(self) -> list[Json]:
        """What `do` creates."""
        return _list(self.do.get("create", []))

    @property
    def surroundings(self) -> list[Json]:
        return [raw for step in self.before for raw in _list(step.get("create", []))]


def load_items(folder: Path = ITEMS) -> list[Item]:
    """All items, in the order of the page.

    Raises:
        TypeError: a file has an unknown key or lacks one.
    """
    items = []
    for path in sorted(folder.glob("*.yaml")):
        raw = yaml.safe_load(path.read_text())
        raw["with_"] = raw.pop("with")
        items.append(Item(name=path.stem, **raw))
    return sorted(items, key=lambda item: list(SECTIONS).index(item.section))


# -- what is seen ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Facts:
    """What stands in a namespace: numbers of Pods, and a line of text per Job, group, condition, event and claim.

    `finished` counts Pods that ended, `grouped` those that name a PodGroup; `events` are the warnings, without
    those of Pods that are bound (an attempt before it may fail); `log` is what the Job controller logged of the Job.
    """

    pods: int = 0
    bound: int = 0
    finished: int = 0
    grouped: int = 0
    jobs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


def missing(facts: Facts, wanted: Mapping[str, Any]) -> list[str]:
    """What is wanted of the facts and not there: a number is equal, "none" means no line, words stand in some line.

    A list of words wants all of them. "quiet" are words that no event may hold.
    """
    found = []
    for key, want in wanted.items():
        if key == "quiet":
            found += [f"an event speaks of {want}: {line}" for line in facts.events if want in line]
            continue
        have = getattr(facts, key)
        if want == "none":
            if have:
                found.append(f"{key}: wanted none, found {list(have)}")
        elif isinstance(want, int):
            count = have if isinstance(have, int) else len(have)
            if count != want:
                found.append(f"{key}: wanted {want}, found {count}")
        else:
            found += [f"{key}: no {word!r} in {have}" for word in _list(want) if not any(word in line for line in have)]
    return found


def look(cluster: ControlPlane, *, jobs: bool = True) -> dict[str, Facts]:
    """The facts of all namespaces, with one request per kind; without `jobs`, kubectl is not asked for its lines."""
    found: dict[str, dict[str, list[Any]]] = {}

    def add(namespace: str, key: str, value: Any) -> None:
        lines = found.setdefault(namespace, {}).setdefault(key, [])
        if value not in lines or key == "pods":
            lines.append(value)

    table = cluster.kubectl("get", "jobs", "-A", "--no-headers", "--ignore-not-found").stdout if jobs else ""
    for line in table.splitlines():
        namespace, name, status, completions, *_ = line.split()
        add(namespace, "jobs", f"{name}  {status}  {completions}")
    pods = cluster.api.get("/api/v1/pods").expect()["items"]
    bound = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName")}
    for pod in pods:
        add(pod["metadata"]["namespace"], "pods", pod)
    for group in cluster.api.get("/apis/scheduling.k8s.io/v1beta1/podgroups").expect()["items"]:
        namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
        add(namespace, "groups", f"{name}: {_policy(group)}")
        for condition in group.get("status", {}).get("conditions", []):
            words = f"{condition['type']}={condition['status']}, {condition['reason']}: {condition['message']}"
            add(namespace, "conditions", f"{name}: {words}")
    for event in cluster.api.get("/api/v1/events").expect()["items"]:
        if event["type"] == "Warning" and event["involvedObject"].get("uid") not in bound:
            about = f"{event['involvedObject']['kind']} {event['involvedObject']['name']}"
            add(event["metadata"]["namespace"], "events", f"{event['reason']} ({about}): {event['message']}")
    for claim in cluster.api.get("/apis/resource.k8s.io/v1/resourceclaims").expect()["items"]:
        owner = claim["metadata"]["ownerReferences"][0]
        state = "allocated" if "allocation" in claim.get("status", {}) else "not allocated"
        add(claim["metadata"]["namespace"], "claims", f"of {owner['kind']} {owner['name']}: {state}")
    for namespace, line in _log_lines(cluster):
        add(namespace, "log", line)
    return {namespace: _facts(lists) for namespace, lists in found.items()}


def _facts(lists: dict[str, list[Any]]) -> Facts:
    pods = lists.pop("pods", [])
    return Facts(
        pods=len(pods),
        bound=sum(1 for pod in pods if pod["spec"].get("nodeName")),
        finished=sum(1 for pod in pods if pod["status"]["phase"] in ("Succeeded", "Failed")),
        grouped=sum(1 for pod in pods if pod["spec"].get("schedulingGroup")),
        **{key: tuple(lines if key == "jobs" else sorted(lines)) for key, lines in lists.items()},
    )


def _policy(group: Json) -> str:
    gang = group["spec"]["schedulingPolicy"].get("gang")
    return f"gang, minCount {gang['minCount']}" if gang else "basic"


def _log_lines(cluster: ControlPlane) -> Iterator[tuple[str, str]]:
    """(namespace, error) of what the Job controller could not do; it names the Job as "Job <namespace>/<name>: "."""
    for line in cluster.log("kube-controller-manager").read_text().splitlines():
        error = re.search(r'err="syncing job: (.*?)(?<!\\)"', line)
        job = re.search(r"Job ([a-z0-9-]+)/", error[1]) if error else None
        if error and job:
            yield job[1], error[1].replace('\\"', '"')


# -- doing ----------------------------------------------------------------------------------------------------------
class Stage:
    """An item's place in the cluster for one half."""

    def __init__(self, cluster: ControlPlane, item: Item, namespace: str) -> None:
        self.cluster = cluster
        self.item = item
        self.namespace = namespace
        self._maker = cluster.api_as(MAKER, ("system:masters",))
        self.refusals: list[str] = []

    def open(self) -> None:
        """Makes the namespace and the surroundings."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.cluster.api.create(namespace).expect(201)
        self.play(self.item.before)

    def play(self, steps: Iterable[Json]) -> None:
        for step in steps:
            ((verb, given),) = step.items()
            getattr(self, f"_{verb}")(given)

    def answer(self) -> str:
        """What kubectl prints when the tenant does it: warnings and errors, then results."""
        ((verb, given),) = self.item.do.items()
        words = [verb, "-n", self.namespace]
        if verb == "create":
            text = "\n---\n".join(json.dumps(self._with_uids(raw)) for raw in _list(given))
            done = self.cluster.kubectl(*words, "-f", "-", stdin=text, user=TENANT, check=False)
        elif verb == "delete":
            done = self.cluster.kubectl(*words, *self._named(given), "--wait=false", user=TENANT, check=False)
        else:
            at = self._named(given["object"])
            patch = ("--type=merge", "-p", json.dumps(given["with"]))
            done = self.cluster.kubectl(*words, *at, *patch, user=TENANT, check=False)
        return (done.stderr + done.stdout).strip()

    def send_all_ways(self) -> dict[str, tuple[str, Json | None]]:
        """Way -> (answer, the spec that was stored, None if nothing was)."""
        (raw,) = self.item.objects
        sent = {}
        for index, (way, send) in enumerate(WAYS.items()):
            named = {**raw, "metadata": {**raw["metadata"], "name": f"{raw['metadata']['name']}-{index}"}}
            answer = send(self, named)
            stored = self.cluster.api.get(object_path(named, self.namespace))
            sent[way] = (answer, stored.body["spec"] if stored.ok else None)
        return sent

    # -- steps ------------------------------------------------------------------------------------------------------
    def _create(self, given: Json | list[Json]) -> None:
        for raw in map(self._with_uids, _list(given)):
            if _namespace_free(raw) and self._maker.get(object_path(raw)).ok:
                continue  # there since the first half, or by another item
            answer = self._maker.create(raw, self.namespace)
            if answer.status == 409 and _namespace_free(raw):
                continue  # another item was quicker
            stored = answer.expect(201)
            if raw["kind"] == "ResourceQuota":
                self._until(partial(self._quota_counted, stored), "the quota to be counted")
            if raw["kind"] == "PriorityClass":
                self._until(partial(self._knows_class, stored), "the Priority plugin to know a class")

    def _quota_counted(self, raw: Json) -> bool:
        """A quota acts once it was counted."""
        return "hard" in self._maker.get(object_path(raw)).expect().get("status", {})

    def _knows_class(self, raw: Json) -> bool:
        """The Priority plugin reads classes from a cache: asked by a Pod that is never stored."""
        name = raw["metadata"]["name"]
        pod: Json = {"containers": [{"name": "c", "image": "pause:3.10"}]}
        if not raw.get("globalDefault"):
            pod["priorityClassName"] = name
        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": pod}
        answer = self._maker.create(probe, self.namespace, dryRun="All")
        spec = answer.body.get("spec", {})
        return bool(spec.get("priorityClassName") == name and spec["priority"] == raw["value"])

    def _delete(self, given: str) -> None:
        self._maker.delete(self._path(given)).expect(200, 202)

    def _patch(self, given: Json) -> None:
        self._maker.patch(self._path(given["object"]), given["with"], MERGE_PATCH).expect(200)

    def _finish(self, given: Json) -> None:
        """Plays the kubelet: ends the bound Pods whose name begins with `pod`, or the first `count` of all of them."""
        names = [pod["metadata"]["name"] for pod in self.cluster.bound_pods(self.namespace)]
        for name in [name for name in names if name.startswith(given.get("pod", ""))][: given.get("count")]:
            status = {"phase": given["phase"]}
            if "condition" in given:
                status["conditions"] = [{"type": given["condition"], "status": "True"}]
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
            self._maker.patch(path, {"status": status}, STRATEGIC_PATCH).expect(200)

    def _bind(self, pod: str) -> None:
        """Plays another scheduler."""
        target = {"kind": "Node", "name": "rack-0-0"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self._maker.post(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/binding", body).expect(201)

    def _wait(self, wanted: Json) -> None:
        def there() -> bool:
            return not missing(look(self.cluster, jobs=False).get(self.namespace, Facts()), wanted)

        self._until(there, str(wanted))

    def _refused(self, raw: Json) -> None:
        """What a controller would make, and cannot."""
        answer = self._maker.create(self._with_uids(raw), self.namespace).expect(422)
        self.refusals.append(str(answer["message"]))

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # for caches of the controllers, which nobody can ask

    # -- small ------------------------------------------------------------------------------------------------------
    def _until(self, probe: Callable[[], Any], what: str) -> None:
        self.cluster.wait_for(probe, ROOM_SECONDS, f"{self.namespace}: {what}")

    def _with_uids(self, raw: Json) -> Json:
        text = re.sub(r"\{uid of ([^}]+)\}", lambda match: self._uid(match[1]), json.dumps(raw))
        text = re.sub(r"\{name of ([^}]+)\}", lambda match: self._named(match[1])[1], text)
        replaced: Json = json.loads(text)
        return replaced

    def _uid(self, what: str) -> str:
        return str(self._maker.get(self._path(what)).expect()["metadata"]["uid"])

    def _named(self, what: str) -> tuple[str, str]:
        """("podgroup", its name) of "PodGroup/name", or of "PodGroup" where the namespace has one."""
        kind, _, name = what.partition("/")
        if not name:
            path = collection_path(API_VERSIONS[kind], kind, self.namespace)
            (only,) = self._maker.get(path).expect()["items"]
            name = only["metadata"]["name"]
        return kind.lower(), name

    def _path(self, what: str) -> str:
        kind = what.partition("/")[0]
        return f"{collection_path(API_VERSIONS[kind], kind, self.namespace)}/{self._named(what)[1]}"


def _namespace_free(raw: Json) -> bool:
    """Is it of a cluster-scoped kind?"""
    return collection_path(raw["apiVersion"], raw["kind"]) == collection_path(raw["apiVersion"], raw["kind"], "any")


def _kubectl(*words: str) -> Callable[[Stage, Json], str]:
    def send(stage: Stage, raw: Json) -> str:
        command = (*words, "-n", stage.namespace, "-f", "-")
        done = stage.cluster.kubectl(*command, stdin=json.dumps(raw), user=TENANT, check=False)
        return (done.stderr + done.stdout).strip()

    return send


def _post(**query: str) -> Callable[[Stage, Json], str]:
    return lambda stage, raw: _http(stage.cluster.api_as(TENANT).create(raw, stage.namespace, **query))


def _apply(stage: Stage, raw: Json) -> str:
    path = object_path(raw, stage.namespace)
    return _http(stage.cluster.api_as(TENANT).patch(path, raw, APPLY_PATCH, fieldManager="operator"))


def _http(answer: Response) -> str:
    lines = [f"HTTP {answer.status}", *(f"Warning: {text}" for text in answer.warnings)]
    return "\n".join(lines if answer.ok else [*lines, str(answer.body.get("message"))])


WAYS: dict[str, Callable[[Stage, Json], str]] = {
    "kubectl create": _kubectl("create"),
    "kubectl apply": _kubectl("apply"),
    "kubectl apply --server-side": _kubectl("apply", "--server-side"),
    "kubectl create --validate=warn": _kubectl("create", "--validate=warn"),
    "kubectl create --validate=ignore": _kubectl("create", "--validate=ignore"),
    "POST without fieldValidation": _post(),
    "POST with fieldValidation=Ignore": _post(fieldValidation="Ignore"),
    "server-side apply without fieldValidation": _apply,
}


# -- the run --------------------------------------------------------------------------------------------------------
@dataclass
class Record:
    """What was seen of one item."""

    item: Item
    before: str = ""  # kubectl's answer without Muster
    facts: Facts = Facts()
    after: str = ""  # and with it
    ways: dict[str, tuple[str, Json | None]] = field(default_factory=dict)
    review: str = ""
    refusals: list[str] = field(default_factory=list)  # of what a controller would make
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0  # how long the object was watched

    def problems(self) -> list[str]:
        """Where reality is not what the item's file says."""
        item = self.item
        found = self.failures + missing(self.facts, _of_facts(item.without))
        found += _unsaid("kubectl, without Muster,", item.without.get("answer", []), self.before)
        if "answer" not in item.without and ERROR.search(self.before):
            found.append(f"without Muster the object was refused: {self.before}")
        found += _unsaid("the API server to a controller", item.without.get("refused", []), "\n".join(self.refusals))
        if item.with_["answer"] != _kind_of_answer(self.after):
            found.append(f"with Muster the object was not {item.with_['answer']}: {self.after}")
        found += _unsaid("kubectl, with Muster,", item.with_.get("says", []), self.after)
        found += _unsaid("muster review", item.review, self.review)
        rules = set(re.findall(r"\bWAS[1-4]\d\d\b", self.after + self.review))
        if rules != set(item.rules):
            found.append(f"rules {sorted(rules)} instead of {item.rules}: {self.after}{self.review}")
        return found + list(self._wrong_ways())

    def _wrong_ways(self) -> Iterator[str]:
        for way, wanted in self.item.ways.items():
            answer, stored = self.ways[way]
            yield from _unsaid(way, wanted["says"], answer)
            if (stored is not None) != wanted["stored"]:
                yield f"{way}: stored is {stored}"
            if stored is not None and self.item.lost in json.dumps(stored):
                yield f"{way}: the field was kept: {stored}"


def _unsaid(who: str, words: str | list[str], text: str) -> list[str]:
    return [f"{who} does not say {word!r}: {text}" for word in _list(words) if word not in text]


def _kind_of_answer(text: str) -> str:
    if "denied the request" in text:
        return "denied"
    if ERROR.search(text):
        return "refused"
    return "warned" if "[WAS" in text else "accepted"


def run(cluster: ControlPlane, directory: Path, items: Sequence[Item]) -> list[Record]:
    """Plays the items, without Muster and then with it, on a new control plane with GATES; `directory` is Muster's.

    Makes the nodes that the items count on: two racks of four, and one node in no rack.
    """
    cluster.create_nodes(rack_nodes(2, 4, gpu_count=0))
    cluster.create_nodes(1, prefix="bare")
    cluster.kubectl("create", "clusterrolebinding", TENANT, "--clusterrole=cluster-admin", f"--user={TENANT}")
    cluster.wait_for(lambda: cluster.api_as(TENANT).get("/api/v1/pods").ok, ROOM_SECONDS, "the tenant's rights")
    records = [Record(item) for item in items]
    released = [record for record in records if record.item.crd == "released"]
    together = [record for record in records if record not in released and not record.item.alone]
    cluster.install_crds("jobset")
    _without(cluster, released)
    cluster.install_crds("jobset", extended=True)
    _without(cluster, together)
    with Muster(cluster, directory) as muster:
        muster.start(policy_document({}))
        _with(cluster, together, muster)
        for record in records:
            if record.item.alone:
                muster.unregister()
                _without(cluster, [record], quiet_seconds=0.0)  # it has something to wait for: the controller's log
                muster.register()
                _with(cluster, [record], muster)
                _remove_cluster_scoped(cluster, record.item)
        cluster.install_crds("jobset")
        _with(cluster, released, muster)
    return records


def _without(cluster: ControlPlane, records: Sequence[Record], quiet_seconds: float = QUIET_SECONDS) -> None:
    """Creates everything, then waits once for all of it to settle, and looks."""

    @_noting_failures
    def begin(record: Record) -> None:
        stage = Stage(cluster, record.item, record.item.name)
        stage.open()
        if record.item.ways:
            record.ways = stage.send_all_ways()
            record.before = record.ways["kubectl create"][0]
            return
        record.before = stage.answer()
        stage.play(record.item.then)
        record.refusals = stage.refusals

    _in_parallel(begin, records)
    created = time.monotonic()
    if all(record.item.ways for record in records):
        return
    while True:
        seen = look(cluster)
        for record in records:
            record.facts = seen.get(record.item.name, Facts())
            record.seconds = time.monotonic() - created
        watched = time.monotonic() - created
        settled = not any(missing(record.facts, _of_facts(record.item.without)) for record in records)
        if watched > ROOM_SECONDS or (settled and watched > quiet_seconds):
            break
        time.sleep(1)


def _of_facts(without: Json) -> Json:
    return {key: want for key, want in without.items() if key not in ("answer", "refused")}


def _with(cluster: ControlPlane, records: Sequence[Record], muster: Muster) -> None:
    @_noting_failures
    def ask(record: Record) -> None:
        stage = Stage(cluster, record.item, f"{record.item.name}-2")
        stage.open()
        record.after = stage.answer()
        if record.item.review:
            record.review = _review(record.item, muster)

    _in_parallel(ask, records)


def _review(item: Item, muster: Muster) -> str:
    """What `muster review` prints of the item's objects in one file."""
    folder = muster.directory / item.name
    folder.mkdir()
    text = "---\n".join(as_yaml(raw) for raw in [*item.surroundings, *item.objects])
    (folder / f"{item.name}.yaml").write_text(text)
    command = [sys.executable, "-m", "webhook.cli.main", "review", f"{item.name}.yaml"]
    command += ["--policy", str(muster.policy_file), "--namespace", "team-a"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _remove_cluster_scoped(cluster: ControlPlane, item: Item) -> None:
    for raw in item.surroundings:
        if raw["kind"] == "PriorityClass":
            cluster.api.delete(object_path(raw)).expect(200)


def _noting_failures(function: Callable[[Record], None]) -> Callable[[Record], None]:
    """One item that cannot be played is one problem, and the others go on."""

    def noted(record: Record) -> None:
        try:
            function(record)
        except (ApiError, TimeoutError, KubectlError, ValueError) as error:
            record.failures.append(f"could not be played: {error}")

    return noted


def _in_parallel(function: Callable[[Record], None], records: Sequence[Record]) -> None:
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(function, records))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def as_yaml(raw: Any) -> str:
    return str(yaml.safe_dump(raw, sort_keys=False, default_flow_style=None, width=110))
