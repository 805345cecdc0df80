"""All mutations on a real API server: reinvocation, the priority that is filled in already, and a gang that starts."""

from __future__ import annotations

from pathlib import Path

from tests.builders import Raw, job, pod, pod_group, priority_class
from tests.cluster.cluster import Cluster
from tests.cluster.plugin import NodesFactory
from tests.live.muster import running
from tests.support.cases import policy_document

POLICY = {
    "tiers": [{"name": "bronze", "priorityClasses": ["was902-bronze"]}],
    "defaultTier": "bronze",
    "mutations": {"WAS901": True, "WAS902": True, "WAS903": True, "WAS904": True},
}


def test_mutations(control_plane: Cluster, namespace: str, nodes: NodesFactory, tmp_path: Path) -> None:
    """Job, group and Pods agree on the class, so kube-scheduler takes the gang; each change is announced."""
    nodes(2)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    control_plane.api.post(classes, priority_class("was902-bronze", 10).dict()).expect(201, 409)
    alice = control_plane.api_as("alice", ("system:masters",))
    gang = job("train").parallelism(2).completions(2).gang().barrier("2").namespace(namespace).dict()

    with running(control_plane, tmp_path, policy_document(POLICY)):
        created = alice.create(gang, namespace)
        stored = created.expect(201)
        control_plane.wait_for(lambda: len(control_plane.bound_pods(namespace)) == 2, 60, "the gang to be placed")
        pods = control_plane.pods(namespace)
        group, member = claim_near_miss(namespace)
        alice.create(group, namespace).expect(201)
        renamed = alice.create(member, namespace)

    assert stored["spec"]["template"]["spec"]["priorityClassName"] == "was902-bronze"
    assert stored["spec"]["scheduling"]["disruptionMode"] == {"all": {}}
    assert stored["spec"]["scheduling"]["schedulingPolicy"] == {"gang": {}}
    assert [rule for rule in ("WAS902", "WAS903") if rule not in " ".join(created.warnings)] == []
    for found in pods:
        assert found["spec"]["priority"] == 10
        group_name = found["spec"]["schedulingGroup"]["podGroupName"]
        assert found["metadata"]["labels"]["muster.dev/pod-group"] == group_name
        assert group_name.startswith(found["metadata"]["labels"]["muster.dev/workload"])
    assert renamed.expect(201)["spec"]["resourceClaims"] == group["spec"]["resourceClaims"]
    assert "[WAS904]" in " ".join(renamed.warnings)
    assert "WAS201" not in " ".join(renamed.warnings)


def claim_near_miss(namespace: str) -> tuple[Raw, Raw]:
    """A group, and a Pod whose claim has another name."""
    group = pod_group("claims").gang(1).claim("gpu", template="was904").namespace(namespace).dict()
    member = pod("member").scheduling_group("claims").pod_claim("gpus", template="was904").namespace(namespace).dict()
    return group, member
