"""Helm, and what a chart renders to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import helm

CHART = Path(__file__).parents[2] / "charts" / "muster"
JsonObject = dict[str, Any]


@pytest.fixture(scope="session")
def helm_program(request: pytest.FixtureRequest) -> Path:
    if request.config.getoption("--cluster") == "none":
        pytest.skip("Helm is built with Go, as the control plane is, and --cluster=none was given")
    return helm()


class Helm:
    """The program, with a home of its own so that no setting of this machine's user gets in."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    def __call__(self, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._program), *map(str, words)]
        return subprocess.run(
            command, env={**self._environment, **environment}, capture_output=True, text=True, check=False
        )


@pytest.fixture
def helm_command(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


Template = Callable[..., list[JsonObject]]


@pytest.fixture
def template(helm_command: Helm) -> Template:
    """`helm template`: the objects. Values by keyword as nested dicts; files: --set-file."""

    def render(
        release: str = "muster",
        namespace: str = "muster-system",
        files: Mapping[str, Path] | None = None,
        **values: Any,
    ) -> list[JsonObject]:
        result = helm_command(*template_words(release, namespace, files, values))
        assert result.returncode == 0, result.stderr
        return [document for document in yaml.safe_load_all(result.stdout) if document]

    return render


def template_words(
    release: str, namespace: str, files: Mapping[str, Path] | None, values: Mapping[str, Any]
) -> list[str | Path]:
    words: list[str | Path] = ["template", release, CHART, "--namespace", namespace, "--kube-version", "1.37.2"]
    for key, value in values.items():
        words += ["--set-json", f"{key}={json.dumps(value)}"]
    for key, path in (files or {}).items():
        words += ["--set-file", f"{key}={path}"]
    return words


def of_kind(objects: list[JsonObject], kind: str) -> list[JsonObject]:
    return [obj for obj in objects if obj["kind"] == kind]


def only(objects: list[JsonObject], kind: str) -> JsonObject:
    (found,) = of_kind(objects, kind)
    return found
