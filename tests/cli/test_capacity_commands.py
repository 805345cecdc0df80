"""`muster review --inventory`, `muster explain`, and what an inventory file may look like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import job
from tests.feasibility.inventories import FOLDER
from webhook.cli.inventories import read_objects, snapshot_from
from webhook.cli.main import app
from webhook.policy.model import Cluster

RACKS = str(FOLDER / "racks.yaml")
POLICY = """apiVersion: muster.dev/v1alpha1
kind: Policy
metadata: {name: gates}
spec:
  cluster:
    featureGates: {GenericWorkload: true, TopologyAwareWorkloadScheduling: true, WorkloadWithJob: true}
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


def manifest(folder: Path, count: int, key: str | None = "topo.example.com/rack") -> str:
    made = (
        job("train").parallelism(count).completions(count).gang().disruption("all").gpu(8).toleration("nvidia.com/gpu")
    )
    if key:
        made.topology(key)
    path = folder / "job.json"
    path.write_text(json.dumps(made.dict()))
    return str(path)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_review_denies_with_an_inventory_and_says_nothing_without(tmp_path: Path, policy: str) -> None:
    path = manifest(tmp_path, 3)

    with_inventory = run("review", path, "--policy", policy, "--inventory", RACKS)
    without = run("review", path, "--policy", policy)

    assert with_inventory[0] == 1
    assert 'the best, "r1", holds 2' in with_inventory[1]
    assert without[0] == 0
    assert "WAS5" not in without[1]


def test_review_admits_what_fits(tmp_path: Path, policy: str) -> None:
    assert run("review", manifest(tmp_path, 2), "--policy", policy, "--inventory", RACKS)[0] == 0


def test_without_declared_gates_it_only_warns(tmp_path: Path) -> None:
    code, said = run("review", manifest(tmp_path, 3), "--inventory", RACKS)

    assert code == 0
    assert "WAS501" in said
    assert "GenericWorkload" in said


def test_explain_shows_each_domain_and_what_limits_it(tmp_path: Path) -> None:
    code, said = run("explain", "-f", manifest(tmp_path, 3), "--inventory", RACKS)

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if line.startswith("│")]
    assert code == 1
    assert "never: " in said
    assert rows == [
        ["r1", "2", "2", "2", "8 of nvidia.com/gpu per Pod"],
        ["r2", "2", "2", "2", "8 of nvidia.com/gpu per Pod"],
    ]


def test_explain_names_a_placement(tmp_path: Path) -> None:
    code, said = run("explain", "-f", manifest(tmp_path, 2), "--inventory", RACKS)

    assert code == 0
    assert "not provably impossible: 2 fit, for example 1 on g1, 1 on g2" in said


def test_explain_says_why_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(job("train").scheduler_name("volcano").dict()))

    code, said = run("explain", "-f", str(path), "--inventory", RACKS)

    assert code == 0
    assert 'unknown: scheduler "volcano"' in said


def items(path: Path | str) -> list[tuple[str, str]]:
    return [(raw["kind"], raw["metadata"]["name"]) for raw in read_objects(str(path))]


NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "List", "items": [NODE]}),
        json.dumps([NODE]),
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}),
        "kind: Node\nmetadata: {name: a}\n",
        "---\n---\nkind: List\nitems:\n- kind: Node\n  metadata: {name: a}\n",
    ],
)
def test_every_form_that_kubectl_prints_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "inventory.yaml").write_text(text)

    assert items(tmp_path / "inventory.yaml") == [("Node", "a")]
    assert items(tmp_path) == [("Node", "a")]


def test_a_label_that_looks_like_a_date_is_text(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text("kind: Node\nmetadata: {name: a, labels: {since: 2026-01-01}}\n")

    assert next(read_objects(str(path)))["metadata"]["labels"] == {"since": "2026-01-01"}


@pytest.mark.parametrize("text", ["a: b: c", "{", "just words"])
def test_an_unreadable_inventory_is_exit_2(tmp_path: Path, text: str) -> None:
    path = tmp_path / "i.yaml"
    path.write_text(text)

    code, said = run("review", manifest(tmp_path, 2), "--inventory", str(path))

    assert code == 2
    assert "the inventory cannot be read" in said


def test_no_inventory_is_none() -> None:
    assert snapshot_from([], Cluster()) is None
