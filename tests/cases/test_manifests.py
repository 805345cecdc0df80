"""Public manifests through `muster review`, with the verdict that is right for each (written anew in our words)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from webhook.cli.main import app

MANIFESTS = Path(__file__).parent / "manifests"


def review(name: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """(exit code, objects) of `muster review NAME --output json`."""
    result = CliRunner().invoke(app, ["review", str(MANIFESTS / name), "--output", "json", *options])
    return result.exit_code, json.loads(result.output)["objects"]


def said(entry: dict[str, Any], action: str) -> list[str]:
    return [violation["rule"] for violation in entry["violations"] if violation["action"] == action]


def test_m01_retired_groups_are_denied_with_the_rewrite_and_sharing_is_warned() -> None:
    """v1alpha2 is gone; after the rewrite two Pods share one device, which is legal."""
    code, objects = review("M01.yaml")

    groups = [entry for entry in objects if entry["kind"] == "PodGroup"]
    assert code == 1
    assert [said(entry, "Deny") for entry in groups] == [["WAS307"], ["WAS307"]]
    assert [said(entry, "Warn") for entry in groups] == [["WAS203"], ["WAS203"]]
    assert all(entry["allowed"] for entry in objects if entry["kind"] == "Deployment")
    fixes = {violation["rule"]: violation["fix"] for violation in groups[0]["violations"]}
    assert '"scheduling.k8s.io/v1beta1"' in fixes["WAS307"]


def test_m01_rewritten_is_admitted(tmp_path: Path) -> None:
    """What the denial says to write is admitted, with the warning on sharing."""
    text = (MANIFESTS / "M01.yaml").read_text().replace("scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1")
    (tmp_path / "m01.yaml").write_text(text)

    result = CliRunner().invoke(app, ["review", str(tmp_path / "m01.yaml"), "--output", "json"])

    assert result.exit_code == 0
    objects = json.loads(result.output)["objects"]
    assert [said(entry, "Warn") for entry in objects if entry["kind"] == "PodGroup"] == [["WAS203"], ["WAS203"]]


def test_m02_template_ref_is_rewritten_to_workload_ref() -> None:
    """podGroupTemplateRef became workloadRef."""
    code, (group,) = review("M02.yaml")

    assert code == 1
    assert said(group, "Deny") == ["WAS307"]
    assert '"workloadRef": {"workloadName": "js", "templateName": "workers"}' in group["violations"][0]["fix"]


@pytest.mark.parametrize("name", ["M04.yaml", "M10.yaml"])
def test_m04_m10_are_admitted_without_a_word_against_them(name: str) -> None:
    """Delegation by annotation; a Kueue annotation that is no WAS constraint, and no name at all."""
    code, (entry,) = review(name)

    assert code == 0
    assert entry["violations"] == []


def test_m04_is_admitted_where_job_scheduling_is_not_allowed(tmp_path: Path) -> None:
    """The alpha field is not used, so its allow-list does not matter."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: x}\n"
        "spec: {features: {jobScheduling: {namespaces: [team-a]}}}\n"
    )

    assert review("M04.yaml", "--policy", str(policy))[0] == 0


def test_m06_old_jobset_field_is_warned() -> None:
    """`scheduling.policy` is not a field; the JobSet itself is fine."""
    code, (entry,) = review("M06.yaml")

    assert code == 0
    assert said(entry, "Warn") == ["WAS306", "WAS309"]


def test_m08_missing_device_class_is_warned_where_the_set_is_complete() -> None:
    """A class that comes later is a supported order: a warning, and only where its absence is known."""
    code, (entry,) = review("M08.yaml")
    _, (complete,) = review("M08.yaml", "--complete")

    assert code == 0
    assert "WAS216" not in said(entry, "Warn")
    assert "WAS216" in [unknown["rule"] for unknown in entry["unknowns"]]
    assert "WAS216" in said(complete, "Warn")
    assert complete["allowed"]


def test_m12_mpi_pods_are_admitted() -> None:
    """`-n` is `-np`; a launcher's size is no barrier for the Pod that launches."""
    code, objects = review("M12.yaml")

    assert code == 0
    assert [entry["violations"] for entry in objects] == [[], [], []]
