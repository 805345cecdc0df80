"""What every test may use: the control plane's fixtures (tests/cluster/plugin.py) and quiet hypothesis settings."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.run_directory import run_directory

pytest_plugins = ["tests.cluster.plugin"]

# Machines are noisy: a slow example is no failure. `make prove` runs the long profile; its seed is printed on failure.
settings.register_profile("test", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("prove", settings.get_profile("test"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.fixture(scope="session", autouse=True)
def _one_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever the run and its processes put into the temporary directory is in one folder."""
    tmp_path_factory.getbasetemp()  # made before, so that logs of failed tests stay where pytest puts them
    with run_directory():
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long forms run only where they are asked for by `-m prove` (make prove); each has a short form here."""
    if "prove" in (config.option.markexpr or ""):
        return
    long_forms = [item for item in items if item.get_closest_marker("prove")]
    if long_forms:
        config.hook.pytest_deselected(items=long_forms)
        items[:] = [item for item in items if not item.get_closest_marker("prove")]
