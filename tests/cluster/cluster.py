"""What tests do with a cluster, whoever runs it: REST, kubectl, users, namespaces, nodes, CRDs, metrics.

`tests.cluster.controlplane.ControlPlane` and `tests.cluster.kind.KindCluster` are the two clusters.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.client import (
    JSON_PATCH,
    STRATEGIC_PATCH,
    ApiClient,
    Credentials,
    JsonObject,
    collection_path,
    object_path,
    wait_for,
)
from tests.cluster.crds import CRD_PROBES, extend_with_was_fields

T = TypeVar("T")

WAS_GATES: Final[Mapping[str, bool]] = {
    "GenericWorkload": True,
    "TopologyAwareWorkloadScheduling": True,
    "CompositePodGroup": True,
    "PodGroupPreemptionPolicy": True,
    "DRAWorkloadResourceClaims": True,
    "WorkloadWithJob": True,
}
WAS_RUNTIME_CONFIG: Final[Mapping[str, bool]] = {
    "scheduling.k8s.io/v1beta1": True,
    "scheduling.k8s.io/v1alpha3": True,
}

RACK_LABEL: Final = "topo.example.com/rack"
DEFAULT_ALLOCATABLE: Final[Mapping[str, str]] = {
    "cpu": "64",
    "memory": "512Gi",
    "ephemeral-storage": "1Ti",
    "pods": "110",
}
_SAFE_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C reads a CRD in 0.2 s, not 2 s
_NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
_PARALLEL_REQUESTS: Final = 8
_STABLE_POLLS: Final = 3


class KubectlError(RuntimeError):
    """kubectl ended with a code other than 0; ``result`` has code, stdout and stderr."""

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"kubectl {' '.join(map(str, result.args[1:]))}: code {result.returncode}: {result.stderr}")
        self.result = result


@dataclass(frozen=True)
class NodeSpec:
    """One Node to create. Quantities are strings as in Kubernetes.

    ``allocatable`` is laid over `DEFAULT_ALLOCATABLE`; ``capacity`` is the same unless given. ``taints`` are dicts
    with key, value and effect. No kubelet runs: a Pod on such a node is bound and stays Pending.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] | None = None
    taints: Sequence[Mapping[str, str]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False

    def manifest(self) -> JsonObject:
        """The Node object, Ready, with the label ``kubernetes.io/hostname``."""
        allocatable = {**DEFAULT_ALLOCATABLE, **self.allocatable}
        spec: JsonObject = {"taints": [dict(taint) for taint in self.taints]}
        if self.unschedulable:
            spec["unschedulable"] = True
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made by tests.cluster"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {"kubernetes.io/hostname": self.name, **self.labels},
                "annotations": dict(self.annotations),
            },
            "spec": spec,
            "status": {
                "allocatable": allocatable,
                "capacity": {**allocatable, **(self.capacity or {})},
                "conditions": [ready],
            },
        }


def rack_nodes(
    rack_count: int, nodes_per_rack: int, *, gpu_count: int = 8, prefix: str = "rack", rack_label: str = RACK_LABEL
) -> list[NodeSpec]:
    """Node specs for racks of GPU nodes: ``<prefix>-0`` holds ``<prefix>-0-0``, ``<prefix>-0-1``, and so on."""
    gpus = {"nvidia.com/gpu": str(gpu_count)} if gpu_count else {}
    return [
        NodeSpec(f"{prefix}-{rack}-{index}", labels={rack_label: f"{prefix}-{rack}"}, allocatable=gpus)
        for rack in range(rack_count)
        for index in range(nodes_per_rack)
    ]


class Cluster:
    """A running cluster and the ways to use it.

    ``directory`` holds kubeconfigs and other files of this cluster; ``server`` is the API server's URL and
    ``ca_file`` the PEM file its certificate is checked against.
    """

    directory: Path
    server: str
    ca_file: Path
    kubectl_program: Path
    admin_credentials: Credentials

    def __init__(self) -> None:
        self._clients: dict[tuple[str, tuple[str, ...]], ApiClient] = {}
        self._clients_lock = threading.Lock()

    # --- users --------------------------------------------------------------------------------------------------------

    @property
    def api(self) -> ApiClient:
        """REST client of the admin (``system:masters``)."""
        return self.api_as("admin")

    def api_as(self, user: str, groups: Sequence[str] = ()) -> ApiClient:
        """REST client of another user, one per user and groups, closed with the cluster."""
        key = (user, tuple(groups))
        with self._clients_lock:
            if key not in self._clients:
                self._clients[key] = ApiClient(self.server, self.ca_file, self.credentials(user, groups))
            return self._clients[key]

    def credentials(self, user: str, groups: Sequence[str] = ()) -> Credentials:
        """Credentials of a user. Users without a login of their own are impersonated by the admin."""
        if user == "admin" and not groups:
            return self.admin_credentials
        admin = self.admin_credentials
        return Credentials(admin.token, admin.client_cert, admin.client_key, user, tuple(groups))

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = ()) -> Path:
        """Writes and returns a kubeconfig for a user.

        Impersonated users (no login of their own) work with kubectl and Go clients; the Python client ignores
        ``as`` in kubeconfigs, so give it a user with a token or `service_account_kubeconfig`.
        """
        name = "-".join([user, *groups]).replace(":", "_").replace("/", "_")
        return self._write_kubeconfig(name, self.credentials(user, groups))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a 24 h token of a ServiceAccount, which is created if it is missing."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.api.post(path, {"metadata": {"name": name}}).expect(201, 409)
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        token = self.api.post(f"{path}/{name}/token", request).expect()["status"]["token"]
        return self._write_kubeconfig(f"serviceaccount-{namespace}-{name}", Credentials(token=token))

    def grant(self, user: str, namespace: str, role: str = "edit") -> None:
        """Gives a user a ClusterRole (``view``, ``edit``, ``admin``, ...) in one namespace. Safe to repeat."""
        rbac = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{user}-{role}"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }
        self.api.create(binding, namespace).expect(201, 409)

    def _write_kubeconfig(self, name: str, credentials: Credentials) -> Path:
        user: JsonObject = {}
        if credentials.token is not None:
            user["token"] = credentials.token
        if credentials.client_cert is not None and credentials.client_key is not None:
            user["client-certificate-data"] = _base64_file(credentials.client_cert)
            user["client-key-data"] = _base64_file(credentials.client_key)
        if credentials.impersonate is not None:
            user["as"] = credentials.impersonate
            user["as-groups"] = list(credentials.impersonate_groups)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "muster",
                    "cluster": {"server": self.server, "certificate-authority-data": _base64_file(self.ca_file)},
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": name}}],
            "current-context": "muster",
        }
        path = self.directory / f"{name}.kubeconfig"
        # Renamed into place: another thread's kubectl may be reading the file.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(config, indent=1))
        temporary.replace(path)
        return path

    # --- kubectl ------------------------------------------------------------------------------------------------------

    def kubectl(
        self,
        *args: str | Path,
        stdin: str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        user: str = "admin",
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as a user and returns its code, stdout and stderr.

        ``stdin`` is text, or one or several manifests (for ``apply -f -``).

        Raises:
            KubectlError: ``check`` and a code other than 0.
        """
        if isinstance(stdin, str) or stdin is None:
            text = stdin
        else:
            manifests = [stdin] if isinstance(stdin, Mapping) else stdin
            text = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        # HOME keeps kubectl's caches, and the caller's own kuberc, out of the test.
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig(user)), "HOME": str(self.directory)}
        command = [str(self.kubectl_program), *map(str, args)]
        result = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
        if check and result.returncode != 0:
            raise KubectlError(result)
        return result

    # --- namespaces and Pods ------------------------------------------------------------------------------------------

    def new_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """Creates a namespace with a name of its own. In tests take the fixtures, which remove it afterwards."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        self.api.create(namespace).expect()
        return name

    def delete_namespace(self, name: str) -> None:
        """Starts the removal of a namespace and does not wait for its end.

        Its Pods go at once: no kubelet would ever confirm their deletion.
        """
        self.api.delete(f"/api/v1/namespaces/{name}").expect(200, 202, 404, 409)
        self.api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0).expect(200, 202, 404)

    def pods(self, namespace: str, label_selector: str = "") -> list[JsonObject]:
        """The Pods of a namespace, for example with the label selector ``job-name=train``."""
        answer = self.api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=label_selector)
        items: list[JsonObject] = answer.expect()["items"]
        return items

    def bound_pods(self, namespace: str, label_selector: str = "") -> list[JsonObject]:
        """Those with ``spec.nodeName``: what "scheduled" means here, because nothing runs them."""
        return [pod for pod in self.pods(namespace, label_selector) if pod["spec"].get("nodeName")]

    def set_pod_phase(self, namespace: str, name: str, phase: str) -> None:
        """Plays the kubelet: Running, Succeeded or Failed."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        self.api.patch(path, {"status": {"phase": phase}}, STRATEGIC_PATCH).expect()

    # --- nodes --------------------------------------------------------------------------------------------------------

    def create_nodes(
        self,
        nodes: int | Iterable[NodeSpec],
        *,
        prefix: str = "node",
        labels: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> list[str]:
        """Creates Nodes that Pods can be scheduled to, and returns their names in order.

        ``nodes`` is a list of specs, or how many equal ones to make from the keyword arguments. The not-ready taint
        that admission puts on every new Node is removed. 8 connections: 5,120 nodes take well under a minute.
        """
        if isinstance(nodes, int):
            names = [f"{prefix}-{index}" for index in range(nodes)]
            specs = [NodeSpec(name, labels or {}, allocatable or {}, taints=taints) for name in names]
        else:
            specs = list(nodes)
        _in_parallel(self._create_node, specs)
        return [spec.name for spec in specs]

    def _create_node(self, spec: NodeSpec) -> None:
        manifest = spec.manifest()
        created = self.api.create(manifest).expect()
        if any(taint["key"] == _NOT_READY_TAINT for taint in created["spec"].get("taints", [])):
            # Only this one goes: a cordoned Node keeps the taint that says so.
            wanted = [taint for taint in created["spec"]["taints"] if taint["key"] != _NOT_READY_TAINT]
            patch = [{"op": "replace", "path": "/spec/taints", "value": wanted}]
            self.api.patch(object_path(manifest), patch, JSON_PATCH).expect()

    def delete_nodes(self, names: Iterable[str]) -> None:
        """Deletes Nodes; missing ones are fine."""
        _in_parallel(lambda name: self.api.delete(f"/api/v1/nodes/{name}").expect(200, 404), list(names))

    # --- CRDs ---------------------------------------------------------------------------------------------------------

    def install_crds(self, *names: str, extended: bool = False) -> None:
        """Installs CRDs (``"jobset"``, ``"lws"``) and returns once the API server serves them in that form.

        With ``extended=False`` they are the real, published files: JobSet v0.11.1 and LeaderWorkerSet v0.8.0. They
        embed older core types that do not know Job ``scheduling`` and Pod ``schedulingGroup``: kubectl, which asks for
        strict validation, and server-side apply are refused; plain REST clients get a warning ("unknown field"), and
        the object is stored without the fields.

        ``extended=True`` IS AN EXTENSION OF OURS AND EXISTS IN NO RELEASE: the same schemas plus these two fields
        (any content). It stands for a later release of those projects that knows them.

        A second call with the other form replaces the first.
        """
        for name in names:
            self._put_crd(name, extended)
        for name in names:
            # A new CRD is served after 5 s: the API server gives its peers time to hear of it.
            wait_for(partial(self._serves_crd, name, extended), 60, f"the CRD {name} to be served")

    def _put_crd(self, name: str, extended: bool) -> None:
        text = (self.crd_directory / f"{name}.yaml").read_text()
        crd: JsonObject = yaml.load(text, Loader=_SAFE_LOADER)  # noqa: S506 - one of two safe loaders
        if extended:
            extend_with_was_fields(crd)
        path = object_path(crd)
        existing = self.api.get(path)
        if existing.status == 404:
            self.api.create(crd).expect()
        else:
            crd["metadata"]["resourceVersion"] = existing.expect()["metadata"]["resourceVersion"]
            self.api.put(path, crd).expect()

    def _serves_crd(self, name: str, extended: bool) -> bool:
        """Asks with a dry run: whether the field survives tells which form of the schema is in force."""
        probe = CRD_PROBES[name]
        answer = self.api.create(probe.manifest, "default", dryRun="All")
        return answer.ok and (probe.field_of(answer.body) is not None) == extended

    @property
    def crd_directory(self) -> Path:
        """Folder of the CRD files."""
        raise NotImplementedError

    # --- metrics and waiting ------------------------------------------------------------------------------------------

    def metrics(self, component: str) -> str:
        """The Prometheus text of a component (``kube-apiserver``, ``kube-scheduler``, ...)."""
        raise NotImplementedError

    def metric(self, component: str, name: str, **labels: str) -> float:
        """Sum of one metric's samples that carry these labels; 0.0 when there are none (yet).

        ``name`` is the sample's name, for example ``scheduler_podgroup_schedule_attempts_total``.
        """
        return sample_sum(self.metrics(component), name, **labels)

    def wait_for(self, predicate: Callable[[], T], timeout_seconds: float, what: str) -> T:
        """See `tests.cluster.client.wait_for`."""
        return wait_for(predicate, timeout_seconds, what)

    def scheduler_idle(
        self, timeout_seconds: float = 60, scheduler_names: Sequence[str] = ("default-scheduler",)
    ) -> None:
        """Returns once the scheduler has tried every unbound Pod it can try: what is unbound then, it did not place.

        Idle means: nothing in its active queue or in flight, its other queues hold exactly the unbound Pods that the
        API server lists, and no attempt was made for a few polls. It is a pause, not an end: 1.37.2 keeps a group that
        does not fit in the backoff queue and retries it for ever, after 1, 2, 4, 8 and then every 10 s. Create the
        Nodes first, and wait for the Pods to exist: a Job whose Pods are not made yet leaves the scheduler idle too.

        Raises:
            TimeoutError: never idle.
        """
        history: list[float] = []

        def idle() -> bool:
            text = self.metrics("kube-scheduler")
            active = sample_sum(text, "scheduler_pending_pods", queue="active")
            known = sample_sum(text, "scheduler_pending_pods")
            unbound = self._unbound_pods(scheduler_names)
            staying = sum(1 for pod in unbound if "deletionTimestamp" not in pod["metadata"])
            history.append(
                sample_sum(text, "scheduler_schedule_attempts_total")
                + sample_sum(text, "scheduler_podgroup_schedule_attempts_total")
            )
            if active or not staying <= known <= len(unbound):
                history.clear()
            return len(history) >= _STABLE_POLLS and len(set(history[-_STABLE_POLLS:])) == 1

        wait_for(idle, timeout_seconds, "the scheduler to be idle")

    def _unbound_pods(self, scheduler_names: Sequence[str]) -> list[JsonObject]:
        selector = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"
        items = self.api.get(collection_path("v1", "Pod"), fieldSelector=selector).expect()["items"]
        return [pod for pod in items if pod["spec"].get("schedulerName") in scheduler_names]

    # --- end ----------------------------------------------------------------------------------------------------------

    def close_clients(self) -> None:
        """Closes the connections of all REST clients."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def sample_sum(text: str, name: str, **labels: str) -> float:
    """Sum of the samples of a Prometheus text with this name and (at least) these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def _in_parallel(function: Callable[[Any], object], arguments: Sequence[Any]) -> None:
    """Calls ``function`` with each argument over a few connections; the first error is raised."""
    with ThreadPoolExecutor(_PARALLEL_REQUESTS) as executor:
        for _ in executor.map(function, arguments):
            pass


def _base64_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
