"""Raw Pod fields -> the pieces of a PodDemand: selectors, tolerations, ports, anti-affinity, spread.

A piece is made only of what certainly binds; every other part of the field adds a Reason to `doubts` and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.feasibility.model import Doubt, Reason, Requirement, SpreadLimit, Term, Toleration, as_int64
from webhook.inventory.tables import HOSTNAME, NAME_KEY
from webhook.objects import core

_OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}


def node_selector(selector: Mapping[str, str] | None) -> tuple[Requirement, ...]:
    """spec.nodeSelector: each label has exactly the value."""
    return tuple(Requirement(key, "In", (str(value),)) for key, value in sorted((selector or {}).items()))


def terms(node_affinity: Any, doubts: list[Reason]) -> tuple[Term, ...] | None:
    """Required node affinity: the terms, ORed. None where none is asked; () matches no node, as in the scheduler.

    An empty term matches nothing. A term with a part that cannot be read may match, so the whole is left out then.
    """
    required = _map(_map(node_affinity).get("requiredDuringSchedulingIgnoredDuringExecution"))
    if not required:
        return None
    result: list[Term] = []
    for raw in _list(required.get("nodeSelectorTerms")):
        term = _map(raw)
        expressions, fields = _list(term.get("matchExpressions")), _list(term.get("matchFields"))
        if not expressions and not fields:
            continue
        labels = [_requirement(item) for item in expressions]
        names = [_name_requirement(item) for item in fields]
        if None in labels or None in names:
            doubts.append(Reason(Doubt.UNREADABLE, "a required node affinity term cannot be read"))
            return None
        result.append(Term(tuple(item for item in labels if item), tuple(item for item in names if item)))
    return tuple(result)


def _requirement(raw: Any) -> Requirement | None:
    item = _map(raw)
    key, operator, values = item.get("key"), item.get("operator"), _list(item.get("values"))
    if not isinstance(key, str) or not isinstance(operator, str) or operator not in _OPERATORS:
        return None
    if not all(isinstance(value, str) for value in values):
        return None
    if operator in ("Gt", "Lt") and (len(values) != 1 or as_int64(values[0]) is None):
        return None
    return Requirement(key, operator, tuple(sorted(values)))


def _name_requirement(raw: Any) -> Requirement | None:
    item = _map(raw)
    values = _list(item.get("values"))
    if item.get("key") != "metadata.name" or item.get("operator") not in ("In", "NotIn") or len(values) != 1:
        return None
    return Requirement(NAME_KEY, str(item["operator"]), (str(values[0]),))


def tolerations(raw: Sequence[Mapping[str, Any]] | None, doubts: list[Reason]) -> tuple[Toleration, ...]:
    """spec.tolerations, without duplicates, sorted."""
    result: set[Toleration] = set()
    for item in raw or ():
        toleration = Toleration(
            key=_text(item.get("key")),
            operator=_text(item.get("operator")),
            value=_text(item.get("value")),
            effect=_text(item.get("effect")),
        )
        if toleration.operator in ("Gt", "Lt"):
            doubts.append(Reason(Doubt.TOLERATION_OPERATOR, f"tolerations with operator {toleration.operator}"))
        result.add(toleration)
    return tuple(sorted(result, key=lambda one: (one.key, one.operator, one.value, one.effect)))


def host_ports(spec: core.PodSpec) -> frozenset[tuple[str, str, int]]:
    """(ip, protocol, port) of containers and sidecars. hostNetwork makes every container port one (SetDefaults)."""
    containers = [*(spec.containers or ())]
    containers += [one for one in spec.init_containers or () if one.restart_policy == "Always"]
    result: set[tuple[str, str, int]] = set()
    for container in containers:
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else None)
            if number:
                result.add((port.host_ip or "0.0.0.0", port.protocol or "TCP", number))  # noqa: S104
    return frozenset(result)


def conflict(one: frozenset[tuple[str, str, int]], other: frozenset[tuple[str, str, int]]) -> bool:
    """HostPortInfo.CheckConflict: equal protocol and port, and equal IP or one of them is the wildcard."""
    wildcard = "0.0.0.0"  # noqa: S104
    return any(
        protocol == other_protocol and port == other_port and (ip == other_ip or wildcard in (ip, other_ip))
        for ip, protocol, port in one
        for other_ip, other_protocol, other_port in other
    )


def apart(
    affinity: Mapping[str, Any], labels: Mapping[str, str], namespace: str, doubts: list[Reason]
) -> tuple[str, ...]:
    """Topology keys of required Pod anti-affinity that certainly selects the set's own Pods."""
    keys: set[str] = set()
    anti = _map(affinity.get("podAntiAffinity"))
    for raw in _list(anti.get("requiredDuringSchedulingIgnoredDuringExecution")):
        term = _map(raw)
        key = term.get("topologyKey")
        # matchLabelKeys may name a label that is different in each Pod (a completion index).
        plain = not term.get("matchLabelKeys") and not term.get("mismatchLabelKeys")
        certain = isinstance(key, str) and plain and _own_namespace(term, namespace)
        if certain and _selects(term.get("labelSelector"), labels):
            keys.add(str(key))
        else:
            doubts.append(
                Reason(Doubt.POD_AFFINITY, "required Pod anti-affinity that may or may not meet its own Pods")
            )
    return tuple(sorted(keys))


def affinity_keys(affinity: Mapping[str, Any], doubts: list[Reason]) -> tuple[str, ...]:
    """Labels that required Pod affinity asks of a node (satisfyPodAffinity); the affinity itself is left out. The
    hostname key is looked at node by node since 1.37 and asks for no label there."""
    terms_raw = _list(_map(affinity.get("podAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution"))
    if terms_raw:
        doubts.append(Reason(Doubt.POD_AFFINITY, "required Pod affinity"))
    keys = {_text(_map(raw).get("topologyKey")) for raw in terms_raw}
    return tuple(sorted(keys - {"", HOSTNAME}))


def spread(
    raw: Sequence[Mapping[str, Any]] | None, labels: Mapping[str, str], doubts: list[Reason]
) -> tuple[tuple[str, ...], tuple[SpreadLimit, ...]]:
    """DoNotSchedule constraints: the labels a node must have, and the limits that hold whatever other Pods exist.

    Other Pods that the selector meets can only raise the global minimum, and so allow more; with fewer domains than
    minDomains the minimum is 0 by definition, which is the one case that is certain (minMatchNum).
    """
    keys: set[str] = set()
    limits: set[SpreadLimit] = set()
    for item in raw or ():
        key = item.get("topologyKey")
        if item.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule" or not isinstance(key, str):
            continue
        keys.add(key)
        doubts.append(Reason(Doubt.SPREAD, f"topology spread over {key}"))
        skew, domains = item.get("maxSkew"), item.get("minDomains")
        selector = _map(item.get("labelSelector"))
        # An empty selector counts no Pod at all (countPodsMatchSelector), and so sets no limit.
        is_empty = not selector.get("matchLabels") and not selector.get("matchExpressions")
        selects = not item.get("matchLabelKeys") and not is_empty and _selects(selector, labels)
        if isinstance(skew, int) and isinstance(domains, int) and skew > 0 and selects:
            limits.add(SpreadLimit(key, skew, domains))
    return tuple(sorted(keys)), tuple(sorted(limits, key=lambda limit: (limit.key, limit.max_skew)))


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Does a label selector certainly match Pods of this template? Labels may be added to a Pod, never taken away or
    changed, so only what no added label can break counts."""
    if not isinstance(selector, Mapping):
        return False
    wanted = _map(selector.get("matchLabels"))
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_certain(_map(item), labels) for item in _list(selector.get("matchExpressions")))


def _certain(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(_text(requirement.get("key")))
    if value is None:
        return False
    values = _list(requirement.get("values"))
    operator = requirement.get("operator")
    return (
        operator == "Exists" or (operator == "In" and value in values) or (operator == "NotIn" and value not in values)
    )


def _own_namespace(term: Mapping[str, Any], namespace: str) -> bool:
    if namespace and namespace in _list(term.get("namespaces")):
        return True
    selector = term.get("namespaceSelector")
    if selector is None:
        return not term.get("namespaces")
    return isinstance(selector, Mapping) and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
