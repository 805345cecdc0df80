"""pytest plugin: the option ``--cluster``, and fixtures around one real control plane per test run.

Loaded by the top-level conftest (``pytest_plugins = ["tests.cluster.plugin"]``), so tests in any folder can use the
fixtures. A test that asks for one of them gets the marker ``cluster`` by itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import pytest

from tests.cluster.build import Binaries, BuildError, ensure_built
from tests.cluster.cluster import Cluster, NodeSpec
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.cluster.kind import KindCluster

_LOCAL_FIXTURES: Final = frozenset({"start_control_plane"})
_CLUSTER_FIXTURES: Final = _LOCAL_FIXTURES | {"control_plane", "namespace", "new_namespace", "nodes", "kubectl"}
_BUILD: Final = pytest.StashKey[Binaries | BuildError]()


class NodesFactory(Protocol):
    """The fixture `nodes`: `Cluster.create_nodes` with cleanup after the test."""

    def __call__(self, nodes: int | Iterable[NodeSpec], **options: Any) -> list[str]:
        """Creates Nodes and returns their names; the options are those of `Cluster.create_nodes`."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--cluster``."""
    parser.addoption(
        "--cluster",
        choices=("local", "kind", "none"),
        default="local",
        help="what runs Kubernetes 1.37.2: processes built from source (local, the default: the first build takes "
        "minutes), kind with docker from PATH, or nothing (tests that need it are skipped)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, for runs that do not read it from pyproject.toml."""
    config.addinivalue_line("markers", "cluster: needs the real 1.37.2 control plane (skipped with --cluster=none)")


# First of all hooks, so that `-m "not cluster"` sees the marker.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs a cluster, and skips what the chosen one cannot do."""
    choice = config.getoption("--cluster")
    for item in items:
        wanted = _CLUSTER_FIXTURES & set(getattr(item, "fixturenames", ()))
        if not wanted:
            continue
        item.add_marker(pytest.mark.cluster)
        if choice == "none":
            item.add_marker(pytest.mark.skip(reason="needs the real control plane, and --cluster=none was given"))
        elif choice == "kind" and wanted & _LOCAL_FIXTURES:
            item.add_marker(pytest.mark.skip(reason="starts a control plane with options of its own: --cluster=local"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds before the first test, where no test's timeout runs, and with its progress on the terminal."""
    config = session.config
    if config.getoption("--cluster") != "local" or config.option.collectonly:
        return
    if not any(item.get_closest_marker("cluster") for item in session.items):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        if capture is None:
            config.stash[_BUILD] = ensure_built()
        else:
            with capture.global_and_fixture_disabled():
                config.stash[_BUILD] = ensure_built()
    except BuildError as error:
        config.stash[_BUILD] = error  # tests that need it say so; the others run


def _binaries(config: pytest.Config) -> Binaries:
    """What was built before the first test.

    Raises:
        BuildError: the build failed, once for each test that needs it.
    """
    built = config.stash.get(_BUILD, None)
    if built is None:
        return ensure_built()
    if isinstance(built, BuildError):
        raise built
    return built


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One Kubernetes 1.37.2 for the whole run, with every WAS gate on. Its logs stay in pytest's temporary folder."""
    directory = tmp_path_factory.mktemp("control-plane")
    if request.config.getoption("--cluster") == "kind":
        with KindCluster(directory) as cluster:
            yield cluster
    else:
        with ControlPlane(ControlPlaneOptions(directory=directory), _binaries(request.config)) as control_plane:
            yield control_plane


@pytest.fixture
def start_control_plane(request: pytest.FixtureRequest) -> Iterator[Callable[[ControlPlaneOptions], ControlPlane]]:
    """Starts further control planes with options of their own (other gates, no scheduler); 3 s each, stopped after
    the test."""
    started: list[ControlPlane] = []

    def start(options: ControlPlaneOptions) -> ControlPlane:
        control_plane = ControlPlane(options, _binaries(request.config))
        started.append(control_plane)
        control_plane.start()
        return control_plane

    yield start
    for control_plane in started:
        control_plane.stop()


@pytest.fixture
def new_namespace(control_plane: Cluster) -> Iterator[Callable[..., str]]:
    """`Cluster.new_namespace` for tests that need several; all are removed after the test, without waiting."""
    created: list[str] = []

    def create(prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        name = control_plane.new_namespace(prefix, labels)
        created.append(name)
        return name

    yield create
    for name in created:
        control_plane.delete_namespace(name)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, new_namespace: Callable[..., str]) -> str:
    """The name of one new namespace, called after the test."""
    prefix = re.sub("[^a-z0-9]+", "-", request.node.originalname.lower().removeprefix("test_"))[:40].strip("-")
    return new_namespace(prefix or "test")


@pytest.fixture
def nodes(control_plane: Cluster) -> Iterator[NodesFactory]:
    """Creates Nodes for this test only: ``nodes(4, labels={...})`` or ``nodes(rack_nodes(2, 4))``."""
    created: list[str] = []

    def create(nodes: int | Iterable[NodeSpec], **options: Any) -> list[str]:
        names = control_plane.create_nodes(nodes, **options)
        created.extend(names)
        return names

    yield create
    control_plane.delete_nodes(created)


@pytest.fixture
def kubectl(control_plane: Cluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`Cluster.kubectl` of the run's control plane."""
    return control_plane.kubectl
