"""`muster review`: judge manifests without a cluster, by the same pipeline as the webhook."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import jsonpatch
import typer

from webhook.admission.pipeline import Pipeline, Policies
from webhook.cli.options import Files, Inputs, Inventory, Namespace, Output, PolicyNames, given, named
from webhook.facts.model import Phase
from webhook.inventory.snapshot import Snapshot
from webhook.objects.fieldpath import FieldPath
from webhook.objects.kinds import BY_NAME, KINDS, find, split_api_version
from webhook.objects.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.policy.load import LoadedPolicies
from webhook.policy.model import GATES
from webhook.quota.ledger import Ledger
from webhook.quota.model import QuotaError, TierQuota
from webhook.quota.pricer import is_quota, quotas_among
from webhook.quota.store import InMemoryStore
from webhook.reports import json as json_report
from webhook.reports import text as text_report
from webhook.reports.entry import Review, ReviewEntry, Unreadable
from webhook.rules.catalogue import BY_ID
from webhook.sources.folder import BUILT_IN_OBJECTS, ObjectSetSource
from webhook.sources.manifests import Manifest, ManifestError, scan_file, scan_text
from webhook.verdict import Action, Verdict, Violation

_SUFFIXES = {".yaml", ".yml", ".json"}
_STANDARD_INPUT = "(standard input)"


def review_manifests(
    manifests: Sequence[Manifest],
    policies: Policies,
    *,
    policy_name: str,
    namespace: str = "default",
    user: UserInfo | None = None,
    complete: bool = False,
    unreadable: Sequence[Unreadable] = (),
    inventory: Snapshot | None = None,
    quotas: Sequence[TierQuota] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Review:
    """Each object is judged as its CREATE, with the others of the set as its surroundings. quotas: charged in the order of
    the objects, on top of what they say is in use."""
    ledger = Ledger(InMemoryStore(quotas)) if quotas else None
    # What is missing may stand in the part that could not be read.
    complete = complete and not unreadable
    source = ObjectSetSource(
        [*BUILT_IN_OBJECTS, *(manifest.raw for manifest in manifests)],
        complete=complete,
        default_namespace=namespace,
    )
    entries: list[ReviewEntry] = []
    passed_over: Counter[str] = Counter()
    for manifest in manifests:
        group, _ = split_api_version(str(manifest.raw.get("apiVersion") or ""))
        word = manifest.raw.get("kind")
        if is_quota(manifest.raw):
            continue
        kind = find(group, word) if isinstance(word, str) else None
        if kind is None or not kind.judged:
            passed_over[str(word or "(no kind)")] += 1
            continue
        pipeline = Pipeline(
            policies=lambda: policies,
            source=source.without(manifest.raw),
            own_namespace="",
            clock=clock,
            complete_set=complete,
            inventory=lambda: inventory,
            ledger=ledger,
        )
        request = request_for(manifest.raw, namespace, user)
        verdict = _judge(pipeline, request)
        entries.append(
            ReviewEntry(
                file=manifest.file,
                line=manifest.line,
                kind=kind.kind,
                api_version=request.kind.api_version,
                namespace=request.namespace,
                name=request.name,
                verdict=verdict,
                lines=[_line(manifest, violation) for violation in verdict.violations],
            )
        )
    effective = policies.effective(namespace, {})
    lowering = set(chain.from_iterable(_lowering_gates(entry, policies) for entry in entries))
    return Review(
        entries=entries,
        passed_over=passed_over,
        unreadable=unreadable,
        policy=policy_name,
        undeclared_gates=[gate for gate in GATES if effective.gate(gate) is None],
        lowering_gates=[gate for gate in GATES if gate in lowering],
    )


def _lowering_gates(entry: ReviewEntry, policies: Policies) -> Iterator[str]:
    """The gates that nobody declared and for want of which a fault of this object warns where its rule denies."""
    effective = policies.effective(entry.namespace, {})
    for violation in entry.verdict.violations:
        rule = BY_ID.get(violation.rule)
        if rule is None or rule.META.gate is None or violation.action is not Action.WARN:
            continue
        asked = effective.action(violation.rule, rule.META.default_action)
        if effective.gate(rule.META.gate) is None and asked is Action.DENY:
            yield rule.META.gate


def request_for(raw: dict[str, Any], namespace: str, user: UserInfo | None) -> AdmissionRequest:
    """The CREATE request that `kubectl create -f` would lead to."""
    group, version = split_api_version(str(raw.get("apiVersion") or ""))
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind = find(group, str(raw.get("kind")))
    gvk = GroupVersionKind(group=group, version=version, kind=str(raw.get("kind")))
    resource = GroupVersionResource(group=group, version=version, resource=kind.plural if kind else "")
    namespaced = kind is None or kind.namespaced
    return AdmissionRequest(
        uid="review",
        kind=gvk,
        resource=resource,
        request_kind=gvk,
        request_resource=resource,
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or namespace) if namespaced else "",
        operation="CREATE",
        user_info=user or UserInfo(),
        object=raw,
    )


def _judge(pipeline: Pipeline, request: AdmissionRequest) -> Verdict:
    """Mutate, then validate what comes out, as the API server does."""
    mutated = pipeline.judge(request, Phase.MUTATING)
    if mutated.patch:
        patched = jsonpatch.apply_patch(request.object, [dict(operation) for operation in mutated.patch])
        request = _with_object(request, patched)
    verdict = pipeline.judge(request, Phase.REVIEW)
    return replace(verdict, patch=mutated.patch, patch_notes=mutated.patch_notes)


def _with_object(request: AdmissionRequest, obj: dict[str, Any]) -> AdmissionRequest:
    import msgspec

    return msgspec.structs.replace(request, object=obj)


def _line(manifest: Manifest, violation: Violation) -> int:
    """The field's text back into a path; names with dots stand in brackets."""
    parts: list[str | int] = []
    for piece in violation.field.replace("[", "\0[").replace("]", "\0").split("\0"):
        if piece.startswith("["):
            inner = piece[1:]
            parts.append(int(inner) if inner.isdigit() else inner)
        else:
            parts += [part for part in piece.split(".") if part]
    return manifest.line_of(FieldPath(parts))


def read_inputs(paths: Sequence[str]) -> tuple[list[Manifest], list[Unreadable]]:
    """Files, folders (searched for .yaml, .yml and .json) and "-" for standard input; what cannot be read is listed,
    and the other documents of its file are read."""
    manifests: list[Manifest] = []
    unreadable: list[Unreadable] = []
    for name in paths:
        for found in _scan(name):
            if isinstance(found, ManifestError):
                unreadable.append(Unreadable(file=found.file, line=found.line, message=found.message))
            elif message := _not_taken(found):
                unreadable.append(Unreadable(file=found.file, line=found.line, message=message))
            else:
                manifests.append(found)
    return manifests, unreadable


def _not_taken(manifest: Manifest) -> str:
    """Why no API server takes the object whatever its fields are; "" if one may. A mistyped kind would else be passed over,
    as if somebody else's."""
    raw, file = manifest.raw, Path(manifest.file)
    if file.stem == "kustomization" and "kind" not in raw:
        return f"is a kustomization: render it first (kubectl kustomize {file.parent} | muster review -)"
    if missing := [key for key in ("apiVersion", "kind") if not raw.get(key)]:
        return f"has no {' and no '.join(missing)}, so it is no manifest that kubectl takes"
    kind = str(raw["kind"])
    group, _ = split_api_version(str(raw["apiVersion"]))
    if find(group, kind) is not None:
        return ""
    if kind in BY_NAME and group in {one.group for one in KINDS}:
        return f"there is no {kind} in {raw['apiVersion']}; write apiVersion: {BY_NAME[kind].api_version}"
    alike = [one.kind for one in KINDS if one.group == group and one.kind.casefold() == kind.casefold()]
    return f'there is no kind "{kind}" in {raw["apiVersion"]}; write "{alike[0]}"' if alike else ""


def _scan(name: str) -> Iterator[Manifest | ManifestError]:
    path = Path(name)
    if name == "-":
        yield from scan_text(sys.stdin.buffer.read(), _STANDARD_INPUT)
    elif path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        charts = [file.parent for file in files if file.name == "Chart.yaml"]
        outermost = [chart for chart in charts if not any(other in chart.parents for other in charts)]
        if not files:
            yield ManifestError(name, None, "a folder without .yaml, .yml or .json files")
        for chart in outermost:
            yield ManifestError(
                str(chart), None, f"is a Helm chart: render it first (helm template {chart} | muster review -)"
            )
        for file in files:
            if not any(chart in file.parents for chart in outermost):
                yield from scan_file(file)
    else:
        yield from scan_file(path)


def _quotas(manifests: Sequence[Manifest]) -> tuple[list[TierQuota], list[Unreadable]]:
    """The TierQuotas among manifests, and those that cannot be used."""
    quotas: list[TierQuota] = []
    unusable: list[Unreadable] = []
    for manifest in manifests:
        try:
            quotas += quotas_among([manifest.raw])
        except QuotaError as error:
            unusable.append(Unreadable(file=manifest.file, line=manifest.line, message=str(error)))
    return quotas, unusable


def _warn_of_lost_quotas(quotas: Sequence[TierQuota], policies: LoadedPolicies) -> None:
    tiers = {tier.name for tier in policies.policy.spec.tiers}
    for quota in quotas:
        if quota.tier not in tiers:
            lost = f'TierQuota "{quota.name}" limits nothing: the policy has no tier "{quota.tier}"'
            has = f"; it has {', '.join(sorted(tiers))}" if tiers else ""
            print(f"warning: {lost}{has}", file=sys.stderr)


def review(
    words: Inputs = None,
    files: Files = None,
    policy: PolicyNames = None,
    namespace: Namespace = "default",
    as_user: Annotated[str, typer.Option("--as", help="judge as this user (tiers, writers, freeze)")] = "",
    as_group: Annotated[list[str] | None, typer.Option(help="and these groups")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="the set is all there is: what is not in it is missing")
    ] = False,
    inventory: Inventory = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|DIR",
            callback=named,
            help="TierQuotas: kubectl get tierquotas -o yaml; those in the set count as well",
        ),
    ] = None,
    output: Output = "text",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="also what is fine or could not be checked")] = False,
) -> None:
    """Judge manifests as the webhook would.

    Exit 0: all admitted, 1: something denied, 2: something unreadable (the rest is judged), or wrong usage.
    """
    from webhook.cli.inventories import snapshot_from
    from webhook.cli.policies import policies_from

    paths = given(words, files)
    policies, policy_name = policies_from(policy or [])
    manifests, unreadable = read_inputs(paths)
    if not manifests and not unreadable:
        # A pipeline whose `helm template` printed nothing must not be green.
        names = ", ".join(_STANDARD_INPUT if path == "-" else path for path in paths)
        unreadable = [Unreadable(file=names, line=None, message="holds no manifest")]
    beside, unreadable_quotas = read_inputs(quota or [])
    quotas, unusable = _quotas([*manifests, *beside])
    if beside and not any(is_quota(manifest.raw) for manifest in beside):
        unusable.append(Unreadable(file=", ".join(quota or []), line=None, message="holds no TierQuota"))
    _warn_of_lost_quotas(quotas, policies)
    unreadable += [*unreadable_quotas, *unusable]
    if complete and unreadable:
        print(
            "note: --complete counts for nothing this time: what seems missing may stand in what cannot be read",
            file=sys.stderr,
        )
    result = review_manifests(
        manifests,
        policies,
        policy_name=policy_name,
        namespace=namespace,
        user=UserInfo(username=as_user, groups=tuple(as_group or ())),
        complete=complete,
        unreadable=unreadable,
        quotas=quotas,
        inventory=snapshot_from(inventory or [], policies.policy.spec.cluster),
    )
    print(json_report.render(result) if output == "json" else text_report.render(result, verbose=verbose))
    raise typer.Exit(result.exit_code)
