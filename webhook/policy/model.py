"""The policy file: versioned, strict, typed. `apiVersion: muster.dev/v1alpha1`, `kind: Policy`.

One `Policy` describes one cluster. Everything has a default, so the smallest policy is ``spec: {}``. Unknown keys are
errors (webhook/policy/load.py adds file, line and the nearest known key). A `PolicyPart` in a file of its own adds
tiers, overrides and exemptions to it: lists that other people than the cluster's admins look after.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator
from pydantic.alias_generators import to_camel

from webhook.objects.quantity import Quantity, QuantityError


def _off(value: Any) -> Any:
    """YAML 1.1 reads a bare ``Off`` as false, and Helm hands it on like that."""
    return "Off" if value is False else value


RuleId = Annotated[str, Field(pattern=r"^WAS\d{3}$")]
Glob = Annotated[str, Field(min_length=1, description='a name, where "*" matches any text')]
NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ActionWord = Annotated[
    Literal["Deny", "Warn", "Audit", "Off"],
    BeforeValidator(_off),
    WithJsonSchema({"enum": ["Deny", "Warn", "Audit", "Off", False]}),
]
ActionCap = Literal["Deny", "Warn", "Audit"]


def _closed(value: Any) -> Any:
    """A bare ``true`` in YAML is a boolean."""
    return str(value).lower() if isinstance(value, bool) else value


ClosedWord = Annotated[
    Literal["auto", "true", "false"],
    BeforeValidator(_closed),
    WithJsonSchema({"enum": ["auto", True, False, "true", "false"]}),
]

GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
    "WorkloadWithJob",
)
GateName = Literal[
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
    "WorkloadWithJob",
]

# Which gate cannot be on without which (k8s.io/kubernetes v1.37.2 pkg/features/kube_features.go, the dependency
# table): a component that is started otherwise stops with "depends on features that are disabled".
GATE_DEPENDENCIES: dict[str, tuple[str, ...]] = {
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "WorkloadWithJob": ("GenericWorkload",),
}

# The controllers that make objects for what people submitted. With one shared identity (kube-controller-manager
# without --use-service-account-credentials) they all appear as system:kube-controller-manager.
BUILT_IN_CONTROLLERS = (
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:node:*",  # a kubelet writes Pods only as mirrors of static Pods that run already
    "system:serviceaccount:kube-system:*-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
    "system:serviceaccount:jobset-system:jobset-controller-manager",
    "system:serviceaccount:lws-system:lws-controller-manager",
)


# Where device plugins and DRA drivers live by their own installation guides: they ask for the very resources that are
# guarded, and without them no node ever has any.
DEVICE_NAMESPACES = (
    "gpu-operator",
    "inteldeviceplugins-system",
    "kube-amd-gpu",
    "nvidia-dra-driver-gpu",
    "nvidia-gpu-operator",
    "nvidia-network-operator",
)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class LabelSelectorRequirement(Strict):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class LabelSelector(Strict):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NamespaceScope(Strict):
    """Which namespaces: by name (globs) or by label; both given means either. Empty: none."""

    namespaces: tuple[Glob, ...] = ()
    namespace_selector: LabelSelector | None = None


class Subjects(Strict):
    """Who: user names (globs), groups, service accounts written ``namespace:name`` (globs)."""

    users: tuple[Glob, ...] = ()
    groups: tuple[Glob, ...] = ()
    service_accounts: tuple[Glob, ...] = ()


class PodMutator(Strict):
    """What one other admission plugin may change on Pods; its fields are left out of template-level proofs."""

    name: str
    may_change: tuple[str, ...]


class NodeTaint(Strict):
    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


class NodePool(Strict):
    """An autoscaled node pool: what one of its nodes offers, as in a Node's status.allocatable."""

    name: str
    allocatable: dict[str, str]
    labels: dict[str, str] = Field(
        default={}, description="labels that every node of the pool gets; others are unknown"
    )
    taints: tuple[NodeTaint, ...] = ()
    node_count_max: int | None = Field(default=None, ge=0, description="not given: no limit known")

    @field_validator("allocatable")
    @classmethod
    def _are_quantities(cls, allocatable: dict[str, str]) -> dict[str, str]:
        for name, text in allocatable.items():
            try:
                Quantity.parse(text)
            except QuantityError as error:
                raise ValueError(f"{name}: {error}") from error
        return allocatable


class Cluster(Strict):
    """The cluster profile: what Muster cannot see for itself."""

    feature_gates: dict[GateName, bool] = Field(
        default={}, description="gates as set on the API server, controllers and scheduler; a gate not named is unknown"
    )
    schedulers: tuple[str, ...] = Field(
        default=("default-scheduler",), description="scheduler profiles that honour native PodGroups"
    )
    ignored_resources: tuple[str, ...] = Field(
        default=(),
        description="extended resources that no scheduler compares with nodes: NodeResourcesFitArgs.ignoredResources, and "
        "an extender's managedResources with ignoredByScheduler",
    )
    ignored_resource_groups: tuple[str, ...] = Field(
        default=(), description="the same by the part before the slash: NodeResourcesFitArgs.ignoredResourceGroups"
    )
    trusted_controllers: tuple[Glob, ...] = Field(
        default=BUILT_IN_CONTROLLERS, description="by request.userInfo.username"
    )
    excluded_namespaces: tuple[NamespaceName, ...] = Field(
        default=DEVICE_NAMESPACES,
        description="namespaces that never reach Muster, by exact name, beside kube-system, kube-public, "
        "kube-node-lease and Muster's own; whoever may create one of these namespaces is not judged in it",
    )
    pod_mutators: Literal["additive", "none", "dry-run"] | tuple[PodMutator, ...] = Field(
        default="additive",
        description="what other admission may do to Pods between their template and the scheduler. additive: it adds, "
        "tolerations too. none: nothing does, API server plugins such as ExtendedResourceToleration included",
    )
    inventory_closed: ClosedWord = Field(
        default="auto",
        description="may a capacity rule deny, because no node can be added or changed? auto: yes, as long as there is "
        "no sign of an autoscaler and labels, taints and devices of nodes have not changed for ten minutes",
    )
    node_pools: tuple[NodePool, ...] = Field(
        default=(), description="autoscaled pools; with any, capacity rules warn and never deny"
    )


class TierRequirements(Strict):
    """What a gang of this tier must bring along."""

    disruption_mode: Literal["single", "all"] | None = None
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = None
    checkpoint_interval_seconds_max: int | None = Field(
        default=None, description="muster.dev/checkpoint-interval must be given and at most this"
    )
    expected_run_time: bool = Field(default=False, description="muster.dev/expected-run-time must be given")
    gang_pod_count_max: int | None = Field(default=None, ge=1, description="largest gang, in Pods")


class Tier(Strict):
    """A grouping of PriorityClasses. Empty `allowed` fields allow everybody."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
    priority_classes: tuple[str, ...] = Field(min_length=1)
    scope: NamespaceScope | None = Field(default=None, description="namespaces that may use the tier; not given: all")
    subjects: Subjects | None = Field(default=None, description="who may use the tier; not given: everybody")
    requires: TierRequirements = TierRequirements()


class Features(Strict):
    """Namespace allow-lists for alpha features. Not given: allowed everywhere."""

    job_scheduling: NamespaceScope | None = None
    composite_pod_group: NamespaceScope | None = None
    topology_constraints: NamespaceScope | None = None
    shared_claims: NamespaceScope | None = None
    admin_access_claims: NamespaceScope | None = Field(
        default=NamespaceScope(), description="where claims may set adminAccess; the default is nowhere"
    )


class Writers(Strict):
    """Who may create or change WAS objects by hand. Not given: everybody. Trusted controllers always may."""

    workloads: Subjects | None = None
    pod_groups: Subjects | None = None
    composite_pod_groups: Subjects | None = None


class Freeze(Strict):
    """No new WAS submissions by people. What runs may recreate its Pods, shrink and be deleted."""

    cluster: bool = False
    scope: NamespaceScope = NamespaceScope()
    reason: str = Field(default="", description="shown to the tenant")


class RuleSettings(Strict):
    action: ActionWord | None = None


class Parameters(Strict):
    """Numbers and lists that rules use, per policy or override."""

    on_demand_drivers: tuple[str, ...] = Field(
        default=("compute-domain.nvidia.com",), description="drivers that publish devices only when asked"
    )
    unknown_priority_class: Literal["deny", "allow"] = Field(
        default="allow", description="a PriorityClass in no tier, once tiers are declared"
    )
    charge_suspended: bool = Field(
        default=False,
        description="TierQuotas charge suspended objects when they are created, not when they are resumed",
    )


class Override(Strict):
    """Different actions or parameters for some namespaces; later overrides win."""

    name: str
    scope: NamespaceScope
    action_max: ActionCap | None = Field(default=None, description="replaces spec.actionMax in these namespaces")
    rules: dict[RuleId, RuleSettings] = {}
    mutations: dict[RuleId, bool] = {}
    default_tier: str | None = None
    unknown_priority_class: Literal["deny", "allow"] | None = None


class Exemption(Strict):
    """Named, owned, reasoned, and ending by itself: at `expires`, 00:00 UTC, the rule acts again."""

    name: str
    owner: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    expires: date
    rules: tuple[RuleId, ...] = Field(min_length=1)
    scope: NamespaceScope
    objects: tuple[Glob, ...] = Field(default=("*",), description="object names")
    kinds: tuple[str, ...] = ()


class Spec(Strict):
    cluster: Cluster = Cluster()
    guarded_resources: tuple[Glob, ...] = Field(
        default=("nvidia.com/*", "amd.com/gpu", "gpu.intel.com/*", "rdma/*"),
        description="Pods that ask for one of these reach Muster even without a group",
    )
    tiers: tuple[Tier, ...] = ()
    default_tier: str | None = Field(default=None, description="tier whose first class WAS902 fills in")
    charge_scale: bool = Field(
        default=False,
        description="with tiers: /scale of Deployments, ReplicaSets, StatefulSets and LeaderWorkerSets reaches Muster where "
        "it grows, so that a TierQuota can refuse it. A Scale shows no Pods, so ordinary ones come, too, in an entry of its "
        "own with failurePolicy Ignore and 2 s; without it what grows that way is counted, not refused",
    )
    features: Features = Features()
    writers: Writers = Writers()
    freeze: Freeze = Freeze()
    action_max: ActionCap | None = Field(
        default=None, description="no rule acts more strongly than this, whatever `rules` say: Warn tries a policy out"
    )
    rules: dict[RuleId, RuleSettings] = {}
    mutations: dict[RuleId, bool] = {}
    parameters: Parameters = Parameters()
    overrides: tuple[Override, ...] = ()
    exemptions: tuple[Exemption, ...] = ()


class PolicyMetadata(Strict):
    name: str
    annotations: dict[str, str] = {}


class Policy(Strict):
    api_version: Literal["muster.dev/v1alpha1"]
    kind: Literal["Policy"]
    metadata: PolicyMetadata
    spec: Spec = Spec()


class PartSpec(Strict):
    tiers: tuple[Tier, ...] = ()
    overrides: tuple[Override, ...] = ()
    exemptions: tuple[Exemption, ...] = ()


class PolicyPart(Strict):
    """More tiers, overrides and exemptions for the one Policy; appended in the order of the file names."""

    api_version: Literal["muster.dev/v1alpha1"]
    kind: Literal["PolicyPart"]
    metadata: PolicyMetadata
    spec: PartSpec = PartSpec()
