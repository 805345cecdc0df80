"""What a GangPlan costs, per tier. Pure arithmetic: whoever prices brings the surroundings along (`Prices`).

Every Pod that the plan will run is counted, not only minCount (case R52), by its effective request (R54, R55, R59, R60).
Amounts are whole numbers: `cpu` in thousandths, everything else in whole units. Names of amounts are those of a
TierQuota's `spec.hard`:

| name | what |
|---|---|
| `cpu`, `memory`, `nvidia.com/gpu`, ... | the Pods' effective requests |
| `<class>.deviceclass.resource.k8s.io/devices` | devices of a DeviceClass, the name that ResourceQuota has for them |
| `pods`, `gangs` | Pods, and groups with a gang policy |
| `largest-gang` | Pods of the largest single gang; a limit for each one, nothing that adds up |

A DeviceClass with an extendedResourceName has two names for the same devices. Both are charged, whichever one a Pod uses,
so that a limit on either holds, and each of them once (R71): the claim that the scheduler makes for such a Pod is in no
Pod spec and is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.plan.model import GangPlan, GroupOrigin, LeafGroup, PlannedClaim, PodSet, PolicyKind
from webhook.plan.requests import effective_request

Amounts = dict[str, int]

PODS = "pods"
GANGS = "gangs"
LARGEST_GANG = "largest-gang"
DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
# An extended resource that every DeviceClass has, with or without extendedResourceName (k8s.io/api resource/v1).
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
# k8s.io/api resource/v1 AllocationResultsMaxSize: what allocationMode All may come to; ResourceQuota counts it so, too.
ALL_DEVICE_COUNT = 32

# Made by others, or of others: a CronJob pays through its Jobs, a group through its Pods.
NEVER_CHARGED = frozenset({"CronJob", "Workload", "PodGroup", "CompositePodGroup"})


class Prices(Protocol):
    """What a price depends on beside the plan. Each answer is None where there is none; `unknown` collects why one
    could not be given."""

    unknown: list[str]

    def tier_of(self, pod_set: PodSet, group: LeafGroup | None) -> str | None: ...

    def devices_of(self, claim: PlannedClaim) -> Sequence[Mapping[str, int]] | None:
        """For each request of one such claim: DeviceClass -> devices that it may take, one class or another."""
        ...

    def named_group(self, name: str) -> NamedGroup | None:
        """The PodGroup that Pods name by schedulingGroup."""
        ...

    def device_class_of(self, resource: str) -> str | None: ...

    def resource_of(self, device_class: str) -> str | None: ...

    def overhead_of(self, runtime_class: str) -> core.ResourceList | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroup:
    """A PodGroup. min_count: of a bare gang, one that a person made; None where there is no gang, or a controller made it, whose
    owner pays for it whole."""

    uid: str
    name: str
    min_count: int | None
    claims: tuple[PlannedClaim, ...]
    priority_class_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Equal Pods of a charge, for texts: `pod_count` Pods of `per_pod` each, where the field `path` sets the number."""

    pod_count: int
    per_pod: Mapping[str, int]
    path: FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """Pods that join a bare gang. The group is charged whole at its first Pod, so these may be paid for already.

    min_count: of the group. per_pod: the largest of the joining Pods, per resource. once: what the group costs as such
    (the gang, its shared claims), with its first Pod.
    """

    group_uid: str
    group_name: str
    min_count: int
    pod_count: int
    per_pod: Mapping[str, int]
    once: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one tier is asked for. `amounts` do not hold what is in `joining`: the Pods that join a bare gang. shared: of
    `amounts`, the claims that other Pods may use, too, each by a key that is the same wherever it is used."""

    tier: str
    amounts: Mapping[str, int]
    shared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    joining: tuple[Joining, ...] = ()

    @property
    def own(self) -> Amounts:
        """The Pods themselves, those that join a group included, without the group's other places."""
        total = dict(self.amounts)
        for joining in self.joining:
            add(total, joining.per_pod, joining.pod_count)
        return total

    @property
    def alone(self) -> Amounts:
        """All of it, as if the groups that are joined had nobody else in them."""
        total = dict(self.amounts)
        for joining in self.joining:
            add(total, joining.per_pod, max(joining.pod_count, joining.min_count))
            add(total, joining.once)
        return total


def price(plan: GangPlan, prices: Prices, *, suspended: bool = False) -> tuple[Charge, ...]:
    """The charges, one per tier in the order of their names; what belongs to no tier costs nothing.

    suspended: are Pods charged that wait for their object to be resumed? What cannot be counted is left out, with the
    reason in `prices.unknown`.
    """
    if plan.kind in NEVER_CHARGED:
        return ()
    pricer = _Pricer(prices, suspended)
    for group in plan.leaf_groups():
        pricer.add_group(group)
    for pod_set in plan.pod_sets:
        pricer.add_pods(pod_set, None, 1, ())
    return pricer.charges()


@dataclass(slots=True)
class _Sum:
    amounts: Amounts = field(default_factory=dict)
    shared: dict[str, Amounts] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    joining: dict[str, Joining] = field(default_factory=dict)


class _Pricer:
    """Adds up one plan."""

    def __init__(self, prices: Prices, suspended: bool) -> None:
        self._prices = prices
        self._suspended = suspended
        self._sums: dict[str, _Sum] = {}
        self._named: set[str] = set()

    def charges(self) -> tuple[Charge, ...]:
        return tuple(
            Charge(
                tier=tier,
                amounts=found.amounts,
                shared=found.shared,
                parts=tuple(found.parts),
                joining=tuple(found.joining.values()),
            )
            for tier, found in sorted(self._sums.items())
        )

    def add_group(self, group: LeafGroup) -> None:
        if not group.pod_sets:
            return
        named = None
        if group.origin is GroupOrigin.REFERENCED and group.name:
            named = self._prices.named_group(group.name)
        if named is not None and named.min_count is not None:
            self._join(group, named, named.min_count)
            return
        claims = group.claims if named is None else named.claims
        group_count = self._known(group.group_count, group.pod_sets[0])
        pods: dict[str, int] = {}
        used: dict[PlannedClaim, str] = {}
        for pod_set in group.pod_sets:
            tier, count = self.add_pods(pod_set, group, group_count, claims)
            if tier is not None and count:
                pods[tier] = pods.get(tier, 0) + count
                used |= {claim: tier for claim in claims if claim.key in {own.key for own in pod_set.claims}}
        for claim, tier in used.items():
            if named is not None:
                self._add_shared(self._sums[tier], f"group/{named.uid}/{claim.name}", claim)
            else:
                self._add_devices(self._sums[tier].amounts, claim, group_count)
        if _is_gang(group):
            for tier, count in pods.items():
                add(self._sums[tier].amounts, {GANGS: group_count, LARGEST_GANG: count})

    def add_pods(
        self, pod_set: PodSet, group: LeafGroup | None, group_count: int, shared: Sequence[PlannedClaim]
    ) -> tuple[str | None, int]:
        """(tier, Pods in one group): (None, 0) where nothing is charged."""
        if pod_set.suspended and not self._suspended:
            return None, 0
        tier = self._prices.tier_of(pod_set, group)
        count = self._known(pod_set.pod_count, pod_set)
        if tier is None or not count or not group_count:
            return None, 0
        total = self._sums.setdefault(tier, _Sum())
        per_pod = self._pod(pod_set, shared)
        add(total.amounts, per_pod, count * group_count)
        self._add_named_claims(total, pod_set, shared)
        total.parts.append(Part(pod_count=count * group_count, per_pod=per_pod, path=pod_set.pod_count_path))
        return tier, count

    def _join(self, group: LeafGroup, bare: NamedGroup, min_count: int) -> None:
        """Several Pod sets of one plan that join the same group are one joining, at the largest Pod's price."""
        for pod_set in group.pod_sets:
            tier = self._prices.tier_of(pod_set, group)
            count = self._known(pod_set.pod_count, pod_set)
            if tier is None or not count or (pod_set.suspended and not self._suspended):
                continue
            total = self._sums.setdefault(tier, _Sum())
            per_pod = self._pod(pod_set, bare.claims)
            self._add_named_claims(total, pod_set, bare.claims)
            total.parts.append(Part(pod_count=count, per_pod=per_pod, path=pod_set.pod_count_path))
            once: Amounts = {GANGS: 1}
            for claim in bare.claims:
                self._add_devices(once, claim, 1)
            present = total.joining.get(bare.uid)
            total.joining[bare.uid] = Joining(
                group_uid=bare.uid,
                group_name=bare.name,
                min_count=min_count,
                pod_count=count + (present.pod_count if present else 0),
                per_pod=largest(per_pod, present.per_pod) if present else per_pod,
                once=once,
            )
            add(total.amounts, {LARGEST_GANG: max(min_count, total.joining[bare.uid].pod_count)})

    def _pod(self, pod_set: PodSet, shared: Sequence[PlannedClaim]) -> Amounts:
        """One Pod with the claims that are made for it from a template."""
        amounts = pod_amounts(pod_set, self._prices)
        keys = {claim.key for claim in shared}
        for claim in pod_set.claims:
            if claim.key not in keys and claim.resource_claim_name is None:
                self._add_devices(amounts, claim, 1)
        return amounts

    def _add_named_claims(self, total: _Sum, pod_set: PodSet, shared: Sequence[PlannedClaim]) -> None:
        """A claim that is named, not made from a template, is one object, however many Pods use it (R88)."""
        keys = {claim.key for claim in shared}
        for claim in pod_set.claims:
            name = claim.resource_claim_name
            if claim.key not in keys and name is not None and name not in self._named:
                self._named.add(name)
                self._add_shared(total, f"claim/{name}", claim)

    def _add_shared(self, total: _Sum, key: str, claim: PlannedClaim) -> None:
        devices: Amounts = {}
        self._add_devices(devices, claim, 1)
        if devices:
            total.shared[key] = devices
            add(total.amounts, devices)

    def _add_devices(self, amounts: Amounts, claim: PlannedClaim, times: int) -> None:
        for request in self._prices.devices_of(claim) or ():
            worst: Amounts = {}
            for device_class, number in request.items():
                worst = largest(worst, _devices(device_class, number * times, self._prices))
            add(amounts, worst)

    def _known(self, count: int | None, pod_set: PodSet) -> int:
        if count is None:
            where = str(pod_set.path) or "the Pod"
            self._prices.unknown.append(
                f"{where}: how many Pods there will be is not known, so they are not charged here"
            )
            return 0
        return count


def _is_gang(group: LeafGroup) -> bool:
    """A delegated group's policy stands in a Workload that may come later: whoever asks for a template asks for a gang."""
    return group.policy is PolicyKind.GANG or (
        group.policy is PolicyKind.UNKNOWN and group.origin is GroupOrigin.CONTROLLER
    )


# ---- one Pod ----------------------------------------------------------------------------------------------------
def pod_amounts(pod_set: PodSet, prices: Prices) -> Amounts:
    """One Pod of the set: `pods`, its requests, and mapped devices under both names. Claims are not in it."""
    spec = pod_set.template.spec
    overhead = prices.overhead_of(spec.runtime_class_name) if spec.runtime_class_name and not spec.overhead else None
    amounts: Amounts = {PODS: 1}
    for resource, quantity in effective_request(spec, pod_set.spec_path, overhead=overhead).amounts.items():
        number = quantity.amount_of(resource)
        if number <= 0:
            continue
        if resource.startswith(IMPLICIT_PREFIX):
            add(amounts, _devices(resource.removeprefix(IMPLICIT_PREFIX), number, prices))
            continue
        amounts[resource] = amounts.get(resource, 0) + number
        device_class = prices.device_class_of(resource)
        if device_class is not None:
            add(amounts, {device_class + DEVICES_SUFFIX: number})
    return amounts


# ---- devices ----------------------------------------------------------------------------------------------------
def _devices(device_class: str, number: int, prices: Prices) -> Amounts:
    amounts = {device_class + DEVICES_SUFFIX: number}
    resource = prices.resource_of(device_class)
    if resource is not None:
        amounts[resource] = number
    return amounts


def claim_devices(spec: Mapping[str, Any]) -> list[Amounts]:
    """For each request: DeviceClass -> the most devices that it takes (k8s.io/api resource/v1 ResourceClaimSpec).

    Of alternatives (firstAvailable) each class counts at its worst: which one is taken is decided at scheduling.
    adminAccess takes no device from anybody. A flat request is v1beta1's.
    """
    result: list[Amounts] = []
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, Mapping) else None
    for request in requests if isinstance(requests, list | tuple) else ():
        if not isinstance(request, Mapping):
            continue
        exactly = request.get("exactly")
        alternatives = request.get("firstAvailable")
        if not isinstance(alternatives, list | tuple) or not alternatives:
            alternatives = [exactly if isinstance(exactly, Mapping) else request]
        worst: Amounts = {}
        for device_class, number in _asked(alternatives):
            worst[device_class] = max(worst.get(device_class, 0), number)
        if worst:
            result.append(worst)
    return result


def _asked(requests: Iterable[Any]) -> Iterator[tuple[str, int]]:
    for request in requests:
        if not isinstance(request, Mapping) or request.get("adminAccess") is True:
            continue
        device_class = request.get("deviceClassName")
        if not isinstance(device_class, str) or not device_class:
            continue
        number = request.get("count", 1)
        if request.get("allocationMode", "ExactCount") != "ExactCount":
            yield device_class, ALL_DEVICE_COUNT
        elif isinstance(number, int):
            yield device_class, number


# ---- arithmetic -------------------------------------------------------------------------------------------------
def add(total: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    """total += more * times. `largest-gang` does not add up: the larger one stays."""
    for name, number in more.items():
        if name == LARGEST_GANG:
            total[name] = max(total.get(name, 0), number)
        else:
            total[name] = total.get(name, 0) + number * times


def largest(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """The larger of two amounts, per name."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def growth(new: Mapping[str, int], old: Mapping[str, int]) -> Amounts:
    """What `new` has more than `old`, per name; what shrinks is left out. A larger largest gang counts whole."""
    result: Amounts = {}
    for name, number in new.items():
        more = number - old.get(name, 0)
        if more > 0:
            result[name] = number if name == LARGEST_GANG else more
    return result


def within(part: Mapping[str, int], whole_: Mapping[str, int]) -> bool:
    """Is every amount of `part` covered by `whole_`? Gang counts are not Pods and do not matter here."""
    return all(number <= whole_.get(name, 0) for name, number in part.items() if name not in (GANGS, LARGEST_GANG))
