"""Raw objects for tests, each valid for a real 1.37.2 API server unless a test makes it otherwise.

``job("train").parallelism(8).completions(4).gang().gpu(8).dict()``. Every method changes one thing and returns the
builder; ``dict()`` gives a copy, ``typed()`` the typed object, ``plan()`` its GangPlan.
"""

from __future__ import annotations

import copy
from typing import Any, Self, TypeVar

from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.objects.read import read
from webhook.plan.adapters import plan_of
from webhook.plan.model import GangPlan

Raw = dict[str, Any]
NAMESPACE = "team-a"
IMAGE = "pause:3.10"
GPU = "nvidia.com/gpu"
AnyBuilder = TypeVar("AnyBuilder", bound="Builder")


class Builder:
    """Any object."""

    def __init__(self, api_version: str, kind: str, name: str, spec: Raw | None = None) -> None:
        self.raw: Raw = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec if spec is not None else {},
        }

    # -- results ------------------------------------------------------------------------------------------------
    def dict(self) -> Raw:
        return copy.deepcopy(self.raw)

    def typed(self) -> Any:
        return read(self.raw, BY_NAME[self.raw["kind"]].type)

    def plan(self) -> GangPlan:
        raw = self.raw
        return plan_of(raw["kind"], raw["apiVersion"], raw["metadata"].get("namespace", ""), self.typed())

    # -- metadata -----------------------------------------------------------------------------------------------
    @property
    def spec(self) -> Raw:
        spec: Raw = self.raw["spec"]
        return spec

    @property
    def metadata(self) -> Raw:
        metadata: Raw = self.raw["metadata"]
        return metadata

    def namespace(self, name: str) -> Self:
        self.metadata["namespace"] = name
        return self

    def cluster_scoped(self) -> Self:
        self.metadata.pop("namespace", None)
        return self

    def generate_name(self, base: str) -> Self:
        self.metadata.pop("name", None)
        self.metadata["generateName"] = base
        return self

    def label(self, key: str, value: str) -> Self:
        self.metadata.setdefault("labels", {})[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self.metadata.setdefault("annotations", {})[key] = value
        return self

    def barrier(self, text: str) -> Self:
        return self.annotation("muster.dev/barrier", text)

    def group_template(self, name: str) -> Self:
        """The annotation by which a child Job delegates its group to the owner's Workload."""
        return self.annotation("scheduling.k8s.io/group-template-name", name)

    def owner(self, kind: str, name: str, *, uid: str = "0000", api_version: str = "", controller: bool = True) -> Self:
        reference = {
            "apiVersion": api_version or (BY_NAME[kind].api_version if kind in BY_NAME else "v1"),
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": controller,
        }
        self.metadata.setdefault("ownerReferences", []).append(reference)
        return self

    def uid(self, uid: str) -> Self:
        self.metadata["uid"] = uid
        return self

    def deleting(self, at: str = "2026-01-01T00:00:00Z") -> Self:
        self.metadata["deletionTimestamp"] = at
        return self

    def set(self, path: str, value: Any) -> Self:
        """Any field, for what has no method: ``set("spec.template.spec.hostNetwork", True)``. Digits are indexes."""
        *parents, last = path.split(".")
        at: Any = self.raw
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
        return self

    def unset(self, path: str) -> Self:
        *parents, last = path.split(".")
        at: Any = self.raw
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        del at[int(last) if isinstance(at, list) else last]
        return self


class WithPods(Builder):
    """An object that is, or holds, a Pod template. `template` is a dict with `metadata` and `spec`."""

    @property
    def template(self) -> Raw:
        raise NotImplementedError

    @property
    def pod_spec(self) -> Raw:
        spec: Raw = self.template.setdefault("spec", {})
        return spec

    @property
    def container(self) -> Raw:
        container: Raw = self.pod_spec["containers"][0]
        return container

    def image(self, image: str) -> Self:
        self.container["image"] = image
        return self

    def command(self, *words: str) -> Self:
        self.container["command"] = list(words)
        return self

    def args(self, *words: str) -> Self:
        self.container["args"] = list(words)
        return self

    def env(self, name: str, value: str) -> Self:
        self.container.setdefault("env", []).append({"name": name, "value": value})
        return self

    def env_field(self, name: str, field_path: str) -> Self:
        entry = {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}
        self.container.setdefault("env", []).append(entry)
        return self

    def env_config_map(self, name: str, config_map: str, key: str) -> Self:
        entry = {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
        self.container.setdefault("env", []).append(entry)
        return self

    def env_from_config_map(self, config_map: str) -> Self:
        self.container.setdefault("envFrom", []).append({"configMapRef": {"name": config_map}})
        return self

    def requests(self, **resources: str) -> Self:
        """``requests(cpu="1", **{"nvidia.com/gpu": "8"})``"""
        self.container.setdefault("resources", {}).setdefault("requests", {}).update(resources)
        return self

    def limits(self, **resources: str) -> Self:
        self.container.setdefault("resources", {}).setdefault("limits", {}).update(resources)
        return self

    def gpu(self, count: int, resource: str = GPU) -> Self:
        """In limits, as the API wants it: the request follows."""
        return self.limits(**{resource: str(count)})

    def pod_resources(self, *, requests: Raw | None = None, limits: Raw | None = None) -> Self:
        """Pod-level resources."""
        resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
        self.pod_spec["resources"] = resources
        return self

    def sidecar(self, name: str, **limits: str) -> Self:
        return self.init(name, restart_policy="Always", **limits)

    def init(self, name: str, restart_policy: str | None = None, **limits: str) -> Self:
        container: Raw = {"name": name, "image": IMAGE, "resources": {"limits": limits}}
        if restart_policy:
            container["restartPolicy"] = restart_policy
        self.pod_spec.setdefault("initContainers", []).append(container)
        return self

    def more_containers(self, *containers: Raw) -> Self:
        self.pod_spec["containers"].extend(containers)
        return self

    def scheduling_group(self, name: str) -> Self:
        self.pod_spec["schedulingGroup"] = {"podGroupName": name}
        return self

    def pod_claim(self, name: str, *, template: str | None = None, claim: str | None = None) -> Self:
        self.pod_spec.setdefault("resourceClaims", []).append(_claim(name, template, claim))
        self.container.setdefault("resources", {}).setdefault("claims", []).append({"name": name})
        return self

    def priority_class(self, name: str) -> Self:
        self.pod_spec["priorityClassName"] = name
        return self

    def priority(self, value: int) -> Self:
        self.pod_spec["priority"] = value
        return self

    def preemption_policy(self, value: str) -> Self:
        self.pod_spec["preemptionPolicy"] = value
        return self

    def scheduler_name(self, name: str) -> Self:
        self.pod_spec["schedulerName"] = name
        return self

    def node_name(self, name: str) -> Self:
        self.pod_spec["nodeName"] = name
        return self

    def node_selector(self, key: str, value: str) -> Self:
        self.pod_spec.setdefault("nodeSelector", {})[key] = value
        return self

    def toleration(self, key: str, effect: str = "NoSchedule") -> Self:
        self.pod_spec.setdefault("tolerations", []).append({"key": key, "operator": "Exists", "effect": effect})
        return self

    def overhead(self, runtime_class: str, **resources: str) -> Self:
        self.pod_spec["runtimeClassName"] = runtime_class
        self.pod_spec["overhead"] = resources
        return self

    def template_label(self, key: str, value: str) -> Self:
        self.template.setdefault("metadata", {}).setdefault("labels", {})[key] = value
        return self

    def template_annotation(self, key: str, value: str) -> Self:
        self.template.setdefault("metadata", {}).setdefault("annotations", {})[key] = value
        return self


class Pod(WithPods):
    @property
    def template(self) -> Raw:
        return self.raw

    def gate(self, name: str) -> Self:
        self.spec.setdefault("schedulingGates", []).append({"name": name})
        return self


class Job(WithPods):
    @property
    def template(self) -> Raw:
        template: Raw = self.spec["template"]
        return template

    @property
    def scheduling(self) -> Raw:
        scheduling: Raw = self.spec.setdefault("scheduling", {})
        return scheduling

    def parallelism(self, value: int | None) -> Self:
        return _put(self, "parallelism", value)

    def completions(self, value: int | None) -> Self:
        return _put(self, "completions", value)

    def indexed(self) -> Self:
        return _put(self, "completionMode", "Indexed")

    def suspend(self, value: bool = True) -> Self:
        return _put(self, "suspend", value)

    def managed_by(self, value: str) -> Self:
        return _put(self, "managedBy", value)

    def backoff_limit_per_index(self, value: int) -> Self:
        return _put(self.indexed(), "backoffLimitPerIndex", value)

    def active_deadline_seconds(self, value: int) -> Self:
        return _put(self, "activeDeadlineSeconds", value)

    def gang(self, min_count: int | None = None) -> Self:
        self.scheduling["schedulingPolicy"] = {"gang": {} if min_count is None else {"minCount": min_count}}
        return self

    def basic(self) -> Self:
        self.scheduling["schedulingPolicy"] = {"basic": {}}
        return self

    def topology(self, key: str) -> Self:
        self.scheduling["schedulingConstraints"] = {"topology": [{"key": key}]}
        return self

    def disruption(self, mode: str) -> Self:
        """mode: "single" or "all"."""
        self.scheduling["disruptionMode"] = {mode: {}}
        return self

    def group_claim(self, name: str, *, template: str | None = None, claim: str | None = None) -> Self:
        self.scheduling.setdefault("resourceClaims", []).append(_claim(name, template, claim))
        return self


class CronJob(WithPods):
    @property
    def template(self) -> Raw:
        template: Raw = self.spec["jobTemplate"]["spec"]["template"]
        return template

    def suspend(self, value: bool = True) -> Self:
        return _put(self, "suspend", value)


class JobSet(Builder):
    def role(
        self, name: str, of: Job, *, replicas: int | None = None, depends_on: tuple[str, str] | None = None
    ) -> Self:
        """`of` gives the Job template: its spec, labels and annotations. depends_on: (role, "Ready" or "Complete")."""
        entry: Raw = {"name": name, "template": _template_of(of)}
        if replicas is not None:
            entry["replicas"] = replicas
        if depends_on is not None:
            entry["dependsOn"] = [{"name": depends_on[0], "status": depends_on[1]}]
        self.spec.setdefault("replicatedJobs", []).append(entry)
        return self

    def in_order(self) -> Self:
        return _put(self, "startupPolicy", {"startupPolicyOrder": "InOrder"})

    def suspend(self, value: bool = True) -> Self:
        return _put(self, "suspend", value)

    def managed_by(self, value: str) -> Self:
        return _put(self, "managedBy", value)


class LeaderWorkerSet(WithPods):
    """Template methods change the worker template."""

    @property
    def template(self) -> Raw:
        template: Raw = self.spec["leaderWorkerTemplate"]["workerTemplate"]
        return template

    def replicas(self, value: int) -> Self:
        return _put(self, "replicas", value)

    def size(self, value: int) -> Self:
        self.spec["leaderWorkerTemplate"]["size"] = value
        return self

    def leader(self, of: Pod) -> Self:
        self.spec["leaderWorkerTemplate"]["leaderTemplate"] = pod_template(of)
        return self

    def leader_ready(self) -> Self:
        return _put(self, "startupPolicy", "LeaderReady")


class Replicated(WithPods):
    """Deployment, ReplicaSet, StatefulSet."""

    @property
    def template(self) -> Raw:
        template: Raw = self.spec["template"]
        return template

    def replicas(self, value: int) -> Self:
        return _put(self, "replicas", value)

    def parallel(self) -> Self:
        return _put(self, "podManagementPolicy", "Parallel")


class Group(Builder):
    """What PodGroup and CompositePodGroup share."""

    def basic(self) -> Self:
        return _put(self, "schedulingPolicy", {"basic": {}})

    def topology(self, key: str) -> Self:
        return _put(self, "schedulingConstraints", {"topology": [{"key": key}]})

    def disruption(self, mode: str) -> Self:
        return _put(self, "disruptionMode", {mode: {}})

    def priority_class(self, name: str) -> Self:
        return _put(self, "priorityClassName", name)

    def priority(self, value: int) -> Self:
        return _put(self, "priority", value)

    def preemption_policy(self, value: str) -> Self:
        return _put(self, "preemptionPolicy", value)

    def workload_ref(self, workload: str, template: str) -> Self:
        return _put(self, "workloadRef", {"workloadName": workload, "templateName": template})

    def parent(self, name: str) -> Self:
        return _put(self, "parentCompositePodGroupName", name)


class PodGroup(Group):
    def gang(self, min_count: int) -> Self:
        return _put(self, "schedulingPolicy", {"gang": {"minCount": min_count}})

    def claim(self, name: str, *, template: str | None = None, claim: str | None = None) -> Self:
        self.spec.setdefault("resourceClaims", []).append(_claim(name, template, claim))
        return self


class CompositePodGroup(Group):
    def gang(self, min_group_count: int) -> Self:
        return _put(self, "schedulingPolicy", {"gang": {"minGroupCount": min_group_count}})


class Workload(Builder):
    def controller(self, kind: str, name: str, api_group: str = "batch") -> Self:
        return _put(self, "controllerRef", {"apiGroup": api_group, "kind": kind, "name": name})

    def template(self, *templates: Raw) -> Self:
        """podGroupTemplates entries, made by `pod_group_template`."""
        self.spec.setdefault("podGroupTemplates", []).extend(templates)
        return self

    def composite(self, *templates: Raw) -> Self:
        """compositePodGroupTemplates entries, made by `composite_template`."""
        self.spec.setdefault("compositePodGroupTemplates", []).extend(templates)
        return self


# ---- the first call of each chain -------------------------------------------------------------------------------
def pod(name: str = "worker-0") -> Pod:
    return Pod("v1", "Pod", name, _pod_spec())


def job(name: str = "train") -> Job:
    """parallelism and completions are left to the API's defaults (1 and 1)."""
    return Job("batch/v1", "Job", name, {"template": {"spec": _pod_spec(restart_policy="Never")}})


def cronjob(name: str = "nightly", of: Job | None = None) -> CronJob:
    return CronJob("batch/v1", "CronJob", name, {"schedule": "0 3 * * *", "jobTemplate": _template_of(of or job())})


def jobset(name: str = "train") -> JobSet:
    return JobSet("jobset.x-k8s.io/v1alpha2", "JobSet", name)


def lws(name: str = "serve") -> LeaderWorkerSet:
    spec: Raw = {"leaderWorkerTemplate": {"workerTemplate": {"spec": _pod_spec()}}}
    return LeaderWorkerSet("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec)


def deployment(name: str = "serve") -> Replicated:
    return Replicated("apps/v1", "Deployment", name, _replicated_spec(name))


def replica_set(name: str = "serve") -> Replicated:
    return Replicated("apps/v1", "ReplicaSet", name, _replicated_spec(name))


def stateful_set(name: str = "serve") -> Replicated:
    return Replicated("apps/v1", "StatefulSet", name, {**_replicated_spec(name), "serviceName": name})


def pod_group(name: str = "train") -> PodGroup:
    """A gang of one until told otherwise: a PodGroup must have a policy."""
    return PodGroup("scheduling.k8s.io/v1beta1", "PodGroup", name).gang(1)


def composite_pod_group(name: str = "train", workload: str = "train", template: str = "root") -> CompositePodGroup:
    built = CompositePodGroup("scheduling.k8s.io/v1alpha3", "CompositePodGroup", name)
    return built.basic().workload_ref(workload, template)


def workload(name: str = "train") -> Workload:
    return Workload("scheduling.k8s.io/v1beta1", "Workload", name)


def pod_group_template(name: str, min_count: int | None = None, **fields: Any) -> Raw:
    """basic without min_count. Further fields by their API names: ``disruptionMode={"all": {}}``."""
    policy: Raw = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return {"name": name, "schedulingPolicy": policy, **fields}


def composite_template(name: str, *children: Raw, min_group_count: int | None = None, **fields: Any) -> Raw:
    """Children are sorted into podGroupTemplates and compositePodGroupTemplates by what they hold."""
    policy: Raw = {"basic": {}} if min_group_count is None else {"gang": {"minGroupCount": min_group_count}}
    result: Raw = {"name": name, "schedulingPolicy": policy, **fields}
    for child in children:
        nested = "podGroupTemplates" in child or "compositePodGroupTemplates" in child
        result.setdefault("compositePodGroupTemplates" if nested else "podGroupTemplates", []).append(child)
    return result


def priority_class(name: str, value: int, *, preemption_policy: str | None = None, default: bool = False) -> Builder:
    built = Builder("scheduling.k8s.io/v1", "PriorityClass", name).cluster_scoped()
    del built.raw["spec"]
    built.raw["value"] = value
    if preemption_policy is not None:
        built.raw["preemptionPolicy"] = preemption_policy
    if default:
        built.raw["globalDefault"] = True
    return built


def claim_template(name: str, device_class: str = "gpu.example.com", count: int = 1) -> Builder:
    spec = {"spec": {"devices": {"requests": [_device_request(device_class, count)]}}}
    return Builder("resource.k8s.io/v1", "ResourceClaimTemplate", name, spec)


def claim(name: str, device_class: str = "gpu.example.com", count: int = 1) -> Builder:
    spec = {"devices": {"requests": [_device_request(device_class, count)]}}
    return Builder("resource.k8s.io/v1", "ResourceClaim", name, spec)


def device_class(name: str, *, extended_resource: str | None = None) -> Builder:
    spec: Raw = {} if extended_resource is None else {"extendedResourceName": extended_resource}
    return Builder("resource.k8s.io/v1", "DeviceClass", name, spec).cluster_scoped()


def runtime_class(name: str, **overhead: str) -> Builder:
    built = Builder("node.k8s.io/v1", "RuntimeClass", name).cluster_scoped()
    del built.raw["spec"]
    built.raw |= {"handler": name, "overhead": {"podFixed": overhead}}
    return built


def resource_quota(name: str = "counts", **hard: str) -> Builder:
    """``resource_quota(**{"count/podgroups.scheduling.k8s.io": "0"})``"""
    return Builder("v1", "ResourceQuota", name, {"hard": hard})


def namespace(name: str = NAMESPACE, **labels: str) -> Builder:
    built = Builder("v1", "Namespace", name).cluster_scoped()
    for key, value in labels.items():
        built.label(key, value)
    return built


def pod_template(of: Pod) -> Raw:
    """The Pod as a template: its spec, labels and annotations."""
    metadata = {key: of.metadata[key] for key in ("labels", "annotations") if key in of.metadata}
    return copy.deepcopy({"metadata": metadata, "spec": of.spec})


def api_group(raw: Raw) -> str:
    """The API group of a raw object, for requests."""
    return split_api_version(raw["apiVersion"])[0]


# ---- parts ------------------------------------------------------------------------------------------------------
def _put(builder: AnyBuilder, key: str, value: Any) -> AnyBuilder:
    if value is None:
        builder.spec.pop(key, None)
    else:
        builder.spec[key] = value
    return builder


def _claim(name: str, template: str | None, claim_name: str | None) -> Raw:
    result: Raw = {"name": name}
    if template is not None:
        result["resourceClaimTemplateName"] = template
    if claim_name is not None:
        result["resourceClaimName"] = claim_name
    return result


def _pod_spec(restart_policy: str | None = None) -> Raw:
    spec: Raw = {"containers": [{"name": "main", "image": IMAGE}]}
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    return spec


def _template_of(of: Job) -> Raw:
    metadata = {key: of.metadata[key] for key in ("labels", "annotations") if key in of.metadata}
    return copy.deepcopy({"metadata": metadata, "spec": of.spec})


def _replicated_spec(name: str) -> Raw:
    labels = {"app": name}
    template = {"metadata": {"labels": dict(labels)}, "spec": _pod_spec()}
    return {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}


def _device_request(device_class_name: str, count: int) -> Raw:
    return {"name": "devices", "exactly": {"deviceClassName": device_class_name, "count": count}}
