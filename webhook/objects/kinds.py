"""Which kinds Muster reads, in which API versions, and as which typed object.

One table. A kind that is missing here is admitted (and passed over in `review`); a version that is missing is
admitted with a warning, since an upgraded cluster must go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from webhook.objects import core


@dataclass(frozen=True, slots=True)
class Kind:
    """`versions`: served by 1.37. `retired`: once served, now refused by the API server (judged in `review`).
    `plural` and `namespaced` are what a REST path needs. `planned`: an adapter turns it into a GangPlan. `ruled`: it has
    no plan, and there are rules on the object itself. `scaled`: its `/scale` sets spec.replicas."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]
    type: type[core.Base]
    retired: tuple[str, ...] = ()
    namespaced: bool = True
    planned: bool = False
    ruled: bool = False
    scaled: bool = False

    @property
    def judged(self) -> bool:
        """Are there rules on objects of this kind? All others are surroundings only."""
        return self.planned or self.ruled

    @property
    def api_version(self) -> str:
        """The preferred apiVersion."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


_SCHEDULING = "scheduling.k8s.io"
_RESOURCE = "resource.k8s.io"

KINDS: tuple[Kind, ...] = (
    Kind("", "Pod", "pods", ("v1",), core.Pod, planned=True),
    Kind("batch", "Job", "jobs", ("v1",), core.Job, planned=True),
    Kind("batch", "CronJob", "cronjobs", ("v1",), core.CronJob, planned=True),
    Kind("apps", "Deployment", "deployments", ("v1",), core.ReplicatedWorkload, planned=True, scaled=True),
    Kind("apps", "ReplicaSet", "replicasets", ("v1",), core.ReplicatedWorkload, planned=True, scaled=True),
    Kind("apps", "StatefulSet", "statefulsets", ("v1",), core.ReplicatedWorkload, planned=True, scaled=True),
    Kind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",), core.JobSet, planned=True),
    Kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", ("v1",), core.LeaderWorkerSet, planned=True, scaled=True),
    Kind(_SCHEDULING, "Workload", "workloads", ("v1beta1", "v1alpha3"), core.Workload, ("v1alpha1", "v1alpha2"), planned=True),
    Kind(_SCHEDULING, "PodGroup", "podgroups", ("v1beta1", "v1alpha3"), core.PodGroup, ("v1alpha1", "v1alpha2"), planned=True),
    Kind(_SCHEDULING, "CompositePodGroup", "compositepodgroups", ("v1alpha3",), core.CompositePodGroup, planned=True),
    Kind(_SCHEDULING, "PriorityClass", "priorityclasses", ("v1",), core.PriorityClass, namespaced=False, ruled=True),
    Kind(_RESOURCE, "ResourceClaim", "resourceclaims", ("v1", "v1beta2", "v1beta1"), core.ResourceClaim),
    Kind(_RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", ("v1", "v1beta2", "v1beta1"), core.ResourceClaimTemplate),
    Kind(_RESOURCE, "DeviceClass", "deviceclasses", ("v1", "v1beta2", "v1beta1"), core.DeviceClass, namespaced=False),
    Kind("", "Namespace", "namespaces", ("v1",), core.Namespace, namespaced=False),
    Kind("", "ResourceQuota", "resourcequotas", ("v1",), core.ResourceQuota),
    Kind("", "PersistentVolumeClaim", "persistentvolumeclaims", ("v1",), core.PersistentVolumeClaim),
    Kind("node.k8s.io", "RuntimeClass", "runtimeclasses", ("v1",), core.RuntimeClass, namespaced=False),
    Kind("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", ("v1",), core.CustomResourceDefinition, namespaced=False),
)  # fmt: skip

BY_NAME: dict[str, Kind] = {kind.kind: kind for kind in KINDS}
_BY_GROUP: dict[tuple[str, str], Kind] = {(kind.group, kind.kind): kind for kind in KINDS}


def find(group: str, kind: str) -> Kind | None:
    """The table's row, or None for a kind that Muster does not read."""
    return _BY_GROUP.get((group, kind))


def split_api_version(api_version: str) -> tuple[str, str]:
    """``"batch/v1"`` -> ``("batch", "v1")``, ``"v1"`` -> ``("", "v1")``."""
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)
