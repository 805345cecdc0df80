"""TierQuota, `muster.dev/v1alpha1`: a limit for a tier over many namespaces, and the books of what it is used for.

The object as read and as written; charts/muster/crds/tierquotas.yaml is its schema. The books are the status: `used` is
what the leader counted from live objects, `reservations` is what was admitted and has not been seen stored yet. Their sum
is what a charge is checked against, so nothing that was admitted is ever forgotten, and what was never stored lapses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from pydantic import ValidationError

from webhook.objects.quantity import CAP, NANO, Quantity, QuantityError, text_of
from webhook.objects.words import nearest
from webhook.policy.match import selector_matches
from webhook.policy.model import LabelSelector
from webhook.quota.usage import GANGS, LARGEST_GANG, PODS, Amounts, add, largest

API_VERSION = "muster.dev/v1alpha1"
KIND = "TierQuota"

RESERVATION_COUNT_MAX = 2000
"""Reservations that one quota holds at a time, about 300 bytes each: a third of what etcd takes of one object. The leader
takes them out within a second of the object being stored, so that many is a leader that is missing, or an attack."""

NAMESPACE_RESERVATION_COUNT_MAX = RESERVATION_COUNT_MAX // 2
"""Of them, those of one namespace: whoever fills the books on purpose leaves room for everybody else."""

DETACHED_COUNT_MAX = 500
"""Live children with an owner reference that a person wrote, in one quota's books: each is a line for as long as it lives."""

GROUP_COUNT_MAX = 4000
"""Bare gangs with live members in one quota's books, about 100 bytes each. Beyond, no new ones are let in: books that are larger
than what etcd takes of one object could not be written any more, not even to make them smaller."""

HOLDER_COUNT_MAX = 100
"""Holders that are written for texts, at most `HOLDERS_PER_NAMESPACE` of each namespace, about 120 bytes each."""

HOLDERS_PER_NAMESPACE = 5

ADVANCE_KIND = "Advance"
"""In the place of an object's kind: places that a process holds for orders that may come (webhook/quota/advance.py)."""

UNKNOWN_GENERATION = 2**31
"""Of a change to an object that has no generation: no stored one is ever as new, so its reservation waits its whole time."""


FRACTIONAL_NAMES = ("cpu", "memory", "ephemeral-storage")
PLAIN_NAMES = (*FRACTIONAL_NAMES, PODS, GANGS, LARGEST_GANG)
"""Names in ``hard`` without a domain, beside hugepages-*."""

NAME_LENGTH_MAX = 316
AMOUNT_LENGTH_MAX = 40
HARD_COUNT_MAX = 32
_RESOURCE_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class QuotaError(Exception):
    """A TierQuota that cannot be used: which, and why. The CRD's schema keeps the API server from storing such a one."""


class Join(msgspec.Struct, frozen=True):
    """Pods of a reservation that join a bare gang. slots: of the group's places these take. opens: places that this
    reservation pays for (minCount of the group, for its first Pod). per_pod: the price of each place. pays: what is paid here."""

    group: str
    slots: int = 0
    opens: int = 0
    per_pod: dict[str, int] = {}
    pays: dict[str, int] = {}


class Reservation(msgspec.Struct, frozen=True):
    """What one validating call was granted. id: of that call. uid: of the object, final in that phase. generation: the
    object's after the change; once it is seen stored (or a later one), `used` holds it.

    amounts: beside what `joins` pay. detached: a child that pays for itself, since a person wrote its owner reference:
    counted apart from its owner as long as it lives (`settled`, once it is in `used`).
    """

    id: str
    uid: str
    kind: str
    namespace: str
    name: str
    generation: int = 0
    amounts: dict[str, int] = {}
    joins: tuple[Join, ...] = ()
    detached: bool = False
    settled: bool = False

    @property
    def change(self) -> tuple[str, int | str]:
        """Reservations with the same one exclude each other. The API server stores an update only on the very object that it
        was judged on, so at most one of several calls that lead to the same generation comes true: a PATCH that met the
        Job controller's status update is judged twice, and must not pay twice."""
        return self.uid, self.id if self.generation >= UNKNOWN_GENERATION else self.generation

    @property
    def is_advance(self) -> bool:
        return self.kind == ADVANCE_KIND

    @property
    def total(self) -> Amounts:
        """All that is reserved; nothing once it is settled, since then `used` holds it."""
        if self.settled:
            return {}
        total = dict(self.amounts)
        for join in self.joins:
            add(total, join.pays)
        return total


class OpenGroup(msgspec.Struct, frozen=True):
    """A bare gang with live members. open: places that `used` pays for and no live Pod has, each at `per_pod`."""

    uid: str
    open: int = 0
    per_pod: dict[str, int] = {}


class Holder(msgspec.Struct, frozen=True):
    """A live object and what it is counted with."""

    kind: str
    namespace: str
    name: str
    amounts: dict[str, int] = {}

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class TierQuota:
    """hard, used: `usage` amounts. namespaces and selector both empty: every namespace. counted_scope: what `used` was
    counted for (`scope` then); counted_by: which leader counts. Neither set: never counted. damage: why the status cannot
    be read; the books are empty then, and nothing may be charged on them."""

    name: str
    tier: str
    hard: Mapping[str, int]
    namespaces: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    used: Mapping[str, int] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    groups: tuple[OpenGroup, ...] = ()
    holders: tuple[Holder, ...] = ()
    counted_scope: str = ""
    counted_by: str = ""
    damage: str = ""

    @cached_property
    def changes(self) -> dict[tuple[str, int | str], Amounts]:
        """What is reserved for each change of an object: of several calls about the same one the largest."""
        changes: dict[tuple[str, int | str], Amounts] = {}
        for item in self.reservations:
            changes[item.change] = largest(changes.get(item.change, {}), item.total)
        return changes

    @cached_property
    def reserved(self) -> Amounts:
        """The sum of the reservations, for the names in `hard`."""
        total: Amounts = {}
        for amounts in self.changes.values():
            add(total, amounts)
        return {name: total[name] for name in self.hard if total.get(name)}

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(item.id for item in self.reservations)

    def adding(self, reservation: Reservation) -> TierQuota:
        """With one more. What is known of the others is carried over: a batch adds many to a long list."""
        new = replace(self, reservations=(*self.reservations, reservation))
        before = self.changes.get(reservation.change, {})
        after = largest(before, reservation.total)
        total = {name: self.reserved.get(name, 0) + after.get(name, 0) - before.get(name, 0) for name in self.hard}
        new.__dict__["changes"] = {**self.changes, reservation.change: after}
        new.__dict__["reserved"] = {name: number for name, number in total.items() if number}
        new.__dict__["ids"] = self.ids | {reservation.id}
        new.__dict__["waiting"] = waiting = self.waiting.copy()
        waiting[reservation.namespace] += 1
        return new

    @cached_property
    def waiting(self) -> Counter[str]:
        """By namespace: how many reservations wait for their object."""
        return Counter(item.namespace for item in self.reservations if not item.settled)

    @property
    def detached_count(self) -> int:
        """Children that are counted apart as long as they live."""
        return len(self.reservations) - self.waiting.total()

    @cached_property
    def scope(self) -> str:
        """Changes whenever `used` would be counted over other objects or for other names."""
        selector = self.selector.model_dump_json() if self.selector is not None else ""
        text = "\0".join((self.tier, *sorted(self.namespaces), selector, *sorted(self.hard)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def is_counted(self) -> bool:
        """Do the books stand for today's scope? If not, nothing may be charged on them (case R48)."""
        return self.counted_scope == self.scope and not self.damage

    def in_use(self, name: str) -> int:
        return self.used.get(name, 0) + self.reserved.get(name, 0)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """By name or by label; both given means either (as in the policy's scopes)."""
        if not self.namespaces and self.selector is None:
            return True
        return namespace in self.namespaces or (self.selector is not None and selector_matches(self.selector, labels))

    def with_reservations(self, reservations: Iterable[Reservation]) -> TierQuota:
        return replace(self, reservations=tuple(reservations))


def _foreign(name: str) -> str:
    """ResourceQuota's spelling: a limit that no charge ever has would be a silent "unlimited" (case R60)."""
    if not name.startswith(("limits.", "requests.", "count/")):
        return ""
    return f"spec.hard[{json.dumps(name)}]: name the resource itself, without limits., requests. or count/"


def problem_in_hard(hard: Mapping[Any, Any]) -> str:
    """What the CRD's schema refuses in ``spec.hard``, and the nearest right word; "" if all is well. For TierQuotas of files:
    a limit on a name that no Pod has would be a silent "unlimited"."""
    if not hard:
        return "spec.hard must limit something"
    if len(hard) > HARD_COUNT_MAX:
        return f"spec.hard limits {len(hard)} resources, more than {HARD_COUNT_MAX}"
    for name, text in ((str(name), text) for name, text in hard.items()):
        where = f"spec.hard[{json.dumps(name)}]"
        if problem := _foreign(name):
            return problem
        if len(name) > NAME_LENGTH_MAX or not _RESOURCE_NAME.fullmatch(name):
            return (
                f"{where}: no resource has such a name: letters, digits, '-', '_' and '.', and a domain before one '/'"
            )
        if name not in PLAIN_NAMES and not name.startswith("hugepages-") and "/" not in name:
            near = nearest(name, PLAIN_NAMES)
            meant = f"; did you mean {near}?" if near else ""
            return f"{where}: must be {', '.join(PLAIN_NAMES)}, hugepages-..., or have a domain as nvidia.com/gpu has{meant}"
        if problem := _amount_problem(name, text):
            return f"{where}: {problem}"
    return ""


def _amount_problem(name: str, text: Any) -> str:
    """The same for one amount. A fraction must be quoted: the CRD takes integers and texts."""
    if isinstance(text, float) and not text.is_integer():
        return f'{text} must be quoted: "{text}"'
    if isinstance(text, str) and (len(text) > AMOUNT_LENGTH_MAX or text != text.strip()):
        return f"{text!r} must have no space around it and at most {AMOUNT_LENGTH_MAX} characters"
    try:
        number = Quantity.parse(text)
    except QuantityError as error:
        return str(error)
    if number < Quantity(0):
        return f"{text} must be 0 or more"
    # CEL's isInteger() takes no thousandths for a whole number, however many they are.
    if name not in FRACTIONAL_NAMES and (not number.is_integer or str(text).endswith(("m", "u", "n"))):
        return f"{text} must be a whole number"
    return ""


# ---- raw objects ------------------------------------------------------------------------------------------------
def from_raw(raw: Mapping[str, Any], *, is_stored: bool = True) -> TierQuota:
    """is_stored: an API server holds it, so that the CRD has checked it, perhaps an older one: what it is stricter about
    today is held against files only. Raises QuotaError."""
    metadata = raw.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise QuotaError("a TierQuota whose metadata is no object")
    name = str(metadata.get("name") or "")
    spec = raw.get("spec")
    if not isinstance(spec, Mapping) or not spec.get("tier") or not isinstance(spec.get("hard"), Mapping):
        raise QuotaError(f'TierQuota "{name}": spec.tier and spec.hard must be set')
    foreign = next(filter(None, (_foreign(str(resource)) for resource in spec["hard"])), "")
    if problem := foreign if is_stored else problem_in_hard(spec["hard"]):
        raise QuotaError(f'TierQuota "{name}": {problem}')
    try:
        selector = spec.get("namespaceSelector")
        quota = TierQuota(
            name=name,
            tier=str(spec["tier"]),
            hard=_amounts(spec["hard"]),
            namespaces=_namespace_names(spec.get("namespaces") or ()),
            selector=None if selector is None else LabelSelector.model_validate(selector),
            uid=str(metadata.get("uid") or ""),
            generation=int(metadata.get("generation") or 0),
            resource_version=str(metadata.get("resourceVersion") or ""),
        )
    except (QuantityError, ValidationError, TypeError, ValueError, OverflowError) as error:
        raise QuotaError(f'TierQuota "{name}" cannot be read: {error}') from error
    return _with_books(quota, raw.get("status") or {})


def _namespace_names(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str) or not all(isinstance(name, str) for name in raw):
        raise TypeError("spec.namespaces must be a list of names")
    return tuple(raw)


def _with_books(quota: TierQuota, status: Mapping[str, Any]) -> TierQuota:
    """A status that somebody has broken by hand stops this quota alone, and until the leader has counted anew."""
    try:
        counted = status.get("counted") or {}
        return replace(
            quota,
            used=_amounts(status.get("used")),
            reservations=tuple(map(reservation_of, str(status.get("reservations") or "").splitlines())),
            groups=tuple(map(_group_of, str(status.get("groups") or "").splitlines())),
            holders=tuple(map(_holder_of, str(status.get("holders") or "").splitlines())),
            counted_scope=str(counted.get("scope") or ""),
            counted_by=str(counted.get("by") or ""),
        )
    except (QuantityError, AttributeError, TypeError, ValueError) as error:
        return replace(quota, damage=str(error)[:200])


# ---- one object a line, in words --------------------------------------------------------------------------------
# A word holds no space: names, uids and resource names have none. No quotes either, which the API server would have to
# escape and unescape again and again: as JSON, 100 reservations made a read and a write a third more expensive.
_NOTHING = "-"


def line_of(item: Reservation) -> str:
    """``ID UID KIND NAMESPACE NAME GENERATION AMOUNTS``, and after that ``detached``, ``settled`` and joins."""
    words = [item.id, item.uid, item.kind, item.namespace, item.name, str(item.generation), _amounts_word(item.amounts)]
    words = [word or _NOTHING for word in words]
    words += [word for word, is_so in (("detached", item.detached), ("settled", item.settled)) if is_so]
    for join in item.joins:
        parts = (join.group, str(join.slots), str(join.opens), _amounts_word(join.per_pod), _amounts_word(join.pays))
        words.append(_JOIN + ";".join(parts))
    return " ".join(words)


@lru_cache(maxsize=2 * RESERVATION_COUNT_MAX)
def reservation_of(line: str) -> Reservation:
    """Most lines are those of the read before. Raises ValueError, QuantityError."""
    number, uid, kind, namespace, name, generation, amounts, *more = _words(line)
    if unknown := [word for word in more if word not in ("detached", "settled") and not word.startswith(_JOIN)]:
        raise ValueError(f'what "{unknown[0]}" means in a reservation is not known')
    return Reservation(
        id=number,
        uid=uid,
        kind=kind,
        namespace=namespace,
        name=name,
        generation=int(generation),
        amounts=_amounts_of(amounts),
        joins=tuple(_join_of(word) for word in more if word.startswith(_JOIN)),
        detached="detached" in more,
        settled="settled" in more,
    )


_JOIN = "join="


def _join_of(word: str) -> Join:
    group, slots, opens, per_pod, pays = word.removeprefix(_JOIN).split(";")
    return Join(
        group=group, slots=_count(slots), opens=_count(opens), per_pod=_amounts_of(per_pod), pays=_amounts_of(pays)
    )


def _group_line(item: OpenGroup) -> str:
    return f"{item.uid} {item.open} {_amounts_word(item.per_pod)}"


def _group_of(line: str) -> OpenGroup:
    uid, open_count, per_pod = _words(line)
    return OpenGroup(uid=uid, open=_count(open_count), per_pod=_amounts_of(per_pod))


def _holder_line(item: Holder) -> str:
    return f"{item.kind} {item.namespace or _NOTHING} {item.name or _NOTHING} {_amounts_word(item.amounts)}"


def _holder_of(line: str) -> Holder:
    kind, namespace, name, amounts = _words(line)
    return Holder(kind=kind, namespace=namespace, name=name, amounts=_amounts_of(amounts))


def _words(line: str) -> list[str]:
    return ["" if word == _NOTHING else word for word in line.split(" ")]


def _amounts_word(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={text}" for name, text in texts(amounts).items()) or _NOTHING


def _amounts_of(word: str) -> Amounts:
    if word in ("", _NOTHING):
        return {}
    amounts = _amounts(dict(pair.split("=", 1) for pair in word.split(",")))
    if any(number < 0 for number in amounts.values()):
        raise ValueError(f'"{word}" reserves less than nothing')
    return amounts


def _count(word: str) -> int:
    if (number := int(word)) < 0:
        raise ValueError(f"{number} places are less than none")
    return number


def status_of(quota: TierQuota) -> dict[str, Any]:
    """The whole status, quantities as a person writes them. `summary` is for the printer columns.

    What may be long is text, one object a line: the API server checks and prunes objects field by field, and with 600
    reservations in a list of objects one write took it 60 to 170 ms, as one text 5 ms.
    """
    return {
        "hard": texts(quota.hard),
        "used": texts(quota.used),
        "reserved": texts(quota.reserved),
        "reservations": "\n".join(map(line_of, quota.reservations)),
        "groups": "\n".join(map(_group_line, quota.groups)),
        "holders": "\n".join(map(_holder_line, quota.holders)),
        "counted": {"scope": quota.counted_scope, "by": quota.counted_by},
        "summary": {
            "namespaces": _namespaces(quota),
            "hard": _summary(quota.hard, quota.hard),
            "used": _summary(quota.hard, quota.used),
            "reserved": _summary(quota.hard, quota.reserved),
        },
        "conditions": _conditions(quota),
    }


def most(name: str) -> int:
    """The largest amount that can be written and read again (resource.Quantity ends at 2^63-1)."""
    return CAP * 1000 if name == "cpu" else CAP


def amount_text(name: str, amount: int) -> str:
    """An amount as a person writes it: ``8``, ``1500m`` of cpu, ``8Gi`` of memory."""
    return text_of(name, Quantity(amount * (NANO // 1000 if name == "cpu" else NANO)))


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items())}


def _amounts(raw: Any) -> Amounts:
    return {str(name): Quantity.parse(text).amount_of(str(name)) for name, text in (raw or {}).items()}


def _conditions(quota: TierQuota) -> list[dict[str, Any]]:
    over = [name for name in sorted(quota.hard) if quota.in_use(name) > quota.hard[name] and name != LARGEST_GANG]
    words = [
        f"{amount_text(name, quota.in_use(name))} of {amount_text(name, quota.hard[name])} {name}" for name in over
    ]
    return [
        {
            "type": "Counted",
            "status": "True" if quota.is_counted else "False",
            "reason": "UpToDate" if quota.is_counted else "ScopeChanged",
            "message": "" if quota.is_counted else "the leader has not counted this tier and these namespaces yet",
            "observedGeneration": quota.generation,
        },
        {
            "type": "Exceeded",
            "status": "True" if over else "False",
            "reason": "AboveHard" if over else "WithinHard",
            "message": f"in use: {', '.join(words)}; what runs is left alone, nothing more is let in" if over else "",
            "observedGeneration": quota.generation,
        },
    ]


def _namespaces(quota: TierQuota) -> str:
    if not quota.namespaces and quota.selector is None:
        return "all"
    return ",".join([*quota.namespaces, *(["by label"] if quota.selector is not None else [])])


def _summary(hard: Mapping[str, int], amounts: Mapping[str, int]) -> str:
    names = [name for name in sorted(hard) if amounts is hard or name != LARGEST_GANG]
    return ",".join(f"{name}={amount_text(name, amounts.get(name, 0))}" for name in names)
