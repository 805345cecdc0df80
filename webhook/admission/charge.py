"""The last step of a validating request: pay for it. Rules say what may never be; the quota says what does not fit now."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from webhook.facts.gather import ROUND_COUNT_MAX, ask_all
from webhook.facts.model import Facts, Operation, Phase
from webhook.facts.source import Answer, FactSource, Query
from webhook.facts.surroundings import Surroundings
from webhook.quota.book import Order
from webhook.quota.charging import RULE, Bill, bill_of
from webhook.quota.ledger import Granted, Outcome, Refused, Undecided
from webhook.quota.model import UNKNOWN_GENERATION, TierQuota
from webhook.quota.text import unsettled, violation
from webhook.verdict import Action, ChargeIntent, Unresolved, Verdict, Violation

TRY_AGAIN_SECONDS = 1


class Ledger(Protocol):
    """webhook.quota.ledger.Ledger. is_live: reservations settle, since somebody counts what is stored."""

    is_live: bool

    def known(self, deadline: float) -> Sequence[TierQuota] | None: ...

    def charge(
        self, tier: str, order: Order, labels: Mapping[str, str], deadline: float, *, commit: bool = True
    ) -> Outcome: ...

    def release(self, tier: str, ids: list[str], deadline: float) -> None: ...


def charge(ledger: Ledger, source: FactSource, facts: Facts, verdict: Verdict, deadline: float) -> Verdict:
    """The verdict with what the quotas say. Looked up only, not charged, where something denies already or the request is
    a dry run. Raises nothing but our own bugs."""
    action = _action(facts)
    if not facts.policy.tiers or action is None:
        return verdict
    if facts.operation is Operation.DELETE or facts.plan == facts.old_plan:
        return verdict  # costs nothing, whatever is in the books: it waits for nobody who reads them
    quotas = ledger.known(deadline)
    if quotas is not None and not quotas:
        return verdict
    desk = _Cashier(ledger, source, deadline, quotas, commit=verdict.allowed and not facts.request.dry_run)
    paid = desk.pay(facts, fresh=False)
    if paid.violations and paid.asked:
        # Nothing is denied on the word of a cache: the price was made of what was read, perhaps, some time ago.
        paid = desk.pay(facts, fresh=True)
    return _with(verdict, paid, action)


def _action(facts: Facts) -> Action | None:
    """What the policy says of the quota in this namespace. Warn and Audit charge what fits and let the rest in."""
    action = facts.policy.action(RULE, Action.DENY)
    if action is not None and facts.policy.exemption(RULE, facts.kind, facts.name, facts.now) is not None:
        return Action.AUDIT
    return action


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paid:
    """violations: what has no room. undecided: why it could not be said. asked: the price rests on facts that were read."""

    violations: tuple[Violation, ...] = ()
    undecided: str = ""
    unknown: tuple[str, ...] = ()
    intent: ChargeIntent | None = None
    quota_versions: str = ""
    asked: bool = False


class _Cashier:
    """One request at the ledger."""

    def __init__(
        self, ledger: Ledger, source: FactSource, deadline: float, quotas: Sequence[TierQuota] | None, *, commit: bool
    ) -> None:
        self._ledger, self._source, self._deadline, self._quotas = ledger, source, deadline, quotas
        self._commit = commit

    def pay(self, facts: Facts, *, fresh: bool) -> _Paid:
        bill, labels, asked = self._bill(facts, fresh=fresh)
        charges = [item for item in bill.charges if self._has_quota(item.tier)]
        if not charges:
            return _Paid()
        unknown = bill.unknown
        if bill.failed and facts.phase is Phase.REVIEW:
            unknown += bill.failed  # nobody can send a file again: what is not known is said
        elif failed := bill.failed + (bill.unlisted if self._ledger.is_live else ()):
            return _Paid(undecided="; ".join(failed))
        paid: list[tuple[str, str]] = []
        found: list[Violation] = []
        versions: list[str] = []
        for item in charges:
            order = _order(facts, item.amounts, bill)
            order = replace(order, joining=item.joining)
            commit = self._commit and not found
            outcome = self._ledger.charge(item.tier, order, labels, self._deadline, commit=commit)
            if isinstance(outcome, Granted):
                versions += [f"{quota.name}@{quota.resource_version}" for quota in outcome.quotas]
                if commit:
                    paid.append((item.tier, order.id))
                continue
            self._give_back(paid)
            if isinstance(outcome, Undecided):
                return _Paid(undecided=outcome.reason)
            assert isinstance(outcome, Refused)  # noqa: S101  the union is closed
            if outcome.may_change and self._ledger.is_live and facts.phase is not Phase.REVIEW:
                # A place that is reserved may be free again in a second, or be taken for good: not the time to say no.
                return _Paid(
                    undecided=unsettled(outcome.shortfalls[0], item, kind=facts.kind, namespace=facts.namespace)
                )
            for missing in outcome.shortfalls:
                found.append(violation(missing, item, Action.DENY, kind=facts.kind, namespace=facts.namespace))
                versions.append(f"{missing.quota.name}@{missing.quota.resource_version}")
        return _Paid(
            violations=tuple(found),
            unknown=unknown,
            intent=ChargeIntent(tier=charges[0].tier, amounts=charges[0].alone),
            quota_versions=",".join(dict.fromkeys(versions)),
            asked=asked,
        )

    def _bill(self, facts: Facts, *, fresh: bool) -> tuple[Bill, Mapping[str, str], bool]:
        """(bill, the namespace's labels, was anything read for it?)"""
        answers: dict[Query, Answer] = {}
        for _ in range(ROUND_COUNT_MAX):
            surroundings = Surroundings(answers)
            bill = bill_of(replace(facts, surroundings=surroundings))
            labels: Mapping[str, str] = {}
            if any(self._has_quota(item.tier, by_label=True) for item in bill.charges):
                looked = surroundings.namespace(facts.namespace)
                labels = (looked.value.metadata.labels or {}) if looked.value is not None else {}
                if looked.unknown is not None:
                    bill = replace(bill, failed=(*bill.failed, f"the namespace's labels: {looked.unknown}"))
            if not surroundings.missing:
                break
            answers |= ask_all(self._source, surroundings.missing, fresh=fresh, deadline=self._deadline)
        return bill, labels, bool(answers)

    def _has_quota(self, tier: str, *, by_label: bool = False) -> bool:
        """Not known means that there may be one."""
        return self._quotas is None or any(
            quota.tier == tier and (quota.selector is not None or not by_label) for quota in self._quotas
        )

    def _give_back(self, paid: list[tuple[str, str]]) -> None:
        """Several tiers on one charge: all or none."""
        for tier, order_id in paid:
            self._ledger.release(tier, [order_id], self._deadline)
        paid.clear()


def _order(facts: Facts, amounts: Mapping[str, int], bill: Bill) -> Order:
    metadata = facts.metadata
    order_id = secrets.token_hex(8)
    return Order(
        id=order_id,
        # Final in the validating phase. An object without one (in `review`) is charged as one of its own.
        uid=metadata.uid or order_id,
        kind=facts.kind,
        namespace=facts.namespace,
        name=facts.name,
        amounts=amounts,
        generation=metadata.generation or (UNKNOWN_GENERATION if facts.old is not None else 0),
        detached=bill.detached,
    )


def _with(verdict: Verdict, paid: _Paid, action: Action) -> Verdict:
    violations = (*verdict.violations, *(replace(item, action=action) for item in paid.violations))
    unknowns = (*verdict.unknowns, *(Unresolved(rule=RULE, reason=reason, warn=True) for reason in paid.unknown))
    verdict = replace(
        verdict,
        violations=violations,
        unknowns=unknowns,
        charge=paid.intent,
        versions=replace(verdict.versions, quota=paid.quota_versions),
        code=403 if any(item.action is Action.DENY for item in violations) else verdict.code,
    )
    if not paid.undecided:
        return verdict
    if verdict.denials:
        return replace(verdict, notes=(*verdict.notes, f"not looked up in the quota: {paid.undecided}"))
    if action is not Action.DENY:
        return replace(verdict, notes=(*verdict.notes, f"admitted without a charge: {paid.undecided}"))
    note = f"not decided yet: {paid.undecided}; nothing is wrong with the object, try again in 1 s"
    return replace(verdict, notes=(*verdict.notes, note), code=429, retry_after_seconds=TRY_AGAIN_SECONDS)
