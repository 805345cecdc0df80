"""What was decided before today's objects: claims that are allocated, and claims made from a template that is gone.

kube-scheduler asks nothing of the devices for a claim that is allocated (dynamicresources.go, PreFilter): only where its
Pods may run. So a Pod that names one is placed although no device of today would do, and Muster must not deny it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases.support import pod_group
from tests.cluster.cluster import Cluster, NodeSpec
from tests.feasibility.devices.objects import GPU, device, device_class, node, request, resource_slice
from tests.support.cases import FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.inventory.build import Settings, build
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

Raw = dict[str, Any]
NODE = "node-0"
API = "resource.k8s.io/v1"
WAIT_SECONDS_MAX = 60.0


def slice_of(driver_version: str) -> Raw:
    return resource_slice("node-0-gpu", GPU, [device("gpu-0", {"driverVersion": f"v:{driver_version}"})], nodeName=NODE)


def claim_spec(driver_version: str) -> Raw:
    expression = f'device.attributes["{GPU}"].driverVersion == semver("{driver_version}")'
    return {"devices": {"requests": [request("gpu", GPU, 1, expression)]}}


def pod(name: str, label: str, claim: Raw, **spec: Any) -> Raw:
    """It selects the node of this test alone, and asks for the claim."""
    container = {"name": "main", "image": "pause:3.10", "resources": {"claims": [{"name": claim["name"]}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": [claim], "nodeSelector": {"test": label}, **spec},
    }


class Place:
    """A namespace, a node with one device, and Muster's word on what is there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def create(self, raw: Raw) -> Raw:
        return self.cluster.api.create(raw, self.namespace).expect(201)

    def read(self, plural: str, name: str, api: str = "apis/resource.k8s.io/v1") -> Raw:
        return self.cluster.api.get(f"/{api}/namespaces/{self.namespace}/{plural}/{name}").expect()

    def upgrade_driver(self, driver_version: str) -> None:
        path = "/apis/resource.k8s.io/v1/resourceslices/node-0-gpu"
        self.cluster.api.delete(path).expect(200)
        self.cluster.api.create(slice_of(driver_version)).expect(201)

    def place(self, raw: Raw) -> None:
        """Creates a Pod and waits until the scheduler has bound it."""
        self.create(raw)
        name = raw["metadata"]["name"]
        self.cluster.wait_for(
            lambda: any(one["metadata"]["name"] == name for one in self.cluster.bound_pods(self.namespace)),
            WAIT_SECONDS_MAX,
            f'Pod "{name}" to be bound',
        )

    def verdict(self, raw: Raw, *objects: Raw, driver_version: str) -> Verdict:
        """Of a Pod at its creation, by a complete, fresh and closed inventory."""
        labelled = node(NODE, test=self.namespace)
        inventory = build([labelled, slice_of(driver_version), device_class(GPU)], Settings(is_file=True))
        policies = FixedPolicies(policy_document({}))
        source = ObjectSetSource([*objects, device_class(GPU)], complete=True)
        pipeline = Pipeline(policies=lambda: policies, source=source, inventory=lambda: inventory)
        asked = request_for(raw, None, namespace=self.namespace)
        return pipeline.judge(asked, Phase.VALIDATING, time.monotonic() + 60)


@pytest.fixture
def place(control_plane: Cluster) -> Iterator[Place]:
    namespace = control_plane.new_namespace("became")
    control_plane.create_nodes([NodeSpec(NODE, {"test": namespace}, {"cpu": "8"})])
    control_plane.api.create(device_class(GPU)).expect(201)
    control_plane.api.create(slice_of("1.0.0")).expect(201)
    yield Place(control_plane, namespace)
    control_plane.delete_namespace(namespace)
    control_plane.delete_nodes([NODE])
    for plural, name in (("resourceslices", "node-0-gpu"), ("deviceclasses", GPU)):
        control_plane.api.delete(f"/apis/resource.k8s.io/v1/{plural}/{name}")


def test_a_claim_by_name_that_is_allocated(place: Place) -> None:
    """A new driver version, and the claim that asks for the old one is used by one Pod more."""
    place.create(
        {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "held"}, "spec": claim_spec("1.0.0")}
    )
    uses = {"name": "gpu", "resourceClaimName": "held"}
    place.place(pod("first", place.namespace, uses))
    place.upgrade_driver("2.0.0")
    second = pod("second", place.namespace, uses)

    verdict = place.verdict(second, place.read("resourceclaims", "held"), driver_version="2.0.0")
    unallocated = {**place.read("resourceclaims", "held"), "status": {}}
    on_its_own = place.verdict(second, unallocated, driver_version="2.0.0")

    place.place(second)
    assert [one.rule for one in verdict.denials] == []
    assert [one.rule for one in on_its_own.denials] == ["WAS506"], "without the allocation nothing would do"


def test_a_groups_claim_from_a_template_that_was_replaced(place: Place) -> None:
    """The group's claim exists, of the former template; who joins the group gets that claim."""
    template: Raw = {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}}
    uses = {"name": "gpu", "resourceClaimTemplateName": "t"}
    place.create({**template, "spec": {"spec": claim_spec("1.0.0")}})
    place.create(pod_group("train", 1, resourceClaims=[uses]))
    member = {"schedulingGroup": {"podGroupName": "train"}}
    place.place(pod("first", place.namespace, uses, **member))
    path = f"/apis/resource.k8s.io/v1/namespaces/{place.namespace}/resourceclaimtemplates/t"
    place.cluster.api.delete(path).expect(200)
    place.create({**template, "spec": {"spec": claim_spec("3.0.0")}})
    second = pod("second", place.namespace, uses, **member)
    group = place.read("podgroups", "train", "apis/scheduling.k8s.io/v1beta1")
    claim_name = group["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    objects = [group, place.read("resourceclaims", claim_name), place.read("resourceclaimtemplates", "t")]

    verdict = place.verdict(second, *objects, driver_version="1.0.0")
    new_group = {**group, "status": {}}
    on_its_own = place.verdict(second, new_group, *objects[2:], driver_version="1.0.0")

    place.place(second)
    assert [one.rule for one in verdict.denials] == []
    assert [one.rule for one in on_its_own.denials] == ["WAS506"], (
        "a group without its claim yet gets one that nothing meets"
    )
