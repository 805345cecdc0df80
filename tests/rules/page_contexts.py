"""What the rules' pages say in words around their examples; see test_pages.py.

kind, at: where a fragment belongs ("Job" and the object itself if not given). build: makes the object and more
surroundings of it. "Allowed" and "Denied": what only one side has. The rest are keys of a fixture's header
(tests/support/cases.py).
"""

from __future__ import annotations

from typing import Any

from webhook.objects.kinds import BY_NAME

Json = dict[str, Any]
OTHERS: dict[str, str] = {
    "WAS141": "written by another hand; see its fixtures",
    "WAS305": "written by another hand; see its fixtures",
    "WAS306": "written by another hand; see its fixtures",
    "WAS309": "written by another hand; see its fixtures",
} | {f"WAS{number}": "needs an inventory; see its fixtures" for number in range(501, 520)}
"""Rule -> why its examples are not judged here."""


def obj(kind: str, name: str, spec: Json | None = None, **fields: Any) -> Json:
    metadata = {"name": name, **fields.pop("metadata", {})}
    raw = {"apiVersion": BY_NAME[kind].api_version, "kind": kind, "metadata": metadata, **fields}
    return raw if spec is None else {**raw, "spec": spec}


def group(name: str = "train", min_count: int = 2, metadata: Json | None = None, **spec: Any) -> Json:
    policy = {"gang": {"minCount": min_count}}
    return obj("PodGroup", name, {"schedulingPolicy": policy, **spec}, metadata=metadata or {})


def composite(name: str, parent: str | None = None, metadata: Json | None = None) -> Json:
    spec: Json = {"schedulingPolicy": {"basic": {}}, **({"parentCompositePodGroupName": parent} if parent else {})}
    return obj("CompositePodGroup", name, spec, metadata=metadata or {})


def chain(*names: str) -> list[Json]:
    """Composites, the root first."""
    return [composite(name, names[index - 1] if index else None) for index, name in enumerate(names)]


def priority_class(name: str, value: int = 1000, **fields: Any) -> Json:
    return obj("PriorityClass", name, value=value, **fields)


def workload(name: str, controller: Json | None = None, **template: Any) -> Json:
    one = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}, **template}
    return obj("Workload", name, {"podGroupTemplates": [one], **({"controllerRef": controller} if controller else {})})


def volume_claim(name: str, mode: str = "ReadWriteMany") -> Json:
    return obj("PersistentVolumeClaim", name, {"accessModes": [mode]})


def claim_template(name: str, devices: Json | None = None, **exactly: Any) -> Json:
    one = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}]}
    return obj("ResourceClaimTemplate", name, {"spec": {"devices": devices or one}})


def quota(**hard: Any) -> Json:
    return obj("ResourceQuota", "objects", {"hard": hard})


def pod(name: str, pod_group: str | None = None, **fields: Any) -> Json:
    spec: Json = {"containers": [{"name": "main", "image": "pause:3.10"}]}
    if pod_group:
        spec["schedulingGroup"] = {"podGroupName": pod_group}
    return obj("Pod", name, spec, **fields)


def _pod_naming_the_template(claim_spec: Json) -> tuple[Json, list[Json]]:
    """The example is the spec of the claims that the template makes."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    judged = pod("worker")
    judged["spec"]["resourceClaims"] = claims
    return judged, [obj("ResourceClaimTemplate", "t", {"spec": claim_spec})]


GOING = {"deletionTimestamp": "2026-11-29T11:59:00Z", "finalizers": ["x"]}
JOBSET = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "train"}
ML_ONLY = {"namespaces": ["ml-*"]}
IN_POD_GROUP = {"kind": "Pod", "at": "spec"}
TRAIN = [group()]
ONE_GPU = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
GOLD_TIER: Json = {"name": "gold", "priorityClasses": ["train-gold"]}
GOLD_CLASS = [priority_class("train-gold")]
CHECKPOINTS = {"tiers": [{**GOLD_TIER, "requires": {"checkpointIntervalSecondsMax": 1800}}]}
CONTROLLED = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}]
}
TOPOLOGY = {"schedulingConstraints": {"topology": [{"key": "topo.example.com/rack"}]}}


def _gang_with_affinity(affinity: Json) -> tuple[Json, list[Json]]:
    template = {
        "metadata": {"labels": {"app": "train"}},
        "spec": {
            "restartPolicy": "Never",
            "affinity": affinity,
            "containers": [{"name": "main", "image": "pause:3.10"}],
        },
    }
    scheduling = {"schedulingPolicy": {"gang": {}}, **TOPOLOGY}
    return obj("Job", "train", {"parallelism": 4, "scheduling": scheduling, "template": template}), []


CONTEXTS: dict[str, Json] = {
    "WAS102": {"Allowed": {"surroundings": [group(min_count=4)]}, "Denied": {"surroundings": [group(min_count=5)]}},
    "WAS103": {"at": "spec"},
    "WAS104": {"at": "spec"},
    "WAS105": {"at": "spec"},
    "WAS106": {"at": "spec"},
    "WAS110": {"at": "spec"},
    "WAS111": {"kind": "Workload", "at": "spec"},
    "WAS112": {
        "Allowed": {"surroundings": chain("a", "b", "c")},
        "Denied": {"surroundings": chain("a", "b", "c", "d", "e")},
    },
    "WAS113": {"phase": "review"},
    "WAS114": {
        "Allowed": {"surroundings": [group("leaders", 1), group("workers", 2)]},
        "Denied": {"surroundings": [group(min_count=3)]},
    },
    "WAS115": {
        "operation": "UPDATE",
        "old": {"spec": {"replicas": 11}},
        "Allowed": {"surroundings": [group(min_count=4)]},
        "Denied": {"surroundings": [group(min_count=11)]},
    },
    "WAS116": {"kind": "LeaderWorkerSet", "at": "spec.leaderWorkerTemplate.workerTemplate.spec.containers[]"},
    "WAS117": {"kind": "LeaderWorkerSet", "at": "spec.leaderWorkerTemplate.workerTemplate.spec.containers[]"},
    "WAS118": {"surroundings": [group(min_count=9)]},
    "WAS119": {"build": _gang_with_affinity},
    "WAS124": {"surroundings": [priority_class("gold")]},
    "WAS125": {"surroundings": [priority_class("gold"), priority_class("gold-never", preemptionPolicy="Never")]},
    "WAS126": {"surroundings": [priority_class("gold")]},
    "WAS127": {
        "Allowed": {"surroundings": [quota(**{"count/podgroups.scheduling.k8s.io": "10"})]},
        "Denied": {"surroundings": [quota(**{"count/podgroups.scheduling.k8s.io": "0"})]},
    },
    "WAS128": {
        "surroundings": [
            obj(
                "Workload",
                "train",
                {
                    "controllerRef": JOBSET,
                    "podGroupTemplates": [
                        {"name": name, "schedulingPolicy": {"gang": {"minCount": 1}}} for name in ("workers", "drivers")
                    ],
                },
            )
        ]
    },
    "WAS129": {"kind": "Pod", "surroundings": TRAIN},
    "WAS131": {"kind": "Pod", "surroundings": TRAIN},
    "WAS132": {"at": "spec.template.spec", "surroundings": [volume_claim("datasets")]},
    "WAS136": {
        "Allowed": {"surroundings": [volume_claim("data")]},
        "Denied": {"surroundings": [volume_claim("data", "ReadWriteOncePod")]},
    },
    "WAS137": {"surroundings": [priority_class("gold")]},
    "WAS139": {
        "surroundings": [
            obj("Job", "train", {"template": {"spec": {"containers": [{"name": "main"}]}}}, metadata={"uid": "1"})
        ]
    },
    "WAS140": {"surroundings": [pod("old-worker-1", metadata={"labels": {"app": "train"}})]},
    "WAS201": {"surroundings": [group(resourceClaims=ONE_GPU)]},
    "WAS202": {
        "build": lambda block: (
            obj("Pod", "w", {**pod("w", "train")["spec"], "resourceClaims": block["resourceClaims"]}),
            [],
        ),
        "surroundings": [group(resourceClaims=ONE_GPU)],
    },
    "WAS203": {
        "kind": "PodGroup",
        "surroundings": [
            claim_template("one-gpu"),
            claim_template("channel", deviceClassName="compute-domain-default-channel.nvidia.com"),
        ],
    },
    "WAS204": {"kind": "JobSet", "at": "spec.replicatedJobs[].template.spec.template.spec"},
    "WAS206": {"kind": "Pod", "surroundings": TRAIN},
    "WAS207": {"kind": "PodGroup", "surroundings": [workload("train")]},
    "WAS208": {
        "kind": "PodGroup",
        "Allowed": {"surroundings": [workload("train")]},
        "Denied": {"surroundings": [workload("train", disruptionMode={"all": {}})]},
    },
    "WAS209": {"kind": "PodGroup", "surroundings": [composite("train")]},
    "WAS210": {
        "Allowed": {"surroundings": [composite("root")]},
        "Denied": {"surroundings": [composite("root", "racks")]},
    },
    "WAS211": {
        "kind": "Pod",
        "surroundings": [
            *(priority_class(name, value) for name, value in (("gold", 1000), ("gold-batch", 1000), ("bronze", 100))),
            group(priorityClassName="gold", priority=1000),
        ],
        "phase": "review",
    },
    "WAS212": {"kind": "Pod", "surroundings": [group(), *(pod(f"w-{number}", "train") for number in range(7))]},
    "WAS213": {
        "kind": "Pod",
        "phase": "review",
        "surroundings": [priority_class("gold-never", preemptionPolicy="Never")],
        "Allowed": {
            "surroundings": [
                priority_class("gold-never", preemptionPolicy="Never"),
                group(preemptionPolicy="Never", priority=1000),
            ]
        },
        "Denied": {
            "surroundings": [
                priority_class("gold-never", preemptionPolicy="Never"),
                group(preemptionPolicy="PreemptLowerPriority", priority=1000),
            ]
        },
    },
    "WAS214": {"kind": "Pod", "surroundings": [group("mine"), group("train-5f7c9", metadata=CONTROLLED)]},
    "WAS215": {**IN_POD_GROUP, "surroundings": [claim_template("one-gpu")]},
    "WAS216": {
        **IN_POD_GROUP,
        "Allowed": {"surroundings": [claim_template("one-gpu"), obj("DeviceClass", "gpu.example.com", {})]},
        "Denied": {
            "surroundings": [
                claim_template("one-gpu", deviceClassName="gpus.example.com"),
                obj("DeviceClass", "gpu.example.com", {}),
            ]
        },
    },
    "WAS217": {
        **IN_POD_GROUP,
        "surroundings": [claim_template("one-gpu"), claim_template("watch-gpu", adminAccess=True)],
    },
    "WAS218": {"surroundings": [group(metadata=GOING)]},
    "WAS220": {"kind": "JobSet", "at": "spec.replicatedJobs[].template.spec.template.spec"},
    "WAS221": {"kind": "PodGroup", "at": "spec", "phase": "review"},
    "WAS222": {"phase": "review", "build": _pod_naming_the_template},
    "WAS301": {"policy": {"features": {"jobScheduling": ML_ONLY}}},
    "WAS302": {"policy": {"features": {"compositePodGroup": ML_ONLY}}},
    "WAS303": {"policy": {"features": {"topologyConstraints": ML_ONLY}}},
    "WAS304": {"policy": {"features": {"sharedClaims": ML_ONLY}}},
    "WAS307": {"phase": "review"},
    "WAS308": {"phase": "review"},
    "WAS313": {
        "Allowed": {"surroundings": [workload("train", JOBSET)]},
        "Denied": {"surroundings": [workload("train", JOBSET)]},
    },
    "WAS314": {"policy": {"rules": {"WAS314": {"action": "Deny"}}}},
    "WAS315": {
        "policy": {"writers": {"podGroups": {"groups": ["platform"]}}},
        "Allowed": {"groups": ["platform"]},
    },
    "WAS316": {"policy": {"freeze": {"cluster": True, "reason": "upgrade to 1.38"}}},
    "WAS319": {"operation": "DELETE", "Denied": {"surroundings": [pod("worker-0", "train")]}},
    "WAS401": {
        "surroundings": GOLD_CLASS,
        "Allowed": {"policy": {"tiers": [{**GOLD_TIER, "scope": {"namespaces": ["team-*"]}}]}},
        "Denied": {"policy": {"tiers": [{**GOLD_TIER, "scope": ML_ONLY}]}},
    },
    "WAS402": {
        "surroundings": GOLD_CLASS,
        "policy": {"tiers": [{**GOLD_TIER, "subjects": {"groups": ["research"]}}]},
        "Allowed": {"groups": ["research"]},
    },
    "WAS403": {"policy": {"tiers": [GOLD_TIER], "parameters": {"unknownPriorityClass": "deny"}}},
    "WAS404": {"policy": {"guardedResources": ["nvidia.com/*"]}},
    "WAS405": {"policy": CHECKPOINTS, "surroundings": GOLD_CLASS},
    "WAS406": {"policy": CHECKPOINTS, "surroundings": GOLD_CLASS},
    "WAS407": {
        "Allowed": {"surroundings": [quota(**{"requests.nvidia.com/gpu": 8})]},
        "Denied": {"surroundings": [quota(**{"requests.nvidia.com/gpu": 4})]},
    },
}
