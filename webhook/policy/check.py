"""Checks of meaning: what each value of a policy refers to, and what contradicts what.

Works on documents whose shape is sound; faulty parts were cut out before, and what was cut still counts as named, so
that one typing error does not bring a second one in its wake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from pydantic import BaseModel

from webhook.objects.fieldpath import FieldPath
from webhook.objects.kinds import BY_NAME
from webhook.policy.model import GATE_DEPENDENCIES, LabelSelector, NamespaceScope, Policy, PolicyPart
from webhook.policy.problems import Problem, did_you_mean, listed
from webhook.policy.yamltree import Node

SPEC = FieldPath.of("spec")
EXEMPTION_AGE_MAX = timedelta(days=366)
_KINDS = frozenset(BY_NAME)


@dataclass(frozen=True, slots=True)
class Known:
    """What a policy may name that the policy room cannot know: given by the root from the catalogues.

    rules, mutations: the IDs there are. redirects: an old ID -> the one that took its place, or None where the rule
    is gone; an old ID still loads, with a warning.
    """

    rules: frozenset[str]
    mutations: frozenset[str] = frozenset()
    redirects: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """One file: the model of what is sound in it, the tree of the same for positions, and the names of all tiers,
    those that were cut for another fault included."""

    file: str
    root: Node
    model: Policy | PolicyPart
    tier_names: frozenset[str] = frozenset()

    def problem(self, path: FieldPath, message: str) -> Problem:
        written, line, column = self.root.find(path)
        return Problem(file=self.file, line=line, column=column, field=written, message=message)


@dataclass(slots=True)
class Findings:
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def check(documents: list[Document], known: Known | None, today: date | None) -> Findings:
    """All faults and warnings. known None: rule IDs are not looked up; today None: nothing is called expired."""
    findings = Findings()
    for document in documents:
        if known is not None:
            _check_rule_ids(document, known, findings)
        _check_selectors(document, findings)
        _check_exemptions(document, today, findings)
        if isinstance(document.model, Policy):
            _check_gates(document, document.model, findings)
    _check_names(documents, findings)
    _check_tiers(documents, findings)
    return findings


# -- rule IDs -----------------------------------------------------------------------------------------------------
def _check_rule_ids(document: Document, known: Known, findings: Findings) -> None:
    spec = document.model.spec
    if isinstance(document.model, Policy):
        _check_rule_keys(document, SPEC / "rules", document.model.spec.rules, known, findings)
        _check_mutation_keys(document, SPEC / "mutations", document.model.spec.mutations, known, findings)
    for index, override in enumerate(spec.overrides):
        at = SPEC / "overrides" / index
        _check_rule_keys(document, at / "rules", override.rules, known, findings)
        _check_mutation_keys(document, at / "mutations", override.mutations, known, findings)
    for index, exemption in enumerate(spec.exemptions):
        for position, rule in enumerate(exemption.rules):
            _check_rule_id(document, SPEC / "exemptions" / index / "rules" / position, rule, known, findings)


def _check_rule_keys(
    document: Document, at: FieldPath, rules: Mapping[str, object], known: Known, findings: Findings
) -> None:
    for rule in rules:
        _check_rule_id(document, at / rule, rule, known, findings)
        renamed = known.redirects.get(rule)
        if renamed is not None and renamed in rules:
            message = f'"{rule}" is now called "{renamed}", which is given as well; keep one of them'
            findings.errors.append(document.problem(at / rule, message))


def _check_rule_id(document: Document, at: FieldPath, rule: str, known: Known, findings: Findings) -> None:
    if rule in known.redirects:
        renamed = known.redirects[rule]
        tail = f'is now called "{renamed}"; write that' if renamed else "is gone; remove it"
        findings.warnings.append(document.problem(at, f'rule "{rule}" {tail}'))
    elif rule in known.mutations:
        message = f'"{rule}" is a mutation, not a rule; it is switched on and off under "mutations"'
        findings.errors.append(document.problem(at, message))
    elif rule not in known.rules:
        message = f'no rule has the ID "{rule}"; `muster rules` lists all'
        findings.errors.append(document.problem(at, message))


def _check_mutation_keys(
    document: Document, at: FieldPath, mutations: Mapping[str, bool], known: Known, findings: Findings
) -> None:
    for mutation in mutations:
        if mutation in known.mutations:
            continue
        what = f'"{mutation}" is a rule, not a mutation; it gets its action under "rules"'
        if mutation not in known.rules:
            what = f'no mutation has the ID "{mutation}"; known: {listed(known.mutations)}'
        findings.errors.append(document.problem(at / mutation, what))


# -- gates --------------------------------------------------------------------------------------------------------
def _check_gates(document: Document, policy: Policy, findings: Findings) -> None:
    gates = {str(gate): on for gate, on in policy.spec.cluster.feature_gates.items()}
    for gate, needed in GATE_DEPENDENCIES.items():
        off = [name for name in needed if gates.get(name) is False]
        if gates.get(gate) and off:
            message = (
                f'"{gate}" cannot be on while "{off[0]}" is off: no component of Kubernetes 1.37 starts like that; '
                "declare both as the cluster runs"
            )
            findings.errors.append(document.problem(SPEC / "cluster" / "featureGates" / gate, message))


# -- selectors ----------------------------------------------------------------------------------------------------
def _check_selectors(document: Document, findings: Findings) -> None:
    for path, scope in scopes(document.model):
        selector = scope.namespace_selector or LabelSelector()
        for index, requirement in enumerate(selector.match_expressions):
            at = path / "namespaceSelector" / "matchExpressions" / index / "values"
            if requirement.operator in ("In", "NotIn") and not requirement.values:
                findings.errors.append(document.problem(at, f'"{requirement.operator}" needs at least one value'))
            if requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
                findings.errors.append(document.problem(at, f'"{requirement.operator}" takes no values; remove them'))


def scopes(value: object, path: FieldPath = FieldPath()) -> Iterator[tuple[FieldPath, NamespaceScope]]:  # noqa: B008
    """Every NamespaceScope in a model, with its path as the file writes it."""
    if isinstance(value, NamespaceScope):
        yield path, value
    elif isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from scopes(getattr(value, name), path / (info.alias or name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from scopes(item, path / index)


# -- exemptions and overrides ---------------------------------------------------------------------------------------
def _check_exemptions(document: Document, today: date | None, findings: Findings) -> None:
    spec = document.model.spec
    for index, exemption in enumerate(spec.exemptions):
        at = SPEC / "exemptions" / index
        name = f'exemption "{exemption.name}" of {exemption.owner}'
        if today is not None and exemption.expires <= today:
            message = f"{name} ended on {exemption.expires}: its rules act again; remove it, or renew it with a reason"
            findings.warnings.append(document.problem(at / "expires", message))
        elif today is not None and exemption.expires - today > EXEMPTION_AGE_MAX:
            days = (exemption.expires - today).days
            message = f"{name} lasts {days} more days; an exemption over a year old is a rule nobody looks at"
            findings.warnings.append(document.problem(at / "expires", message))
        for position, kind in enumerate(exemption.kinds):
            if kind not in _KINDS:
                message = f'{name} names the kind "{kind}", which no rule is about{did_you_mean(kind, _KINDS)}'
                findings.warnings.append(document.problem(at / "kinds" / position, message))
    for group in ("overrides", "exemptions"):
        for index, item in enumerate(getattr(spec, group)):
            if item.scope == NamespaceScope():
                message = f'"{item.name}" names no namespace and no namespaceSelector, so it does nothing'
                findings.warnings.append(document.problem(SPEC / group / index / "scope", message))


# -- names that must be unique, names that must exist ---------------------------------------------------------------
def _check_names(documents: list[Document], findings: Findings) -> None:
    for group, what in (("tiers", "tier"), ("overrides", "override"), ("exemptions", "exemption")):
        first: dict[str, str] = {}
        for document in documents:
            for index, item in enumerate(getattr(document.model.spec, group)):
                at = SPEC / group / index / "name"
                place = f"{document.file}:{document.root.find(at)[1]}"
                if item.name in first:
                    message = f'there is another {what} "{item.name}" ({first[item.name]}); rename one of them'
                    findings.errors.append(document.problem(at, message))
                first.setdefault(item.name, place)


def _check_tiers(documents: list[Document], findings: Findings) -> None:
    owner: dict[str, str] = {}
    for document in documents:
        for index, tier in enumerate(document.model.spec.tiers):
            for position, name in enumerate(tier.priority_classes):
                at = SPEC / "tiers" / index / "priorityClasses" / position
                if not name:
                    findings.errors.append(document.problem(at, "must not be empty"))
                elif name in owner:
                    message = f'PriorityClass "{name}" belongs to tier "{owner[name]}" already; one class, one tier'
                    findings.errors.append(document.problem(at, message))
                owner.setdefault(name, tier.name)
    names = frozenset[str]().union(*(document.tier_names for document in documents))
    for document in documents:
        for at, default in _default_tiers(document):
            if default not in names:
                message = f'no tier is called "{default}"{did_you_mean(default, names)}'
                findings.errors.append(document.problem(at, message))


def _default_tiers(document: Document) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(document.model, Policy) and document.model.spec.default_tier is not None:
        yield SPEC / "defaultTier", document.model.spec.default_tier
    for index, override in enumerate(document.model.spec.overrides):
        if override.default_tier is not None:
            yield SPEC / "overrides" / index / "defaultTier", override.default_tier


def written_tier_names(root: Node) -> frozenset[str]:
    """The names under spec.tiers, whatever else is wrong with those tiers."""
    spec = root.child("spec")
    tiers = spec.child("tiers") if spec is not None else None
    items = tiers.value if tiers is not None and isinstance(tiers.value, list) else []
    names = [item.child("name") for item in items]
    return frozenset(name.value for name in names if name is not None and isinstance(name.value, str))
