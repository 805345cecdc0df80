"""READ THIS FIRST. One request, from AdmissionRequest to Verdict, one line per step.

    request -> (short-circuit) -> typed object -> GangPlan -> Facts -> rules -> (quota charge) -> Verdict

The webhook, `muster review` and the tests all run this and nothing else. Nothing here knows HTTP or a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from webhook.admission.charge import Ledger, charge
from webhook.admission.evaluate import Active, Results, RuleError, active, evaluate, not_worse
from webhook.admission.patch import to_patch
from webhook.admission.scale import NotJudgedError, as_update
from webhook.admission.scope import is_older_version, is_unknown_version, short_circuit
from webhook.facts.gather import ROUND_COUNT_MAX, ask_all, foreseen, foreseen_next
from webhook.facts.model import Facts, Operation, Phase, Requester
from webhook.facts.source import Answer, FactSource, Found, Query
from webhook.facts.surroundings import Surroundings
from webhook.inventory.snapshot import Snapshot
from webhook.mutations.catalogue import MUTATIONS
from webhook.mutations.meta import Change, Mutation
from webhook.objects import core
from webhook.objects.kinds import Kind, find
from webhook.objects.read import ShapeError, read
from webhook.objects.request import AdmissionRequest
from webhook.plan.adapters import plan_of
from webhook.policy.effective import EffectivePolicy
from webhook.rules.catalogue import CATALOGUE
from webhook.rules.meta import Rule
from webhook.verdict import Action, Unresolved, Verdict, Versions, Violation


class Policies(Protocol):
    """The loaded policy. `needs_labels`: does any scope select namespaces by label?"""

    @property
    def needs_labels(self) -> bool: ...

    def effective(self, namespace: str, labels: Mapping[str, str]) -> EffectivePolicy: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """All collaborators are given; nothing is global. Thread-safe as far as its parts are. inventory: the newest
    snapshot of the cluster's capacity; None where there is none, and then rules on capacity have nothing to say."""

    policies: Callable[[], Policies]
    source: FactSource
    own_namespace: str = "muster-system"
    catalogue: Sequence[Rule] = CATALOGUE
    mutations: Sequence[Mutation] = MUTATIONS
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    complete_set: bool = False
    ledger: Ledger | None = None
    inventory: Callable[[], Snapshot | None] = lambda: None

    def judge(self, request: AdmissionRequest, phase: Phase, deadline: float | None = None) -> Verdict:
        """deadline: time.monotonic() value. Raises RuleError (our bug) and nothing else."""
        deadline = time.monotonic() + 10 if deadline is None else deadline
        if is_unknown_version(request):
            return Verdict(short_circuit="unknown-version", notes=(_unknown_version_note(request),))
        if reason := short_circuit(request, self.own_namespace):
            return Verdict(short_circuit=reason)
        try:
            request = as_update(request, self.source, deadline)
        except NotJudgedError as why:
            return Verdict(short_circuit=why.reason, notes=why.notes)
        policy = self._policy(request, deadline)
        try:
            facts = self._facts(request, phase, policy)
        except ShapeError as error:
            return _unreadable(error, request, policy)
        if facts.operation is Operation.DELETE and facts.requester.system:
            return Verdict(short_circuit="garbage-collection")
        run = self._mutate if phase is Phase.MUTATING else self._validate
        return run(facts, deadline)

    # -- steps --------------------------------------------------------------------------------------------------
    def _policy(self, request: AdmissionRequest, deadline: float) -> EffectivePolicy:
        policies = self.policies()
        labels: Mapping[str, str] = {}
        if policies.needs_labels and request.namespace:
            query = Query("Namespace", "", request.namespace)
            answer = self.source.ask(query, fresh=False, deadline=deadline)
            if isinstance(answer, Found) and isinstance(answer.value, Mapping):
                labels = (answer.value.get("metadata") or {}).get("labels") or {}
        return policies.effective(request.namespace, labels)

    def _facts(self, request: AdmissionRequest, phase: Phase, policy: EffectivePolicy) -> Facts:
        kind = find(request.kind.group, request.kind.kind)
        assert kind is not None  # noqa: S101  short_circuit let only known kinds through
        operation = Operation(request.operation)
        raw = request.old_object if operation is Operation.DELETE else request.object
        raw = raw if raw is not None else {}
        obj = read(raw, kind.type)
        old_raw = request.old_object if operation is Operation.UPDATE else None
        old = _read_old(old_raw, kind)
        namespace = request.namespace
        user = request.user_info
        return Facts(
            phase=phase,
            operation=operation,
            subresource=request.sub_resource,
            request=request,
            requester=Requester(
                username=user.username,
                groups=user.groups or (),
                trusted=policy.trusts(user.username),
                system=policy.is_system(user.username),
            ),
            kind=kind.kind,
            api_version=request.kind.api_version,
            namespace=namespace,
            name=request.name or _name(obj),
            obj=obj,
            raw=raw,
            old=old,
            old_raw=old_raw,
            plan=plan_of(kind.kind, request.kind.api_version, namespace, obj),
            old_plan=None if old is None else plan_of(kind.kind, request.kind.api_version, namespace, old),
            policy=policy,
            surroundings=Surroundings({}),
            now=self.clock(),
            complete_set=self.complete_set,
            inventory=self.inventory(),
        )

    def _validate(self, facts: Facts, deadline: float) -> Verdict:
        violations, unresolved, asked = self._settle(facts, deadline, fresh=False)
        if asked and any(violation.action is Action.DENY for violation in violations):
            # Nothing is denied on the word of a cache: ask again, live, everything this verdict rests on.
            answers = ask_all(self.source, asked, fresh=True, deadline=deadline)
            again = replace(facts, surroundings=Surroundings(answers))
            violations, unresolved, _ = self._settle(again, deadline, fresh=True)
        if facts.old is not None and any(violation.action is Action.DENY for violation in violations):
            violations = not_worse(violations, self._before(facts, deadline))
        code = 403 if any(violation.action is Action.DENY for violation in violations) else 200
        verdict = Verdict(violations=violations, unknowns=unresolved, code=code, versions=_versions(facts))
        return verdict if self.ledger is None else charge(self.ledger, self.source, facts, verdict, deadline)

    def _before(self, facts: Facts, deadline: float) -> list[Violation]:
        """What the rules say of the stored object, in today's surroundings."""
        assert facts.old is not None  # noqa: S101
        assert facts.old_plan is not None  # noqa: S101
        before = replace(
            facts, obj=facts.old, raw=facts.old_raw or {}, plan=facts.old_plan, surroundings=Surroundings({})
        )
        return self._settle(before, deadline, fresh=False)[0]

    def _mutate(self, facts: Facts, deadline: float) -> Verdict:
        if facts.operation is not Operation.CREATE or facts.subresource:
            return Verdict(short_circuit="mutates-on-create-only", versions=_versions(facts))
        active = [m for m in self.mutations if facts.kind in m.META.kinds and facts.policy.mutation_enabled(m.META.id)]
        if not active:
            return Verdict(short_circuit="no-mutation-enabled", versions=_versions(facts))
        answers: dict[Query, Answer] = {}
        for _ in range(ROUND_COUNT_MAX):
            surroundings = Surroundings(answers)
            asking = replace(facts, surroundings=surroundings)
            changes = [change for mutation in active for change in _changes(mutation, asking)]
            if not surroundings.missing:
                break
            answers |= ask_all(self.source, surroundings.missing, fresh=False, deadline=deadline)
        patch, notes = to_patch(facts.raw, changes)
        return Verdict(patch=patch, patch_notes=notes, versions=_versions(facts))

    def _settle(
        self, facts: Facts, deadline: float, *, fresh: bool
    ) -> tuple[list[Violation], list[Unresolved], set[Query]]:
        """Evaluate, fetch what was missing, evaluate again the rules that asked for it, until none asks anything new."""
        surroundings = facts.surroundings
        if not fresh and facts.operation is not Operation.DELETE:
            answers = ask_all(self.source, foreseen(facts.plan, facts.namespace), fresh=False, deadline=deadline)
            surroundings.learn(answers)
            surroundings.learn(ask_all(self.source, foreseen_next(answers), fresh=False, deadline=deadline))
        catalogue, kind = tuple(self.catalogue), facts.kind
        rules: Iterable[Active] = active(catalogue, facts.policy, kind, facts.operation, facts.subresource, facts.phase)
        results: Results = {}
        for _ in range(ROUND_COUNT_MAX):
            rules = evaluate(rules, facts, results)
            if not surroundings.missing:
                violations = [violation for found, _ in results.values() for violation in found]
                unresolved = [unknown for _, unknowns in results.values() for unknown in unknowns]
                return violations, unresolved, surroundings.asked
            surroundings.learn(ask_all(self.source, surroundings.missing, fresh=fresh, deadline=deadline))
        raise RuleError("a rule that never stops asking")


def _versions(facts: Facts) -> Versions:
    inventory = "" if facts.inventory is None else facts.inventory.version
    return Versions(policy=facts.policy.version, policy_name=facts.policy.name, inventory=inventory)


def _changes(mutation: Mutation, facts: Facts) -> list[Change]:
    if mutation.META.gate is not None and facts.gate(mutation.META.gate) is False:
        return []
    try:
        return list(mutation.mutate(facts))
    except Exception as error:
        raise RuleError(mutation.META.id) from error


def _read_old(raw: Mapping[str, Any] | None, kind: Kind) -> core.Base | None:
    """The stored object, or None where it is unreadable: what is stored cannot be the requester's fault."""
    if raw is None:
        return None
    try:
        return read(raw, kind.type)
    except ShapeError:
        return None


def _name(obj: core.Base) -> str:
    metadata: core.ObjectMeta = getattr(obj, "metadata", core.ObjectMeta())
    return metadata.name


def _unreadable(error: ShapeError, request: AdmissionRequest, policy: EffectivePolicy) -> Verdict:
    """Refused, unless something speaks for a warning, as it would for a rule: the policy's cap, a trusted controller, an
    object that is stored like that already and may be on its way out."""
    action = Action.DENY if policy.action_max is None else policy.action_max
    if policy.trusts(request.user_info.username) or _unreadable_before(request):
        action = action.at_most(Action.WARN)
    violation = Violation(
        rule="WAS100",
        action=action,
        field=str(error.field),
        reason="unreadable shape",
        seen=None,
        limit=None,
        message=f"{error.message}, which {request.kind.kind} in {request.kind.api_version} does not take",
        fix=error.fix,
    )
    code = 422 if action is Action.DENY else 200
    return Verdict(
        violations=(violation,), code=code, versions=Versions(policy=policy.version, policy_name=policy.name)
    )


def _unreadable_before(request: AdmissionRequest) -> bool:
    kind = find(request.kind.group, request.kind.kind)
    return kind is not None and request.old_object is not None and _read_old(request.old_object, kind) is None


def _unknown_version_note(request: AdmissionRequest) -> str:
    kind = find(request.kind.group, request.kind.kind)
    known = kind.api_version if kind is not None else ""
    if is_older_version(request):
        return (
            f"{request.kind.kind} in version {request.kind.api_version} is older than what Muster reads and Kubernetes "
            f"1.37 serves: not checked; write it as {known}"
        )
    return (
        f"{request.kind.kind} in version {request.kind.api_version} is newer than this Muster, which knows {known}: "
        "admitted unchecked; upgrade Muster to have it checked"
    )
