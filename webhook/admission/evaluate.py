"""Runs the rules on frozen facts and turns findings into violations by policy. All rules run, whatever one says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from webhook.facts.model import Facts, Phase
from webhook.policy.effective import EffectivePolicy
from webhook.rules.meta import ANY_KIND, Rule, RuleMeta
from webhook.verdict import Action, Finding, Unresolved, Violation


class RuleError(Exception):
    """A rule raised: our bug, never the tenant's. Answered with 500; failurePolicy decides."""

    def __init__(self, rule_id: str) -> None:
        super().__init__(f"rule {rule_id} raised")
        self.rule_id = rule_id


Results = dict[str, tuple[Sequence[Violation], Sequence[Unresolved]]]
"""By rule ID, in catalogue order: what was found by each rule that found something, or had to ask first."""

_NOTHING: tuple[Sequence[Violation], Sequence[Unresolved]] = ((), ())


def applies(meta: RuleMeta, kind: str, operation: str, subresource: str, phase: Phase) -> bool:
    """Is the rule about such a request at all?"""
    return (
        (kind in meta.kinds or ANY_KIND in meta.kinds)
        and operation in meta.operations
        and subresource in meta.subresources
        and (phase is Phase.REVIEW or not meta.review_only)
    )


Active = tuple[Rule, Action]
"""A rule that a policy has on, and its action there."""


# Keys are the policy of a namespace (few are in use at a time), a few kinds, three operations, the judged subresources and
# three phases (admission/scope.py).
@lru_cache(maxsize=1024)
def active(  # noqa: PLR0917  they are the key of the cache
    catalogue: tuple[Rule, ...], policy: EffectivePolicy, kind: str, operation: str, subresource: str, phase: Phase
) -> tuple[Active, ...]:
    """The rules that are about such a request and on in this policy, in catalogue order."""
    found = []
    for rule in catalogue:
        meta = rule.META
        action = policy.action(meta.id, meta.default_action)
        is_gated_off = meta.gate is not None and policy.gate(meta.gate) is False
        if action is not None and not is_gated_off and applies(meta, kind, operation, subresource, phase):
            found.append((rule, action))
    return tuple(found)


def evaluate(rules: Iterable[Active], facts: Facts, results: Results) -> list[Active]:
    """Runs the rules and puts what each one found into `results`. Returns those that asked a question that has no
    answer yet: only they can find something else once it has. Raises RuleError for our own bugs."""
    undecided = []
    surroundings = facts.surroundings
    for active_rule in rules:
        rule, action = active_rule
        open_count = surroundings.open_count
        try:
            found = tuple(rule.check(facts))
            if surroundings.open_count != open_count:
                results[rule.META.id] = _NOTHING  # keeps its place
                undecided.append(active_rule)
            elif found:
                # Most rules find nothing, so what a finding would mean is worked out only for those that do.
                results[rule.META.id] = _sorted_out(rule.META, _lowered(action, rule.META, facts), found)
        except Exception as error:
            raise RuleError(rule.META.id) from error
    return undecided


def _sorted_out(
    meta: RuleMeta, action: Action, found: Sequence[Finding | Unresolved]
) -> tuple[list[Violation], list[Unresolved]]:
    violations = [_violation(meta, action, result) for result in found if isinstance(result, Finding)]
    unresolved = [replace(result, rule=meta.id) for result in found if isinstance(result, Unresolved)]
    return violations, unresolved


def _lowered(action: Action, meta: RuleMeta, facts: Facts) -> Action:
    """The policy's action, lowered where this request must not be denied by this rule."""
    if meta.gate is not None and facts.gate(meta.gate) is None:
        action = action.at_most(Action.WARN)
    if facts.requester.trusted:
        # A denied child leaves its parent stuck in silence and retried for ever: judge what people write.
        action = action.at_most(Action.WARN)
    if facts.policy.exemption(meta.id, facts.kind, facts.name, facts.now) is not None:
        action = Action.AUDIT
    return action


def _violation(meta: RuleMeta, action: Action, finding: Finding) -> Violation:
    return Violation(
        rule=meta.id,
        action=action.at_most(finding.at_most),
        field=str(finding.field),
        reason=finding.reason or meta.reason,
        seen=finding.seen,
        limit=finding.limit,
        message=finding.message,
        fix=finding.fix,
        excess=finding.excess,
        rewrite=finding.rewrite,
    )


def not_worse(violations: Sequence[Violation], before: Sequence[Violation]) -> list[Violation]:
    """For an UPDATE: a violation that the stored object has as well, and that has not grown, warns at most.

    Compared by rule and field name without list positions; where both say how far over the limit they are, the
    number decides.
    """
    result = []
    for violation in violations:
        olds = [old for old in before if old.rule == violation.rule and _place(old.field) == _place(violation.field)]
        if any(_no_larger(violation, old) for old in olds):
            violation = replace(violation, action=violation.action.at_most(Action.WARN))  # noqa: PLW2901
        result.append(violation)
    return result


def _no_larger(new: Violation, old: Violation) -> bool:
    if new.excess is not None and old.excess is not None:
        return new.excess <= old.excess
    return (new.seen, new.limit) == (old.seen, old.limit)


def _place(field: str) -> str:
    return field.split("[", 1)[0]
