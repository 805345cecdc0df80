"""The policy's word on the inventory -> the settings of `build`."""

from __future__ import annotations

from webhook.inventory.build import Settings
from webhook.inventory.snapshot import HOLDS, REPELLING_EFFECTS, Pool, State, Taint
from webhook.inventory.tables import AMOUNT_MAX
from webhook.objects.quantity import Quantity
from webhook.policy.model import Cluster, NodePool

# Every node that a pool may add is a Node in memory; a pool of more counts as one without a known limit.
NODE_COUNT_MAX = 20_000


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
        amounts[name] = max(0, min(Quantity.parse(text).amount_of(name), AMOUNT_MAX))
    return Pool(
        name=pool.name,
        allocatable=amounts,
        labels=pool.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in pool.taints if t.effect in REPELLING_EFFECTS),
        node_count_max=None if (pool.node_count_max or 0) > NODE_COUNT_MAX else pool.node_count_max,
    )
