"""What can be said of the image without building it (a build is described in the Dockerfile's first lines)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def instructions(stage: int) -> list[tuple[str, str]]:
    """(word, rest) of every instruction of a stage, continued lines joined."""
    lines = [line for line in TEXT.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]
    starts = [index for index, (word, _) in enumerate(found) if word == "FROM"]
    return found[starts[stage] : [*starts, len(found)][stage + 1]]


def test_the_last_stage_adds_one_folder_and_runs_nothing() -> None:
    """No compiler, no pip, no package manager: nothing is executed in it at all."""
    words = [word for word, _ in instructions(1)]

    assert "RUN" not in words
    assert [rest for word, rest in instructions(1) if word == "COPY"] == ["--from=build /opt/muster /opt/muster"]


def test_every_package_comes_with_a_hash() -> None:
    installs = re.findall(r"pip install [^&]*", " ".join(rest for word, rest in instructions(0) if word == "RUN"))

    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--no-deps /tmp/wheel/" in install, install


def test_the_build_backend_is_in_the_requirements_that_it_is_taken_from() -> None:
    wanted = re.search(r"\^\(([a-z|-]+)\)==", TEXT)
    assert wanted is not None
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "test.txt").read_text(), re.MULTILINE))

    assert set(wanted[1].split("|")) <= pinned


def test_it_runs_as_the_user_that_the_chart_says() -> None:
    user = next(rest for word, rest in instructions(1) if word == "USER")
    text = (ROOT / "charts" / "muster" / "templates" / "deployment.yaml").read_text()

    assert re.search(r"runAsUser: (\d+)", text)[1] == user.split(":")[0]  # type: ignore[index]
    assert int(user.split(":")[0]) > 0
    assert ("CMD", '["serve"]') in instructions(1)


def test_the_context_is_what_the_build_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions(0)
        if word == "COPY"
        for source in rest.split()[:-1]
    }  # fmt: skip

    assert copied == allowed
    assert all((ROOT / path).exists() for path in allowed)


def test_the_chart_runs_the_version_that_the_package_has() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "muster" / "Chart.yaml").read_text())
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version is not None
    assert chart["appVersion"] == version[1]
