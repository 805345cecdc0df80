"""The live inventory on a real API server: the agent's parts beside a worker's, and what survives a restart of the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import job
from tests.cases.support import kubectl_create, let_in
from tests.cluster.client import STRATEGIC_PATCH
from tests.cluster.cluster import Cluster, NodeSpec
from tests.cluster.plugin import NodesFactory
from tests.feasibility.devices.objects import resource_slice
from tests.live.agent import Agent
from tests.live.muster import Muster
from tests.support.cases import policy_document
from webhook.cli.main import app
from webhook.cluster.connection import Connection
from webhook.cluster.marks_map import CONFIG_MAP, MarksMap
from webhook.inventory.devices import DeviceInventory
from webhook.inventory.snapshot import Node, Question, Snapshot

GPU = "example.com/gpu"
DRIVER = "gpu.example.com"


@pytest.fixture
def names(nodes: NodesFactory) -> list[str]:
    return nodes([NodeSpec(f"marks-{letter}", allocatable={GPU: "8"}) for letter in "ab"])


def of(snapshot: Snapshot, name: str) -> Node | None:
    return next((node for node in snapshot.nodes if node.name == name), None)


def amount(snapshot: Snapshot, name: str, question: Question) -> int | None:
    node = of(snapshot, name)
    return None if node is None else node.capacity(question).get(GPU, 0)


def stored(cluster: Cluster, namespace: str) -> dict[str, Any]:
    marks, _ = MarksMap(Connection(cluster.kubeconfig()), namespace).read()
    return {"nodes": marks.nodes.keys(), "gone": marks.gone.keys(), "slices": marks.slices.keys()}


def test_what_was_there_lately_survives_the_agent(
    control_plane: Cluster, names: list[str], namespace: str, tmp_path: Path
) -> None:
    """A device plugin that stops, a node that is deleted, a slice that its driver takes back."""
    emptied, deleted = names
    raw = resource_slice("marks-slice", DRIVER, [{"name": "d0"}], nodeName=emptied)
    path = "/apis/resource.k8s.io/v1/resourceslices"
    control_plane.api.post(path, raw).expect(201)
    with Agent(control_plane, tmp_path / "one", namespace) as agent:
        agent.until(lambda found: of(found, deleted) is not None and found.devices is not None, "all is seen")
        status = {"status": {"allocatable": {GPU: "0"}, "capacity": {GPU: "0"}}}
        control_plane.api.patch(f"/api/v1/nodes/{emptied}/status", status, STRATEGIC_PATCH).expect()
        control_plane.delete_nodes([deleted])
        control_plane.api.delete(f"{path}/marks-slice").expect()
        wanted = {"nodes": {emptied}, "gone": {deleted}}
        control_plane.wait_for(
            lambda: (
                wanted.items() <= stored(control_plane, namespace).items()
                and len(stored(control_plane, namespace)["slices"]) == 1
            ),
            30,
            f"the leader to write {CONFIG_MAP}",
        )

    with Agent(control_plane, tmp_path / "two", namespace) as agent:
        found = agent.until(lambda found: of(found, emptied) is not None, "the nodes to be listed")

    assert (amount(found, emptied, Question.NEVER), amount(found, emptied, Question.READY)) == (8, 0)
    gone = of(found, deleted)
    assert gone is not None
    assert (gone.away, gone.potential[GPU], gone.real) == ("deleted", 8, False)
    assert isinstance(found.devices, DeviceInventory)
    assert [one.is_former for one in found.devices.local[emptied]] == [True]

    words = ["inventory", "export", "--kubeconfig", str(control_plane.kubeconfig()), "--namespace", namespace]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    items = {(item["kind"], item["metadata"]["name"]): item for item in json.loads(result.stdout)["items"]}
    assert items["Node", emptied]["metadata"]["annotations"]["muster.dev/high-water"] == f'{{"{GPU}":"8"}}'
    assert items["Node", deleted]["metadata"]["annotations"]["muster.dev/gone"] == "true"
    assert items["ResourceSlice", "marks-slice"]["metadata"]["annotations"]["muster.dev/gone"] == "true"


def test_while_the_marks_cannot_be_read_nothing_is_complete(
    control_plane: Cluster, names: list[str], namespace: str, tmp_path: Path
) -> None:
    """A ConfigMap that somebody else filled is not taken for one without marks."""
    body = {"metadata": {"name": CONFIG_MAP}, "binaryData": {"marks.json.gz": "bm8gZ3ppcA=="}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    control_plane.api.post(path, body).expect(201)
    with Agent(control_plane, tmp_path / "one", namespace) as agent:
        words = f'ConfigMap "{namespace}/{CONFIG_MAP}" holds no high-water marks'
        control_plane.wait_for(lambda: agent.reason().startswith(words), 30, "a worker to be told why")
        assert agent.snapshot() is None

        control_plane.api.patch(f"{path}/{CONFIG_MAP}", {"binaryData": None}).expect()

        agent.until(lambda found: of(found, names[0]) is not None, "the agent to start anew")


def test_pods_count_for_now_and_their_end_is_seen(
    control_plane: Cluster, names: list[str], namespace: str, tmp_path: Path
) -> None:
    """Only Pods on a node that have not finished, by what they ask for."""

    def make(name: str, node: str) -> None:
        container = {"name": "c", "image": "pause:3.10", "resources": {"limits": {GPU: "6"}}}
        spec = (
            {"nodeName": node, "containers": [container]}
            if node
            else {"nodeSelector": {"no": "where"}, "containers": [container]}
        )
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        control_plane.api.create(pod, namespace).expect(201)

    one, other = names
    make("running", one)
    make("finishing", other)
    make("pending", "")
    with Agent(control_plane, tmp_path / "one", namespace) as agent:

        def free(found: Snapshot) -> tuple[int | None, int | None]:
            return amount(found, one, Question.NOT_NOW), amount(found, other, Question.NOT_NOW)

        found = agent.until(lambda found: free(found) == (2, 2), "both Pods to count")
        assert amount(found, one, Question.READY) == 8

        control_plane.set_pod_phase(namespace, "finishing", "Succeeded")

        agent.until(lambda found: free(found) == (2, 8), "the finished one to count no more")


# ---- a whole replica -------------------------------------------------------------------------------------------------
def gang(name: str, count: int) -> dict[str, Any]:
    raw = job(name).parallelism(count).completions(count).gang().disruption("all").gpu(8, GPU).dict()
    del raw["metadata"]["namespace"]
    return raw


def test_a_replica_warns_of_what_is_in_the_way_and_remembers_what_it_saw(
    control_plane: Cluster, names: list[str], namespace: str, tmp_path: Path
) -> None:
    """Real processes: Pods that run make a gang wait; a device plugin that stopped before a restart makes nothing impossible."""
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
    control_plane.api.create(system).expect(201, 409)
    marks = f"/api/v1/namespaces/muster-system/configmaps/{CONFIG_MAP}"
    control_plane.api.delete(marks)
    let_in(control_plane, namespace)
    container = {"name": "c", "image": "pause:3.10", "resources": {"limits": {GPU: "8"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}}
    control_plane.api.create({**pod, "spec": {"nodeName": names[0], "containers": [container]}}, namespace).expect(201)
    policy = policy_document({"cluster": {"inventoryClosed": "true"}})

    def says(raw: dict[str, Any]) -> str:
        return kubectl_create(control_plane, namespace, {**raw, "metadata": {"generateName": "g-"}}, check=False).stderr

    with Muster(control_plane, tmp_path, inventory=True) as muster:
        muster.start(policy)
        control_plane.wait_for(lambda: "WAS511" in says(gang("g", 2)), 30, "the running Pod to be in the way")
        warning = says(gang("g", 2))
        assert f"needs 2 Pods of {GPU}: 8; beside the Pods that run now there is room for 1" in warning
        assert "none has a priority below its 0" in warning
        status = {"status": {"allocatable": {GPU: "0"}, "capacity": {GPU: "0"}}}
        control_plane.api.patch(f"/api/v1/nodes/{names[0]}/status", status, STRATEGIC_PATCH).expect()
        control_plane.wait_for(
            lambda: names[0] in MarksMap(Connection(control_plane.kubeconfig()), "muster-system").read()[0].nodes,
            30,
            "the leader to write what the node had",
        )
        muster.stop()
        muster.start(policy)
        control_plane.wait_for(lambda: "WAS501" in says(gang("g", 3)), 30, "the inventory to be there again")
        assert "WAS501" not in says(gang("g", 2))
    control_plane.api.delete(marks).expect()
