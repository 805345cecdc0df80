"""A raw server that speaks list and watch as kube-apiserver does, over TLS, from bodies made in advance.

`python -m tests.bench.listserver DIRECTORY NODES SLICES PODS CLAIMS` writes `url` into the directory when it serves. It stands in for the
API server where thousands of Nodes have to be there at once and its own work must not be in the figures. Node objects are
of the form a kubelet writes, managed fields and images included, at least 8 kB each. `POST /storm?updates=N&seconds=S` sends that many
heartbeats to the watches of Nodes; `POST /change` changes the labels of one node; `POST /claims?updates=N&seconds=S` has so many
claims give their devices back and take them again.
"""

from __future__ import annotations

import json
import queue
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from webhook.tls.issue import ensure_development_certificates

Json = dict[str, Any]
NODES_PER_RACK = 16
NODE_BYTES_MIN = 8000
RACK = "topo.example.com/rack"
GPU_DRIVER, NIC_DRIVER = "gpu.example.com", "nic.example.com"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
IMAGE_COUNT = 28
NODES, CLAIMS = "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceclaims"


def node(number: int) -> Json:
    """As a kubelet, the controllers and a device plugin leave it."""
    name = f"gpu-node-{number:05}.fleet.example.com"
    amounts = {"cpu": "192", "memory": "2113395168Ki", "ephemeral-storage": "7441194Mi", "hugepages-2Mi": "0"}
    amounts |= {"hugepages-1Gi": "0", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "h200.8x",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": f"eu-1{'abc'[number // 2048 % 3]}",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "143771",
        "nvidia.com/cuda.driver-version.full": "580.65.06",
        RACK: f"rack-{number // NODES_PER_RACK:03}",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-06-01T00:00:00Z",
            "labels": labels,
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example.com": name}),
                "node.alpha.kubernetes.io/ttl": "30",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-01T10:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}},
                    **({"subresource": "status"} if manager == "kubelet" else {}),
                }
                for manager in ("kubelet", "kube-controller-manager", "node-feature-discovery")
            ],
        },
        "spec": {"podCIDR": f"10.{number // 256}.{number % 256}.0/24", "providerID": f"fleet://eu-1/{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [_condition(kind, "2026-11-01T10:00:00Z") for kind in CONDITIONS],
            "addresses": [{"type": "InternalIP", "address": f"10.0.{number // 256}.{number % 256}"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "kubeletVersion": "v1.37.2",
                "osImage": "Linux",
                "architecture": "amd64",
                "machineID": "0" * 32,
            },
            "images": [
                {
                    "names": [
                        f"registry.example.com/team/image-{image}@sha256:{image:064x}",
                        f"registry.example.com/team/image-{image}:2026.11.{image}",
                    ],
                    "sizeBytes": 1_000_000_000 + image,
                }
                for image in range(IMAGE_COUNT)
            ],
        },
    }


CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


def _condition(kind: str, now: str) -> Json:
    is_ready = kind == "Ready"
    return {
        "type": kind,
        "status": "True" if is_ready else "False",
        "lastHeartbeatTime": now,
        "lastTransitionTime": "2026-06-01T00:00:00Z",
        "reason": "KubeletReady" if is_ready else f"KubeletHasNo{kind}",
        "message": "kubelet is posting ready status" if is_ready else "kubelet has enough of it",
    }


def resource_slice(number: int) -> Json:
    """The GPUs (even) or NICs (odd) of a node: eight devices, each with a uuid."""
    name = node_name(number // 2)
    driver = NIC_DRIVER if number % 2 else GPU_DRIVER
    devices = [
        {
            "name": f"d{index}",
            "attributes": {
                PCIE_ROOT: {"string": f"pci0000:{index // 2:02x}"},
                "uuid": {"string": f"{driver}-{number:08}-{index}"},
                "productName": {"string": "H200" if driver == GPU_DRIVER else "CX7"},
                "driverVersion": {"version": "580.65.6"},
                "index": {"int": index},
            },
            "capacity": {"memory": {"value": "141Gi"}} if driver == GPU_DRIVER else {},
        }
        for index in range(8)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{name}-{driver}", "resourceVersion": str(number + 1), "uid": f"slice-{number}"},
        "spec": {"driver": driver, "nodeName": name, "pool": pool, "devices": devices},
    }


def pod(number: int, node_count: int) -> Json:
    """A running Pod of no gang: some cpu and memory, another amount on each node."""
    amounts = {"cpu": f"{100 + number % 37 * 50}m", "memory": f"{256 + number % 11 * 128}Mi"}
    container = {"name": "main", "image": "registry.example.com/team/image:1", "resources": {"requests": amounts}}
    volumes = [{"name": f"v{index}", "configMap": {"name": f"config-{index}"}} for index in range(8)]
    spec = {"nodeName": node_name(number % node_count), "priority": number % 3 * 1000, "containers": [container]}
    conditions = [_condition(kind, "2026-11-01T10:00:00Z") for kind in ("PodScheduled", "Initialized", "Ready")]
    return {
        "metadata": {"name": f"pod-{number}", "namespace": f"team-{number % 50}", "resourceVersion": str(number + 1)},
        "spec": {**spec, "volumes": volumes, "tolerations": [{"key": "a", "operator": "Exists"}]},
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.1.2.3"},
    }


def claim(number: int, *, is_allocated: bool = True) -> Json:
    """Of a Pod of a gang: it holds all GPUs of the node with its number."""
    exactly = {"deviceClassName": GPU_DRIVER, "allocationMode": "ExactCount", "count": 8}
    results = [
        {"request": "gpu", "driver": GPU_DRIVER, "pool": node_name(number), "device": f"d{index}"} for index in range(8)
    ]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name(number)]}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
    user = {"resource": "pods", "name": f"pod-{number}", "uid": f"00000000-0000-4000-9000-{number:012}"}
    return {
        "metadata": {"name": f"claim-{number}", "namespace": f"team-{number % 50}", "resourceVersion": str(number + 1)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {"allocation": allocation, "reservedFor": [user]} if is_allocated else {},
    }


def node_name(number: int) -> str:
    """Of the node with this number."""
    return f"gpu-node-{number:05}.fleet.example.com"


class World:
    """What is served: lists by path, single objects that clients wrote, and who watches the Nodes."""

    def __init__(self, node_count: int, slice_count: int, pod_count: int, claim_count: int) -> None:
        self.nodes = [node(number) for number in range(node_count)]
        smallest = min((len(json.dumps(one)) for one in self.nodes), default=NODE_BYTES_MIN)
        assert smallest >= NODE_BYTES_MIN, smallest
        classes = [
            {
                "metadata": {"name": name, "resourceVersion": "1"},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}]},
            }
            for name in (GPU_DRIVER, NIC_DRIVER)
        ]
        self.lists = {
            NODES: encoded(self.nodes),
            "/apis/resource.k8s.io/v1/resourceslices": encoded(
                [resource_slice(number) for number in range(slice_count)]
            ),
            "/apis/resource.k8s.io/v1/deviceclasses": encoded(classes),
            "/api/v1/pods": encoded([pod(number, node_count) for number in range(pod_count)]),
            CLAIMS: encoded([claim(number) for number in range(claim_count)]),
        }
        self.objects: dict[str, Json] = {}
        self.claim_count = claim_count
        self.watches: dict[str, list[queue.SimpleQueue[bytes]]] = {NODES: [], CLAIMS: []}
        self.version = node_count + slice_count + 1
        self.lock = threading.Lock()

    def heartbeat(self, number: int) -> bytes:
        """The event of a kubelet's status update."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        changed = self.nodes[number]
        changed["status"]["conditions"] = [_condition(kind, now) for kind in CONDITIONS]
        return self.event(changed)

    def event(self, changed: Json) -> bytes:
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        return json.dumps({"type": "MODIFIED", "object": changed}).encode() + b"\n"

    def send(self, event: bytes, path: str = NODES) -> None:
        for watch in list(self.watches[path]):
            watch.put(event)

    def storm(self, updates: int, seconds: float) -> None:
        """Each node in its turn."""
        self._spread([self.heartbeat(number % len(self.nodes)) for number in range(updates)], seconds, NODES)

    def claims(self, updates: int, seconds: float) -> None:
        """Each claim in its turn gives its devices back and takes them again."""
        numbers = [number % self.claim_count for number in range(updates // 2) for _ in range(2)]
        events = [self.event(claim(number, is_allocated=bool(index % 2))) for index, number in enumerate(numbers)]
        self._spread(events, seconds, CLAIMS)

    def _spread(self, events: list[bytes], seconds: float, path: str) -> None:
        """Evenly; made in advance, so that only sending is left."""
        started = time.monotonic()
        for index, event in enumerate(events):
            time.sleep(max(0.0, started + index * seconds / len(events) - time.monotonic()))
            self.send(event, path)


def encoded(objects: list[Json]) -> list[bytes]:
    """Each as JSON, ready to be joined into a page."""
    return [json.dumps(one).encode() for one in objects]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base class's
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "watch" in query:
            self._watch(url.path)
        elif url.path in self.world.objects:
            self._answer(200, json.dumps(self.world.objects[url.path]).encode())
        elif url.path.rsplit("/", 2)[-2] in ("leases", "configmaps", "customresourcedefinitions"):
            self._answer(404, json.dumps({"kind": "Status", "details": {"name": url.path.rsplit("/", 1)[1]}}).encode())
        elif "muster.dev" in url.path:
            self._answer(404, b"404 page not found")
        else:
            self._page(self.world.lists.get(url.path, []), query)

    def _page(self, objects: list[bytes], query: dict[str, str]) -> None:
        first = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(objects)
        token = str(first + limit) if first + limit < len(objects) else ""
        metadata = json.dumps({"resourceVersion": str(self.world.version), "continue": token}).encode()
        self._answer(200, b'{"metadata":%b,"items":[%b]}' % (metadata, b",".join(objects[first : first + limit])))

    def _watch(self, path: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        watches = self.world.watches.get(path, [])
        watches.append(events)
        while True:
            try:
                event = events.get(timeout=60)
            except queue.Empty:
                bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.world.version)}}}
                event = json.dumps(bookmark).encode() + b"\n"
            try:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            except OSError:
                break
        watches.remove(events)
        self.close_connection = True

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self._body()
        if url.path in ("/storm", "/claims"):
            query = parse_qs(url.query)
            run = self.world.storm if url.path == "/storm" else self.world.claims
            run(int(query["updates"][0]), float(query["seconds"][0]))
            self._answer(200, b"{}")
        elif url.path == "/change":
            changed = self.world.nodes[0]
            changed["metadata"]["labels"]["changed"] = str(self.world.version)
            self.world.send(self.world.event(changed))
            self._answer(200, b"{}")
        else:
            self._keep(f"{url.path}/{body['metadata'].get('name', 'generated')}", body, 201)

    def do_PUT(self) -> None:
        self._keep(urlsplit(self.path).path, self._body(), 200)

    do_PATCH = do_PUT  # noqa: N815  the name is the base class's

    def _keep(self, path: str, body: Json, status: int) -> None:
        with self.world.lock:
            self.world.version += 1
            body.setdefault("metadata", {})["resourceVersion"] = str(self.world.version)
            self.world.objects[path] = body
        self._answer(status, json.dumps(body).encode())

    def _body(self) -> Json:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        return json.loads(raw) if raw else {}

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """TLS is spoken by the connection's own thread."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        super().finish_request(self._context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


def main(words: list[str]) -> None:
    """Serves until it is stopped."""
    directory, counts = Path(words[0]), [int(word) for word in words[1:]]
    Handler.world = World(*counts)
    certificates = ensure_development_certificates(directory / "certs")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    server = Server(context)
    url = f"https://localhost:{server.server_address[1]}"
    user = {"token": "bench"}
    cluster = {"server": url, "certificate-authority": str(certificates.ca)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": user}],
    }
    (directory / "kubeconfig").write_text(json.dumps(kubeconfig))
    (directory / "url").write_text(url)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
