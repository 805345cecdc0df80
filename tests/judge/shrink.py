"""A smaller pair with the same fault: fewer nodes, fewer Pods, fewer fields, as long as it still holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.judge.pairs import GroupSpec, LeafSpec, Pair, Raw, TreeSpec

_TRIES_MAX = 80


def shrink(pair: Pair, holds: Callable[[Pair], bool]) -> Pair:
    """holds: does the fault still show? Called at most 80 times."""
    tries = 0
    while True:
        for smaller in _smaller(pair):
            tries += 1
            if tries > _TRIES_MAX:
                return pair
            if holds(smaller):
                pair = smaller
                break
        else:
            return pair


def _smaller(pair: Pair) -> Iterator[Pair]:
    for index in range(len(pair.nodes)):
        if len(pair.nodes) > 1:
            yield replace(pair, nodes=pair.nodes[:index] + pair.nodes[index + 1 :])
    for root in _smaller_group(pair.root):
        yield replace(pair, root=root)
    for index, node in enumerate(pair.nodes):
        for lighter in _lighter_node(node):
            yield replace(pair, nodes=(*pair.nodes[:index], lighter, *pair.nodes[index + 1 :]))


def _smaller_group(group: GroupSpec) -> Iterator[GroupSpec]:
    if isinstance(group, TreeSpec):
        for index, child in enumerate(group.children):
            if len(group.children) > 1:
                yield replace(group, children=group.children[:index] + group.children[index + 1 :])
            for smaller in _smaller_group(child):
                yield replace(group, children=(*group.children[:index], smaller, *group.children[index + 1 :]))
        return
    yield from _smaller_leaf(group)


def _smaller_leaf(leaf: LeafSpec) -> Iterator[LeafSpec]:
    for index, one in enumerate(leaf.sets):
        if one.count > 1:
            fewer = replace(one, count=one.count - 1)
            yield replace(leaf, sets=(*leaf.sets[:index], fewer, *leaf.sets[index + 1 :]))
            if leaf.min_count and leaf.min_count > 1:
                sets = (*leaf.sets[:index], fewer, *leaf.sets[index + 1 :])
                yield replace(leaf, sets=sets, min_count=leaf.min_count - 1)
        elif len(leaf.sets) > 1:
            yield replace(leaf, sets=leaf.sets[:index] + leaf.sets[index + 1 :])
        for spec in _lighter_spec(one.template["spec"]):
            lighter = replace(one, template={**one.template, "spec": spec})
            yield replace(leaf, sets=(*leaf.sets[:index], lighter, *leaf.sets[index + 1 :]))
    if leaf.key:
        yield replace(leaf, key=None)


def _lighter_spec(spec: Raw) -> Iterator[Raw]:
    for key in sorted(set(spec) - {"containers", "terminationGracePeriodSeconds"}):
        yield {name: value for name, value in spec.items() if name != key}
    for part in ("requests", "limits"):
        for resource in sorted(spec["containers"][0]["resources"].get(part, {})):
            lighter = copy.deepcopy(spec)
            del lighter["containers"][0]["resources"][part][resource]
            yield lighter


def _lighter_node(node: Raw) -> Iterator[Raw]:
    if node["spec"].get("taints"):
        yield {**node, "spec": {}}
    for label in sorted(set(node["metadata"]["labels"]) - {"kubernetes.io/hostname"}):
        lighter = copy.deepcopy(node)
        del lighter["metadata"]["labels"][label]
        yield lighter
