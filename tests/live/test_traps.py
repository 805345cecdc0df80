"""What Kubernetes 1.37.2 does with the objects that the trap rules (WAS121 to WAS140) speak about, without Muster.

Every fact that a rule denies or warns on is proved here: the API server accepts the object, and the proof that it never
starts is positive where there is one (an event, a condition, a log line of the controller, a refused Pod). Where 1.37
says nothing at all, a sibling that differs in one thing and works shows that there was time enough.

All objects are created first, each trap in a namespace of its own; then the tests look. Only the global default
PriorityClass has a control plane of its own, since it stops the Jobs of every other test.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import job as job_builder
from tests.cluster.client import MERGE_PATCH, Response
from tests.cluster.cluster import RACK_LABEL, Cluster, rack_nodes
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions

ROOM_SECONDS = 60.0  # bounds a hang, asserts nothing
SCHEDULING = "/apis/scheduling.k8s.io/v1beta1"
PARENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent"}}
Json = dict[str, Any]


# -- objects ------------------------------------------------------------------------------------------------------
def job(name: str = "train", *, gang: bool = False, **pod_spec: Any) -> Json:
    """Two Pods; `pod_spec` is laid over the template's spec."""
    raw = job_builder(name).parallelism(2).completions(2).dict()
    del raw["metadata"]["namespace"]
    raw["spec"].pop("scheduling", None)
    if gang:
        raw["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    raw["spec"]["template"]["spec"].update(copy.deepcopy(pod_spec))
    return raw


def generated(base: str) -> Json:
    raw = job()
    raw["metadata"] = {"generateName": base}
    return raw


def priority_class(name: str, value: int, **fields: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def quota(resource: str, count: int) -> Json:
    spec = {"hard": {resource: str(count)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "objects"}, "spec": spec}


def pod_group(name: str, min_count: int, topology_key: str | None = None, **fields: Any) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": min_count}}, **fields}
    if topology_key is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology_key}]}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def workload(name: str, controller: Json, **template: Any) -> Json:
    """One template, called "workers", of two Pods."""
    policy = {"gang": {"minCount": 2}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "controllerRef": controller,
            "podGroupTemplates": [{"name": "workers", "schedulingPolicy": policy, **template}],
        },
    }


def pod(name: str, group: str | None = None, **spec: Any) -> Json:
    raw: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "train"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause:3.10"}], **spec},
    }
    if group is not None:
        raw["spec"]["schedulingGroup"] = {"podGroupName": group}
    return raw


def volume(claim: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def volume_claim(mode: str) -> Json:
    spec = {"accessModes": [mode], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}


def persistent_volume(name: str, mode: str) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": "by-hand",
        "csi": {"driver": "example.com", "volumeHandle": name},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


JOB_REF = {"apiGroup": "batch", "kind": "Job", "name": "train"}
PARENT_REF = {"kind": "ConfigMap", "name": "parent"}


# -- the cluster --------------------------------------------------------------------------------------------------
class Traps:
    """A cluster and what was put into it, each trap in its own namespace: `answers[trap]` are the API server's."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.answers: dict[str, list[Response]] = {}
        self.namespaces: dict[str, str] = {}
        self.parents: dict[str, str] = {}

    def put(self, trap: str, *objects: Json) -> None:
        """Creates the objects in the trap's namespace. A quota acts once it was counted, so that is waited for."""
        if trap not in self.namespaces:
            self.namespaces[trap] = self.cluster.new_namespace(trap)
        namespace = self.namespaces[trap]
        for raw in objects:
            cluster_scoped = raw["kind"] in {"PriorityClass", "PersistentVolume"}
            answer = self.cluster.api.create(raw, None if cluster_scoped else namespace)
            self.answers.setdefault(trap, []).append(answer)
            if raw["kind"] == "ResourceQuota":
                self.wait(lambda: self.get(trap, "/api/v1", "resourcequotas/objects").get("status", {}).get("hard"))

    def put_children(self, trap: str, *jobs: Json, template: str = "workers") -> None:
        """Jobs of one owner that take their group from the owner's Workload."""
        if trap not in self.parents:
            self.put(trap, PARENT)
            self.parents[trap] = self.answers[trap][-1].expect(201)["metadata"]["uid"]
        uid = self.parents[trap]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": uid, "controller": True}
        for raw in jobs:
            raw["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": template}
            raw["metadata"]["ownerReferences"] = [owner]
            self.put(trap, raw)

    # -- looking --------------------------------------------------------------------------------------------------
    def wait(self, probe: Callable[[], Any], what: str = "the cluster") -> Any:
        return self.cluster.wait_for(probe, ROOM_SECONDS, what)

    def get(self, trap: str, group: str, path: str) -> Json:
        return self.cluster.api.get(f"{group}/namespaces/{self.namespaces[trap]}/{path}").expect()

    def names(self, trap: str, plural: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.get(trap, SCHEDULING, plural)["items"])

    def pods(self, trap: str) -> list[Json]:
        return self.cluster.pods(self.namespaces[trap])

    def bound(self, trap: str) -> list[Json]:
        return self.cluster.bound_pods(self.namespaces[trap])

    def events(self, trap: str, reason: str) -> list[str]:
        items = self.get(trap, "/api/v1", "events")["items"]
        return [item["message"] for item in items if item["reason"] == reason]

    def says(self, trap: str, reason: str, words: str) -> str:
        """Waits for an event that holds the words."""
        return str(
            self.wait(
                lambda: next((text for text in self.events(trap, reason) if words in text), None),
                f"an event {reason} with {words!r}",
            )
        )

    def controller_log_lines(self, trap: str, words: str) -> list[str]:
        """Lines of the controller manager's log that name the trap's namespace and hold the words."""
        assert isinstance(self.cluster, ControlPlane)
        lines = self.cluster.log("kube-controller-manager").read_text().splitlines()
        return [line for line in lines if f"{self.namespaces[trap]}/" in line and words in line]

    def controller_logs(self, trap: str, words: str) -> str:
        """Waits for such a line."""
        return str(self.wait(lambda: self.controller_log_lines(trap, words), f"a log line with {words!r}")[0])

    def condition(self, trap: str) -> Json:
        """Waits for PodGroupInitiallyScheduled of the namespace's only PodGroup."""

        def found() -> Json | None:
            for group in self.get(trap, SCHEDULING, "podgroups")["items"]:
                for condition in group.get("status", {}).get("conditions", []):
                    if condition["type"] == "PodGroupInitiallyScheduled":
                        return dict(condition)
            return None

        return dict(self.wait(found, "the group's condition"))

    def accepted(self, trap: str) -> None:
        """The API server took everything."""
        assert [(answer.status, answer.body.get("message")) for answer in self.answers[trap] if not answer.ok] == []

    def never_started(self, trap: str) -> None:
        """No Pod, although a Job that was created later has all of its own."""
        self.wait(lambda: len(self.bound("works")) == 2, "the sibling that works")
        assert self.pods(trap) == []


def _fill(traps: Traps) -> None:
    """Everything that does not need something else to have happened; Workloads first, so that they are known early."""
    traps.put("shared-template", workload("w", PARENT_REF))
    traps.put("child-never", workload("w", PARENT_REF, priorityClassName="trap-never", preemptionPolicy="Never"))
    traps.put("child-number", workload("w", PARENT_REF, priority=100))
    traps.put("child-no-quota", workload("w", PARENT_REF))
    traps.put("written-workload", workload("by-hand", JOB_REF))
    traps.put(
        "classes",
        priority_class("trap-never", 10, preemptionPolicy="Never"),
        persistent_volume("trap-one", "ReadWriteOncePod"),
    )
    traps.put("name-58", job("a" * 58))
    traps.put("name-dotted", job("train.v1"))
    traps.put("generated-53", generated("a" * 53))
    traps.put("class-missing", job(priorityClassName="trap-missing"))
    traps.put("class-never", job(priorityClassName="trap-never"))
    traps.put("class-system", job(priorityClassName="system-cluster-critical"))
    traps.put("no-workloads", quota("count/workloads.scheduling.k8s.io", 0), job())
    traps.put("no-pod-groups", quota("count/podgroups.scheduling.k8s.io", 0), job())
    traps.put("no-claims", quota("count/resourceclaims.resource.k8s.io", 0), *_claiming_job())
    traps.put("node-name-gang", job(gang=True, nodeName="trap-0-0"))
    traps.put(
        "gated", pod_group("own", 2), pod("a", "own", schedulingGates=[{"name": "example.com/x"}]), pod("b", "own")
    )
    traps.put("volume-missing", job(gang=True, volumes=volume("data")))
    traps.put("volume-for-one", volume_claim("ReadWriteOncePod"), job(gang=True, volumes=volume("data")))
    traps.put("pod-priority", job(gang=True, priority=1000))
    traps.put("pod-policy", job(gang=True, preemptionPolicy="Never"))
    traps.put("written-workload", job())
    suspended = job(gang=True)
    suspended["spec"]["suspend"] = True
    traps.put("two-workloads", suspended)
    traps.put("two-pod-groups", copy.deepcopy(suspended))
    traps.put("left-behind", pod("old-worker"))
    traps.put("two-domains", pod_group("own", 3, RACK_LABEL), pod("a", "own", nodeName="trap-0-0"))
    traps.put("two-domains", pod("b", "own", nodeName="trap-1-0"), pod("c", "own"))
    traps.put("no-domain", pod_group("own", 2, RACK_LABEL), pod("a", "own", nodeName="trap-bare-0"), pod("c", "own"))


def _claiming_job() -> list[Json]:
    """The template of a claim, and a gang that shares a claim made from it."""
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "trap-gpu"}}]}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": devices}},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    raw = job(gang=True, resourceClaims=claims)
    raw["spec"]["scheduling"]["resourceClaims"] = claims
    return [template, raw]


def _fill_later(traps: Traps) -> None:
    """What leans on something that exists by now, and at last the sibling that works."""
    _wait_for_workloads(traps)
    traps.put_children("shared-template", job("first"))
    traps.wait(lambda: len(traps.pods("shared-template")) == 2, "the first child's Pods")
    traps.put_children("shared-template", job("second"))
    traps.put_children("child-never", job(priorityClassName="trap-never"))
    traps.put_children("child-number", job())
    traps.put("child-no-quota", quota("count/podgroups.scheduling.k8s.io", 0))
    traps.put_children("child-no-quota", job())
    _pose(traps, "two-workloads")
    _pose(traps, "two-pod-groups")
    adopting = job(gang=True)
    adopting["spec"]["manualSelector"] = True
    adopting["spec"]["selector"] = {"matchLabels": {"app": "train"}}
    adopting["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    traps.put("left-behind", adopting)
    traps.put("works", job(gang=True))
    traps.put("generated-52", generated("a" * 52))
    traps.put("name-57", job("a" * 57))


def _wait_for_workloads(traps: Traps) -> None:
    """Until the Job controller's cache holds the Workloads: a child whose own one was created after them has a group.

    A child that comes too early runs without one, for good (WAS312), so each try is another child.
    """
    for number in range(20):
        trap = f"probe-{number}"
        traps.put(trap, workload("w", PARENT_REF))
        traps.put_children(trap, job())
        traps.wait(lambda trap=trap: traps.pods(trap), "a probe's Pods")  # type: ignore[misc]
        if traps.names(trap, "podgroups"):
            return
    raise AssertionError("the Job controller never saw a Workload")


def _pose(traps: Traps, trap: str) -> None:
    """Adds what looks like the Job controller's own second object, then resumes the Job."""
    traps.wait(lambda: traps.names(trap, "podgroups"), "the Job's own PodGroup")
    uid = traps.get(trap, "/apis/batch/v1", "jobs/train")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    made_by = traps.names(trap, "workloads")[0]
    if trap == "two-workloads":
        forged = workload("a-second-one", JOB_REF)
    else:
        forged = pod_group("a-second-one", 2, workloadRef={"workloadName": made_by, "templateName": "train-pgt-0"})
    forged["metadata"]["ownerReferences"] = [owner]
    traps.put(trap, forged)
    what = "Workloads" if trap == "two-workloads" else "PodGroups"
    path = f"/apis/batch/v1/namespaces/{traps.namespaces[trap]}/jobs/train"

    def seen() -> bool:
        """The Job controller looks when the Job changes, and says in its log what it found in its cache."""
        nudge = {"metadata": {"labels": {"nudge": secrets.token_hex(4)}}}
        traps.cluster.api.patch(path, nudge, MERGE_PATCH).expect(200)
        return bool(traps.controller_log_lines(trap, f"found 2 {what} referencing"))

    traps.wait(seen, f"the Job controller to see two {what}")
    traps.cluster.api.patch(path, {"spec": {"suspend": False}}, MERGE_PATCH).expect(200)


@pytest.fixture(scope="module")
def traps(control_plane: Cluster) -> Iterator[Traps]:
    if not isinstance(control_plane, ControlPlane):
        pytest.skip("what 1.37 says of these only the controllers' logs tell, which --cluster=local has")
    nodes = control_plane.create_nodes([*rack_nodes(2, 2, prefix="trap")])
    nodes += control_plane.create_nodes(1, prefix="trap-bare")
    traps = Traps(control_plane)
    try:
        _fill(traps)
        _fill_later(traps)
        yield traps
    finally:
        for namespace in traps.namespaces.values():
            control_plane.delete_namespace(namespace)
        for path in ("/apis/scheduling.k8s.io/v1/priorityclasses/trap-never", "/api/v1/persistentvolumes/trap-one"):
            control_plane.api.delete(path)
        control_plane.delete_nodes(nodes)


# -- names --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("trap", "words"),
    [
        ("name-58", "must be no more than 63 bytes"),
        ("name-dotted", "must not contain dots"),
        ("generated-53", "must be no more than 63 bytes"),
    ],
)
def test_names_that_make_no_workload(traps: Traps, trap: str, words: str) -> None:
    """WAS121, WAS122, WAS123: plain Jobs, without spec.scheduling; the template "<job>-pgt-0" is no DNS label."""
    traps.accepted(trap)
    assert words in traps.says(trap, "FailedWorkloadCreate", "spec.podGroupTemplates[0].name")
    assert traps.names(trap, "workloads") == []
    traps.never_started(trap)


@pytest.mark.parametrize("trap", ["name-57", "generated-52"])
def test_longest_names_that_work(traps: Traps, trap: str) -> None:
    """One character less, and the Job runs."""
    traps.wait(lambda: len(traps.bound(trap)) == 2, "two bound Pods")


# -- PriorityClasses ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("trap", "words"),
    [
        ("class-missing", "no PriorityClass with name trap-missing was found"),
        ("class-never", "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided"),
        ("class-system", "must be less than or equal to 1000000000"),
        ("child-never", "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided"),
        ("child-number", "must match the priority computed (0)"),
    ],
)
def test_classes_that_make_no_pod_group(traps: Traps, trap: str, words: str) -> None:
    """WAS124, WAS125, WAS126, WAS137: the Workload is there, the PodGroup is refused, and only a log says so."""
    traps.accepted(trap)
    assert words in traps.controller_logs(trap, "ensuring Workload and PodGroup")
    assert traps.names(trap, "podgroups") == []
    assert [reason for reason in ("FailedCreate", "FailedWorkloadCreate") if traps.events(trap, reason)] == []
    assert not traps.get(trap, "/apis/batch/v1", "jobs/train").get("status", {}).get("conditions")
    traps.never_started(trap)


@pytest.mark.parametrize(
    ("trap", "words"),
    [
        ("pod-priority", "the integer value of priority (1000) must not be provided in pod spec"),
        ("pod-policy", "the string value of PreemptionPolicy (Never) must not be provided in pod spec"),
    ],
)
def test_priorities_that_make_no_pod(traps: Traps, trap: str, words: str) -> None:
    """WAS137: the group is there, each Pod is refused."""
    traps.accepted(trap)
    traps.says(trap, "FailedCreate", words)
    traps.never_started(trap)


def test_global_default_that_never_preempts(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane],
) -> None:
    """WAS125: no Job of the whole cluster that names no class of its own starts; one that names another class does."""
    cluster = start_control_plane(ControlPlaneOptions())
    cluster.create_nodes(1)
    traps = Traps(cluster)
    default = priority_class("default-never", 0, globalDefault=True, preemptionPolicy="Never")
    traps.put("default-never", default, priority_class("gold", 10), job(), pod_group("by-hand", 1))
    words = "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided"

    assert words in traps.controller_logs("default-never", "ensuring Workload and PodGroup")
    traps.put("works", job(priorityClassName="gold"))
    traps.never_started("default-never")
    # What people write by hand is refused at once.
    assert words in traps.answers["default-never"][3].body["message"]


# -- quotas -------------------------------------------------------------------------------------------------------
def test_quota_without_workloads(traps: Traps) -> None:
    """WAS127: the Job's event tells."""
    traps.accepted("no-workloads")
    traps.says("no-workloads", "FailedWorkloadCreate", "limited: count/workloads.scheduling.k8s.io=0")
    traps.never_started("no-workloads")


@pytest.mark.parametrize("trap", ["no-pod-groups", "child-no-quota"])
def test_quota_without_pod_groups(traps: Traps, trap: str) -> None:
    """WAS127: no event tells."""
    traps.accepted(trap)
    traps.controller_logs(trap, "limited: count/podgroups.scheduling.k8s.io=0")
    assert not [reason for reason in ("FailedCreate", "FailedWorkloadCreate") if traps.events(trap, reason)]
    traps.never_started(trap)


def test_quota_without_claims(traps: Traps) -> None:
    """WAS127: the Pods are made and wait; the PodGroup's event tells."""
    traps.accepted("no-claims")
    traps.says("no-claims", "FailedResourceClaimCreation", "limited: count/resourceclaims.resource.k8s.io=0")
    assert len(traps.pods("no-claims")) == 2
    assert traps.bound("no-claims") == []


# -- child Jobs ---------------------------------------------------------------------------------------------------
def test_two_children_on_one_template(traps: Traps) -> None:
    """WAS128: the first one runs, the second one finds the name of the PodGroup taken, for ever."""
    traps.wait(lambda: len(traps.bound("shared-template")) == 2, "the first child's Pods to be bound")
    line = traps.controller_logs("shared-template", "already exists")

    assert "/second" in line
    assert len(traps.names("shared-template", "podgroups")) == 1
    assert {item["metadata"]["labels"]["job-name"] for item in traps.pods("shared-template")} == {"first"}
    assert traps.events("shared-template", "FailedCreate") == []


# -- Pods past the scheduler, and held back -----------------------------------------------------------------------
def test_node_name_goes_past_the_gang(traps: Traps) -> None:
    """WAS129: bound from birth; the scheduler never says anything of the group."""
    traps.wait(lambda: len(traps.bound("node-name-gang")) == 2, "two bound Pods")
    traps.wait(lambda: len(traps.bound("works")) == 2, "the sibling that works")
    (group,) = traps.get("node-name-gang", SCHEDULING, "podgroups")["items"]

    assert not group.get("status", {}).get("conditions")


@pytest.mark.parametrize(
    ("trap", "words"),
    [("two-domains", "more than 1 domain found for pod group"), ("no-domain", "no topology domain found for pod")],
)
def test_node_names_outside_one_domain(traps: Traps, trap: str, words: str) -> None:
    """WAS129: the member that passes the scheduler pays for it."""
    condition = traps.condition(trap)

    assert condition["reason"] == "SchedulerError"
    assert words in condition["message"]
    assert "c" not in {item["metadata"]["name"] for item in traps.bound(trap)}


def test_gated_member_holds_the_gang(traps: Traps) -> None:
    """WAS131: the other member waits, without a condition of its own, and the group has none."""
    traps.wait(lambda: len(traps.bound("works")) == 2, "the sibling that works")
    (group,) = traps.get("gated", SCHEDULING, "podgroups")["items"]

    assert traps.bound("gated") == []
    assert not group.get("status", {}).get("conditions")


# -- volumes ------------------------------------------------------------------------------------------------------
def test_missing_volume_claim_misleads(traps: Traps) -> None:
    """WAS132: the message speaks of a plugin for devices."""
    condition = traps.condition("volume-missing")

    assert condition["reason"] == "SchedulerError"
    assert '"DynamicResources" PodGroupPostFilter plugins: not found' in condition["message"]
    assert traps.bound("volume-missing") == []


def test_volume_for_one_pod(traps: Traps) -> None:
    """WAS136: the first Pod is placed, the second one cannot be, and so neither is."""
    words = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    traps.wait(lambda: words in traps.condition("volume-for-one")["message"], "the second Pod to fail")

    assert traps.bound("volume-for-one") == []


# -- whose Workload -----------------------------------------------------------------------------------------------
def test_written_workload_is_not_used(traps: Traps) -> None:
    """WAS138: the Job makes its own and is a basic group, whatever the written one asks for."""
    traps.wait(lambda: len(traps.bound("written-workload")) == 2, "two bound Pods")
    (group,) = traps.get("written-workload", SCHEDULING, "podgroups")["items"]

    assert "basic" in group["spec"]["schedulingPolicy"]
    assert group["spec"]["workloadRef"]["workloadName"] != "by-hand"
    assert len(traps.names("written-workload", "workloads")) == 2


@pytest.mark.parametrize("trap", ["two-workloads", "two-pod-groups"])
def test_second_object_takes_the_group_away(traps: Traps, trap: str) -> None:
    """WAS139: the resumed gang's Pods have no group."""
    traps.accepted(trap)
    pods = traps.wait(lambda: len(traps.bound(trap)) == 2 and traps.bound(trap), "two bound Pods")

    assert [item["spec"].get("schedulingGroup") for item in pods] == [None, None]


def test_adopted_pod_takes_the_group_away(traps: Traps) -> None:
    """WAS140: the Job has a Pod, so it is not new, so it gets no group."""
    pods = traps.wait(lambda: len(traps.pods("left-behind")) == 2 and traps.pods("left-behind"), "the Job's own Pod")

    assert [item["spec"].get("schedulingGroup") for item in pods] == [None, None]
    assert traps.names("left-behind", "podgroups") == []
    assert {item["metadata"]["ownerReferences"][0]["name"] for item in pods} == {"train"}
