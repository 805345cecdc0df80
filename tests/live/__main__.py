"""``make cluster``: a real Kubernetes 1.37.2 with Muster registered, until Ctrl-C. Needs no Docker.

The namespaces, classes and policy are those of examples/, so every file of examples/gangs can be tried with kubectl.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.__main__ import up
from tests.cluster.client import object_path
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import Muster
from tests.live.tenants import make_tenant

EXAMPLES = Path(__file__).parents[2] / "examples"
_KUBELET_SECONDS = 2.0
TIER_QUOTA_CRD = EXAMPLES.parent / "charts" / "muster" / "crds" / "tierquotas.yaml"


@contextmanager
def deleted_pods_removed(cluster: Cluster) -> Iterator[None]:
    """What kubelets do: a deleted Pod that has a node stays Terminating, and in use, until its kubelet lets it go."""
    stop = threading.Event()

    def remove() -> None:
        while not stop.wait(_KUBELET_SECONDS):
            for pod in cluster.api.get("/api/v1/pods").expect()["items"]:
                if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
                    path = object_path({"apiVersion": "v1", "kind": "Pod", **pod})
                    cluster.api.delete(path, {"gracePeriodSeconds": 0}).expect(200, 404)

    thread = threading.Thread(target=remove, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def registered(cluster: ControlPlane, policy: Path) -> Iterator[None]:
    """The examples' namespaces and objects, alice and bob with their rights, and a Muster that judges what they send."""
    print("starting Muster and registering it", file=sys.stderr)
    cluster.install_crds("jobset", "lws")
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        muster = Muster(cluster, Path(directory), workers=2, inventory=True)
        try:
            cluster.kubectl("apply", "-f", str(EXAMPLES / "cluster"))
            cluster.kubectl("apply", "-f", str(TIER_QUOTA_CRD))
            cluster.kubectl("create", "namespace", "muster-system")  # for the Lease of who counts quotas
            make_tenant(cluster, "alice", "team-a", "team-b")
            make_tenant(cluster, "bob", "team-b")
            muster.start(yaml.safe_load(policy.read_text()))
            muster.drop_canary()
            print("# Muster judges what you send; try it as a tenant of team-a:")
            print(
                f"#   kubectl --kubeconfig {cluster.kubeconfig('alice')} create -f examples/gangs/02-more-than-will-exist.yaml"
            )
            print(f"# its log: {muster.log}")
            print("# for ten minutes its nodes are new, and a gang that fits nowhere is warned of, not denied (WAS501)")
            with deleted_pods_removed(cluster):
                yield
        finally:
            muster.unregister()
            muster.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--policy", type=Path, default=EXAMPLES / "policy.yaml", help="default: examples/policy.yaml")
    parser.add_argument("--racks", type=int, default=4, metavar="N", help="fake GPU racks (default: 4)")
    parser.add_argument("--nodes-per-rack", type=int, default=4, metavar="N", help="nodes in each rack (default: 4)")
    given = parser.parse_args()
    return up(
        lambda cluster: registered(cluster, given.policy),
        options=ControlPlaneOptions(),
        rack_count=given.racks,
        nodes_per_rack=given.nodes_per_rack,
    )


if __name__ == "__main__":
    raise SystemExit(main())
