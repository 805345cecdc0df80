"""Objects the API server accepts, each with whether it should reach Muster: one minimal object and one change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

TIER_CLASS = "train-gold"
OTHER_CLASS = "plain-class"
GPU = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
CPU = {"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
CLAIM = [{"name": "gpu", "resourceClaimName": "gpu"}]
ANNOTATION = {"scheduling.k8s.io/group-template-name": "workers"}
ASKS_MUSTER = {"muster.dev/expected-run-time": "2h"}


@dataclass(frozen=True)
class Shape:
    """title: what is special. reaches: is it worth a look? trap: is it ordinary but for a trap of 1.37?"""

    title: str
    obj: JsonObject
    reaches: bool
    trap: bool = False


def pod_spec(**changes: Any) -> JsonObject:
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **changes}


def container(**changes: Any) -> JsonObject:
    return {"name": "c", "image": "i", **changes}


def _pod_specs() -> Iterator[tuple[str, JsonObject, bool]]:
    """Pod specs whose worth is the same wherever they stand."""
    yield "plain", pod_spec(), False
    yield "schedulingGroup", pod_spec(schedulingGroup={"podGroupName": "train"}), True
    yield "resourceClaims", pod_spec(resourceClaims=CLAIM), True
    yield "a GPU", pod_spec(containers=[container(resources=GPU)]), True
    yield "a GPU in the second container", pod_spec(containers=[container(), container(name="d", resources=GPU)]), True
    yield "a GPU in an init container", pod_spec(initContainers=[container(name="i", resources=GPU)]), True
    yield "a tier's class", pod_spec(priorityClassName=TIER_CLASS), True
    yield "cpu and memory", pod_spec(containers=[container(resources=CPU)]), False
    yield "pod-level resources", pod_spec(resources=CPU), False
    yield (
        "an unguarded extended resource",
        pod_spec(containers=[container(resources={"limits": {"example.com/foo": "1"}})]),
        False,
    )
    yield "another scheduler", pod_spec(schedulerName="volcano"), False
    yield "everything else", pod_spec(
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}],
        hostNetwork=True,
        initContainers=[container(name="i", restartPolicy="Always", resources=CPU)],
        volumes=[{"name": "v", "emptyDir": {}}],
        affinity={"nodeAffinity": {}},
    ), False  # fmt: skip


def pods() -> Iterator[Shape]:
    for title, spec, reaches in _pod_specs():
        yield Shape(title, _object("v1", "Pod", spec), reaches)
    yield Shape("another class", _object("v1", "Pod", pod_spec(priorityClassName=OTHER_CLASS)), False)
    yield Shape("nodeName", _object("v1", "Pod", pod_spec(nodeName="n")), False)
    yield Shape("a group annotation", _object("v1", "Pod", pod_spec(), annotations=ANNOTATION), True)
    yield Shape("an annotation of ours", _object("v1", "Pod", pod_spec(), annotations=ASKS_MUSTER), True)
    stranger = {"muster.dev/seen-by": "alice", "not-muster.dev/barrier": "8"}
    yield Shape("annotations that nobody reads", _object("v1", "Pod", pod_spec(), annotations=stranger), False)
    yield Shape("a long dotted name", _object("v1", "Pod", pod_spec(), name="a." + "b" * 70), False)
    yield Shape(
        "labels and annotations", _object("v1", "Pod", pod_spec(), annotations={"a": "b"}, labels={"c": "d"}), False
    )


def jobs(*, traps: bool) -> Iterator[Shape]:
    """traps: may WorkloadWithJob be on?"""
    for title, spec, reaches in _pod_specs():
        yield Shape(title, _object("batch/v1", "Job", _job_spec(spec)), reaches)
    yield Shape(
        "scheduling", _object("batch/v1", "Job", _job_spec(scheduling={"schedulingPolicy": {"gang": {}}})), True
    )
    yield Shape("group annotation", _object("batch/v1", "Job", _job_spec(), annotations=ANNOTATION), True)
    template_annotated = _job_spec()
    template_annotated["template"]["metadata"] = {"annotations": ANNOTATION}
    yield Shape("group annotation on the template", _object("batch/v1", "Job", template_annotated), True)
    yield Shape("an annotation of ours", _object("batch/v1", "Job", _job_spec(), annotations=ASKS_MUSTER), True)
    asking = _job_spec()
    asking["template"]["metadata"] = {"annotations": {"muster.dev/barrier": "8"}}
    yield Shape("an annotation of ours on the template", _object("batch/v1", "Job", asking), True)
    yield Shape("other annotations", _object("batch/v1", "Job", _job_spec(), annotations={"a": "b"}), False)
    yield Shape("nodeName", _object("batch/v1", "Job", _job_spec(pod_spec(nodeName="n"))), False)
    yield from _job_names(traps)
    for title, spec in (
        ("any class", pod_spec(priorityClassName=OTHER_CLASS)),
        ("a priority", pod_spec(priority=0)),
        ("a preemption policy", pod_spec(preemptionPolicy="Never")),
    ):
        yield Shape(title, _object("batch/v1", "Job", _job_spec(spec)), reaches=False, trap=traps)
        owned = _object("batch/v1", "Job", _job_spec(spec), ownerReferences=[_owner(controller=True)])
        yield Shape(f"{title}, with a controller", owned, False)
        other = _object("batch/v1", "Job", _job_spec(spec), ownerReferences=[_owner(controller=False)])
        yield Shape(f"{title}, with an owner that is no controller", other, reaches=False, trap=traps)


def _job_names(traps: bool) -> Iterator[Shape]:
    yield Shape("a name of 57", _object("batch/v1", "Job", _job_spec(), name="n" * 57), False)
    yield Shape("a name of 58", _object("batch/v1", "Job", _job_spec(), name="n" * 58), reaches=False, trap=traps)
    yield Shape("a dotted name", _object("batch/v1", "Job", _job_spec(), name="train.v1"), reaches=False, trap=traps)
    yield Shape(
        "a generateName of 52", _object("batch/v1", "Job", _job_spec(), name=None, generateName="n" * 52), False
    )
    yield Shape(
        "a generateName of 53",
        _object("batch/v1", "Job", _job_spec(), name=None, generateName="n" * 53),
        reaches=False,
        trap=traps,
    )
    gang = _job_spec(scheduling={"schedulingPolicy": {"gang": {}}})
    yield Shape("a gang with a name of 58", _object("batch/v1", "Job", gang, name="n" * 58), True)
    long_owned = _object("batch/v1", "Job", _job_spec(), name="n" * 58, ownerReferences=[_owner(controller=True)])
    yield Shape("a name of 58, with a controller", long_owned, False)


def cron_jobs() -> Iterator[Shape]:
    for title, spec, reaches in _pod_specs():
        yield Shape(title, _cron_job(_job_spec(spec)), reaches)
    yield Shape("scheduling", _cron_job(_job_spec(scheduling={"schedulingPolicy": {"gang": {}}})), True)
    yield Shape("any class", _cron_job(_job_spec(pod_spec(priorityClassName=OTHER_CLASS))), False)
    yield Shape("a group annotation", _cron_job(_job_spec(), annotations=ANNOTATION), True)
    yield Shape("an annotation of ours", _cron_job(_job_spec(), annotations=ASKS_MUSTER), True)


def replicated() -> Iterator[Shape]:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        for title, spec, reaches in _pod_specs():
            template = {"metadata": {"labels": {"app": "a"}}, "spec": {**spec, "restartPolicy": "Always"}}
            body = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
            if kind == "StatefulSet":
                body["serviceName"] = "s"
            yield Shape(f"{kind}: {title}", _object("apps/v1", kind, body), reaches)


def job_sets(*, extended: bool) -> Iterator[Shape]:
    """extended: the CRD knows the WAS fields; the published one drops them."""
    for title, spec, reaches in _pod_specs():
        if extended or "schedulingGroup" not in title:
            yield Shape(title, _job_set(_job_spec(spec)), reaches)
    yield Shape(
        "two roles, the second with a GPU",
        _job_set(_job_spec(), _job_spec(pod_spec(containers=[container(resources=GPU)]))),
        True,
    )
    yield Shape("a group annotation", _job_set(_job_spec(), annotations=ANNOTATION), True)
    yield Shape("an annotation of ours", _job_set(_job_spec(), annotations=ASKS_MUSTER), True)
    if extended:
        yield Shape("scheduling", _job_set(_job_spec(scheduling={"schedulingPolicy": {"gang": {}}})), True)


def leader_worker_sets(*, extended: bool) -> Iterator[Shape]:
    for title, spec, reaches in _pod_specs():
        if extended or "schedulingGroup" not in title:
            yield Shape(f"workers: {title}", _leader_worker_set(spec, None), reaches)
            yield Shape(f"leader: {title}", _leader_worker_set(pod_spec(), spec), reaches)


def always() -> Iterator[Shape]:
    """Never ordinary."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    for version in ("v1beta1", "v1alpha3"):
        api = f"scheduling.k8s.io/{version}"
        yield Shape(f"PodGroup {version}", _object(api, "PodGroup", policy), True)
        workload = {"podGroupTemplates": [{"name": "workers", **policy}]}
        yield Shape(f"Workload {version}", _object(api, "Workload", workload), True)
    composite = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    }
    yield Shape("CompositePodGroup", _object("scheduling.k8s.io/v1alpha3", "CompositePodGroup", composite), True)


def priority_classes() -> Iterator[Shape]:
    """Cluster-scoped, with their fields beside `metadata`. None is ever stored: one of them would stop every Job."""

    def made(**fields: Any) -> JsonObject:
        metadata = {"name": "some-class"}
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata,
            "value": 5,
            **fields,
        }

    yield Shape("a class", made(), False)
    yield Shape("a class that never preempts", made(preemptionPolicy="Never"), False)
    yield Shape("no default, said in words", made(globalDefault=False, preemptionPolicy="Never"), False)
    yield Shape("a default", made(globalDefault=True), False)
    yield Shape("a default that preempts", made(globalDefault=True, preemptionPolicy="PreemptLowerPriority"), False)
    never = made(globalDefault=True, preemptionPolicy="Never")
    yield Shape("a default that never preempts", never, reaches=False, trap=True)


def others() -> Iterator[Shape]:
    """Kinds that are not registered at all."""
    yield Shape("ConfigMap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}, False)
    daemon = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": pod_spec(restartPolicy="Always", containers=[container(resources=GPU)]),
        },
    }
    yield Shape("DaemonSet with a GPU", _object("apps/v1", "DaemonSet", daemon), False)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    yield Shape("Lease", lease, False)


def large() -> Iterator[JsonObject]:
    """Near the 1.5 MiB that a request to etcd may have, with nothing to find, so that all of it is looked through."""
    amounts = {f"example.com/r{index}": "1" for index in range(20)}
    many = [
        {"name": f"c{index}", "image": "i", "resources": {"limits": amounts, "requests": amounts}}
        for index in range(1000)
    ]
    yield _object("v1", "Pod", pod_spec(containers=many))
    yield _object("batch/v1", "Job", _job_spec(pod_spec(containers=many)))
    yield _cron_job(_job_spec(pod_spec(containers=many)))
    yield _object("v1", "Pod", pod_spec(), annotations={f"example.com/a{index}": "x" * 10 for index in range(8000)})
    owners = [{**_owner(controller=False), "uid": f"00000000-0000-0000-0000-{index:012}"} for index in range(2000)]
    yield _object("batch/v1", "Job", _job_spec(), ownerReferences=owners)


def large_job_sets() -> Iterator[JsonObject]:
    """Needs the CRD. 100 roles of 10 containers of 10 resources."""
    amounts = {f"example.com/r{index}": "1" for index in range(10)}
    many = [{"name": f"c{index}", "image": "i", "resources": {"limits": amounts}} for index in range(10)]
    yield _job_set(*[_job_spec(pod_spec(containers=many)) for _ in range(100)])


# -- objects ------------------------------------------------------------------------------------------------------
def _object(api_version: str, kind: str, spec: JsonObject, name: str | None = "shape", **metadata: Any) -> JsonObject:
    named = {} if name is None else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**named, **metadata}, "spec": copy.deepcopy(spec)}


def _job_spec(spec: JsonObject | None = None, **changes: Any) -> JsonObject:
    return {"parallelism": 1, "template": {"spec": copy.deepcopy(spec or pod_spec())}, **changes}


def _cron_job(spec: JsonObject, annotations: dict[str, str] | None = None) -> JsonObject:
    template: JsonObject = {"spec": spec}
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return _object("batch/v1", "CronJob", {"schedule": "0 0 1 1 *", "jobTemplate": template})


def _job_set(*specs: JsonObject, annotations: dict[str, str] | None = None) -> JsonObject:
    jobs = []
    for index, spec in enumerate(specs):
        template: JsonObject = {"spec": spec}
        if annotations:
            template["metadata"] = {"annotations": annotations}
        jobs.append({"name": f"role-{index}", "replicas": 1, "template": template})
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def _leader_worker_set(worker: JsonObject, leader: JsonObject | None) -> JsonObject:
    # The CRD of v0.8.0 wants containers and knows no nulls.
    def template(spec: JsonObject) -> JsonObject:
        return {"spec": {**{key: value for key, value in spec.items() if value is not None}, "restartPolicy": "Always"}}

    body: JsonObject = {"size": 2, "workerTemplate": template(worker)}
    if leader is not None:
        body["leaderTemplate"] = template(leader)
    return _object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": body})


def _owner(*, controller: bool) -> JsonObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Train",
        "name": "t",
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": controller,
    }
