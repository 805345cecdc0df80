"""A gang that blocks itself.

## What it checks
A gang with a topology key whose Pods keep each other out of one domain of that key: required anti-affinity against
themselves on the same key, a DoNotSchedule spread on it, or, with the key `kubernetes.io/hostname`, a host port.

## Why
The topology key puts the whole gang into one domain. Required self anti-affinity on the same key lets one Pod into
each domain: with minCount above 1 no cluster can place it, however large, and the Pods stay Pending. That is proven
and denied.
A spread counts other domains, and two nodes may carry the same host name label, so these two are likely and only
warned about.

Only selectors that are certain to match the template's own labels count. A term with `matchLabelKeys` or
`mismatchLabelKeys` is passed over.

## Fields read
`schedulingConstraints.topology[0].key` of the group, minCount, `affinity.podAntiAffinity`,
`topologySpreadConstraints`, `ports[].hostPort` and the labels of the template

## Allowed
```yaml
# topology key topo.example.com/rack, and one Pod on each node of the rack
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: train}}}
```

## Denied
```yaml
# topology key topo.example.com/rack
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: topo.example.com/rack, labelSelector: {matchLabels: {app: train}}}
```

## Fix
Use a smaller domain (`kubernetes.io/hostname`) in the anti-affinity or spread, or a larger one in the group.

## References
pkg/scheduler/framework/plugins/{topologyaware,interpodaffinity,podtopologyspread,nodeports} of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath
from webhook.objects.words import plural
from webhook.plan.model import PodSet
from webhook.rules._gangs import Gang, cap_on_update, gangs
from webhook.rules._schedulers import unless
from webhook.rules._self_match import own_namespace, selects
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS119",
    name="gang-blocks-itself",
    summary="the Pods of a gang keep each other out of the one domain that its topology key puts them in",
    kinds=frozenset({"Job", "CronJob", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    gate="TopologyAwareWorkloadScheduling",
)

_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class _Block:
    """At most `pod_count_max` Pods of the set in one domain of the key; `proven` whatever the nodes are, else
    `unless` says when it does not hold."""

    path: FieldPath
    what: str
    pod_count_max: int
    proven: bool
    unless: str = ""


def check(facts: Facts) -> Iterator[Finding]:
    for gang in gangs(facts):
        # Others may bring Pods to a named group; without being filled by this object it is not meant for it alone.
        if gang.topology_key is None or not gang.filled_by_this_object:
            continue
        blocks = {p.role: list(_blocks(p, gang.topology_key, facts.namespace)) for p in gang.pod_sets}
        for proven in (True, False):
            fitting = sum(_fitting(p, blocks[p.role], proven) for p in gang.pod_sets)
            if fitting < gang.min_count:
                for block in _all(blocks, proven):
                    yield _finding(facts, gang, block, fitting, proven)
                break


def _fitting(pod_set: PodSet, blocks: list[_Block], proven: bool) -> int:
    """Pods of the set that one domain can hold at most."""
    limits = [block.pod_count_max for block in blocks if block.proven or not proven]
    return min([pod_set.pod_count or 0, *limits])


def _all(blocks: dict[str, list[_Block]], proven: bool) -> Iterator[_Block]:
    for of_role in blocks.values():
        yield from (block for block in of_role if block.proven or not proven)


def _blocks(pod_set: PodSet, key: str, namespace: str) -> Iterator[_Block]:
    yield from _anti_affinity(pod_set, key, namespace)
    yield from _spread(pod_set, key)
    if key == _HOSTNAME:
        yield from _host_ports(pod_set)


def _anti_affinity(pod_set: PodSet, key: str, namespace: str) -> Iterator[_Block]:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    anti_affinity = (pod_set.template.spec.affinity or {}).get("podAntiAffinity")
    terms = anti_affinity.get(field) if isinstance(anti_affinity, Mapping) else None
    at = pod_set.spec_path / "affinity" / "podAntiAffinity" / field
    for index, term in enumerate(terms if isinstance(terms, list) else ()):
        if not isinstance(term, Mapping) or term.get("topologyKey") != key or not own_namespace(term, namespace):
            continue
        if _matches_itself(term, pod_set):
            yield _Block(at.at(index), "this anti-affinity", 1, proven=True)


def _spread(pod_set: PodSet, key: str) -> Iterator[_Block]:
    at = pod_set.spec_path / "topologySpreadConstraints"
    for index, spread in enumerate(pod_set.template.spec.topology_spread_constraints or ()):
        max_skew = spread.get("maxSkew")
        if spread.get("topologyKey") != key or spread.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        if isinstance(max_skew, int) and _matches_itself(spread, pod_set):
            what = f"this spread with maxSkew {max_skew}"
            yield _Block(at.at(index), what, max_skew, proven=False, unless="other domains hold such Pods already")


def _host_ports(pod_set: PodSet) -> Iterator[_Block]:
    at = pod_set.spec_path / "containers"
    for index, container in enumerate(pod_set.template.spec.containers or ()):
        for number, port in enumerate(container.ports or ()):
            if port.host_port:
                path = (at.at(index) / "ports").at(number) / "hostPort"
                unless = "two nodes carry the same host name label"
                yield _Block(path, f"host port {port.host_port}", 1, proven=False, unless=unless)


def _matches_itself(owner: Mapping[str, object], pod_set: PodSet) -> bool:
    if owner.get("matchLabelKeys") or owner.get("mismatchLabelKeys"):
        return False  # turned into more requirements at Pod creation, from labels that the template may not show
    return selects(owner.get("labelSelector"), pod_set.template.metadata.labels or {})


def _finding(facts: Facts, gang: Gang, block: _Block, fitting: int, proven: bool) -> Finding:
    never = f"it fits no cluster{unless(facts, gang.pod_sets)}"
    outcome = never if block.proven else f"it waits, unless {block.unless}"
    return Finding(
        field=block.path,
        message=(
            f'{gang.title} puts {plural(gang.min_count, "Pod")} into one "{gang.topology_key}", and {block.what} lets in '
            f"{fitting} at most: {outcome}"
        ),
        fix=_fix(gang.topology_key or ""),
        seen=gang.min_count,
        limit=fitting,
        excess=gang.min_count - fitting,
        at_most=cap_on_update(facts, gang) if proven else Action.WARN,
    )


def _fix(key: str) -> str:
    if key == _HOSTNAME:
        return "drop it, or give the group the key of a larger domain than a node"
    return f'drop it, use "{_HOSTNAME}" here, or give the group the key of a larger domain'
