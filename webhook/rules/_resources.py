"""Container resources as the API server's Pod validation looks at them (pkg/apis/core/validation, 1.37.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.objects.quantity import Quantity, QuantityError
from webhook.plan.model import GangPlan
from webhook.verdict import Action

# The kinds that hold a Pod template or are a Pod. The API server checks the core ones itself, a CRD's it does not.
POD_KINDS = frozenset({"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "LeaderWorkerSet"})


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """path: of the container's `resources`."""

    path: FieldPath
    requests: core.ResourceList
    limits: core.ResourceList


def container_resources(facts: Facts) -> tuple[ContainerResources, ...]:
    """Of every container of every template, each template once (two roles may share one)."""
    return facts.once(_container_resources, facts.plan)


def _container_resources(_facts: Facts, plan: GangPlan) -> tuple[ContainerResources, ...]:
    found: list[ContainerResources] = []
    seen: set[FieldPath] = set()
    for pod_set in plan.all_pod_sets():
        if pod_set.path in seen:
            continue
        seen.add(pod_set.path)
        spec = pod_set.template.spec
        for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
            for index, container in enumerate(containers or ()):
                resources = container.resources
                if resources is not None:
                    path = (pod_set.spec_path / field).at(index) / "resources"
                    found.append(ContainerResources(path, resources.requests or {}, resources.limits or {}))
    return tuple(found)


def is_extended(name: str) -> bool:
    """helper.IsExtendedResourceName: a name with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_hugepages(name: str) -> bool:
    return name.startswith("hugepages-")


def never_overcommitted(name: str) -> bool:
    """Request and limit must be equal (helper.IsOvercommitAllowed is false)."""
    return is_extended(name) or is_hugepages(name)


@lru_cache(maxsize=1024, typed=True)  # the same few amounts over and over
def amount(raw: core.RawQuantity) -> Quantity | None:
    """As the API server stores it, rounded up to thousandths; None where it is no quantity."""
    try:
        return Quantity.parse(raw).rounded_to_milli()
    except QuantityError:
        return None


def refused(facts: Facts) -> str:
    """What the API server refuses, for texts: it checks Pods and the templates of its own kinds."""
    made = {"JobSet": "each child Job", "LeaderWorkerSet": "each StatefulSet"}.get(facts.kind)
    return f"{made} made from this" if made else f"this {facts.kind}"


def strongest(facts: Facts, *, missing: bool = False) -> Action:
    """WARN where other admission may mend it: in a Pod what is missing (a LimitRange fills it in, which does not look at
    templates: tests/live/test_healed_later.py), and everything where the policy says so."""
    if missing and facts.kind == "Pod":
        return Action.WARN
    mutators = facts.policy.spec.cluster.pod_mutators
    if mutators == "dry-run":
        return Action.WARN
    if isinstance(mutators, tuple) and any("resources" in field for m in mutators for field in m.may_change):
        return Action.WARN
    return Action.DENY
