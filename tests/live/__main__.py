"""``make cluster``: a real Kubernetes 1.37.2 with Muster registered, until Ctrl-C. Needs no Docker.

The namespaces, classes and policy are those of examples/, so every file of examples/gangs can be tried with kubectl.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.__main__ import up
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import Muster
from tests.live.tenants import make_tenant

EXAMPLES = Path(__file__).parents[2] / "examples"
TIER_QUOTA_CRD = EXAMPLES.parent / "charts" / "muster" / "crds" / "tierquotas.yaml"


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
