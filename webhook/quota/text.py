"""What a tenant reads who meets a limit: the limit, what is in use and by whom, what was asked for, what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.objects.words import plural
from webhook.quota.book import Shortfall
from webhook.quota.charging import RULE
from webhook.quota.model import HOLDER_COUNT_MAX, Holder, TierQuota, amount_text
from webhook.quota.usage import GANGS, LARGEST_GANG, PODS, Charge, add
from webhook.verdict import Action, Violation

REASON = "tier quota exceeded"
HOLDERS_SHOWN_MAX = 5
PARTS_SHOWN_MAX = 4


def violation(found: Shortfall, charge: Charge, action: Action, *, kind: str, namespace: str) -> Violation:
    """One name of one quota that has no room. kind: of the object, for the word "gang" where it is one."""
    name = found.resource
    part = next((part for part in charge.parts if part.per_pod.get(name)), charge.parts[0] if charge.parts else None)
    message = f"{_limit(found, namespace)}, {_ask(found, charge, kind)}; {amount_text(name, found.missing)} are missing"
    if name == LARGEST_GANG:
        message = f"{_tier(found.quota, namespace)} allows gangs of {plural(found.limit, 'Pod')} at most, this one has {found.asked}"
    elif found.in_use:
        message += f". In use: {_holders(found, namespace)}"
    return Violation(
        rule=RULE,
        action=action,
        field="" if part is None else str(part.path),
        reason=REASON,
        seen=amount_text(name, found.asked),
        limit=amount_text(name, found.limit),
        message=message,
        fix=_fix(found),
        excess=found.missing,
    )


def unsettled(found: Shortfall, charge: Charge, *, kind: str, namespace: str) -> str:
    """The same, where the rest is only reserved."""
    held = found.in_use - found.quota.used.get(found.resource, 0)
    text = violation(found, charge, Action.DENY, kind=kind, namespace=namespace).message
    return f"{text}. Of these {amount_text(found.resource, held)} are reserved for objects that are not seen stored yet"


def _limit(found: Shortfall, namespace: str) -> str:
    name = found.resource
    in_use = "none in use" if not found.in_use else f"{amount_text(name, found.in_use)} in use"
    return f"{_tier(found.quota, namespace)} allows {amount_text(name, found.limit)} {name}, {in_use}"


def _tier(quota: TierQuota, namespace: str) -> str:
    """``tier "gold" of team-a``; a quota over more than this namespace is named, since others fill it, too."""
    if quota.namespaces == (namespace,) and quota.selector is None:
        return f'tier "{quota.tier}" of {namespace}'
    return f'tier "{quota.tier}" (TierQuota "{quota.name}")'


def _ask(found: Shortfall, charge: Charge, kind: str) -> str:
    name = found.resource
    gang = charge.amounts.get(GANGS) or charge.joining
    what = "this gang" if gang else f"this {kind}"
    parts = [part for part in charge.parts if part.per_pod.get(name)]
    total: dict[str, int] = {}
    for part in parts:
        add(total, part.per_pod, part.pod_count)
    asks = f"{what} asks for {amount_text(name, found.asked)}"
    if name in (PODS, GANGS) or not parts:
        return asks
    if total.get(name, 0) != found.asked:
        # Growth, the rest of a bare group, shared claims: the Pods alone do not add up to it.
        return f"{asks} more" if total.get(name, 0) > found.asked else asks
    pieces = [
        f"{plural(part.pod_count, 'Pod')} x {amount_text(name, part.per_pod[name])}" for part in parts[:PARTS_SHOWN_MAX]
    ]
    if len(parts) > PARTS_SHOWN_MAX:
        pieces.append(f"and {plural(len(parts) - PARTS_SHOWN_MAX, 'more role')}")
    return f"{asks} ({' + '.join(pieces)})"


def _holders(found: Shortfall, namespace: str) -> str:
    """At most five, biggest first, and only of the tenant's own namespace; all others are one number."""
    name = found.resource
    mine = _mine(found.quota, namespace, name)
    shown = mine[:HOLDERS_SHOWN_MAX]
    words = [f"{holder} ({amount_text(name, holder.amounts[name])})" for holder in shown]
    rest = found.in_use - sum(holder.amounts[name] for holder in shown)
    if rest > 0 and not words and len(found.quota.holders) >= HOLDER_COUNT_MAX:
        words.append(f"{amount_text(name, rest)} by more objects than are listed")
    elif rest > 0:
        words.append(f"{amount_text(name, rest)} by others" if words else "all by others")
    return ", ".join(words)


def _mine(quota: TierQuota, namespace: str, name: str) -> Sequence[Holder]:
    """Counted ones and those that are only reserved yet, together by object."""
    amounts: dict[tuple[str, str], int] = {}
    for holder in quota.holders:
        if holder.namespace == namespace and holder.amounts.get(name):
            amounts[holder.kind, holder.name] = holder.amounts[name]
    for item in quota.reservations:
        number = item.total.get(name, 0)
        if item.namespace == namespace and number:
            key = (item.kind, item.name)
            amounts[key] = amounts.get(key, 0) + number
    ranked = sorted(amounts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [Holder(kind=kind, namespace=namespace, name=item, amounts={name: n}) for (kind, item), n in ranked]


def _fix(found: Shortfall) -> str:
    name = found.resource
    left = max(0, found.limit - found.in_use)
    quota = f'TierQuota "{found.quota.name}"'
    if name == LARGEST_GANG:
        return f"split it into gangs of at most {plural(found.limit, 'Pod')}"
    if found.asked > found.limit:
        return f"ask for at most {amount_text(name, found.limit)} {name}, or have {quota} raised"
    if not left:
        return f"submit it again once something in use has ended, or have {quota} raised"
    return f"ask for at most {amount_text(name, left)} {name}, or submit it again once something in use has ended"
