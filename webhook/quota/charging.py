"""What a request has to pay: the plan's price, less what is paid for already. Pure; asks the surroundings like a rule.

Charged once, at the top object. A child is covered when a trusted controller makes it (by request.userInfo; an owner
reference proves nothing, anyone can write one) for an owner that lives under the uid it names and whose own plan holds as
much. A child that a person wrote pays for itself and is counted apart from its owner. An UPDATE pays for its growth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from webhook.facts.model import Facts, Operation
from webhook.facts.source import NOT_SERVED
from webhook.facts.surroundings import Surroundings
from webhook.facts.use import is_own_word
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.plan.adapters import plan_of
from webhook.plan.model import LeafGroup, PlannedClaim, PodSet
from webhook.plan.parts import claims as group_claims
from webhook.policy.effective import EffectivePolicy
from webhook.quota.usage import (
    GANGS,
    LARGEST_GANG,
    NEVER_CHARGED,
    Amounts,
    Charge,
    Joining,
    NamedGroup,
    add,
    claim_devices,
    growth,
    largest,
    price,
)

RULE = "WAS410"

# Job -> JobSet, or Pod -> StatefulSet -> Pod -> StatefulSet -> LeaderWorkerSet.
OWNER_DEPTH_MAX = 6

_CLAIMS_PATH = SPEC / "resourceClaims"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """charges: to be reserved. detached: see Reservation. unknown: why something could not be counted, in words; failed:
    why the bill itself cannot be made now, so that the request has to be sent again; unlisted: the same, in a live cluster
    (a set of files seldom has all PriorityClasses and DeviceClasses)."""

    charges: tuple[Charge, ...] = ()
    detached: bool = False
    unknown: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()


def bill_of(facts: Facts) -> Bill:
    """What this request has to pay. Asks `facts.surroundings`: complete once nothing is missing there."""
    if facts.operation is Operation.DELETE:
        return Bill()
    prices = SurroundingPrices(facts.surroundings, facts.policy, facts.namespace)
    waiting = facts.policy.parameters.charge_suspended
    new = price(facts.plan, prices, suspended=waiting)
    if not new:
        return prices.bill(())
    old = price(facts.old_plan, prices, suspended=waiting) if facts.old_plan is not None else ()
    before = {charge.tier: charge for charge in old}
    charges = tuple(more for charge in new if (more := difference(charge, before.get(charge.tier))) is not None)
    if charges and facts.requester.trusted:
        charges = _beyond_owners(facts, charges, new, prices)
    if not charges:
        return prices.bill(())
    # What a person changes on a child (pods/resize) stays the child's: only its creation tells whose it is.
    written = facts.operation is Operation.CREATE and not facts.requester.trusted
    detached = written and _known_owner(facts.metadata.controller()) is not None
    return prices.bill(charges, detached=detached)


def difference(new: Charge, old: Charge | None) -> Charge | None:
    """What `new` asks for beyond `old`; None where it grows nowhere. Over the whole object: a role that shrinks makes room for
    one that grows, and while its Pods are still there they are counted, like the surge of a rolling update."""
    if old is None:
        return new
    amounts = growth(new.amounts, old.amounts)
    before = {joining.group_uid: joining for joining in old.joining}
    joining = []
    for item in new.joining:
        was = before.get(item.group_uid)
        if was is None:
            joining.append(item)
            continue
        # The places it has are paid for at the old price; more of them, and the higher price of those, are not.
        add(amounts, growth(item.per_pod, was.per_pod), was.pod_count)
        if item.pod_count > was.pod_count:
            joining.append(
                Joining(
                    group_uid=item.group_uid,
                    group_name=item.group_name,
                    min_count=item.min_count,
                    pod_count=item.pod_count - was.pod_count,
                    per_pod=item.per_pod,
                    once=item.once,
                )
            )
    if not any(amounts.values()) and not joining:
        return None
    return Charge(tier=new.tier, amounts=amounts, parts=new.parts, joining=tuple(joining))


# ---- covered children -------------------------------------------------------------------------------------------
def _beyond_owners(
    facts: Facts, asked: tuple[Charge, ...], whole: tuple[Charge, ...], prices: SurroundingPrices
) -> tuple[Charge, ...]:
    """What of `asked` no owner that lives holds already. whole: of the child. Admission may add to a Pod what its owner's
    template does not have (a LimitRange's default, a sidecar): that is paid for, and not again what the owner has paid."""
    held: dict[str, list[Charge]] = {}
    wholes = {charge.tier: charge for charge in whole}
    rest = asked
    for owner in _owners(facts, prices):
        for charge in owner:
            held.setdefault(charge.tier, []).append(charge)
        beyond = (_beyond(charge, wholes[charge.tier], held.get(charge.tier, ())) for charge in asked)
        rest = tuple(charge for charge in beyond if charge is not None)
        if not rest:
            break
    return rest


def _beyond(asked: Charge, child: Charge, owners: Sequence[Charge]) -> Charge | None:
    """owners: what each of them holds in this tier. A child's gang is its owner's; a group that no owner joins is its own."""
    groups = {joining.group_uid for owner in owners for joining in owner.joining}
    if not owners or any(joining.group_uid not in groups for joining in child.joining):
        return asked
    paid: Amounts = {}
    for owner in owners:
        paid = largest(paid, owner.alone)
    more, own = growth(child.own, paid), asked.own
    amounts = {name: min(more[name], own[name]) for name in more.keys() & own.keys() - {GANGS, LARGEST_GANG}}
    return Charge(tier=asked.tier, amounts=amounts, parts=asked.parts) if any(amounts.values()) else None


def _owners(facts: Facts, prices: SurroundingPrices) -> Iterator[tuple[Charge, ...]]:
    """The price of each owner that lives, from the nearest up, as far as they are known kinds: a leader Pod owns its workers."""
    reference = facts.metadata.controller()
    for _ in range(OWNER_DEPTH_MAX):
        kind = _known_owner(reference)
        if kind is None or reference is None:
            return
        looked = facts.surroundings.any(kind, facts.namespace, reference.name)
        if looked.value is None:
            if looked.unknown is not None:
                prices.failed.append(f'the owner {kind} "{reference.name}": {looked.unknown}')
            return
        metadata: core.ObjectMeta = getattr(looked.value, "metadata", core.ObjectMeta())
        if metadata.uid != reference.uid or metadata.deletion_timestamp is not None:
            return
        plan = plan_of(kind, BY_NAME[kind].api_version, facts.namespace, looked.value)
        yield price(plan, prices, suspended=facts.policy.parameters.charge_suspended)
        reference = metadata.controller()


def _known_owner(reference: core.OwnerReference | None) -> str | None:
    """The kind of a controller that has a plan of its own, so that the recount sees its children below it."""
    if reference is None:
        return None
    kind = BY_NAME.get(reference.kind)
    if (
        kind is None
        or not kind.planned
        or kind.kind in NEVER_CHARGED
        or kind.group != split_api_version(reference.api_version)[0]
    ):
        return None
    return kind.kind


# ---- prices from the surroundings -------------------------------------------------------------------------------
class SurroundingPrices:
    """Implements usage.Prices. A question that cannot be answered is in `failed`; one whose answer is "no such thing yet"
    in `unknown`: it costs nothing until there is one. unlisted: see Bill."""

    def __init__(self, surroundings: Surroundings, policy: EffectivePolicy, namespace: str) -> None:
        self._surroundings, self._policy, self._namespace = surroundings, policy, namespace
        self.unknown: list[str] = []
        self.failed: list[str] = []
        self.unlisted: list[str] = []

    def bill(self, charges: tuple[Charge, ...], *, detached: bool = False) -> Bill:
        return Bill(
            charges=charges,
            detached=detached,
            unknown=tuple(dict.fromkeys(self.unknown)),
            failed=tuple(dict.fromkeys(self.failed)),
            unlisted=tuple(dict.fromkeys(self.unlisted)),
        )

    def tier_of(self, pod_set: PodSet, group: LeafGroup | None) -> str | None:
        """By the class of the Pods, else of their group, else the cluster's default class. A class in no tier, and none at
        all, belong to the policy's default tier, if Pods or group are of the kind that tiers are about."""
        name = pod_set.template.spec.priority_class_name or (group.priority_class_name if group else None)
        governed = self._is_governed(pod_set, group)
        if not name and governed:
            name = self._default_class()
        tier = self._policy.tier_of(name) if name else None
        if tier is not None:
            return tier.name
        return self._policy.default_tier if governed else None

    def devices_of(self, claim: PlannedClaim) -> Sequence[Mapping[str, int]] | None:
        spec: Mapping[str, object] | None = None
        if claim.resource_claim_template_name is not None:
            name, what = claim.resource_claim_template_name, "ResourceClaimTemplate"
            template = self._surroundings.claim_template(self._namespace, name)
            absent, unknown = template.absent, template.unknown
            if template.value is not None:
                spec = template.value.spec.spec or {}
        elif claim.resource_claim_name is not None:
            name, what = claim.resource_claim_name, "ResourceClaim"
            looked = self._surroundings.claim(self._namespace, name)
            absent, unknown = looked.absent, looked.unknown
            if looked.value is not None:
                spec = looked.value.spec or {}
        else:
            return None
        if absent:
            self.unknown.append(f'{what} "{name}" does not exist yet: its devices are not charged')
        if unknown is not None:
            self.failed.append(f'{what} "{name}": {unknown}')
        return None if spec is None else claim_devices(spec)

    def named_group(self, name: str) -> NamedGroup | None:
        looked = self._surroundings.pod_group(self._namespace, name)
        if looked.unknown is not None:
            self.failed.append(f'PodGroup "{name}": {looked.unknown}')
        if looked.value is None:
            return None
        spec = looked.value.spec
        gang = spec.scheduling_policy.gang if looked.value.metadata.controller() is None else None
        return NamedGroup(
            uid=looked.value.metadata.uid,
            name=name,
            min_count=None if gang is None else gang.min_count,
            claims=group_claims(spec.resource_claims, _CLAIMS_PATH),
            priority_class_name=spec.priority_class_name,
        )

    def device_class_of(self, resource: str) -> str | None:
        if "/" not in resource:
            return None
        return next((name for name, mapped in self._mapped().items() if mapped == resource), None)

    def resource_of(self, device_class: str) -> str | None:
        return self._mapped().get(device_class)

    def overhead_of(self, runtime_class: str) -> core.ResourceList | None:
        looked = self._surroundings.runtime_class(runtime_class)
        if looked.value is None:
            self.unknown.append(f'RuntimeClass "{runtime_class}" is not known: its overhead is not charged')
            return None
        return looked.value.overhead.pod_fixed if looked.value.overhead is not None else None

    def _is_governed(self, pod_set: PodSet, group: LeafGroup | None) -> bool:
        if group is not None and is_own_word(group):
            return True
        spec = pod_set.template.spec
        amounts: Amounts = {}
        for container in (*(spec.containers or ()), *(spec.init_containers or ())):
            if container.resources is not None:
                amounts |= dict.fromkeys(
                    (*(container.resources.requests or ()), *(container.resources.limits or ())), 1
                )
        return any(self._policy.guards_resource(name) for name in amounts)

    def _default_class(self) -> str | None:
        """The globalDefault PriorityClass; the lowest, if there are several (as the Priority admission plugin does)."""
        if not self._policy.tiers:
            return None
        looked = self._surroundings.priority_classes()
        self._note_unlisted("PriorityClasses", looked.unknown)
        defaults = [item for item in looked.value or () if item.global_default]
        return min(defaults, key=lambda item: item.value).metadata.name if defaults else None

    def _note_unlisted(self, what: str, reason: str | None) -> None:
        if reason is not None and NOT_SERVED not in reason:
            self.unlisted.append(f"the {what}: {reason}")

    def _mapped(self) -> dict[str, str]:
        """DeviceClass -> its extended resource. Where there are no such classes, devices count under the name they are asked
        for by."""
        looked = self._surroundings.device_classes()
        self._note_unlisted("DeviceClasses", looked.unknown)
        mapped = {}
        for item in looked.value or ():
            resource = (item.spec or {}).get("extendedResourceName")
            if isinstance(resource, str) and resource:
                mapped[item.metadata.name] = resource
        return mapped
