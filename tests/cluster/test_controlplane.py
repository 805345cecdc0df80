"""The control plane is real, is 1.37.2, schedules gangs as kubernetes-1.37.md says, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.client import object_path, parse_warnings
from tests.cluster.cluster import RACK_LABEL, Cluster, KubectlError, rack_nodes
from tests.cluster.controlplane import COMPONENTS, ControlPlane, ControlPlaneOptions
from tests.cluster.crds import CRD_PROBES
from tests.cluster.plugin import NodesFactory
from tests.cluster.processes import StartError

ROOM_SECONDS = 60.0  # bounds a hang, asserts nothing


def gang_job(
    name: str, parallelism: int, topology_key: str | None = None, node_pool: str | None = None
) -> dict[str, Any]:
    """A Job whose Pods take a whole 8-GPU node each and start all or none."""
    scheduling: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": parallelism}}}
    if topology_key is not None:
        scheduling["schedulingConstraints"] = {"topology": [{"key": topology_key}]}
    container = {
        "name": "main",
        "image": "example.test/train",
        "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "1"}},
    }
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    if node_pool is not None:
        template["spec"]["nodeSelector"] = {"pool": node_pool}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "scheduling": scheduling,
            "template": template,
        },
    }


def pod_groups(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """All PodGroups of a namespace."""
    items: list[dict[str, Any]] = cluster.api.get(
        f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    ).expect()["items"]
    return items


def initially_scheduled(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The condition PodGroupInitiallyScheduled of the namespace's only PodGroup, empty before there is one."""
    for group in pod_groups(cluster, namespace):
        for condition in group.get("status", {}).get("conditions", []):
            if condition["type"] == "PodGroupInitiallyScheduled":
                found: dict[str, Any] = condition
                return found
    return {}


def test_versions_are_1_37_2(control_plane: Cluster) -> None:
    """API server, kubectl and the scheduler say v1.37.2."""
    assert control_plane.api.get("/version").expect()["gitVersion"] == "v1.37.2"
    assert "Client Version: v1.37.2" in control_plane.kubectl("version").stdout
    assert control_plane.metric("kube-scheduler", "kubernetes_build_info", git_version="v1.37.2") == 1


def test_was_apis_are_served(control_plane: Cluster) -> None:
    """The runtime-config took: v1beta1 and v1alpha3 exist, v1alpha2 does not."""
    statuses = {
        version: control_plane.api.get(f"/apis/scheduling.k8s.io/{version}").status
        for version in ("v1alpha2", "v1alpha3", "v1beta1")
    }

    assert statuses == {"v1alpha2": 404, "v1alpha3": 200, "v1beta1": 200}


def test_gang_that_fits_is_scheduled(control_plane: Cluster, namespace: str, nodes: NodesFactory) -> None:
    """A gang Job of 4 on 4 nodes: all Pods get spec.nodeName, one per node, and the group says Scheduled."""
    names = nodes(4, prefix=namespace, labels={"pool": namespace}, allocatable={"nvidia.com/gpu": "8"})

    created = control_plane.api.create(gang_job("train", 4, node_pool=namespace), namespace)

    assert (created.status, created.warnings) == (201, [])
    control_plane.wait_for(lambda: len(control_plane.bound_pods(namespace)) == 4, ROOM_SECONDS, "4 bound Pods")
    assert sorted(pod["spec"]["nodeName"] for pod in control_plane.bound_pods(namespace)) == sorted(names)
    condition = control_plane.wait_for(
        lambda: initially_scheduled(control_plane, namespace), ROOM_SECONDS, "the group's condition"
    )
    assert (condition["status"], condition["reason"]) == ("True", "Scheduled")


def test_gang_too_big_for_its_rack_stays_pending(control_plane: Cluster, namespace: str, nodes: NodesFactory) -> None:
    """8 Pods that must share a rack of 4 nodes: nothing rejects the Job, nothing is bound, and the condition says why."""
    nodes(rack_nodes(2, 4, prefix=namespace))

    control_plane.api.create(gang_job("train", 8, topology_key=RACK_LABEL), namespace).expect(201)

    condition = control_plane.wait_for(
        lambda: initially_scheduled(control_plane, namespace), ROOM_SECONDS, "the group's condition"
    )
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert "minCount (8) cannot be satisfied: 4 scheduled, 3 remaining" in condition["message"]
    control_plane.scheduler_idle(ROOM_SECONDS)
    assert len(control_plane.pods(namespace)) == 8
    assert control_plane.bound_pods(namespace) == []


def test_job_controller_writes_under_its_own_name(control_plane: Cluster, namespace: str) -> None:
    """Writers can be told apart: a policy that lets only the job controller create PodGroups stops the admin."""
    controller = "system:serviceaccount:kube-system:job-controller"
    rule = {"apiGroups": ["scheduling.k8s.io"], "apiVersions": ["v1beta1"], "operations": ["CREATE"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{**rule, "resources": ["podgroups"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "validations": [{"expression": f"request.userInfo.username == '{controller}'"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    by_hand = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "by-hand"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    for obj in (policy, binding):
        control_plane.api.create(obj).expect(201)
    try:
        control_plane.wait_for(
            lambda: control_plane.api.create(by_hand, namespace, dryRun="All").status == 422,
            ROOM_SECONDS,
            "the policy to count",
        )
        control_plane.api.create(gang_job("train", 1), namespace).expect(201)
        control_plane.wait_for(lambda: pod_groups(control_plane, namespace), ROOM_SECONDS, "the Job's PodGroup")
    finally:
        for obj in (binding, policy):
            control_plane.api.delete(object_path(obj)).expect(200)


@pytest.mark.parametrize("name", sorted(CRD_PROBES))
@pytest.mark.parametrize("extended", [False, True])
def test_crds_prune_was_fields_unless_extended(
    control_plane: Cluster, namespace: str, name: str, extended: bool
) -> None:
    """The published JobSet and LeaderWorkerSet are stored without the field; our extension keeps it."""
    probe = CRD_PROBES[name]
    control_plane.install_crds(name, extended=extended)

    created = control_plane.api.create(probe.manifest, namespace)

    assert created.status == 201
    assert (probe.field_of(created.body) is not None) == extended
    # Not quite in silence: the API server's default is fieldValidation=Warn, and kubectl asks for Strict.
    unknown = [text for text in created.warnings if text.startswith("unknown field")]
    assert (unknown == []) == extended
    another = {**probe.manifest, "metadata": {"name": "another"}}
    by_kubectl = control_plane.kubectl("-n", namespace, "create", "-f", "-", stdin=another, check=False)
    assert (by_kubectl.returncode == 0) == extended


def test_users_differ_and_need_rights(control_plane: Cluster, namespace: str) -> None:
    """alice may do nothing until she is granted a role; unknown users work by impersonation."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert control_plane.api_as("alice").create(config_map, namespace).status == 403

    control_plane.grant("alice", namespace)

    control_plane.wait_for(
        lambda: control_plane.api_as("alice").create(config_map, namespace).status in {201, 409},
        ROOM_SECONDS,
        "the RoleBinding to count",
    )
    assert "zoe" in control_plane.kubectl("auth", "whoami", user="zoe").stdout


def test_namespaces_go_with_everything_in_them(
    control_plane: Cluster, new_namespace: Callable[..., str], nodes: NodesFactory
) -> None:
    """Bound Pods have no kubelet to confirm their end, groups and Jobs have finalizers: all of it goes all the same."""
    name = new_namespace("going")
    nodes(1, prefix=name, labels={"pool": name}, allocatable={"nvidia.com/gpu": "8"})
    control_plane.api.create(gang_job("train", 1, node_pool=name), name).expect(201)
    control_plane.wait_for(lambda: control_plane.bound_pods(name), ROOM_SECONDS, "a bound Pod")

    control_plane.delete_namespace(name)

    path = f"/api/v1/namespaces/{name}"
    control_plane.wait_for(lambda: control_plane.api.get(path).status == 404, ROOM_SECONDS, "the namespace to go")


def test_kubectl_errors_carry_its_words(control_plane: Cluster, namespace: str) -> None:
    """A failing kubectl raises with stderr, or returns its code when asked not to check."""
    with pytest.raises(KubectlError, match='pods "nobody" not found'):
        control_plane.kubectl("-n", namespace, "get", "pod", "nobody")

    assert control_plane.kubectl("-n", namespace, "get", "pod", "nobody", check=False).returncode == 1


def test_warning_headers_are_decoded(control_plane: Cluster, namespace: str) -> None:
    """An unknown field brings the API server's warning; quotes inside are unescaped."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "extra": 1}

    created = control_plane.api.create(config_map, namespace, fieldValidation="Warn")

    assert created.warnings == ['unknown field "extra"']
    assert parse_warnings(['299 - "a \\"b\\"", 299 - "c"']) == ['a "b"', "c"]


def test_nodes_keep_their_own_taints(control_plane: Cluster, nodes: NodesFactory) -> None:
    """Only the not-ready taint of admission goes."""
    taint = {"key": "pool", "value": "x", "effect": "NoSchedule"}

    (name,) = nodes(1, prefix="tainted", taints=[taint])

    assert control_plane.api.get(f"/api/v1/nodes/{name}").expect()["spec"]["taints"] == [taint]


def test_stop_leaves_no_process(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], tmp_path: Path
) -> None:
    """After stop all four programs are gone; options of its own (no WAS gate) took effect before."""
    control_plane = start_control_plane(
        ControlPlaneOptions(feature_gates={}, runtime_config={}, directory=tmp_path / "own")
    )
    pids = control_plane.pids()
    assert set(pids) == set(COMPONENTS)
    assert control_plane.api.get("/apis/scheduling.k8s.io/v1beta1").status == 404

    control_plane.stop()

    assert [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()] == []


def test_components_die_with_a_killed_parent(control_plane: Cluster, tmp_path: Path) -> None:
    """SIGKILL gives Python no chance to clean up; the kernel ends the components all the same."""
    script = (
        "import sys, signal; from pathlib import Path\n"
        "from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions\n"
        "options = ControlPlaneOptions(directory=Path(sys.argv[1]), controllers=None, scheduler=False)\n"
        "cluster = ControlPlane(options); cluster.start()\n"
        "print(*cluster.pids().values(), flush=True); signal.pause()\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "orphan")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        os.kill(parent.pid, signal.SIGKILL)

    assert len(pids) == 2
    control_plane.wait_for(lambda: not any(_runs(pid) for pid in pids), ROOM_SECONDS, "the orphans to die")


def _runs(pid: str) -> bool:
    """False for a process that is gone or waits to be reaped by init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_start_failure_shows_the_log(
    start_control_plane: Callable[[ControlPlaneOptions], ControlPlane], tmp_path: Path
) -> None:
    """A gate that 1.37 removed stops the API server; the error quotes it and names the log file."""
    options = ControlPlaneOptions(feature_gates={"GangScheduling": True}, directory=tmp_path)

    with pytest.raises(StartError, match="unrecognized feature gate: GangScheduling") as caught:
        start_control_plane(options)

    assert str(tmp_path / "kube-apiserver.log") in str(caught.value)
