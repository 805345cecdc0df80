"""The policy as it applies to one namespace: what rules and the pipeline ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import Literal

from webhook.policy.match import any_glob, glob_matches, in_scope, is_subject
from webhook.policy.model import GATE_DEPENDENCIES, Exemption, NamespaceScope, Parameters, Policy, Subjects, Tier
from webhook.verdict import Action

Feature = Literal[
    "job_scheduling", "composite_pod_group", "topology_constraints", "shared_claims", "admin_access_claims"
]

GARBAGE_COLLECTORS = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:kube-controller-manager",
)


def resolved_gates(declared: Mapping[str, bool]) -> dict[str, bool]:
    """The declared gates with what follows from them: a gate that is on needs the ones it depends on, and one that
    is off takes those that depend on it along (no component starts otherwise). Contradictions stay as declared."""
    gates = dict(declared)
    for gate, needed in GATE_DEPENDENCIES.items():
        if declared.get(gate):
            gates |= {name: True for name in needed if name not in declared}
        elif gate not in declared and any(declared.get(name) is False for name in needed):
            gates[gate] = False
    return gates


class EffectivePolicy:
    """Immutable. Built once per (policy version, namespace, namespace labels) and shared by requests."""

    def __init__(self, policy: Policy, version: str, namespace: str, labels: Mapping[str, str]) -> None:
        spec = policy.spec
        self.name = policy.metadata.name
        self.version = version
        self.namespace = namespace
        self.spec = spec
        self._labels = dict(labels)
        self._actions: dict[str, str] = {
            rule: settings.action for rule, settings in spec.rules.items() if settings.action is not None
        }
        self._action_max = spec.action_max
        self._mutations = dict(spec.mutations)
        self._gates = resolved_gates({str(gate): on for gate, on in spec.cluster.feature_gates.items()})
        self.default_tier: str | None = spec.default_tier
        self.unknown_priority_class: Literal["deny", "allow"] = spec.parameters.unknown_priority_class
        for override in spec.overrides:
            if not in_scope(override.scope, namespace, labels):
                continue
            self._actions |= {rule: s.action for rule, s in override.rules.items() if s.action is not None}
            self._action_max = override.action_max or self._action_max
            self._mutations |= override.mutations
            self.default_tier = override.default_tier or self.default_tier
            self.unknown_priority_class = override.unknown_priority_class or self.unknown_priority_class
        self._exemptions = tuple(e for e in spec.exemptions if in_scope(e.scope, namespace, labels))
        # Who asks is nearly always one of a few controllers.
        self._trusts = lru_cache(maxsize=64)(partial(any_glob, spec.cluster.trusted_controllers))
        self._tier_by_class = {name: tier for tier in spec.tiers for name in tier.priority_classes}

    # -- rules --------------------------------------------------------------------------------------------------
    def action(self, rule_id: str, default: Action | None) -> Action | None:
        """The action for a rule in this namespace, or None where it is off."""
        word = self._actions.get(rule_id)
        if word == "Off":
            return None
        action = default if word is None else Action(word)
        return action if action is None or self.action_max is None else action.at_most(self.action_max)

    @property
    def action_max(self) -> Action | None:
        """No rule acts more strongly than this in this namespace."""
        return None if self._action_max is None else Action(self._action_max)

    def mutation_enabled(self, rule_id: str) -> bool:
        """Every mutation is opt-in."""
        return self._mutations.get(rule_id, False)

    def exemption(self, rule_id: str, kind: str, name: str, now: datetime) -> Exemption | None:
        """The exemption that covers this object, if one does and has not ended. now: timezone-aware."""
        if not self._exemptions:
            return None
        today: date = now.astimezone(UTC).date()
        for exemption in self._exemptions:
            covers_kind = not exemption.kinds or kind in exemption.kinds
            if (
                rule_id in exemption.rules
                and today < exemption.expires
                and covers_kind
                and any_glob(exemption.objects, name)
            ):
                return exemption
        return None

    @property
    def parameters(self) -> Parameters:
        return self.spec.parameters

    # -- cluster ------------------------------------------------------------------------------------------------
    def gate(self, name: str) -> bool | None:
        """A declared feature gate, or one that follows from those; None where the policy does not say."""
        return self._gates.get(name)

    def trusts(self, username: str) -> bool:
        return self._trusts(username)

    def is_system(self, username: str) -> bool:
        """The garbage collector, the namespace controller: their deletes are never held up."""
        return username in GARBAGE_COLLECTORS

    def knows_scheduler(self, name: str | None) -> bool:
        return (name or "default-scheduler") in self.spec.cluster.schedulers

    # -- tiers, features, writers, freeze -----------------------------------------------------------------------
    @property
    def tiers(self) -> tuple[Tier, ...]:
        return self.spec.tiers

    def tier_of(self, priority_class_name: str) -> Tier | None:
        return self._tier_by_class.get(priority_class_name)

    def scope_holds(self, scope: NamespaceScope | None) -> bool:
        """Is this namespace in the scope? No scope given means everywhere."""
        return scope is None or in_scope(scope, self.namespace, self._labels)

    def subjects_hold(self, subjects: Subjects | None, username: str, groups: Iterable[str]) -> bool:
        """Is this user among the subjects? No subjects given means everybody."""
        return subjects is None or is_subject(subjects, username, groups)

    def feature_allowed(self, feature: Feature) -> bool:
        return self.scope_holds(getattr(self.spec.features, feature))

    @property
    def frozen(self) -> bool:
        """Are new WAS submissions by people stopped in this namespace?"""
        return self.spec.freeze.cluster or in_scope(self.spec.freeze.scope, self.namespace, self._labels)

    def guards_resource(self, resource: str) -> bool:
        return any(glob_matches(glob, resource) for glob in self.spec.guarded_resources)
