"""The inventories of examples/inventories as snapshots, and the changes that tests make to them."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Pool, Snapshot, Taint
from webhook.sources.manifests import as_objects, read_file

FOLDER = Path(__file__).parents[2] / "examples" / "inventories"
GPU_SHAPE = {"cpu": 96_000, "memory": 1000 * 2**30, "pods": 110, "nvidia.com/gpu": 8, "rdma/ib": 8}
GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")


@cache
def objects(name: str) -> tuple[dict[str, Any], ...]:
    return tuple(dict(raw) for raw in as_objects(read_file(FOLDER / f"{name}.yaml")))


def snapshot(name: str = "racks", *, pools: tuple[Pool, ...] = (), **settings: Any) -> Snapshot:
    """A file is closed and fresh unless a test says otherwise."""
    return build(objects(name), Settings(is_file=True, pools=pools, **settings))


def pool(limit: int | None, **shape: int) -> Pool:
    return Pool(
        name="gpu", allocatable=GPU_SHAPE | shape, labels={"accel": "h200"}, taints=(GPU_TAINT,), node_count_max=limit
    )


def changed(name: str, change: Any) -> Snapshot:
    """The file's objects after `change(object)`, which may return None to leave one out."""
    found = [change(copy.deepcopy(raw)) for raw in objects(name)]
    return build([raw for raw in found if raw is not None], Settings(is_file=True))
