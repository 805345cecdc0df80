"""The same tests on kind (Kubernetes in Docker): ``--cluster=kind``.

NEVER RUN WHERE THIS WAS WRITTEN: there was no container engine. README.md in this folder lists what is unproved.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import yaml

from tests.cluster.build import BuildError, ensure_built
from tests.cluster.client import STRATEGIC_PATCH, Credentials, wait_for
from tests.cluster.cluster import Cluster

NODE_IMAGE: Final = "kindest/node:v1.37.2"
CONFIG_FILE: Final = Path(__file__).with_name("kind-config.yaml")

_CREATE_SECONDS: Final = 900  # the first time it pulls the node image
_METRICS_PORTS: Final = {"kube-controller-manager": 10257, "kube-scheduler": 10259}
_DAEMON_SETS: Final = ("kindnet", "kube-proxy")


class KindError(RuntimeError):
    """kind cannot be used here; the message says what is missing and what to do instead."""


class KindCluster(Cluster):
    """One kind cluster with a name of its own, created on entry and deleted on exit of a ``with`` block."""

    def __init__(self, directory: Path) -> None:
        """``directory`` gets kubeconfigs and keys; it must exist."""
        super().__init__()
        self.directory = directory
        self.name = f"muster-{secrets.token_hex(3)}"
        self._kind = ""
        self._crd_directory: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Creates the cluster and waits for its control plane.

        Raises:
            KindError: kind, kubectl or docker is missing, docker has no engine, or kind failed (with its output).
        """
        self._kind, self.kubectl_program = require_tools()
        kubeconfig = self.directory / "kind.kubeconfig"
        command = [self._kind, "create", "cluster", f"--name={self.name}", f"--config={CONFIG_FILE}"]
        command += [f"--image={NODE_IMAGE}", f"--kubeconfig={kubeconfig}", "--wait=300s"]
        result = _run(command, _CREATE_SECONDS)
        if result.returncode != 0:
            self.stop()
            raise KindError(f"kind create cluster failed:\n{result.stderr}")
        try:
            self._read_kubeconfig(kubeconfig)
            self._keep_to_its_own_node()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Deletes the cluster; one that is gone already is fine."""
        self.close_clients()
        if self._kind:
            _run([self._kind, "delete", "cluster", f"--name={self.name}"], _CREATE_SECONDS)

    @property
    def crd_directory(self) -> Path:
        """Folder of the CRD files; they come with the local build's cache, so this needs Go."""
        if self._crd_directory is None:
            try:
                self._crd_directory = ensure_built().crds
            except BuildError as error:
                raise KindError(f"the CRD files cannot be fetched: {error}") from error
        return self._crd_directory

    def new_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """As in `Cluster`; returns once Pods can be created (the ServiceAccount plugin is on in kind)."""
        name = super().new_namespace(prefix, labels)
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_for(lambda: self.api.get(path).ok, 60, f"the default service account of {name}")
        return name

    def metrics(self, component: str) -> str:
        """The Prometheus text of kube-apiserver, kube-controller-manager or kube-scheduler."""
        if component == "kube-apiserver":
            return self.api.text("/metrics")
        pod = f"https:{component}-{self._node}:{_METRICS_PORTS[component]}"
        return self.api.text(f"/api/v1/namespaces/kube-system/pods/{pod}/proxy/metrics")

    @property
    def _node(self) -> str:
        return f"{self.name}-control-plane"

    def _read_kubeconfig(self, kubeconfig: Path) -> None:
        login = parse_kubeconfig(yaml.safe_load(kubeconfig.read_text()))
        self.server = login["server"]
        self.ca_file = self.directory / "ca.crt"
        self.ca_file.write_bytes(login["ca"])
        certificate, key = self.directory / "admin.crt", self.directory / "admin.key"
        certificate.write_bytes(login["certificate"])
        key.touch(mode=0o600)
        key.write_bytes(login["key"])
        self.admin_credentials = Credentials(client_cert=certificate, client_key=key)

    def _keep_to_its_own_node(self) -> None:
        """Tests count on the Nodes they create: kind's own node takes no test Pods, its DaemonSets no test Nodes."""
        selector = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": self._node}}}}}
        for name in _DAEMON_SETS:
            path = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{name}"
            self.api.patch(path, selector, STRATEGIC_PATCH).expect()
        taint = {"spec": {"taints": [{"key": "muster.dev/kind", "effect": "NoSchedule"}]}}
        self.api.patch(f"/api/v1/nodes/{self._node}", taint).expect()


def require_tools() -> tuple[str, Path]:
    """Paths of kind and kubectl, after a check that docker reaches its engine.

    Raises:
        KindError: names all missing programs, or passes on docker's own words.
    """
    found = {name: shutil.which(name) for name in ("docker", "kind", "kubectl")}
    missing = sorted(name for name, path in found.items() if path is None)
    if missing:
        raise KindError(f"--cluster=kind needs {', '.join(missing)} on PATH; --cluster=local needs none of them")
    result = _run(["docker", "info", "--format={{.ServerVersion}}"], 60)
    if result.returncode != 0:
        raise KindError(f"docker has no engine ({result.stderr.strip()}); start it, or use --cluster=local")
    return str(found["kind"]), Path(str(found["kubectl"]))


def parse_kubeconfig(config: Mapping[str, Any]) -> dict[str, Any]:
    """What kind's kubeconfig holds: ``server`` (URL), and the bytes ``ca``, ``certificate`` and ``key`` (PEM)."""
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return {
        "server": cluster["server"],
        "ca": base64.b64decode(cluster["certificate-authority-data"]),
        "certificate": base64.b64decode(user["client-certificate-data"]),
        "key": base64.b64decode(user["client-key-data"]),
    }


def _run(command: Sequence[str], timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
