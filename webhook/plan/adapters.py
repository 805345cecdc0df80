"""One adapter per kind: typed object -> GangPlan. The table below is the list of kinds Muster understands."""

from __future__ import annotations

from collections.abc import Callable

from webhook.objects import core
from webhook.plan.model import GangPlan

Adapter = Callable[[str, str, core.Base], GangPlan]  # (api_version, namespace, object) -> plan

ADAPTERS: dict[str, Adapter] = {}


def plan_of(kind: str, api_version: str, namespace: str, obj: core.Base) -> GangPlan:
    """The plan of an object; a kind without adapter has an empty plan. Never raises for a readable object."""
    adapter = ADAPTERS.get(kind)
    if adapter is None:
        metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
        return GangPlan(kind=kind, api_version=api_version, namespace=namespace, name=metadata.name)
    return adapter(api_version, namespace, obj)
