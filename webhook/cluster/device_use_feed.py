"""What is in the way of devices: allocated ResourceClaims and DeviceTaintRules -> what workers put over the devices.

Only warnings read it. While one of the two is not listed or not watched, nothing is said that rests on it; *never* rests on
neither. An API server that does not serve one of them has none.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from webhook.inventory.device_use import Allocated, DeviceUse, packed
from webhook.inventory.devices import PoolId, TaintRule, taint_rule

CLAIM, RULE = "ResourceClaim", "DeviceTaintRule"

# What a claim holds: names by driver and pool (webhook/cluster/inventory_kinds.py).
_Held = tuple[tuple[str, str, tuple[str, ...]], ...]


class _Claim(msgspec.Struct):
    held: _Held = ()


class DeviceUseFeed:
    """A sink of the watchers of both kinds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Claims as bytes: ten thousand of them as objects take ten times as much.
        self._claims: dict[tuple[str, str], bytes] = {}
        self._rules: dict[str, TaintRule] = {}
        self._synced: set[str] = set()
        self._number = 0

    @property
    def number(self) -> int:
        """Goes up with every change of what it would publish; 0 while nothing is known."""
        return self._number if self._synced else 0

    def packed(self) -> bytes:
        """What is known now."""
        with self._lock:
            claims = list(self._claims.values()) if CLAIM in self._synced else None
            rules = tuple(self._rules[name] for name in sorted(self._rules)) if RULE in self._synced else None
        return packed(DeviceUse(None if claims is None else _allocated(claims), rules))

    def replace_kind(self, kind: str, objects: Iterable[tuple[str, str, bytes]]) -> None:
        """A whole list."""
        there = set()
        for namespace, name, raw in objects:
            there.add((namespace, name))
            self.put(kind, namespace, name, raw)
        with self._lock:
            known = self._claims.keys() if kind == CLAIM else {("", name) for name in self._rules}
            for namespace, name in known - there:
                self._delete(kind, namespace, name)
            if kind not in self._synced:
                self._synced.add(kind)
                self._number += 1

    def put(self, kind: str, namespace: str, name: str, raw: bytes) -> None:
        """A claim or rule, new or changed or as it was. One that cannot be read counts for nothing, which only makes today look
        better."""
        with self._lock:
            try:
                changed = self._put_claim((namespace, name), raw) if kind == CLAIM else self._put_rule(name, raw)
            except msgspec.DecodeError:
                self._delete(kind, namespace, name)
            else:
                self._number += changed

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """It is gone."""
        with self._lock:
            self._delete(kind, namespace, name)

    def unsynced(self, kind: str, reason: str) -> None:  # noqa: ARG002  the log has it
        """The watch is broken."""
        with self._lock:
            if kind in self._synced:
                self._synced.discard(kind)
                self._number += 1

    def not_served(self, kind: str, reason: str) -> None:  # noqa: ARG002
        """There are none."""
        self.replace_kind(kind, ())

    def _put_claim(self, key: tuple[str, str], raw: bytes) -> bool:
        """Is it another than before?"""
        if not msgspec.json.decode(raw, type=_Claim).held:
            return self._claims.pop(key, None) is not None
        before, self._claims[key] = self._claims.get(key), raw
        return before != raw

    def _put_rule(self, name: str, raw: bytes) -> bool:
        read: Any = msgspec.json.decode(raw)
        rule = taint_rule(read)
        if rule is None:
            return self._rules.pop(name, None) is not None
        before, self._rules[name] = self._rules.get(name), rule
        return before != rule

    def _delete(self, kind: str, namespace: str, name: str) -> None:
        known: dict[Any, Any] = self._claims if kind == CLAIM else self._rules
        if known.pop((namespace, name) if kind == CLAIM else name, None) is not None:
            self._number += 1


def _allocated(claims: Iterable[bytes]) -> Allocated:
    found: dict[PoolId, set[str]] = defaultdict(set)
    for raw in claims:
        for driver, pool, names in msgspec.json.decode(raw, type=_Claim).held:
            found[driver, pool].update(names)
    return Allocated({pool: frozenset(names) for pool, names in found.items()})
