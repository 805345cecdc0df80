"""Builds Helm 4 from published Go modules, once per content, into ``${MUSTERTEST_CACHE:-~/.cache/muster}/helm/<hash>/``.

The first build takes about two minutes on two cores. Run ``python -m tests.chart.helm`` to build and print the path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.cluster.build import BuildError, cache_root, find_go

_MODULE: Final = Path(__file__).parent / "go"
_PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"
_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")


def helm() -> Path:
    """The program; builds it where it is missing. Raises BuildError: no Go, or the compiler failed."""
    out = sys.__stderr__ or sys.stderr
    go = find_go(out)
    digest = hashlib.sha256((_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes())
    digest.update("\0".join([go.version, sys.platform, os.uname().machine, *_FLAGS]).encode())
    program = cache_root() / "helm" / digest.hexdigest()[:16] / "helm"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once: one builds, the other waits
        if not program.exists():
            out.write(f"building Helm with {go.version} into {program.parent}, about two minutes the first time\n")
            out.flush()
            _build(go.command, program)
    return program


def _build(go: Path, program: Path) -> None:
    unfinished = program.with_name(".helm.unfinished")
    command = [str(go), "build", *_FLAGS, "-o", str(unfinished), _PACKAGE]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    result = subprocess.run(command, cwd=_MODULE, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"go build of Helm failed with code {result.returncode}:\n{result.stderr[-3000:]}")
    unfinished.replace(program)


if __name__ == "__main__":
    print(helm())
