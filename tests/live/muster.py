"""A running Muster, registered at the control plane of the tests: real processes, real TLS, the real registration."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.cluster.cluster import Cluster
from tests.support.cases import NAMESPACE, policy_document
from webhook.policy.load import parse_policies
from webhook.policy.model import Policy
from webhook.registration.render import Target, render_webhook_configurations
from webhook.tls.issue import ensure_development_certificates

START_SECONDS_MAX = 60.0
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
# A probe of our own, for the policy's version in the answer's audit annotations.
_PROBE = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "probe"},
    "spec": {"schedulingPolicy": {"basic": {}}},
}


class Muster:
    """`muster serve` against a control plane, and its webhook configurations. Use as a context manager."""

    def __init__(
        self, cluster: Cluster, directory: Path, *, workers: int = 1, port: int | None = None, inventory: bool = False
    ) -> None:
        """inventory: judge by the Nodes of the control plane, which other tests come and go with."""
        self.cluster = cluster
        self.directory = directory
        self.port = port or _free_port()
        self.policy_file = directory / "policy.yaml"
        self.certificates = ensure_development_certificates(directory / "certs")
        self.log = directory / "serve.log"
        self._workers = workers
        self._inventory = inventory
        self._process: subprocess.Popen[bytes] | None = None
        self._generation = 0

    # -- processes ----------------------------------------------------------------------------------------------
    def start(self, policy: Mapping[str, Any] | None = None) -> None:
        """Starts the processes with a policy document (default: the tests' policy) and registers them."""
        self._write_policy(policy or policy_document({}))
        self._spawn()
        self.register()

    def start_again(self) -> None:
        """After `kill` or `stop`: the same replica; the registration has stayed."""
        self._spawn()

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "webhook.cli.main", "serve", "--bind", f"127.0.0.1:{self.port}"]
        command += ["--policy", str(self.policy_file), "--kubeconfig", str(self.cluster.kubeconfig())]
        command += ["--tls-cert", str(self.certificates.cert), "--tls-key", str(self.certificates.key)]
        command += ["--workers", str(self._workers)]
        environment = {**os.environ, "MUSTER_NAMESPACE": "muster-system", "MUSTER_INVENTORY": str(self._inventory)}
        # What a killed Muster leaves behind goes with the folder.
        environment["TMPDIR"] = str(self.directory)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self._until(self._ready, f"Muster to be ready (log: {self.log})")

    def stop(self) -> None:
        """Stops the processes in order; the registration stays."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def kill(self) -> None:
        """SIGKILL to every process of Muster: it is simply gone."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    # -- what it costs --------------------------------------------------------------------------------------------
    def memory_mib(self) -> float:
        """Sum of the proportional set sizes of all its processes."""
        return sum(_status_kib(pid, "smaps_rollup", "Pss:") for pid in self._pids()) / 1024

    def agent_cpu_seconds(self) -> float:
        """User and system time of the agent so far."""
        return cpu_seconds(self.agent_pid())

    def agent_pid(self) -> int:
        for pid in self._pids():
            if b"agent" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
        raise AssertionError("no agent runs")

    def cpu_seconds(self) -> float:
        """User and system time of all its processes so far."""
        return sum(map(cpu_seconds, self._pids()))

    def _pids(self) -> list[int]:
        """The processes of the session that `serve` leads."""
        assert self._process is not None
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if os.getsid(int(entry.name)) == self._process.pid:
                        found.append(int(entry.name))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()
        self.stop()

    # -- policy and registration --------------------------------------------------------------------------------
    def use_policy(self, document: Mapping[str, Any]) -> None:
        """Hot-reloads another policy and registers again for it; returns when both are in force."""
        self._write_policy(document)
        self._until(lambda: self._policy_version() == self._wanted_version(), "the new policy to be loaded")
        self.register()

    def register(self) -> None:
        """Applies the rendered webhook configurations and waits until the API server calls the new entries."""
        self._generation += 1
        for configuration in self.configurations():
            plural = "validatingwebhookconfigurations"
            if configuration["kind"].startswith("Mutating"):
                plural = "mutatingwebhookconfigurations"
            self._replace(plural, configuration)
        if not any(c["kind"].startswith("Mutating") for c in self.configurations()):
            self.cluster.api.delete(f"{_REGISTRATION}/mutatingwebhookconfigurations/muster")
        self.cluster.wait_for(self._calls_this_generation, 30, "the API server to call the new entries")

    def drop_canary(self) -> None:
        """Leaves only what `muster registration render` makes; nobody registers again after this."""
        path = f"{_REGISTRATION}/validatingwebhookconfigurations/muster"
        stored = self.cluster.api.get(path).expect(200)
        stored["webhooks"] = [entry for entry in stored["webhooks"] if ".canary." not in entry["name"]]
        self.cluster.api.put(path, stored).expect(200)

    def unregister(self) -> None:
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            self.cluster.api.delete(f"{_REGISTRATION}/{plural}/muster")

    def configurations(self) -> list[dict[str, Any]]:
        """As `muster registration render` makes them, with a canary that tells when they are in force."""
        policy = Policy.model_validate(json.loads(self.policy_file.read_text()))
        target = Target(
            client=f"https://127.0.0.1:{self.port}",
            ca_bundle=base64.b64encode(self.certificates.ca.read_bytes()).decode(),
        )
        configurations = render_webhook_configurations(policy, target)
        for configuration in configurations:
            configuration["webhooks"].append(self._canary())
        return configurations

    def _canary(self) -> dict[str, Any]:
        """An entry that refuses one ConfigMap by name, with the generation in its own: an object of the configuration
        is taken up whole, so when this entry refuses, the others are in force too."""
        return {
            "name": f"g{self._generation}.canary.muster.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "failurePolicy": "Fail",
            "matchConditions": [{"name": "canary", "expression": "object.metadata.name == 'muster-canary'"}],
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "sideEffects": "None",
        }

    def _replace(self, plural: str, configuration: dict[str, Any]) -> None:
        path = f"{_REGISTRATION}/{plural}/{configuration['metadata']['name']}"
        old = self.cluster.api.get(path)
        if old.ok:
            configuration["metadata"]["resourceVersion"] = old.body["metadata"]["resourceVersion"]
            self.cluster.api.put(path, configuration).expect(200)
        else:
            self.cluster.api.create(configuration).expect(201)

    def _calls_this_generation(self) -> bool:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "muster-canary"}}
        answer = self.cluster.api.create(config_map, "default", dryRun="All")
        return f"g{self._generation}.canary.muster.dev" in str(answer.body.get("message"))

    # -- talking to it directly ---------------------------------------------------------------------------------
    def get(self, path: str) -> tuple[int, bytes]:
        """GET over TLS; (status, body)."""
        return self._http(urllib.request.Request(f"https://127.0.0.1:{self.port}{path}"))

    def ask(self, request: Mapping[str, Any], path: str = "/validate/submit") -> dict[str, Any]:
        """POSTs an AdmissionReview around a request; the response's `response`."""
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": dict(request)}
        http = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}?timeout=10s",
            data=json.dumps(review).encode(),
            headers={"Content-Type": "application/json"},
        )
        response: dict[str, Any] = json.loads(self._http(http)[1])["response"]
        return response

    def _http(self, request: urllib.request.Request) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"Muster ended with {self._process.returncode}:\n{self.log.read_text()[-4000:]}")
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def _policy_version(self) -> str:
        request = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": "scheduling.k8s.io", "version": "v1beta1", "kind": "PodGroup"},
            "resource": {"group": "scheduling.k8s.io", "version": "v1beta1", "resource": "podgroups"},
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "userInfo": {"username": "alice"},
            "object": _PROBE,
        }
        return str(self.ask(request)["auditAnnotations"]["policy"])

    def _wanted_version(self) -> str:
        return parse_policies([(str(self.policy_file), self.policy_file.read_bytes())]).version

    def _write_policy(self, document: Mapping[str, Any]) -> None:
        new = self.policy_file.with_suffix(".new")
        new.write_text(json.dumps(document, default=str))
        new.replace(self.policy_file)

    def _until(self, probe: Any, what: str) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            if probe():
                return
            time.sleep(0.05)
        raise AssertionError(f"waited {START_SECONDS_MAX:.0f} s for {what}")


@contextlib.contextmanager
def running(
    cluster: Cluster, directory: Path, policy: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[Muster]:
    """A Muster that is registered and stops, with its registration, at the end."""
    with Muster(cluster, directory, **options) as muster:
        muster.start(policy)
        yield muster


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status_kib(pid: int, file: str, field: str) -> int:
    """A field of a /proc file in KiB; 0 where the process has just ended."""
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(field))
