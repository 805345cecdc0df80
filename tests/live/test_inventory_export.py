"""`muster inventory export` against a real API server: what it writes gives the same answers as the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import job
from tests.cluster.cluster import Cluster, NodeSpec
from tests.cluster.plugin import NodesFactory
from webhook.cli.inventories import read_objects
from webhook.cli.inventory import anonymized, as_yaml
from webhook.cli.main import app
from webhook.feasibility.demand import demands
from webhook.feasibility.engine import evaluate
from webhook.feasibility.result import Feasible, Infeasible
from webhook.inventory.build import Settings, build

KEY = "topo.example.com/export"


def export(cluster: Cluster, path: Path, *options: str) -> list[dict[str, Any]]:
    words = ["inventory", "export", "--kubeconfig", str(cluster.kubeconfig()), "-o", str(path), *options]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return list(read_objects(str(path)))


def test_a_file_that_cannot_be_written_is_said_in_one_line(control_plane: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "inventory.json"
    words = ["inventory", "export", "--kubeconfig", str(control_plane.kubeconfig()), "-o", str(path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert f"{path}: cannot be written" in result.stderr


@pytest.fixture
def rack(nodes: NodesFactory) -> list[str]:
    """Two nodes of a rack of their own, one of them tainted and cordoned."""
    return nodes(
        [
            NodeSpec("export-one", labels={KEY: "r1"}, allocatable={"example.com/gpu": "4"}),
            NodeSpec(
                "export-two",
                labels={KEY: "r1"},
                allocatable={"example.com/gpu": "4"},
                taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
                annotations={"example.com/large": "x" * 5000, "muster.dev/high-water": '{"example.com/gpu": "8"}'},
                unschedulable=True,
            ),
        ]
    )


def test_the_export_says_what_the_cluster_says(control_plane: Cluster, rack: list[str], tmp_path: Path) -> None:
    objects = export(control_plane, tmp_path / "inventory.json")
    kubectl = json.loads(control_plane.kubectl("get", "nodes,runtimeclasses,deviceclasses", "-o", "json").stdout)

    exported, printed = build(objects, Settings(is_file=True)), build(kubectl["items"], Settings(is_file=True))

    assert exported.version == printed.version
    assert {"export-one", "export-two"} <= {node.name for node in exported.nodes}
    assert "x" * 100 not in (tmp_path / "inventory.json").read_text()
    made = job("train").parallelism(2).completions(2).gang().gpu(4, "example.com/gpu").topology(KEY)
    assert isinstance(evaluate(demands(made.plan())[0], exported), Infeasible)
    assert isinstance(evaluate(demands(made.toleration("dedicated").plan())[0], exported), Feasible)


def test_the_export_is_json_or_yaml_on_standard_output(control_plane: Cluster, rack: list[str], tmp_path: Path) -> None:
    """-o is a format, as everywhere; `-o FILE`, as it was once called, is the JSON in a file."""
    written = export(control_plane, tmp_path / "inventory.json")

    for form in ("json", "yaml"):
        words = ["inventory", "export", "--kubeconfig", str(control_plane.kubeconfig()), "-o", form]
        result = CliRunner().invoke(app, words)
        (tmp_path / form).write_text(result.stdout)
        assert sorted(map(str, read_objects(str(tmp_path / form)))) == sorted(map(str, written))
        assert not Path(form).exists()


def test_words_that_look_like_truth_stay_words(tmp_path: Path) -> None:
    """A label value "on" is text."""
    node = {"kind": "Node", "metadata": {"name": "a", "labels": {"gpu": "on", "size": "1e3", "since": "2026-01-01"}}}
    (tmp_path / "i.yaml").write_text(as_yaml({"kind": "List", "items": [node]}))

    assert next(read_objects(str(tmp_path / "i.yaml")))["metadata"]["labels"] == node["metadata"]["labels"]  # type: ignore[index]


def test_an_anonymous_export_holds_no_name_of_a_node(control_plane: Cluster, rack: list[str], tmp_path: Path) -> None:
    objects = export(control_plane, tmp_path / "inventory.json", "--anonymize", "--pods")

    text = (tmp_path / "inventory.json").read_text()
    assert not [name for name in rack if name in text]
    mine = [obj for obj in objects if obj["metadata"].get("labels", {}).get(KEY) == "r1"]
    assert len(mine) == 2
    assert all(obj["metadata"]["labels"]["kubernetes.io/hostname"] == obj["metadata"]["name"] for obj in mine)


def test_names_inside_other_names_are_replaced_once() -> None:
    raw = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": f"pool-{name}"}}}
        for name in ("gpu-1", "gpu-10")
    ]
    pods = [{"kind": "Pod", "metadata": {"name": "secret", "namespace": "team"}, "spec": {"nodeName": "gpu-10"}}]

    found = anonymized([*raw, *pods])

    assert [obj["metadata"]["name"] for obj in found] == ["node-1", "node-2", "pod-3"]
    assert [obj["metadata"]["labels"]["pool"] for obj in found[:2]] == ["pool-node-1", "pool-node-2"]
    assert found[2]["spec"]["nodeName"] == "node-2"
    assert found[2]["metadata"]["namespace"] == "anonymous"


def test_pools_that_claims_and_rules_name_are_those_of_the_slices() -> None:
    """A driver may name a node's pool after it with more words; a claim says nothing of the node."""
    node = {"kind": "Node", "metadata": {"name": "gpu-1"}}
    pool = {"name": "gpu-1-mig", "generation": 1, "resourceSliceCount": 1}
    raw = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"nodeName": "gpu-1", "pool": pool}}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "gpu-1-mig"}}}
    results = [{"driver": "d", "pool": "gpu-1-mig", "device": "x"}]
    status = {"allocation": {"devices": {"results": results}}}
    held = {"kind": "ResourceClaim", "metadata": {"name": "secret", "namespace": "team"}, "status": status}

    found = anonymized([node, raw, rule, held])

    assert found[1]["spec"]["pool"]["name"] == "node-1-mig"
    assert found[2]["spec"]["deviceSelector"]["pool"] == "node-1-mig"
    assert found[3]["status"]["allocation"]["devices"]["results"][0]["pool"] == "node-1-mig"
    assert found[3]["metadata"] == {"name": "claim-4", "namespace": "anonymous"}


def test_a_cluster_that_does_not_answer_is_exit_2(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))

    result = CliRunner().invoke(app, ["inventory", "export", "--kubeconfig", str(path)])

    assert result.exit_code == 2
    assert "Nodes cannot be listed: the API server did not answer" in result.output
