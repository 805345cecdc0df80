"""``python -m tests.cluster up``: a real Kubernetes 1.37.2 to try things on, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from tests.cluster import build
from tests.cluster.build import BuildError, ensure_built
from tests.cluster.cluster import KubectlError, rack_nodes
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.cluster.processes import StartError

OnReady = Callable[[ControlPlane], AbstractContextManager[object]]


def up(
    on_ready: OnReady | None = None,
    *,
    options: ControlPlaneOptions | None = None,
    rack_count: int = 0,
    nodes_per_rack: int = 4,
    manifests: Iterable[Path] = (),
) -> int:
    """Builds if needed, starts a control plane, serves until SIGINT or SIGTERM, stops cleanly. Call it in the main thread.

    Args:
        on_ready: called with the running control plane; the context manager it returns is entered before the banner
            is printed and left before the control plane stops. The place to run Muster itself.
        options: how the control plane is started.
        rack_count, nodes_per_rack: fake nodes with ``nvidia.com/gpu: 8`` and the rack label; 0 racks make none.
        manifests: files that the admin applies before ``on_ready``, for example webhook configurations.

    Returns:
        0 after a clean stop, 1 when something could not be built, started or applied (the reason is on stderr).
    """
    try:
        with _terminate_like_ctrl_c(), ControlPlane(options, ensure_built()) as cluster:
            cluster.create_nodes(rack_nodes(rack_count, nodes_per_rack))
            for manifest in manifests:
                cluster.kubectl("apply", "-f", manifest)
            with on_ready(cluster) if on_ready is not None else nullcontext():
                print(_banner(cluster, rack_count * nodes_per_rack), flush=True)
                while True:
                    signal.pause()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 0
    except (BuildError, StartError, KubectlError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


@contextmanager
def _terminate_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGINT raise KeyboardInterrupt once; further ones are ignored, so that stopping is not cut short."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _banner(cluster: ControlPlane, node_count: int) -> str:
    """What to paste into a shell. Only the exports are on lines of their own, so ``eval`` of them works too."""
    lines = [
        f"# Kubernetes 1.37.2 is up at {cluster.server} with {node_count} fake nodes; no Pod ever runs. Ctrl-C stops it.",
        f"export KUBECONFIG={cluster.kubeconfig()}",
        f"export PATH={cluster.kubectl_program.parent}:$PATH",
        f"# other users: kubectl --as=alice ..., or {' '.join(str(cluster.kubeconfig(u)) for u in cluster.options.users)}",
        f"# logs: {cluster.directory}",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The command line; see ``--help``."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A real Kubernetes 1.37.2, locally.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what is missing and print the folder")
    start = commands.add_parser("up", help="start a control plane and serve until Ctrl-C")
    start.add_argument("--racks", type=int, default=0, metavar="N", help="fake GPU racks to create (default: none)")
    start.add_argument("--nodes-per-rack", type=int, default=4, metavar="N", help="nodes in each rack (default: 4)")
    start.add_argument("--directory", type=Path, help="keep logs and kubeconfigs here (default: a temporary folder)")
    start.add_argument(
        "--webhook-config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="manifest to apply once it is up",
    )
    parsed = parser.parse_args(arguments)
    if parsed.command == "build":
        return build.main()
    return up(
        options=ControlPlaneOptions(directory=parsed.directory),
        rack_count=parsed.racks,
        nodes_per_rack=parsed.nodes_per_rack,
        manifests=parsed.webhook_config,
    )


if __name__ == "__main__":
    raise SystemExit(main())
