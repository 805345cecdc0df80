"""Claims that hold devices, and DeviceTaintRules, on the real control plane: what they warn of, and that no denial rests on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import job
from tests.cases.support import TENANT, let_in
from tests.cluster.cluster import WAS_GATES, WAS_RUNTIME_CONFIG, Cluster, NodeSpec
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.feasibility.devices.objects import (
    Json,
    claim,
    device,
    device_class,
    gang,
    ready,
    request,
    resource_slice,
)
from tests.live.agent import Agent
from tests.live.muster import Muster
from tests.support.cases import policy_document
from webhook.cli.main import app
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Infeasible
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.snapshot import Snapshot

DRIVER = "use.example.com"
RULES = "resource.k8s.io/v1/devicetaintrules"
TOLERANT = [{"key": "repair", "operator": "Exists"}]
POLICY = policy_document({"cluster": {"inventoryClosed": "true"}})
NODES = ("use-a", "use-b")


class World:
    """Two nodes with two devices each, a class for them, and templates of claims for both devices of a node."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        cluster.create_nodes([NodeSpec(name, allocatable={"cpu": "8"}) for name in NODES])
        self.made = [
            device_class(DRIVER),
            *(resource_slice(name, DRIVER, [device("d0"), device("d1")], nodeName=name) for name in NODES),
        ]
        for raw in self.made:
            cluster.api.create(raw).expect(201)
        for name, more in (("two", {}), ("tolerant", {"tolerations": TOLERANT})):
            spec = {"spec": claim(request("gpu", DRIVER, 2, **more))}
            api = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
            cluster.api.create({**api, "metadata": {"name": name}, "spec": spec}, namespace).expect(201)

    def remove(self) -> None:
        self.cluster.delete_nodes(list(NODES))
        for raw in self.made:
            plural = "deviceclasses" if raw["kind"] == "DeviceClass" else "resourceslices"
            self.cluster.api.delete(f"/apis/resource.k8s.io/v1/{plural}/{raw['metadata']['name']}")

    def says(self, pod_count: int, template: str = "two") -> str:
        """What kubectl prints for a gang of so many Pods with a claim each; nothing is kept of it."""
        raw = job("train").parallelism(pod_count).completions(pod_count).gang().disruption("all").dict()
        del raw["metadata"]["namespace"]
        pod = raw["spec"]["template"]["spec"]
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        pod["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        words = ("create", "-n", self.namespace, "--dry-run=server", "-f", "-")
        return self.cluster.kubectl(*words, stdin=json.dumps(raw), user=TENANT, check=False).stderr

    def until(self, holds: Callable[[str], bool], pod_count: int, what: str, template: str = "two") -> str:
        """What it says once that holds."""
        self.cluster.wait_for(lambda: holds(self.says(pod_count, template)), 30, what)
        return self.says(pod_count, template)

    def hold(self) -> None:
        """A Pod that runs has a claim on both devices of one node, by the real scheduler."""
        claims = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"
        held = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "held"}}
        self.cluster.api.create({**held, "spec": claim(request("gpu", DRIVER, 2))}, self.namespace).expect(201)
        container = {"name": "c", "image": "pause:3.10", "resources": {"claims": [{"name": "gpu"}]}}
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}}
        pod["spec"] = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}]}
        self.cluster.api.create(pod, self.namespace).expect(201)
        self.cluster.wait_for(
            lambda: (self.cluster.api.get(f"{claims}/held").expect().get("status") or {}).get("allocation"),
            30,
            "the scheduler to allocate the claim",
        )

    def give_back(self) -> None:
        """The Pod ends; the claim stays and is deallocated."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods/busy"
        self.cluster.api.delete(f"{pods}?gracePeriodSeconds=0").expect()


@pytest.fixture
def world(control_plane: Cluster, namespace: str) -> Iterator[World]:
    let_in(control_plane, namespace)
    made = World(control_plane, namespace)
    yield made
    made.remove()


@pytest.fixture
def system(control_plane: Cluster) -> None:
    raw = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
    control_plane.api.create(raw).expect(201, 409)


def rule(name: str, **selector: str) -> Json:
    spec = {"deviceSelector": {"driver": DRIVER, **selector}, "taint": {"key": "repair", "effect": "NoSchedule"}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


@pytest.mark.usefixtures("system")
def test_a_replica_warns_of_held_and_tainted_devices_as_long_as_they_are(world: World, tmp_path: Path) -> None:
    """Real processes. "Never" is the same all along."""
    cluster = world.cluster
    with Muster(cluster, tmp_path, inventory=True) as muster:
        muster.start(POLICY)
        world.until(lambda said: "[WAS501]" in said, 3, "the inventory to be there")
        assert "WAS5" not in world.says(2)

        world.hold()
        said = world.until(lambda said: "WAS511" in said, 2, "the held devices to be in the way")
        assert f"beside the devices that claims hold now (2 of {DRIVER}) there is room for 1" in said
        assert "WAS5" not in world.says(1)
        assert "denied" in world.says(3)
        world.give_back()
        world.until(lambda said: "WAS5" not in said, 2, "the devices to be free again")

        cluster.api.create(rule("all")).expect(201)
        said = world.until(lambda said: "WAS506" in said, 2, "the rule to be in the way")
        assert '"repair:NoSchedule by DeviceTaintRule all"' in said
        assert "WAS5" not in world.says(2, "tolerant")
        assert "denied" in world.says(3, "tolerant")
        cluster.api.delete(f"/apis/{RULES}/all").expect()
        cluster.api.create(rule("one", pool=NODES[0])).expect(201)
        said = world.until(lambda said: "WAS510" in said, 2, "the rule on one pool to be in the way")
        assert "devices tainted repair:NoSchedule by DeviceTaintRule one" in said
        assert "WAS5" not in world.says(1)
        cluster.api.delete(f"/apis/{RULES}/one").expect()
        world.until(lambda said: "WAS5" not in said, 2, "the taint to be gone")


def never(snapshot: Snapshot) -> bool:
    """Is a gang of three, one more than there can be, impossible for certain?"""
    if not isinstance(snapshot.devices, DeviceInventory) or len(snapshot.devices.local) < len(NODES):
        return False
    asked = ready(gang(3, {"gpu": claim(request("gpu", DRIVER, 2))}), snapshot)
    return snapshot.denial_hindrance() is None and isinstance(evaluate(asked, snapshot), Infeasible)


def test_who_may_not_list_them_denies_as_before(world: World, tmp_path: Path) -> None:
    """And says nothing that rests on them: the rest of the rights are the chart's."""
    cluster, namespace = world.cluster, world.namespace
    kubeconfig = cluster.service_account_kubeconfig(namespace, "muster")
    api = "rbac.authorization.k8s.io"
    may = [
        {"apiGroups": [""], "resources": ["nodes", "pods", "configmaps", "namespaces"], "verbs": ["*"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices", "deviceclasses"], "verbs": ["*"]},
        {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["*"]},
    ]
    for kind, more in (
        ("ClusterRole", {"rules": may}),
        (
            "ClusterRoleBinding",
            {
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": namespace},
                "subjects": [{"kind": "ServiceAccount", "name": "muster", "namespace": namespace}],
            },
        ),
    ):
        raw = {"apiVersion": f"{api}/v1", "kind": kind, "metadata": {"name": namespace}, **more}
        cluster.api.create(raw).expect(201)
    world.hold()
    cluster.api.create(rule("unseen")).expect(201)
    try:
        with Agent(cluster, tmp_path / "agent", namespace, kubeconfig) as agent:
            agent.until(never, "a proof that may deny")
            refused = {"ResourceClaim", "DeviceTaintRule"}
            cluster.wait_for(
                lambda: refused <= {said[1].get("kind") for said in agent.said if said[0] == "watch-failed"},
                30,
                "both lists to be refused",
            )
            found = agent.until(never, "the proof to stay")
    finally:
        cluster.api.delete(f"/apis/{RULES}/unseen").expect()
    assert isinstance(found.devices, DeviceInventory)
    assert (len(found.devices.allocated), found.devices.taint_rules) == (0, ())


def test_an_api_server_without_device_taint_rules_denies_as_before(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], tmp_path: Path
) -> None:
    """Claims are still watched. The gate alone does not take the API away, and a scheduler with the gate waits for it."""
    options = ControlPlaneOptions(
        directory=tmp_path / "cluster",
        feature_gates={**WAS_GATES, "DRADeviceTaintRules": False},
        runtime_config={**WAS_RUNTIME_CONFIG, RULES: False},
    )
    cluster = start_control_plane(options)
    assert cluster.api.get(f"/apis/{RULES}").status == 404
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}).expect(201)
    namespace = cluster.new_namespace("rules")
    let_in(cluster, namespace)
    world = World(cluster, namespace)
    with Muster(cluster, tmp_path, inventory=True) as muster:
        muster.start(POLICY)
        world.until(lambda said: "[WAS501]" in said and "denied" in said, 3, "the denial of what can never be")
        world.hold()
        world.until(lambda said: "WAS511" in said, 2, "the held devices to be in the way")
        assert "denied" in world.says(3)


def exported(cluster: Cluster, *options: str) -> dict[tuple[str, str], Any]:
    words = ["inventory", "export", "--kubeconfig", str(cluster.kubeconfig()), *options]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return {(item["kind"], item["metadata"]["name"]): item for item in json.loads(result.stdout)["items"]}


def test_the_export_holds_both(world: World) -> None:
    """Rules always, claims with --pods: what is allocated of them."""
    world.hold()
    world.cluster.api.create(rule("exported")).expect(201)
    try:
        plain, now = exported(world.cluster), exported(world.cluster, "--pods")
    finally:
        world.cluster.api.delete(f"/apis/{RULES}/exported").expect()

    assert plain["DeviceTaintRule", "exported"]["spec"]["deviceSelector"] == {"driver": DRIVER}
    assert "ResourceClaim" not in {kind for kind, _ in plain}
    results = now["ResourceClaim", "held"]["status"]["allocation"]["devices"]["results"]
    assert [one["device"] for one in results] == ["d0", "d1"]
    assert {one["pool"] for one in results} <= set(NODES)
