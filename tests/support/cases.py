"""Rule fixtures: one YAML file per case, the same file judged at three heights (function, HTTP, real API server).

A file holds two documents. The first says what the case is about, the second is the object:

    why: completions below parallelism make a gang that never has enough Pods     # required, one sentence
    case: R03                       # optional: the number in tests/cases
    operation: CREATE               # CREATE (default), UPDATE or DELETE
    user: alice                     # who asks; default alice. "system:serviceaccount:..." works too
    groups: []                      # default: [tenants]
    subresource: ""                 # "resize", ...
    phase: validating               # or review (offline), default validating
    complete_set: false             # review only: the object and its surroundings are declared to be all there is
    policy: {}                      # merged over the test policy's `spec` (RFC 7386 merge patch)
    surroundings: []                # objects that exist already; kind, name, spec. In namespace NAMESPACE if none is given
    inventory: [racks]              # the cluster's capacity; see `inventory_of`. Default: none, and capacity is no question
    old: {}                         # UPDATE: the stored object, as a merge patch over the new one
    expect:                         # deny/ only; default: one violation of the folder's rule, its default action
      - {rule: WAS101, action: Deny, field: spec.parallelism}
    apiserver: yes                  # yes (default) or the reason in words why this case cannot run there
    ---
    apiVersion: batch/v1
    ...

In `deny/` every violation must be of the folder's own rule; in `allow/` there must be none at all, of any rule.
`review_differs:` says why `muster review` rightly judges the object otherwise than the webhook (it cannot see what the
API server dropped, for example).
`also:` lists other rules whose warnings are right for this object (with a reason), in both folders.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.inventory.build import build
from webhook.inventory.profile import settings_of
from webhook.inventory.snapshot import Snapshot
from webhook.objects.kinds import find, split_api_version
from webhook.objects.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.policy.effective import EffectivePolicy
from webhook.policy.model import Policy
from webhook.sources.folder import ObjectSetSource
from webhook.sources.manifests import as_objects, read_file
from webhook.verdict import Verdict

RULES = Path(__file__).parent.parent / "rules"
INVENTORIES = Path(__file__).parents[2] / "examples" / "inventories"
NAMESPACE = "team-a"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

# Every gate is on, as in the control plane of the tests; nothing else differs from an empty policy.
TEST_POLICY_SPEC: dict[str, Any] = {
    "cluster": {
        "featureGates": {
            "GenericWorkload": True,
            "TopologyAwareWorkloadScheduling": True,
            "CompositePodGroup": True,
            "PodGroupPreemptionPolicy": True,
            "DRAWorkloadResourceClaims": True,
            "WorkloadWithJob": True,
        }
    }
}

_CASE_KEYS = {
    "why", "case", "operation", "user", "groups", "subresource", "phase", "policy", "surroundings", "old", "expect",
    "apiserver", "also", "complete_set", "review_differs", "inventory",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One fixture file. `rule` and `allow` come from its folder."""

    path: Path
    rule: str
    allow: bool
    header: dict[str, Any]
    obj: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.rule}/{'allow' if self.allow else 'deny'}/{self.path.stem}"

    @property
    def operation(self) -> str:
        return str(self.header.get("operation", "CREATE"))

    @property
    def phase(self) -> Phase:
        return Phase(self.header.get("phase", "validating"))

    @property
    def user(self) -> UserInfo:
        groups = tuple(self.header.get("groups", ["tenants"]))
        return UserInfo(username=self.header.get("user", "alice"), groups=groups)

    @property
    def policy(self) -> dict[str, Any]:
        """A whole policy document, as a dict."""
        return policy_document(self.header.get("policy") or {})

    @property
    def surroundings(self) -> list[dict[str, Any]]:
        return [with_namespace(raw) for raw in self.header.get("surroundings") or []]

    @property
    def new(self) -> dict[str, Any]:
        return with_namespace(self.obj)

    @property
    def old(self) -> dict[str, Any] | None:
        if self.operation == "CREATE":
            return None
        return with_namespace(merge(self.obj, self.header.get("old") or {}))

    def request(self, namespace: str = NAMESPACE) -> AdmissionRequest:
        """The request as kube-apiserver would send it in the validating phase."""
        new, old = self.new, self.old
        if self.operation == "DELETE":
            new, old = None, new  # type: ignore[assignment]
        return request_for(
            new, old, self.operation, self.user, subresource=self.header.get("subresource", ""), namespace=namespace
        )

    @property
    def not_at_apiserver(self) -> str | None:
        """Why the case cannot run against a real API server, or None if it can."""
        word = self.header.get("apiserver", True)
        if self.phase is Phase.REVIEW:
            return "review only"
        if "inventory" in self.header:
            return "needs an inventory of its own: tests/live/test_feasibility_shown.py"
        return None if word is True or word == "yes" else str(word)

    @property
    def inventory(self) -> Snapshot | None:
        """The snapshot of `inventory:`, with the policy's word on pools and on whether it is closed."""
        if "inventory" not in self.header:
            return None
        cluster = Policy.model_validate(self.policy).spec.cluster
        return build(inventory_of(self.header["inventory"]), settings_of(cluster, is_file=True))

    @property
    def expected(self) -> list[dict[str, Any]]:
        return list(self.header.get("expect") or ([] if self.allow else [{"rule": self.rule}]))

    @property
    def also(self) -> set[str]:
        return {str(rule) for rule in self.header.get("also") or []}


def load_cases(folder: Path = RULES) -> Iterator[Case]:
    """All cases of tests/rules/WASnnn/{allow,deny}/*.yaml, sorted."""
    for path in sorted(folder.glob("WAS*/*/*.yaml")):
        yield load_case(path)


@cache
def load_case(path: Path) -> Case:
    documents = list(YAML(typ="safe", pure=True).load_all(path.read_text()))
    if len(documents) != 2:
        raise ValueError(f"{path}: want two documents, header and object, found {len(documents)}")
    header, obj = documents
    unknown = set(header) - _CASE_KEYS
    if unknown or "why" not in header:
        raise ValueError(f"{path}: header lacks `why` or has unknown keys {sorted(unknown)}")
    folder = path.parent.name
    if folder not in ("allow", "deny"):
        raise ValueError(f"{path}: must lie in allow/ or deny/")
    return Case(path=path, rule=path.parent.parent.name, allow=folder == "allow", header=header, obj=obj)


def request_for(
    new: dict[str, Any] | None,
    old: dict[str, Any] | None,
    operation: str = "CREATE",
    user: UserInfo | None = None,
    *,
    subresource: str = "",
    namespace: str = NAMESPACE,
    uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002",
) -> AdmissionRequest:
    """An AdmissionRequest around raw objects."""
    raw = new if new is not None else old
    assert raw is not None
    group, version = split_api_version(raw["apiVersion"])
    kind = find(group, raw["kind"])
    gvk = GroupVersionKind(group=group, version=version, kind=raw["kind"])
    resource = GroupVersionResource(
        group=group, version=version, resource=kind.plural if kind else raw["kind"].lower() + "s"
    )
    return AdmissionRequest(
        uid=uid,
        kind=gvk,
        resource=resource,
        request_kind=gvk,
        request_resource=resource,
        sub_resource=subresource,
        name=(raw.get("metadata") or {}).get("name", ""),
        namespace=namespace if kind is None or kind.namespaced else "",
        operation=operation,
        user_info=user or UserInfo(username="alice", groups=("tenants",)),
        object=new,
        old_object=old,
    )


class FixedPolicies:
    """Policies for tests: one policy, every namespace without labels unless given."""

    def __init__(self, document: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> None:
        self._policy = Policy.model_validate(document)
        self._labels = dict(labels or {})

    @property
    def needs_labels(self) -> bool:
        return False

    def effective(self, namespace: str, labels: Mapping[str, str]) -> EffectivePolicy:
        return EffectivePolicy(self._policy, "test", namespace, {**self._labels, **labels})


def policy_document(patch: Mapping[str, Any]) -> dict[str, Any]:
    spec = merge(TEST_POLICY_SPEC, patch)
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "test"}, "spec": spec}


def inventory_of(items: list[Any]) -> list[dict[str, Any]]:
    """The objects of an inventory. An item is the name of a file in examples/inventories, or an object: a merge patch
    over the one of its kind and name that is there already, or a new one; with ``gone: true`` that one is taken out."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for item in items:
        named = as_objects(read_file(INVENTORIES / f"{item}.yaml")) if isinstance(item, str) else [item]
        for raw in named:
            key = (raw["kind"], raw["metadata"]["name"])
            if raw.get("gone"):
                del found[key]
            else:
                found[key] = merge(found.get(key, {"apiVersion": "v1"}), raw)
    return list(found.values())


def pipeline_for(case: Case) -> Pipeline:
    """The real pipeline over the case's surroundings (complete: what is not there is Absent)."""
    policies = FixedPolicies(case.policy)
    surroundings = [*case.surroundings, *([case.old] if case.old else [])]
    snapshot = case.inventory
    return Pipeline(
        policies=lambda: policies,
        source=ObjectSetSource(surroundings, complete=True, default_namespace=NAMESPACE),
        clock=lambda: NOW,
        complete_set=bool(case.header.get("complete_set", False)),
        inventory=lambda: snapshot,
    )


def judge(case: Case) -> Verdict:
    return pipeline_for(case).judge(case.request(), case.phase, time.monotonic() + 60)


def with_namespace(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy, in the test namespace if the kind is namespaced and none is given."""
    copied = copy.deepcopy(dict(raw))
    group, _ = split_api_version(str(copied.get("apiVersion", "")))
    kind = find(group, str(copied.get("kind", "")))
    if kind is None or kind.namespaced:
        copied.setdefault("metadata", {}).setdefault("namespace", NAMESPACE)
    return copied


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386 merge patch; neither argument is changed."""
    merged = copy.deepcopy(dict(base))
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
