"""A policy that follows its files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from webhook.policy.load import LoadedPolicies, PolicyError, load_policies
from webhook.policy.reload import CHECK_INTERVAL_SECONDS, PolicyFiles

HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: %s}\n"


class Clock:
    """Monotonic seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class ConfigMap:
    """A folder as kubelet mounts it: an update makes a new hidden folder and swaps one link."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def update(self, **files: str) -> None:
        self._count += 1
        hidden = self.folder / f"..data_{self._count}"
        hidden.mkdir()
        for name, text in files.items():
            (hidden / f"{name}.yaml").write_text(text)
            link = self.folder / f"{name}.yaml"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.yaml")
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(hidden.name)
        fresh.rename(self.folder / "..data")


class Watched:
    """PolicyFiles on a folder, with what it reported and how often it read."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.errors: list[PolicyError] = []
        self.reloads: list[tuple[str, str]] = []
        self.read_count = 0
        self.load: Callable[[], LoadedPolicies] = partial(load_policies, [folder])
        self.files = PolicyFiles(
            [folder],
            self._read,
            on_reload=lambda new, old: self.reloads.append((new.policy.metadata.name, old.policy.metadata.name)),
            on_error=self.errors.append,
            clock=self.clock,
        )

    def _read(self) -> LoadedPolicies:
        self.read_count += 1
        return self.load()

    def name_after(self, seconds: float) -> str:
        self.clock.seconds += seconds
        return self.files().policy.metadata.name


@pytest.fixture
def config_map(tmp_path: Path) -> ConfigMap:
    config_map = ConfigMap(tmp_path)
    config_map.update(policy=HEAD % "one")
    return config_map


@pytest.fixture
def watched(config_map: ConfigMap) -> Watched:
    return Watched(config_map.folder)


def test_a_swapped_link_brings_the_new_policy(config_map: ConfigMap, watched: Watched) -> None:
    config_map.update(policy=HEAD % "two")

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "two"
    assert watched.reloads == [("two", "one")]
    assert watched.files.error is None


def test_files_are_looked_at_once_a_second_and_read_only_when_they_changed(
    config_map: ConfigMap, watched: Watched
) -> None:
    config_map.update(policy=HEAD % "two")

    assert watched.name_after(CHECK_INTERVAL_SECONDS / 2) == "one"
    assert watched.name_after(CHECK_INTERVAL_SECONDS / 2) == "two"
    for _ in range(5):
        watched.name_after(CHECK_INTERVAL_SECONDS)
    assert watched.read_count == 2


def test_a_bad_file_keeps_the_old_policy_and_is_reported_once(config_map: ConfigMap, watched: Watched) -> None:
    config_map.update(policy=HEAD % "bad" + "spec: {rulez: {}}")

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "one"
    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "one"
    assert [str(error) for error in watched.errors] == [
        f'{config_map.folder}/policy.yaml:4:8: spec.rulez: unknown key "rulez"; did you mean "rules"?'
    ]
    assert watched.files.error is watched.errors[0]


def test_a_mended_file_is_taken_again(config_map: ConfigMap, watched: Watched) -> None:
    config_map.update(policy="- ")
    watched.name_after(CHECK_INTERVAL_SECONDS)
    config_map.update(policy=HEAD % "three")

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "three"
    assert watched.files.error is None


def test_a_policy_that_comes_back_unchanged_ends_the_error_without_a_reload(
    config_map: ConfigMap, watched: Watched
) -> None:
    config_map.update(policy="- ")
    watched.name_after(CHECK_INTERVAL_SECONDS)
    config_map.update(policy=HEAD % "one")

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "one"
    assert watched.files.error is None
    assert watched.reloads == []


def test_files_that_vanish_keep_the_old_policy(config_map: ConfigMap, watched: Watched) -> None:
    (config_map.folder / "policy.yaml").unlink()

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "one"
    assert "is a folder without a .yaml file" in str(watched.errors[0])


def test_a_second_file_is_noticed(config_map: ConfigMap, watched: Watched) -> None:
    part = HEAD.replace("Policy", "PolicyPart") % "team" + "spec: {tiers: [{name: gold, priorityClasses: [g]}]}"
    config_map.update(policy=HEAD % "one", team=part)
    watched.name_after(CHECK_INTERVAL_SECONDS)

    assert [tier.name for tier in watched.files().policy.spec.tiers] == ["gold"]


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD % "one")
    watched = Watched(tmp_path)

    def load_and_write() -> LoadedPolicies:
        loaded = load_policies([tmp_path])
        watched.load = partial(load_policies, [tmp_path])
        path.write_text(HEAD % "while-reading")
        return loaded

    path.write_text(HEAD % "two-longer")
    watched.load = load_and_write

    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "two-longer"
    assert watched.name_after(CHECK_INTERVAL_SECONDS) == "while-reading"


def test_there_is_no_start_without_a_policy(config_map: ConfigMap) -> None:
    config_map.update(policy="- ")

    with pytest.raises(PolicyError):
        Watched(config_map.folder)


def test_others_go_on_with_the_old_policy_while_one_reads(config_map: ConfigMap, watched: Watched) -> None:
    """The reader is held inside its load; everybody else gets an answer at once."""
    reading, go_on = threading.Event(), threading.Event()

    def slow() -> LoadedPolicies:
        reading.set()
        assert go_on.wait(30)
        return load_policies([config_map.folder])

    watched.load = slow
    config_map.update(policy=HEAD % "two")
    watched.clock.seconds += CHECK_INTERVAL_SECONDS
    reader = threading.Thread(target=watched.files)
    reader.start()
    assert reading.wait(30)

    watched.clock.seconds += CHECK_INTERVAL_SECONDS
    names = {watched.files().policy.metadata.name for _ in range(10)}
    go_on.set()
    reader.join(30)

    assert names == {"one"}
    assert watched.files().policy.metadata.name == "two"
    assert watched.read_count == 2
