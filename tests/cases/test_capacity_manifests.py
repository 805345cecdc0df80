"""M11, M19 and M21: public manifests through `muster review --inventory`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.cases import INVENTORIES, inventory_of
from webhook.cli.main import app

MANIFESTS = Path(__file__).parent / "manifests"
UNTAINTED = [{"kind": "Node", "metadata": {"name": f"g{i}"}, "spec": {"taints": None}} for i in (1, 2, 3, 4)]


def review(name: str, inventory: Path) -> tuple[int, list[tuple[str, str]]]:
    """(exit code, (rule, action) of all 5xx findings)."""
    result = CliRunner().invoke(app, ["review", str(MANIFESTS / name), "--inventory", str(inventory), "-o", "json"])
    objects = json.loads(result.output)["objects"]
    found = [(one["rule"], one["action"]) for entry in objects for one in entry["violations"]]
    return result.exit_code, [(rule, action) for rule, action in found if rule.startswith("WAS5")]


@pytest.fixture
def inventory(tmp_path: Path) -> Any:
    """Writes an inventory of the given items (tests/support/cases.py)."""

    def write(*items: Any) -> Path:
        path = tmp_path / "inventory.json"
        path.write_text(json.dumps({"kind": "List", "items": inventory_of(list(items))}))
        return path

    return write


@pytest.mark.parametrize("name", ["M11-rct.yaml", "M11-counter.yaml"])
def test_m11_claims_are_admitted_where_there_are_devices(name: str, inventory: Any) -> None:
    """The examples tolerate no taint, which a Pod mutator may add: a warning on tainted GPU nodes, nothing elsewhere."""
    assert review(name, INVENTORIES / "devices.yaml") == (0, [("WAS508", "Warn")])
    assert review(name, inventory("devices", *UNTAINTED)) == (0, [])


def test_m11_an_extended_resource_that_no_node_has_is_denied() -> None:
    assert review("M11-extended-resource.yaml", INVENTORIES / "racks.yaml") == (1, [("WAS503", "Deny")])


def test_m11_an_extended_resource_that_a_class_maps_is_admitted(inventory: Any) -> None:
    mapped = {
        "kind": "DeviceClass",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "gpu.example.com"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }

    assert review("M11-extended-resource.yaml", inventory("devices", *UNTAINTED, mapped)) == (0, [])


def test_m19_groups_with_a_node_pool_each(inventory: Any) -> None:
    """Fewer node pools than groups is a warning: they run one after another."""
    key = "cloud.google.com/gke-nodepool"
    pools = [{"kind": "Node", "metadata": {"name": name, "labels": {key: name}}} for name in ("g1", "c1", "c2")]

    assert review("M19.yaml", inventory("racks", *pools)) == (0, [])
    assert review("M19.yaml", inventory("racks", *pools[:2])) == (0, [("WAS509", "Warn")])
    assert review("M19.yaml", INVENTORIES / "racks.yaml") == (0, [("WAS509", "Warn")])


def test_m21_a_label_that_no_node_has_and_a_fault_that_only_the_driver_sees(inventory: Any) -> None:
    """The required label is on no node: denied. With it, what the driver will refuse is outside admission."""
    clique = {"kind": "Node", "metadata": {"name": "c1", "labels": {"nvidia.com/gpu.clique": "a.0"}}}

    assert review("M21.yaml", INVENTORIES / "racks.yaml") == (1, [("WAS505", "Deny")])
    assert review("M21.yaml", inventory("racks", clique)) == (0, [])
