"""The policy -> the webhook configurations of admissionregistration.k8s.io/v1, as plain dicts. Pure.

The chart and `muster registration` both use what is rendered here:

| entry | failurePolicy | what reaches it |
|---|---|---|
| `submit.muster.dev` | Fail | what people submit |
| `controllers.muster.dev` | Ignore | what trusted controllers make of it: a dead Muster must not stop every Job |
| `traps.muster.dev` | Ignore | what is ordinary but for a shape that 1.37 traps: a long Job name, a certain default class |
| `scale.muster.dev` | Ignore | a growth by `/scale`, where the policy has `chargeScale` and tiers |
| `mutate.muster.dev` | Ignore | creations, where the policy switches a mutation on |

The validating entries are disjoint, so each request reaches exactly one, which runs all rules. Traps have an entry of
their own because nothing is guarded there: to refuse such a Job is a service to its owner, and a dead Muster that
stopped every Job with a PriorityClass would be an outage for the sake of a hint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from webhook.objects.kinds import KINDS
from webhook.policy.model import Policy
from webhook.registration.conditions import (
    NEVER_ORDINARY,
    Condition,
    common_conditions,
    is_trusted,
    kind_conditions,
    trap_conditions,
    traps,
)

JsonObject = dict[str, Any]

SUBMIT = "submit.muster.dev"
CONTROLLERS = "controllers.muster.dev"
TRAPS = "traps.muster.dev"
SCALE = "scale.muster.dev"
MUTATE = "mutate.muster.dev"

# The paths of webhook/edge/app.py: the entry's name tells it what an overloaded Muster may answer.
PATHS: Mapping[str, str] = {
    SUBMIT: "/validate/submit",
    CONTROLLERS: "/validate/controllers",
    TRAPS: "/validate/traps",
    SCALE: "/validate/scale",
    MUTATE: "/mutate",
}

PLANNED = frozenset(kind.kind for kind in KINDS if kind.planned)

# Pods matter when they are made (their scheduling group cannot change); DELETE is judged for the objects that running
# Pods depend on.
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PLANNED, ("CREATE", "UPDATE")),
    **dict.fromkeys(NEVER_ORDINARY, ("CREATE", "UPDATE", "DELETE")),
    "Pod": ("CREATE",),
}

# A Job's traps lie in what cannot change later, a PriorityClass becomes the default by an UPDATE, too.
TRAP_OPERATIONS: Mapping[str, tuple[str, ...]] = {"Job": ("CREATE",), "PriorityClass": ("CREATE", "UPDATE")}

SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")

# What a resize asks for beyond its tier's quota can be refused; a Pod that is resized shows whether it is ordinary.
QUOTA_SUBRESOURCES: Mapping[str, tuple[str, ...]] = {"Pod": ("resize",)}

# A slow webhook is worse than a dead one: an unreachable one costs this long at each object (cases R122, R123).
TIMEOUT_SECONDS = 5

SCALE_TIMEOUT_SECONDS = 2
"""Ordinary objects come here, too: with a Muster that hangs each of their growths waits so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRef:
    """A Service of the cluster; port is the Service's."""

    namespace: str
    name: str
    port: int = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where Muster is and how it is installed: everything that is not the policy's.

    client: the Service, or the start of a URL (``https://127.0.0.1:8443``) for a Muster outside the cluster.
    ca_bundle: base64 of PEM; "" where something else (cert-manager) fills it in. own_namespace never reaches Muster.
    """

    client: ServiceRef | str
    ca_bundle: str = ""
    own_namespace: str = "muster-system"
    name: str = "muster"
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout_seconds: int = TIMEOUT_SECONDS
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def render_webhook_configurations(policy: Policy, target: Target) -> list[JsonObject]:
    """The ValidatingWebhookConfiguration, and the MutatingWebhookConfiguration where a mutation is switched on."""
    kinds = kind_conditions(policy)
    trusted = is_trusted(policy)
    common = common_conditions()
    people = {"name": "submitted-by-people", "expression": f"!({trusted})"}
    controllers = {"name": "made-by-controllers", "expression": trusted}
    rules = resource_rules() + (subresource_rules(QUOTA_SUBRESOURCES) if policy.spec.tiers else [])
    fail = target.failure_policy
    validating = [
        _webhook(policy, target, SUBMIT, [people, *common, *kinds], rules=rules, failure_policy=fail),
        _webhook(policy, target, CONTROLLERS, [controllers, *common, *kinds], rules=rules, failure_policy="Ignore"),
    ]
    if trapped := traps(policy):
        conditions = trap_conditions(trapped)
        trap_rules = resource_rules(trapped, operations=TRAP_OPERATIONS)
        validating.append(_webhook(policy, target, TRAPS, conditions, rules=trap_rules, failure_policy="Ignore"))
    if policy.spec.charge_scale and policy.spec.tiers:
        validating.append(_scale_webhook(policy, target))
    configurations = [_configuration("ValidatingWebhookConfiguration", target, validating)]
    if mutates(policy):
        creations = resource_rules(operations=dict.fromkeys(PLANNED, ("CREATE",)))
        entry = _webhook(policy, target, MUTATE, kinds, rules=creations, failure_policy="Ignore")
        # What other webhooks add after us may be what a mutation looks for.
        entry["reinvocationPolicy"] = "IfNeeded"
        configurations.append(_configuration("MutatingWebhookConfiguration", target, [entry]))
    return configurations


def mutates(policy: Policy) -> bool:
    """Is a mutation switched on anywhere?"""
    everywhere = [policy.spec.mutations, *(override.mutations for override in policy.spec.overrides)]
    return any(on for mutations in everywhere for on in mutations.values())


def excluded_namespaces(policy: Policy, own_namespace: str) -> list[str]:
    return sorted({*SYSTEM_NAMESPACES, own_namespace, *policy.spec.cluster.excluded_namespaces})


def resource_rules(
    only: Collection[str] = PLANNED, *, operations: Mapping[str, tuple[str, ...]] | None = None
) -> list[JsonObject]:
    """Which requests, by kind: only kinds that rules are about, and no subresources.

    `podgroups/status` and `pods/status` are written all the time and say nothing new; a `scale` request does not show
    the Pod template, so ordinary ones cannot be told apart: it has an entry of its own, for those who want it.
    """
    operations = OPERATIONS if operations is None else operations
    rules: dict[tuple[str, tuple[str, ...], tuple[str, ...], bool], list[str]] = {}
    for kind in KINDS:
        if kind.kind in only:
            key = (kind.group, kind.versions, operations[kind.kind], kind.namespaced)
            rules.setdefault(key, []).append(kind.plural)
    return [
        {
            "apiGroups": [group],
            "apiVersions": list(versions),
            "operations": list(words),
            "resources": sorted(plurals),
            "scope": "Namespaced" if namespaced else "Cluster",
        }
        for (group, versions, words, namespaced), plurals in rules.items()
    ]


def subresource_rules(wanted: Mapping[str, tuple[str, ...]]) -> list[JsonObject]:
    """UPDATEs of these subresources, by kind."""
    return [
        {
            "apiGroups": [kind.group],
            "apiVersions": list(kind.versions),
            "operations": ["UPDATE"],
            "resources": [f"{kind.plural}/{name}" for name in wanted[kind.kind]],
            "scope": "Namespaced",
        }
        for kind in KINDS
        if kind.kind in wanted
    ]


def _scale_webhook(policy: Policy, target: Target) -> JsonObject:
    """Whoever asks, since nothing here may stop a controller: an autoscaler is told no, or is not held up."""
    replicas = "spec.?replicas.orValue(0)"
    grows = [{"name": "grows", "expression": f"object.{replicas} > oldObject.{replicas}"}]
    rules = subresource_rules({kind.kind: ("scale",) for kind in KINDS if kind.scaled})
    entry = _webhook(policy, target, SCALE, grows, rules=rules, failure_policy="Ignore")
    return {**entry, "timeoutSeconds": min(SCALE_TIMEOUT_SECONDS, target.timeout_seconds)}


def _webhook(
    policy: Policy,
    target: Target,
    name: str,
    conditions: Sequence[Condition],
    *,
    rules: Sequence[JsonObject],
    failure_policy: str,
) -> JsonObject:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(target, PATHS[name]),
        "failurePolicy": failure_policy,
        "matchConditions": list(conditions),
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {
                    # Set by the API server itself on every namespace; a label of our own could be missing.
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": excluded_namespaces(policy, target.own_namespace),
                }
            ]
        },
        "objectSelector": {},
        "rules": list(rules),
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": target.timeout_seconds,
    }


def _client_config(target: Target, path: str) -> JsonObject:
    config: JsonObject
    if isinstance(target.client, ServiceRef):
        service = target.client
        config = {"service": {"namespace": service.namespace, "name": service.name, "path": path, "port": service.port}}
    else:
        config = {"url": target.client.rstrip("/") + path}
    return config | ({"caBundle": target.ca_bundle} if target.ca_bundle else {})


def _configuration(kind: str, target: Target, webhooks: Sequence[JsonObject]) -> JsonObject:
    metadata: JsonObject = {"name": target.name}
    if target.labels:
        metadata["labels"] = dict(target.labels)
    if target.annotations:
        metadata["annotations"] = dict(target.annotations)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": list(webhooks),
    }
