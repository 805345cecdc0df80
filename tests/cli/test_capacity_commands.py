"""`muster review --inventory`, `muster explain`, and what an inventory file may look like."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
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


def run(*words: str, given: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"}, input=given)
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


def test_explain_says_that_now_knows_of_no_pods(tmp_path: Path) -> None:
    """Else a full cluster looks empty."""
    path, pods = manifest(tmp_path, 2), tmp_path / "pods.json"
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    spec = {"nodeName": "g1", "containers": [container]}
    pods.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))

    without = run("explain", path, "-i", RACKS)[1]
    with_pods = run("explain", path, "-i", RACKS, "-i", str(pods))[1]

    assert 'The column "now" is as if nothing ran' in without
    assert "as if nothing ran" not in with_pods


def test_explain_names_what_it_cannot_read(tmp_path: Path) -> None:
    """ "Nothing here makes Pods" would be a lie: nobody knows. The rest is answered."""
    path = tmp_path / "set.yaml"
    bad = json.dumps(job("bad").set("spec.parallelism", "4").dict())
    path.write_text("\n---\n".join([bad, json.dumps(job("train").gpu(8).dict()), "kind: Job"]))

    code, said = run("explain", str(path), "--inventory", RACKS)
    alone = run("explain", "-", "--inventory", RACKS, given=bad)

    assert code == 2
    assert f'{path}:1: cannot be read: spec.parallelism: expected a whole number, found a string "4"; write 4' in said
    assert f"{path}:5: cannot be read: has no apiVersion" in said
    assert f'{path}:3 Job "train"' in said
    assert (alone[0], "makes Pods" in alone[1]) == (2, False)


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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: Node\na: b: c", ":2: not YAML: mapping values are not allowed in this context"),
        ("{", ": not JSON: Input data was truncated"),
        ("[" * 100_000, ": nested too deep"),
        ("a: \xe9", ": not text: incomplete UTF-8 octet sequence"),
        ("just words", ": holds something that is no object"),
    ],
)
def test_an_unreadable_inventory_is_named_and_exit_2(tmp_path: Path, text: str, fault: str) -> None:
    """With several files at hand, "in <byte string>" helps nobody."""
    path = tmp_path / "i.yaml"
    path.write_text(text, "latin-1")

    code, said = run("review", manifest(tmp_path, 2), "--inventory", str(path))

    assert code == 2
    assert said == f"the inventory cannot be read: {path}{fault}\n"


def test_an_object_that_is_there_twice_is_exit_2(tmp_path: Path) -> None:
    """A folder with two exports would be a cluster of twice the size, in which what never fits does."""
    exports = tmp_path / "exports"
    exports.mkdir()
    for name in ("monday", "tuesday"):
        (exports / f"{name}.yaml").write_text(Path(RACKS).read_text())

    code, said = run("explain", manifest(tmp_path, 2), "--inventory", str(exports))

    assert code == 2
    assert f'Node "g1" is in {exports}/monday.yaml and in {exports}/tuesday.yaml; give one export' in said


def test_no_inventory_is_none() -> None:
    assert snapshot_from([], Cluster()) is None


def test_explain_takes_words_options_and_json(tmp_path: Path) -> None:
    """`explain FILE`, `-f FILE` and `--filename FILE` are one; programs get the rows as JSON."""
    path = manifest(tmp_path, 3)

    said = {run("explain", *words, path, "-i", RACKS, "-o", "json") for words in ((), ("-f",), ("--filename",))}

    [(code, text)] = said
    [one] = json.loads(text)["objects"]
    assert code == 1
    assert (one["answer"], one["groups"][0]["needed"], one["groups"][0]["topologyKey"]) == (
        "never",
        3,
        "topo.example.com/rack",
    )
    assert one["groups"][0]["domains"][0] == {
        "domain": "r1",
        "nodes": 2,
        "fits": 2,
        "now": 2,
        "limits": ["8 of nvidia.com/gpu per Pod"],
    }


def test_explain_says_one_pod(tmp_path: Path) -> None:
    """One is no plural."""
    assert "needs 1 Pod in the cluster" in run("explain", manifest(tmp_path, 1, key=None), "-i", RACKS)[1]


LONG_NAME = "a-rack-with-a-name-that-is-as-long-as-a-label-may-be-63-letters"


def long_names(folder: Path) -> tuple[str, str]:
    """A manifest and an inventory whose rows are far wider than 80 columns."""
    taint = {"key": f"example.com/{LONG_NAME}", "value": LONG_NAME, "effect": "NoSchedule"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"topo.example.com/rack": LONG_NAME}},
        "spec": {"taints": [taint]},
        "status": {"allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "8"}},
    }
    (folder / "nodes.json").write_text(json.dumps(node))
    return manifest(folder, 3), str(folder / "nodes.json")


def test_no_text_is_lost_in_a_pipe(tmp_path: Path) -> None:
    """80 columns are a terminal's, not a file's: a row stays one line."""
    path, nodes = long_names(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "webhook.cli.main", "explain", path, "-i", nodes],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )

    [row] = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert row.split("│")[1].strip() == LONG_NAME
    assert row.split("│")[5].strip() == f"1 taint example.com/{LONG_NAME}={LONG_NAME}:NoSchedule"


def test_no_text_is_lost_on_a_narrow_terminal(tmp_path: Path) -> None:
    """Cells are folded to the width of the terminal, not cut."""
    path, nodes = long_names(tmp_path)
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 60, 0, 0))
    command = [sys.executable, "-m", "webhook.cli.main", "explain", path, "-i", nodes]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}

    process = subprocess.Popen(
        command, stdout=slave, stdin=slave, env={**environment, "NO_COLOR": "1", "TERM": "xterm"}
    )
    os.close(slave)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(master, 65536):
            said += chunk
    process.wait()
    os.close(master)

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode()).replace("\r", "")
    rows = [line.split("│")[1:-1] for line in plain.splitlines() if line.startswith("│")]
    columns = ["".join(cells).replace(" ", "") for cells in zip(*rows, strict=True)]
    assert max(map(len, plain.splitlines())) <= 60
    assert columns[0] == LONG_NAME
    assert columns[4] == f"1taintexample.com/{LONG_NAME}={LONG_NAME}:NoSchedule"


@pytest.mark.parametrize("command", ["explain", "review"])
def test_an_inventory_without_nodes_is_exit_2(tmp_path: Path, command: str) -> None:
    """By it nothing would ever fit: it is the wrong file, not a cluster without nodes."""
    path = manifest(tmp_path, 2)

    code, said = run(command, path, "-i", path)

    assert code == 2
    assert "job.json holds no Node, only 1 Job; give what `muster inventory export`" in said


def test_declared_pools_are_nodes_to_come(tmp_path: Path) -> None:
    """A cluster that scales from zero has no Node at night."""
    pool = "    nodePools: [{name: gpu, allocatable: {cpu: '8', pods: '10', nvidia.com/gpu: '8'}, nodeCountMax: 4}]\n"
    (tmp_path / "policy.yaml").write_text(POLICY + pool)
    (tmp_path / "classes.yaml").write_text("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\n")

    code, _ = run(
        "review",
        manifest(tmp_path, 2, key=None),
        "-p",
        str(tmp_path / "policy.yaml"),
        "-i",
        str(tmp_path / "classes.yaml"),
    )

    assert code == 0


def test_explain_without_nodes_says_how_to_get_them(tmp_path: Path) -> None:
    code, said = run("explain", manifest(tmp_path, 2))

    assert code == 2
    assert "give the nodes by --inventory FILE: `muster inventory export`" in said


def test_a_topology_key_that_no_node_has_makes_no_empty_table(tmp_path: Path) -> None:
    exit_code, output = run("explain", manifest(tmp_path, 2), "-i", str(FOLDER / "cpu-only.yaml"))
    assert exit_code == 1
    assert "no node has that label" in output
    assert "what limits it" not in output
