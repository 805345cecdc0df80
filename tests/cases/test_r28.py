"""R28: a gate that is off takes its fields along, and nobody is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import Builder, Raw, job, pod, pod_group
from tests.cluster.client import object_path
from tests.cluster.controlplane import WAS_GATES, ControlPlane, ControlPlaneOptions
from tests.support.cases import NOW, FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.sources.folder import ObjectSetSource

OFF = ("WorkloadWithJob", "CompositePodGroup", "PodGroupPreemptionPolicy", "DRAWorkloadResourceClaims")
RACK = "topology.example.com/rack"


@pytest.fixture
def cluster(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> ControlPlane:
    """GenericWorkload and topology on, all else off; only the API server is needed."""
    gates = {**WAS_GATES, **dict.fromkeys(OFF, False)}
    return start_control_plane(ControlPlaneOptions(feature_gates=gates, controllers=None, scheduler=False))


def test_r28(cluster: ControlPlane) -> None:
    """Each field that WAS305 warns of is gone after a create, and each that it does not warn of is still there."""
    namespace = cluster.new_namespace("gates")
    objects: list[Builder] = [
        job("gang").gang(),
        pod("member").scheduling_group("train"),
        pod_group("topology").gang(1).topology(RACK),
        pod_group("claims").gang(1).claim("gpu", template="t1"),
        pod_group("preemption").gang(1).preemption_policy("Never"),
        pod_group("child").gang(1).workload_ref("train", "workers").parent("root"),
    ]
    for builder in objects:
        raw = builder.namespace(namespace).dict()
        warned = warnings(raw)
        stored = cluster.api.create(raw, namespace).expect(201)
        assert cluster.api.get(object_path(stored)).ok
        gone = [field for field in FIELDS if has(raw, field) and not has(stored, field)]
        assert warned == gone, raw["metadata"]["name"]


FIELDS = (
    "spec.scheduling",
    "spec.schedulingGroup",
    "spec.schedulingConstraints.topology[0].key",
    "spec.resourceClaims",
    "spec.preemptionPolicy",
    "spec.parentCompositePodGroupName",
)


def has(raw: Raw, field: str) -> bool:
    return bool(raw["spec"].get(field.split(".")[1].split("[", maxsplit=1)[0]))


def warnings(raw: Raw) -> list[str]:
    """The fields that WAS305 names in review, for a policy that declares the same gates off."""
    policies = FixedPolicies(policy_document({"cluster": {"featureGates": dict.fromkeys(OFF, False)}}))
    source = ObjectSetSource([], complete=False)
    pipeline = Pipeline(policies=lambda: policies, source=source, clock=lambda: NOW)
    verdict = pipeline.judge(request_for(raw, None, namespace=raw["metadata"]["namespace"]), Phase.REVIEW)
    return [violation.field for violation in verdict.violations if violation.rule == "WAS305"]
