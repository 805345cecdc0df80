"""A pair: an inventory and a plan, as raw objects. Both sides are made from it: what the engine reads, and what the
control plane gets.

The plan is a tree of groups (one PodGroup, or CompositePodGroups above several), each leaf with its Pods by template.
A pair with `job` is one Job with `spec.scheduling` instead: its controllers make the rest.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.kinds import BY_NAME
from webhook.objects.read import read
from webhook.plan.adapters import plan_of
from webhook.plan.model import CompositeGroup, GangPlan, Group, GroupOrigin, LeafGroup, PodSet, PolicyKind

Raw = dict[str, Any]
NAMESPACE = "judge"
RUNTIME_CLASS: Raw = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "judge-overhead"},
    "handler": "judge",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
}
WORKLOAD_NAME = "judge"


@dataclass(frozen=True, kw_only=True)
class SetSpec:
    """`count` equal Pods. template: metadata.labels and spec, as in a Job."""

    role: str
    count: int
    template: Raw


@dataclass(frozen=True, kw_only=True)
class LeafSpec:
    """One PodGroup. min_count: None for policy basic. first: so many Pods of the first set are there, and bound if they
    can be, before the others come and minCount is raised from `first` to `min_count` (0: all at once)."""

    name: str
    min_count: int | None
    sets: tuple[SetSpec, ...]
    key: str | None = None
    first: int = 0


@dataclass(frozen=True, kw_only=True)
class TreeSpec:
    """One CompositePodGroup. min_group_count: None for policy basic."""

    name: str
    min_group_count: int | None
    children: tuple[LeafSpec | TreeSpec, ...]
    key: str | None = None


GroupSpec = LeafSpec | TreeSpec


@dataclass(frozen=True, kw_only=True)
class Pair:
    """nodes: Node objects. features: what is in it, for the agreement table."""

    name: str
    nodes: tuple[Raw, ...]
    root: GroupSpec
    features: tuple[str, ...] = ()
    job: bool = False
    seed: str = ""
    why: str = ""

    def document(self) -> Raw:
        """As plain data, for a YAML file."""
        return copy.deepcopy(asdict(self))

    @classmethod
    def of(cls, document: Raw) -> Pair:
        """The reverse of `document`."""
        root = _group_of(document["root"])
        features = tuple(document.get("features") or ())
        rest = {key: value for key, value in document.items() if key not in ("root", "nodes", "features")}
        return cls(nodes=tuple(document["nodes"]), root=root, features=features, **rest)


def _group_of(raw: Raw) -> GroupSpec:
    if "children" in raw:
        return TreeSpec(**{**raw, "children": tuple(_group_of(child) for child in raw["children"])})
    return LeafSpec(**{**raw, "sets": tuple(SetSpec(**one) for one in raw["sets"])})


def leaves(group: GroupSpec) -> Iterator[LeafSpec]:
    """All leaves, in order."""
    if isinstance(group, LeafSpec):
        yield group
    else:
        for child in group.children:
            yield from leaves(child)


# ---- what the engine reads ------------------------------------------------------------------------------------------
def plan(pair: Pair) -> GangPlan:
    """The pair's GangPlan: a Job's by its adapter, else built from the templates."""
    if pair.job:
        raw = job(pair)
        return plan_of("Job", "batch/v1", NAMESPACE, read(raw, BY_NAME["Job"].type))
    return GangPlan(
        kind="PodGroup",
        api_version="scheduling.k8s.io/v1beta1",
        namespace=NAMESPACE,
        name=pair.root.name,
        groups=(_planned(pair.root),),
    )


def _planned(group: GroupSpec) -> Group:
    if isinstance(group, TreeSpec):
        return CompositeGroup(
            path=SPEC,
            origin=GroupOrigin.ITSELF,
            policy=PolicyKind.BASIC if group.min_group_count is None else PolicyKind.GANG,
            children=tuple(_planned(child) for child in group.children),
            children_known=True,
            name=group.name,
            min_group_count=group.min_group_count,
            topology_key=group.key,
        )
    return LeafGroup(
        path=SPEC,
        origin=GroupOrigin.ITSELF,
        policy=PolicyKind.BASIC if group.min_count is None else PolicyKind.GANG,
        name=group.name,
        min_count=group.min_count,
        topology_key=group.key,
        pod_sets=tuple(
            PodSet(
                role=one.role,
                template=msgspec.convert(as_pod(one.template), core.PodTemplateSpec),
                path=FieldPath(),
                pod_count=one.count,
                pod_count_path=SPEC,
            )
            for one in group.sets
        ),
    )


def as_pod(template: Raw) -> Raw:
    """A template as the API server stores it in a Pod: with the overhead of its RuntimeClass."""
    result = copy.deepcopy(template)
    if result["spec"].get("runtimeClassName"):
        result["spec"]["overhead"] = RUNTIME_CLASS["overhead"]["podFixed"]
    return result


# ---- what the control plane gets ------------------------------------------------------------------------------------
def job(pair: Pair) -> Raw:
    """The Job of a pair with `job`: one set, a gang."""
    assert isinstance(pair.root, LeafSpec)
    (one,) = pair.root.sets
    policy: Raw = {"basic": {}} if pair.root.min_count is None else {"gang": {"minCount": pair.root.min_count}}
    scheduling: Raw = {"schedulingPolicy": policy}
    if pair.root.key:
        scheduling["schedulingConstraints"] = {"topology": [{"key": pair.root.key}]}
    template = copy.deepcopy(one.template)
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": pair.root.name, "namespace": NAMESPACE},
        "spec": {
            "parallelism": one.count,
            "completions": one.count,
            "scheduling": scheduling,
            "template": template,
        },
    }


def pods(leaf: LeafSpec) -> list[Raw]:
    """The Pods of a leaf; each carries the labels `judge-group` and `judge-set`."""
    result = []
    for set_index, one in enumerate(leaf.sets):
        for index in range(one.count):
            template = copy.deepcopy(one.template)
            labels = {**template["metadata"].get("labels", {}), "judge-group": leaf.name, "judge-set": str(set_index)}
            result.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"{leaf.name}-{set_index}-{index}", "namespace": NAMESPACE, "labels": labels},
                    "spec": {**template["spec"], "schedulingGroup": {"podGroupName": leaf.name}},
                }
            )
    return result


def groups(group: GroupSpec, parent: str | None = None) -> Iterator[Raw]:
    """PodGroups and CompositePodGroups, children before parents."""
    spec: Raw = {}
    if group.key:
        spec["schedulingConstraints"] = {"topology": [{"key": group.key}]}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if isinstance(group, TreeSpec):
        for child in group.children:
            yield from groups(child, group.name)
        gang = {"minGroupCount": group.min_group_count}
        spec["workloadRef"] = {"workloadName": WORKLOAD_NAME, "templateName": "any"}
        spec["schedulingPolicy"] = {"basic": {}} if group.min_group_count is None else {"gang": gang}
        yield _object("CompositePodGroup", group.name, spec)
        return
    if parent:
        spec["workloadRef"] = {"workloadName": WORKLOAD_NAME, "templateName": "any"}
    quorum = group.first or group.min_count
    spec["schedulingPolicy"] = {"basic": {}} if quorum is None else {"gang": {"minCount": quorum}}
    yield _object("PodGroup", group.name, spec)


def _object(kind: str, name: str, spec: Raw) -> Raw:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": kind, "metadata": metadata, "spec": spec}
