"""The policy's word on the inventory -> the settings of `build`."""

from __future__ import annotations

from webhook.inventory.build import Settings
from webhook.inventory.snapshot import HOLDS, REPELLING_EFFECTS, Pool, State, Taint
from webhook.objects.quantity import Quantity
from webhook.policy.model import Cluster, NodePool


def settings_of(
    cluster: Cluster,
    *,
    is_file: bool = False,
    stable_seconds: float | None = None,
    age_seconds: float = 0.0,
    synced: State = HOLDS,
    version: str = "",
) -> Settings:
    """See `Settings`. Raises QuantityError where a pool's amount is no quantity."""
    return Settings(
        closed=cluster.inventory_closed,
        pools=tuple(_pool(pool) for pool in cluster.node_pools),
        is_file=is_file,
        stable_seconds=stable_seconds,
        age_seconds=age_seconds,
        synced=synced,
        version=version,
    )


def _pool(pool: NodePool) -> Pool:
    amounts: dict[str, int] = {}
    for name, text in pool.allocatable.items():
        quantity = Quantity.parse(text)
        amounts[name] = quantity.milli_value() if name == "cpu" else quantity.value()
    return Pool(
        name=pool.name,
        allocatable=amounts,
        labels=pool.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in pool.taints if t.effect in REPELLING_EFFECTS),
        node_count_max=pool.node_count_max,
    )
