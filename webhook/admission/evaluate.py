"""Runs the rules on frozen facts and turns findings into violations by policy. All rules run, whatever one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webhook.facts.model import Facts, Phase
from webhook.rules.meta import ANY_KIND, Rule, RuleMeta
from webhook.verdict import Action, Finding, Unresolved, Violation


class RuleError(Exception):
    """A rule raised: our bug, never the tenant's. Answered with 500; failurePolicy decides."""

    def __init__(self, rule_id: str) -> None:
        super().__init__(f"rule {rule_id} raised")
        self.rule_id = rule_id


def applies(meta: RuleMeta, facts: Facts) -> bool:
    """Is the rule about this request at all?"""
    return (
        (facts.kind in meta.kinds or ANY_KIND in meta.kinds)
        and facts.operation in meta.operations
        and facts.subresource in meta.subresources
        and (facts.phase is Phase.REVIEW or not meta.review_only)
    )


def evaluate(catalogue: Sequence[Rule], facts: Facts) -> tuple[list[Violation], list[Unresolved]]:
    """Every rule that applies, in catalogue order. Raises RuleError for our own bugs."""
    violations: list[Violation] = []
    unresolved: list[Unresolved] = []
    for rule in catalogue:
        meta = rule.META
        if not applies(meta, facts):
            continue
        action = _action(meta, facts)
        if action is None:
            continue
        try:
            for result in rule.check(facts):
                if isinstance(result, Finding):
                    violations.append(_violation(meta, action, result))
                else:
                    unresolved.append(replace(result, rule=meta.id))
        except Exception as error:
            raise RuleError(meta.id) from error
    return violations, unresolved


def _action(meta: RuleMeta, facts: Facts) -> Action | None:
    """The policy's action, lowered where this request must not be denied by this rule."""
    action = facts.policy.action(meta.id, meta.default_action)
    if action is None:
        return None
    if meta.gate is not None:
        gate = facts.gate(meta.gate)
        if gate is False:
            return None
        if gate is None:
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
