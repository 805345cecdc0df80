"""A Kubernetes 1.37.2 control plane out of local processes: etcd, API server, controller manager, scheduler.

    with ControlPlane(ControlPlaneOptions()) as cluster:
        namespace = cluster.new_namespace()
        cluster.kubectl("-n", namespace, "get", "pods")

No kubelet, no containers: a Pod that has ``spec.nodeName`` was scheduled, and stays Pending until a test sets its phase.
"""

from __future__ import annotations

import atexit
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import trustme
import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.build import Binaries, ensure_built
from tests.cluster.client import ApiClient, ApiError, Credentials
from tests.cluster.cluster import WAS_GATES, WAS_RUNTIME_CONFIG, Cluster
from tests.cluster.processes import Component, PortTakenError, Spawner, StartError, free_ports

COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

_READY_SECONDS: Final = 120.0  # bounds a hang; on 2 busy cores the API server was seen to need 3 to 15 s
_STOP_SECONDS: Final = 10.0
_RESTART_GRACE_SECONDS: Final = 2.0  # the API server would wait for the watches of the others, which do not end
_PORT_ATTEMPTS_MAX: Final = 5
_READY_PATHS: Final = {
    "kube-apiserver": "/readyz",
    "kube-controller-manager": "/healthz",
    "kube-scheduler": "/readyz",  # says ok once its informers have synced
}
_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
_SCHEDULER: Final = "system:kube-scheduler"


def _default_users() -> Mapping[str, Sequence[str]]:
    return {"alice": ("team-a",), "bob": ("team-b",)}


@dataclass(frozen=True)
class ControlPlaneOptions:
    """How a control plane is started. The defaults are what most tests want: everything of WAS is on.

    Attributes:
        feature_gates: gates of all Kubernetes components; `WAS_GATES` by default, ``{}`` for a stock cluster.
        component_feature_gates: component name -> gates laid over the common ones.
        runtime_config: API versions to serve, for example ``{"scheduling.k8s.io/v1beta1": True}``.
        extra_args: component name -> flags appended as they are, for example
            ``{"kube-apiserver": ["--audit-log-path=/tmp/audit", "--audit-policy-file=..."]}``.
        controllers: value of ``--controllers``; None starts no controller manager.
        scheduler: False starts no scheduler.
        scheduler_config: fields laid over the KubeSchedulerConfiguration, for example ``{"profiles": [...]}``.
        enable_admission_plugins, disable_admission_plugins: names for the API server. ServiceAccount is off because
            Pods made by hand would wait for a token controller.
        users: user -> groups of users with a token of their own, besides ``admin`` (``system:masters``).
        flow_control: False turns off priority and fairness and the in-flight limits, for load tests.
        directory: where logs, kubeconfigs and data go. None: a temporary folder that a clean stop removes. A given
            folder is kept, except for the data of etcd.
    """

    feature_gates: Mapping[str, bool] = field(default_factory=lambda: dict(WAS_GATES))
    component_feature_gates: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=lambda: dict(WAS_RUNTIME_CONFIG))
    extra_args: Mapping[str, Sequence[str]] = field(default_factory=dict)
    controllers: str | None = "*,-node-lifecycle-controller,-node-ipam-controller"
    scheduler: bool = True
    scheduler_config: Mapping[str, Any] = field(default_factory=dict)
    enable_admission_plugins: Sequence[str] = ()
    disable_admission_plugins: Sequence[str] = ("ServiceAccount",)
    users: Mapping[str, Sequence[str]] = field(default_factory=_default_users)
    flow_control: bool = True
    directory: Path | None = None


class ControlPlane(Cluster):
    """A control plane that this process owns. Use it in a ``with`` block, or call `start` and `stop`."""

    def __init__(self, options: ControlPlaneOptions | None = None, binaries: Binaries | None = None) -> None:
        """``binaries``: what `ensure_built` returned; None builds (minutes) at `start` if nothing is cached."""
        super().__init__()
        self.options = options or ControlPlaneOptions()
        self._binaries = binaries
        self._components: dict[str, Component] = {}
        self._ports: dict[str, int] = {}
        self._tokens: dict[str, str] = {}
        self._spawner: Spawner | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts all components and returns when each is ready.

        Raises:
            BuildError: the programs are missing and cannot be built.
            StartError: a component did not come up; the message has the end of its log. Nothing is left running, and
                the logs are kept.
        """
        self._binaries = self._binaries or ensure_built()
        self.kubectl_program = self._binaries.program("kubectl")
        self.directory = self._make_directory()
        self._spawner = Spawner()
        atexit.register(self.stop)
        try:
            self._make_secrets()
            self._start("etcd", self._etcd_command)
            self._start("kube-apiserver", self._apiserver_command)
            if self.options.controllers is not None:
                self._start("kube-controller-manager", self._controller_manager_command)
            if self.options.scheduler:
                self._start("kube-scheduler", self._scheduler_command)
        except StartError:
            self._stop_components()  # and keep the folder with the logs that the error names
            raise
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops everything and removes what is temporary. Safe to repeat, and from any state."""
        self._stop_components()
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory / "etcd-data", ignore_errors=True)
            if self.options.directory is None:
                shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, component: str) -> None:
        """Stops one component and starts it with the same flags and port; returns when it is ready again."""
        running = self._components[component]
        running.stop(_RESTART_GRACE_SECONDS)
        running.start(lambda: self._ready(component), _READY_SECONDS)

    def kill(self, component: str) -> None:
        """Ends one component with SIGKILL, as a crash would. `restart` brings it back."""
        self._components[component].stop(0)

    def pids(self) -> dict[str, int]:
        """Component -> process id of those that run."""
        return {name: component.pid for name, component in self._components.items() if component.pid is not None}

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.directory / f"{component}.log"

    def _stop_components(self) -> None:
        atexit.unregister(self.stop)
        self.close_clients()
        # Clients before servers: the API server waits for open watches, and etcd's end makes everybody else retry.
        for component in reversed(self._components.values()):
            component.stop(_STOP_SECONDS)
        self._components.clear()
        if self._spawner is not None:
            self._spawner.close()
            self._spawner = None

    # --- what the base class asks for ---------------------------------------------------------------------------------

    @property
    def crd_directory(self) -> Path:
        """Folder of the CRD files."""
        assert self._binaries is not None, "start() first"
        return self._binaries.crds

    def credentials(self, user: str, groups: Sequence[str] = ()) -> Credentials:
        """A token for ``admin`` and for the users of the options; others are impersonated by the admin."""
        if user in self._tokens and not groups:
            return Credentials(token=self._tokens[user])
        return super().credentials(user, groups)

    def metrics(self, component: str) -> str:
        """The Prometheus text of a component of `COMPONENTS`."""
        if component == "etcd":
            return self._etcd_text("/metrics")
        return self._client_of(component).text("/metrics")

    # --- files --------------------------------------------------------------------------------------------------------

    def _make_directory(self) -> Path:
        if self.options.directory is None:
            return Path(tempfile.mkdtemp(prefix="muster-cluster-"))
        directory = self.options.directory.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _make_secrets(self) -> None:
        """CA and serving certificate, service account key, and a token per user."""
        authority = trustme.CA(organization_name="tests.cluster")
        serving = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
        self.ca_file = self.directory / "ca.crt"
        authority.cert_pem.write_to_path(self.ca_file)
        serving.cert_chain_pems[0].write_to_path(self.directory / "serving.crt")
        _write_secret(self.directory / "serving.key", serving.private_key_pem.bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write_secret(self.directory / "service-account.key", private)
        (self.directory / "service-account.pub").write_bytes(public)

        users = {"admin": ("system:masters",), _CONTROLLER_MANAGER: (), _SCHEDULER: (), **self.options.users}
        self._tokens = {user: secrets.token_hex(16) for user in users}
        lines = [f'{self._tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in users.items()]
        _write_secret(self.directory / "tokens.csv", "".join(lines).encode())
        self.admin_credentials = Credentials(token=self._tokens["admin"])

    # --- commands -----------------------------------------------------------------------------------------------------

    def _start(self, name: str, command: Callable[[], list[str]]) -> None:
        """Starts a component on a free port, with a new one if somebody took it in between."""
        assert self._binaries is not None
        assert self._spawner is not None
        program = str(self._binaries.program(name))
        for attempt in range(1, _PORT_ATTEMPTS_MAX + 1):
            self._ports[name], self._ports["etcd peer"] = free_ports(2)
            if name == "kube-apiserver":
                self.server = f"https://127.0.0.1:{self._ports[name]}"
            arguments = [*command(), *self.options.extra_args.get(name, ())]
            component = Component(name, [program, *arguments], self.log(name), self._spawner)
            self._components[name] = component
            try:
                component.start(lambda: self._ready(name), _READY_SECONDS)
            except PortTakenError:
                self.close_clients()  # they know the old port
                if attempt == _PORT_ATTEMPTS_MAX:
                    raise
            else:
                return

    def _etcd_command(self) -> list[str]:
        client = f"http://127.0.0.1:{self._ports['etcd']}"
        peer = f"http://127.0.0.1:{self._ports['etcd peer']}"
        return [
            "--name=muster",
            f"--data-dir={self.directory / 'etcd-data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=muster={peer}",
            "--unsafe-no-fsync",  # nothing here has to survive a power cut
        ]

    def _apiserver_command(self) -> list[str]:
        command = [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            *self._serving_flags("kube-apiserver"),
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # a loopback address may not be an endpoint of the Service "kubernetes"
            f"--cert-dir={self.directory}",
            f"--service-account-key-file={self.directory / 'service-account.pub'}",
            f"--service-account-signing-key-file={self.directory / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            *_joined_flag("--runtime-config", self.options.runtime_config),
            *self._gate_flags("kube-apiserver"),
        ]
        if self.options.enable_admission_plugins:
            command.append(f"--enable-admission-plugins={','.join(self.options.enable_admission_plugins)}")
        if self.options.disable_admission_plugins:
            command.append(f"--disable-admission-plugins={','.join(self.options.disable_admission_plugins)}")
        if not self.options.flow_control:
            command += ["--enable-priority-and-fairness=false"]
            command += ["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"]
        return command

    def _controller_manager_command(self) -> list[str]:
        return [
            *self._login_flags("kube-controller-manager", _CONTROLLER_MANAGER),
            f"--kubeconfig={self.kubeconfig(_CONTROLLER_MANAGER)}",
            # Controllers then appear as system:serviceaccount:kube-system:job-controller and so on.
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.directory / 'service-account.key'}",
            f"--root-ca-file={self.ca_file}",
            f"--controllers={self.options.controllers}",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *self._gate_flags("kube-controller-manager"),
        ]

    def _scheduler_command(self) -> list[str]:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            # The default of 50 requests/s would make tests with many Pods wait for the client, not the scheduler.
            "clientConnection": {"kubeconfig": str(self.kubeconfig(_SCHEDULER)), "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            **self.options.scheduler_config,
        }
        path = self.directory / "scheduler-config.json"
        path.write_text(json.dumps(config, indent=1))
        return [
            *self._login_flags("kube-scheduler", _SCHEDULER),
            f"--config={path}",
            *self._gate_flags("kube-scheduler"),
        ]

    def _serving_flags(self, component: str) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[component]}",
            f"--tls-cert-file={self.directory / 'serving.crt'}",
            f"--tls-private-key-file={self.directory / 'serving.key'}",
        ]

    def _login_flags(self, component: str, user: str) -> list[str]:
        """Serving flags of a client of the API server, with metrics open to tests."""
        kubeconfig = self.kubeconfig(user)
        return [
            *self._serving_flags(component),
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
        ]

    def _gate_flags(self, component: str) -> list[str]:
        gates = {**self.options.feature_gates, **self.options.component_feature_gates.get(component, {})}
        return _joined_flag("--feature-gates", gates)

    # --- readiness ----------------------------------------------------------------------------------------------------

    def _ready(self, component: str) -> bool:
        """Asks the component itself; one that does not answer yet is not ready."""
        try:
            if component == "etcd":
                return "true" in self._etcd_text("/health")
            return self._client_of(component).text(_READY_PATHS[component]) == "ok"
        except (urllib3.exceptions.HTTPError, ApiError):
            return False

    def compact(self) -> int:
        """Makes etcd forget all revisions before the newest, which it gives back: a watch from an older one gets 410."""
        newest = int(self._etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd_call("/v3/kv/compaction", {"revision": newest, "physical": True})
        return newest

    def _etcd_call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        with urllib3.HTTPConnectionPool("127.0.0.1", self._ports["etcd"], retries=False) as pool:
            answer = pool.request("POST", path, body=json.dumps(body))
        reply: dict[str, Any] = json.loads(answer.data)
        if answer.status != 200:
            raise RuntimeError(f"etcd: HTTP {answer.status}: {reply}")
        return reply

    def _etcd_text(self, path: str) -> str:
        with urllib3.HTTPConnectionPool("127.0.0.1", self._ports["etcd"], retries=False) as pool:
            return pool.request("GET", path).data.decode()

    def _client_of(self, component: str) -> ApiClient:
        """The API server as admin; the others without credentials, which their open paths do not need."""
        if component == "kube-apiserver":
            return self.api
        with self._clients_lock:
            key = (component, ())
            if key not in self._clients:
                server = f"https://127.0.0.1:{self._ports[component]}"
                self._clients[key] = ApiClient(server, self.ca_file, Credentials())
            return self._clients[key]


def _joined_flag(flag: str, values: Mapping[str, bool]) -> list[str]:
    """``--flag=A=true,B=false``, nothing when there are no values."""
    text = ",".join(f"{key}={str(value).lower()}" for key, value in values.items())
    return [f"{flag}={text}"] if text else []


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
