"""High-water marks: what nodes and slices had lately and have not now. It may come back, so it counts for "never".

- A resource of which a node had more counts for three days: a device plugin restarts, MIG is reconfigured, a node reboots.
- A device that a ResourceSlice had counts for three days, with the whole slice as it was.
- A node that was deleted counts for ten minutes: it is being replaced.

With them goes since when labels, taints and devices are unchanged (`closed: auto`), and a fingerprint of those, by which
an agent that has just started knows whether that still holds. Times are seconds of the wall clock: marks outlive machines.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from webhook.inventory.build import GONE, HIGH_WATER
from webhook.inventory.snapshot import Node

MARK_SECONDS = 3 * 86400.0
GONE_SECONDS = 600.0
# A ConfigMap holds 1 MiB, and base64 makes four bytes of three.
ENCODED_BYTES_MAX = 700_000

Raw = dict[str, Any]
Amounts = tuple[tuple[int, float], ...]
"""(amount, when it was last there), each less than the one before and seen later."""


class MarksError(ValueError):
    """These are no marks; the message says why."""


class Former(msgspec.Struct, frozen=True):
    """An object as it was: a Node or a ResourceSlice as `muster inventory export` writes it. at: when it last was so."""

    at: float
    raw: Raw


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See the module. nodes: by node and resource. overflowed_at: when there was last more than a ConfigMap holds."""

    changed_at: float = 0.0
    fingerprint: str = ""
    nodes: dict[str, dict[str, Amounts]] = {}
    gone: dict[str, Former] = {}
    slices: dict[str, Former] = {}
    overflowed_at: float | None = None

    def merged(self, other: Marks) -> Marks:
        """What either knows. Since when all is unchanged is this one's word."""
        nodes = {name: dict(amounts) for name, amounts in other.nodes.items()}
        for name, amounts in self.nodes.items():
            known = nodes.setdefault(name, {})
            for resource, seen in amounts.items():
                known[resource] = lasting((*known.get(resource, ()), *seen))
        return msgspec.structs.replace(
            self,
            nodes=nodes,
            gone=_latest(self.gone, other.gone),
            slices=_latest(self.slices, other.slices),
            overflowed_at=max((at for at in (self.overflowed_at, other.overflowed_at) if at is not None), default=None),
        )

    def without_old(self, now: float) -> Marks:
        """Only what counts still."""
        nodes: dict[str, dict[str, Amounts]] = {}
        for name, amounts in self.nodes.items():
            kept = {resource: still(seen, now) for resource, seen in amounts.items()}
            kept = {resource: seen for resource, seen in kept.items() if seen}
            if kept:
                nodes[name] = kept
        return msgspec.structs.replace(
            self,
            nodes=nodes,
            gone={name: one for name, one in self.gone.items() if now - one.at < GONE_SECONDS},
            slices={name: one for name, one in self.slices.items() if now - one.at < MARK_SECONDS},
            overflowed_at=self.overflowed_at if self.has_overflowed(now) else None,
        )

    def has_overflowed(self, now: float) -> bool:
        """Is it likely that something is missing?"""
        return self.overflowed_at is not None and now - self.overflowed_at < MARK_SECONDS


def lasting(seen: Iterable[tuple[int, float]]) -> Amounts:
    """Without amounts that a larger one outlives."""
    kept: list[tuple[int, float]] = []
    for amount, at in sorted(seen, key=lambda one: (one[0], one[1]), reverse=True):
        if not kept or at > kept[-1][1]:
            kept.append((amount, at))
    return tuple(kept)


def still(seen: Amounts, now: float) -> Amounts:
    """What counts still."""
    return tuple(one for one in seen if now - one[1] < MARK_SECONDS)


def _latest(one: Mapping[str, Former], other: Mapping[str, Former]) -> dict[str, Former]:
    found = dict(other)
    for name, former in one.items():
        if name not in found or found[name].at < former.at:
            found[name] = former
    return found


# ---- as bytes -------------------------------------------------------------------------------------------------------
def encoded(marks: Marks, now: float) -> bytes:
    """Compressed JSON. Where that is more than a ConfigMap holds, objects are left out and it says so."""
    data = _packed(marks)
    if len(data) > ENCODED_BYTES_MAX:
        data = _packed(Marks(changed_at=marks.changed_at, fingerprint=marks.fingerprint, overflowed_at=now))
    return data


def _packed(marks: Marks) -> bytes:
    return gzip.compress(msgspec.json.encode(marks), mtime=0)


def decoded(data: bytes) -> Marks:
    """Raises MarksError."""
    try:
        return msgspec.json.decode(gzip.decompress(data), type=Marks)
    except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
        raise MarksError(str(error)) from error


# ---- as objects -----------------------------------------------------------------------------------------------------
def quantity(resource: str, amount: int) -> str:
    """An amount in the scheduler's units as it is written."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def raw_node(node: Node) -> Raw:
    """A Node with what capacity needs of it."""
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints]},
        "status": {"allocatable": {name: quantity(name, amount) for name, amount in node.allocatable.items()}},
    }


def exported(objects: Iterable[Raw], marks: Marks) -> Iterator[Raw]:
    """The objects of an export with what the marks add: annotations on Nodes, and what is gone."""
    there: set[tuple[str, str]] = set()
    for obj in objects:
        name = obj["metadata"]["name"]
        there.add((obj["kind"], name))
        amounts = marks.nodes.get(name, {}) if obj["kind"] == "Node" else {}
        most = {resource: quantity(resource, seen[0][0]) for resource, seen in amounts.items() if seen}
        yield _annotated(obj, HIGH_WATER, msgspec.json.encode(most).decode()) if most else obj
    for name, former in marks.gone.items():
        if ("Node", name) not in there:
            yield _annotated({"apiVersion": "v1", "kind": "Node", **former.raw}, GONE, "true")
    for former in marks.slices.values():
        yield _annotated({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **former.raw}, GONE, "true")


def _annotated(obj: Raw, key: str, text: str) -> Raw:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {key: text, **(metadata.get("annotations") or {})}}}
