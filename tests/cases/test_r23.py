"""R23: a JobSet's child Job with a gang of its own. The Job controller does not act on it: its Pods run ungrouped."""

from __future__ import annotations

from pathlib import Path

from tests.builders import Job, job, jobset, pod_group_template, workload
from tests.cluster.cluster import Cluster
from tests.live.muster import running

ANNOTATION = "scheduling.k8s.io/group-template-name"


def gang() -> Job:
    return job("train").parallelism(2).completions(2).gang().disruption("all")


def test_r23(control_plane: Cluster, namespace: str, tmp_path: Path) -> None:
    """Without Muster the child's Pods name no group, with and without the annotation; with Muster the JobSet is refused.

    The child Jobs are made as the JobSet controller makes them. The CRD has the field that the released one prunes.
    """
    control_plane.install_crds("jobset", extended=True)
    parent = jobset("train").role("workers", of=gang()).dict()
    parent["metadata"]["namespace"] = namespace
    jobsets = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"

    stored = control_plane.api.post(jobsets, parent).expect(201)
    for name, written in (("nested", {}), ("delegated", {ANNOTATION: "workers"})):
        child = gang().owner("JobSet", "train", uid=stored["metadata"]["uid"]).namespace(namespace).dict()
        child["metadata"] |= {"name": name, "annotations": written}
        control_plane.api.create(child, namespace).expect(201)
    pods = control_plane.wait_for(lambda: four_pods(control_plane, namespace), 60, "the Pods of both child Jobs")
    assert [pod["spec"].get("schedulingGroup") for pod in pods] == [None] * 4

    delegated = jobset("delegated").role("workers", of=job().parallelism(2).completions(2).group_template("w")).dict()
    delegated["metadata"]["namespace"] = namespace
    mine = workload("mine").controller("JobSet", "late", "jobset.x-k8s.io").template(pod_group_template("w", 2))
    alice = control_plane.api_as("alice", ("system:masters",))  # `edit` holds no right on custom resources
    with running(control_plane, tmp_path):
        refused = alice.post(jobsets, {**parent, "metadata": {"name": "second"}})
        early = alice.post(jobsets, delegated)
        alice.create(mine.namespace(namespace).dict(), namespace).expect(201)
        late = alice.post(jobsets, {**delegated, "metadata": {"name": "late"}})

    assert refused.status == 403
    assert "1.37 does not act on spec.scheduling of a child Job" in refused.body["message"]
    assert "[WAS322]" in refused.body["message"]
    assert early.status == late.status == 201
    assert "[WAS312]" in " ".join(early.warnings)
    assert "[WAS312]" not in " ".join(late.warnings)


def four_pods(cluster: Cluster, namespace: str) -> list[dict[str, object]]:
    pods = cluster.pods(namespace)
    return pods if len(pods) == 4 else []
