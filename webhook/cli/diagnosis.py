"""What `muster doctor` makes of what it read: pure, from raw objects and answers to findings."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.objects.quantity import Quantity
from webhook.policy.effective import resolved_gates
from webhook.policy.model import GATES, Policy
from webhook.registration.render import (
    CONTROLLERS,
    MUTATE,
    PATHS,
    SCALE,
    SUBMIT,
    TRAPS,
    ServiceRef,
    Target,
    render_webhook_configurations,
)

Raw = Mapping[str, Any]

VALIDATING = "ValidatingWebhookConfiguration"
MUTATING = "MutatingWebhookConfiguration"
OUR_ENTRIES = frozenset({SUBMIT, CONTROLLERS, TRAPS, SCALE, MUTATE})

GROUP_COUNTS = tuple(f"count/{name}.scheduling.k8s.io" for name in ("workloads", "podgroups"))

_LISTED_MAX = 10


class State(enum.StrEnum):
    """fail: something does not work, or Muster acts on a false belief. warn: it may be meant like that."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One line of the report. check: what was looked at, a permanent word. fix: "" where nothing is to be done."""

    check: str
    state: State
    message: str
    fix: str = ""


def ok(check: str, message: str) -> Diagnosis:
    return Diagnosis(check=check, state=State.OK, message=message)


def warn(check: str, message: str, fix: str) -> Diagnosis:
    return Diagnosis(check=check, state=State.WARN, message=message, fix=fix)


def fail(check: str, message: str, fix: str) -> Diagnosis:
    return Diagnosis(check=check, state=State.FAIL, message=message, fix=fix)


def listed(names: Iterable[str]) -> str:
    """Sorted and quoted, at most ten."""
    ordered = sorted(set(names))
    text = ", ".join(f'"{name}"' for name in ordered[:_LISTED_MAX])
    more = len(ordered) - _LISTED_MAX
    return f"{text} and {more} more" if more > 0 else text


# -- versions and gates -----------------------------------------------------------------------------------------------
def api_version(version: Raw, host: str) -> Diagnosis:
    """version: the answer of /version."""
    seen = str(version.get("gitVersion"))
    if (version.get("major"), str(version.get("minor")).rstrip("+")) == ("1", "37"):
        return ok("api", f"Kubernetes {seen} at {host}")
    fix = "expect fields that one of both does not know; use the Muster of this version once there is one"
    return warn("api", f"Kubernetes {seen} at {host}, and what Muster knows is 1.37", fix)


def served_apis(served: Mapping[str, frozenset[str]], *, keeps_groups: bool | str) -> Iterator[Diagnosis]:
    """served: version of scheduling.k8s.io -> its resources. keeps_groups: does a Pod keep its schedulingGroup?"""
    check = "was-apis"
    versions = [version for version, resources in served.items() if {"workloads", "podgroups"} <= resources]
    if "v1beta1" in versions:
        composite = "compositepodgroups" in served.get("v1alpha3", ())
        with_or_without = "with" if composite else "without"
        yield ok(check, f"Workload and PodGroup are served in {' and '.join(versions)}, {with_or_without} composites")
    elif keeps_groups is True:
        message = (
            "the gate GenericWorkload is on and scheduling.k8s.io/v1beta1 is not served: kube-scheduler waits for it"
        )
        yield fail(check, message, "start kube-apiserver with --runtime-config=scheduling.k8s.io/v1beta1=true")
    else:
        fix = (
            "turn on the gate GenericWorkload and --runtime-config=scheduling.k8s.io/v1beta1=true, if gangs are wanted"
        )
        yield warn(check, "scheduling.k8s.io/v1beta1 is not served: this cluster has no PodGroups", fix)


def gates(policy: Policy, told: Mapping[str, bool | str]) -> Iterator[Diagnosis]:
    """told: gate -> on, off, or why nobody can tell. Each gate against the policy's word. Only kube-apiserver is asked:
    that the other components have the same gates is not seen from here."""
    declared = resolved_gates({str(gate): on for gate, on in policy.spec.cluster.feature_gates.items()})
    for gate in GATES:
        yield _gate(gate, declared.get(gate), told.get(gate, "not asked"))


def _gate(gate: str, declared: bool | None, told: bool | str) -> Diagnosis:
    check = "gates"
    in_policy = {True: "declared on", False: "declared off", None: "not declared"}[declared]
    if isinstance(told, str):
        return warn(check, f"{gate}: {in_policy}, and nobody could tell: {told}", "compare it with the flags by hand")
    seen = "on" if told else "off"
    message = f"{gate}: {seen} in kube-apiserver, {in_policy} in the policy"
    if declared is told or (declared is None and not told):
        return ok(check, message)
    fix = f"set spec.cluster.featureGates.{gate}: {str(told).lower()}"
    if declared is None:
        return warn(check, f"{message}: rules that depend on it warn at most", fix)
    if told:
        return warn(check, f"{message}: rules that depend on it are switched off", fix)
    return fail(check, f"{message}: rules refuse objects for what this cluster does not do", fix)


# -- registration -----------------------------------------------------------------------------------------------------
def ours(configurations: Iterable[Raw]) -> list[Raw]:
    """Those that hold an entry of Muster's."""
    return [
        raw for raw in configurations if any(entry.get("name") in OUR_ENTRIES for entry in raw.get("webhooks") or ())
    ]


def registration(
    policy: Policy, validating: Sequence[Raw], mutating: Sequence[Raw], own_namespace: str | None
) -> Iterator[Diagnosis]:
    """Muster's own configurations (`ours`) against what the policy renders for the place they call."""
    check = "registration"
    apply = "run `muster registration apply`, or upgrade the Helm release, with this policy"
    stored = {VALIDATING: validating, MUTATING: mutating}
    for kind, found in stored.items():
        if len(found) > 1:
            names = listed(str(raw["metadata"]["name"]) for raw in found)
            yield fail(check, f"Muster is registered by several {kind}s: {names}", "delete all but one of each kind")
            return
    target = None if not validating else target_of(validating[0], own_namespace)
    if target is None:
        message = f'no {VALIDATING} has the entry "{SUBMIT}": nothing is judged'
        yield fail(check, message, apply)
        return
    wanted = {raw["kind"]: raw for raw in render_webhook_configurations(policy, target)}
    for kind, found in stored.items():
        differences = list(_differences(found[0] if found else None, wanted.get(kind)))
        if differences:
            yield fail(check, f"{kind}: {'; '.join(differences)}", apply)
        elif found:
            yield ok(check, f'{kind} "{found[0]["metadata"]["name"]}" is what the policy renders')


def entry_of(configuration: Raw, name: str) -> Raw | None:
    return next((entry for entry in configuration.get("webhooks") or () if entry.get("name") == name), None)


def target_of(configuration: Raw, own_namespace: str | None) -> Target | None:
    """Where and how the stored configuration calls Muster; None without the entry for what people submit.

    own_namespace None: that of the Service, which is Muster's own.
    """
    entry = entry_of(configuration, SUBMIT)
    if entry is None:
        return None
    client = entry["clientConfig"]
    service = client.get("service")
    if service:
        port = service.get("port", 443)
        place: ServiceRef | str = ServiceRef(namespace=service["namespace"], name=service["name"], port=port)
    else:
        place = str(client.get("url") or "").removesuffix(PATHS[SUBMIT])
    namespace = own_namespace or (service or {}).get("namespace") or "muster-system"
    return Target(
        client=place,
        own_namespace=namespace,
        name=str(configuration["metadata"]["name"]),
        failure_policy=entry["failurePolicy"],
        timeout_seconds=entry["timeoutSeconds"],
    )


def _differences(stored: Raw | None, wanted: Raw | None) -> Iterator[str]:
    if stored is None:
        if wanted is not None:
            yield "the policy renders one and there is none"
        return
    have = {entry["name"]: entry for entry in stored.get("webhooks") or ()}
    want = {} if wanted is None else {entry["name"]: entry for entry in wanted["webhooks"]}
    for name in sorted(have.keys() | want.keys()):
        if name not in have:
            yield f'the entry "{name}" is missing'
        elif name not in want:
            yield f'the entry "{name}" is none of the policy\'s'
        elif fields := sorted(_different_fields(have[name], want[name])):
            yield f'the entry "{name}" differs in {", ".join(fields)}'


def _different_fields(stored: Raw, wanted: Raw) -> Iterator[str]:
    """The CA bundle is not the policy's business."""
    for key in stored.keys() | wanted.keys():
        have, want = stored.get(key), wanted.get(key)
        if key == "clientConfig":
            have = {word: value for word, value in (have or {}).items() if word != "caBundle"}
        if have != want:
            yield key


# -- what stops Jobs ------------------------------------------------------------------------------------------------
def default_class(classes: Iterable[Raw], told: Mapping[str, bool | str]) -> Diagnosis:
    """WAS141, for a class that is there already."""
    check = "default-class"
    defaults = [raw for raw in classes if raw.get("globalDefault")]
    polite = [raw["metadata"]["name"] for raw in defaults if raw.get("preemptionPolicy") == "Never"]
    if not polite:
        names = listed(raw["metadata"]["name"] for raw in defaults)
        return ok(
            check, f"the global default PriorityClass {names} preempts" if names else "no global default PriorityClass"
        )
    message = f'the global default PriorityClass {listed(polite)} has preemptionPolicy "Never"'
    fix = "take globalDefault from it; `muster rules WAS141` says more"
    if told.get("PodGroupPreemptionPolicy") is not True:
        return warn(
            check, f"{message}: with the gate PodGroupPreemptionPolicy no group that names no class is made", fix
        )
    if told.get("WorkloadWithJob") is not True:
        return warn(check, f"{message}: no PodGroup that names no class and no policy is made", fix)
    return fail(check, f"{message}: no new Job that names no class gets a Pod", fix)


def group_quotas(quotas: Iterable[Raw], told: Mapping[str, bool | str]) -> Diagnosis:
    """ResourceQuotas under which the Job controller can make no group."""
    check = "group-quotas"
    found = [
        f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
        for raw in quotas
        if any(_is_zero((raw.get("spec") or {}).get("hard") or {}, name) for name in GROUP_COUNTS)
    ]
    if not found:
        return ok(check, "no ResourceQuota forbids Workloads or PodGroups")
    names = listed(found)
    if told.get("WorkloadWithJob") is True:
        message = f"no new Job gets a Pod in the namespaces of these ResourceQuotas, which allow no group: {names}"
        return fail(check, message, "raise count/workloads.scheduling.k8s.io and count/podgroups.scheduling.k8s.io")
    return warn(check, f"these ResourceQuotas allow no Workload or PodGroup: {names}", "raise them before gangs come")


def _is_zero(hard: Raw, name: str) -> bool:
    return name in hard and Quantity.parse(hard[name]).nano == 0


def tier_quotas(policy: Policy, quotas: Sequence[Raw]) -> Diagnosis:
    """TierQuotas of tiers that the policy does not have: they are counted, and nothing is ever charged to them."""
    check = "tier-quotas"
    tiers = [tier.name for tier in policy.spec.tiers]
    lost = {
        str(raw["metadata"]["name"]): str(raw["spec"]["tier"]) for raw in quotas if raw["spec"]["tier"] not in tiers
    }
    if lost:
        has = f"has {listed(tiers)}" if tiers else "declares none"
        message = f"these TierQuotas limit nothing: {listed(lost)}; the policy has no tier {listed(lost.values())}"
        return warn(check, message, f"correct spec.tier, or declare the tier; the policy {has}")
    return ok(check, "each TierQuota is for a tier of the policy" if quotas else "no TierQuotas")


# -- who else changes Pods --------------------------------------------------------------------------------------------
def pod_mutators(policy: Policy, configurations: Iterable[Raw], admission_policies: Iterable[Raw]) -> Diagnosis:
    """Other mutating admission that matches new Pods, against what the policy says of it."""
    check = "pod-mutators"
    seen = [
        f"{raw['metadata']['name']}/{entry['name']}"
        for raw in configurations
        for entry in raw.get("webhooks") or ()
        if entry.get("name") not in OUR_ENTRIES and _matches_pods(entry.get("rules") or ())
    ]
    seen += [
        str(raw["metadata"]["name"])
        for raw in admission_policies
        if _matches_pods(((raw.get("spec") or {}).get("matchConstraints") or {}).get("resourceRules") or ())
    ]
    if not seen:
        return ok(check, "no other mutating admission matches Pods")
    message = f"other mutating admission matches Pods: {listed(seen)}"
    said = policy.spec.cluster.pod_mutators
    fix = "list in spec.cluster.podMutators what each may change"
    if said == "none":
        return fail(check, f'{message}, and the policy says "none": a proof may rest on what they take away', fix)
    if said == "additive":
        return warn(
            check, f'{message}; the policy says "additive": none may take away or replace what a template says', fix
        )
    if isinstance(said, str):
        return ok(check, f'{message}; the policy says "{said}"')
    named = {mutator.name for mutator in said}
    strangers = [name for name in seen if not {name, *name.split("/")} & named]
    if strangers:
        return warn(check, f"other mutating admission matches Pods and is not in the policy: {listed(strangers)}", fix)
    return ok(check, f"{message}; the policy lists all of it")


def _matches_pods(rules: Iterable[Raw]) -> bool:
    return any(
        {"*", ""} & set(rule.get("apiGroups") or ())
        and {"*", "v1"} & set(rule.get("apiVersions") or ())
        and {"*", "CREATE"} & set(rule.get("operations") or ())
        and {"*", "*/*", "pods"} & set(rule.get("resources") or ())
        for rule in rules
    )
