"""A field that 1.37 does not know in a scheduling object.

## What it checks
Every field inside the spec of a Workload, PodGroup or CompositePodGroup, inside a Job's `spec.scheduling` and inside a
Pod's `schedulingGroup`, against the fields of 1.37.2; a misspelled `scheduling` or `schedulingGroup` itself; the Pod
field `workloadRef` of 1.35; and the draft field `scheduling.policy` of a JobSet. Only `muster review` can see it: what the API server does not know it refuses or
drops before any webhook is asked.

## Why
A dropped field is a constraint that is not there. `schedulingConstraints: {key: ...}`, as an announcement once printed
it, becomes `{}`, and the gang runs in any rack. `kubectl create` and `kubectl apply` ask for strict validation and fail
with "unknown field"; server-side apply fails for every client with "field not declared in schema". A client that asks
for nothing, as most controllers, gets a Warning header and the object without the field; `kubectl --validate=ignore`
gets no word. Each answer as 1.37.2 gives it: docs/what-1.37-does.md.

## Fields read
All of the above, by name.

## Allowed
```yaml
kind: PodGroup
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: topology.example.com/rack}]}
```

## Denied
```yaml
kind: PodGroup
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {key: topology.example.com/rack}
```
A name that resembles no known field only gets a warning: it may belong to a newer Kubernetes.

## Fix
Write the field as 1.37 has it.

## References
k8s.io/api v0.37.2 scheduling/v1beta1, scheduling/v1alpha3, batch/v1; field pruning and fieldValidation of the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.objects.words import nearest
from webhook.rules._jobs import job_parts
from webhook.rules._rewrite import raw_at
from webhook.rules._words import quoted
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS309",
    name="unknown-field",
    summary="a field in a scheduling object that 1.37 does not know: refused from kubectl, dropped from others",
    kinds=frozenset(
        {"Pod", "Job", "CronJob", "JobSet", "LeaderWorkerSet", "Deployment", "ReplicaSet", "StatefulSet"}
        | {"Workload", "PodGroup", "CompositePodGroup"}
    ),
    review_only=True,
)

_SPECS: dict[str, type[msgspec.Struct]] = {
    "Workload": core.WorkloadSpec,
    "PodGroup": core.PodGroupSpec,
    "CompositePodGroup": core.CompositePodGroupSpec,
}
# (parent, name) as drafts, older versions and other schedulers write it -> what 1.37 has. "" for any parent.
_MEANT = {
    ("schedulingConstraints", "key"): "topology: [{key: ...}]",
    ("schedulingConstraints", "topologyKey"): "topology: [{key: ...}]",
    ("schedulingConstraints", "level"): "topology: [{key: ...}]",
    ("topology", "level"): "key",
    ("", "policy"): "schedulingPolicy",
    ("", "constraints"): "schedulingConstraints",
    ("", "podGroups"): "podGroupTemplates",
    ("", "podGroupTemplateRef"): "workloadRef: {workloadName: ..., templateName: ...}",
    ("workloadRef", "podGroupTemplateName"): "templateName",
    ("", "minMember"): "minCount",
    ("", "minAvailable"): "minCount",
    ("", "minReplicas"): "minCount",
    ("schedulingGroup", "name"): "podGroupName",
}


def check(facts: Facts) -> Iterator[Finding]:
    if split_api_version(facts.api_version)[1] in BY_NAME[facts.kind].retired:
        return  # WAS307 rewrites the whole object
    spec = facts.raw.get("spec")
    if facts.kind in _SPECS:
        yield from _unknown(spec, _SPECS[facts.kind], SPEC)
        return
    for part in job_parts(facts.obj):
        above = FieldPath(part.scheduling_path[:-1])
        yield from _misspelled(raw_at(facts.raw, above), "scheduling", above)
        yield from _unknown(
            raw_at(facts.raw, part.scheduling_path), core.JobSchedulingConfiguration, part.scheduling_path
        )
    for path in dict.fromkeys(pod_set.spec_path for pod_set in facts.plan.all_pod_sets()):
        yield from _pod_fields(raw_at(facts.raw, path), path)
    if isinstance(facts.obj, core.JobSet) and "policy" in (facts.obj.spec.scheduling or {}):
        path = SPEC / "scheduling" / "policy"
        yield _finding(path, "schedulingPolicy", {"schedulingPolicy"}, at_most=Action.WARN)


def _pod_fields(spec: Any, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(spec, Mapping):
        return
    yield from _misspelled(spec, "schedulingGroup", path)
    yield from _unknown(spec.get("schedulingGroup"), core.PodSchedulingGroup, path / "schedulingGroup")
    if "workloadRef" in spec:
        yield _finding(path / "workloadRef", "schedulingGroup: {podGroupName: ...}", {"schedulingGroup"})


def _misspelled(spec: Any, name: str, path: FieldPath) -> Iterator[Finding]:
    """What is nearly the name of the field that makes a gang of it: dropped, the Pods run one by one."""
    for written in spec if isinstance(spec, Mapping) else ():
        if nearest(str(written), (name,)):
            yield _finding(path / str(written), name, {name})


def _unknown(raw: Any, as_type: type[msgspec.Struct], path: FieldPath) -> Iterator[Finding]:
    """Walks raw and type together; what has another shape than the type says is somebody else's finding."""
    if not isinstance(raw, Mapping):
        return
    known = _fields(as_type)
    for name, value in raw.items():
        if name not in known:
            yield _named(path, str(name), frozenset(known))
            continue
        inner = known[name]
        if inner is None:
            continue
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            at = (path / name).at(index) if isinstance(value, list) else path / name
            yield from _unknown(item, inner, at)


def _named(path: FieldPath, name: str, known: frozenset[str]) -> Finding:
    parent = next((part for part in reversed(path) if isinstance(part, str)), "")
    meant = _MEANT.get((parent, name)) or _MEANT.get(("", name))
    if meant is None:
        meant = nearest(name, known)
    return _finding(path / name, meant, known, at_most=Action.DENY if meant else Action.WARN)


def _finding(
    path: FieldPath, meant: str | None, known: frozenset[str] | set[str], *, at_most: Action = Action.DENY
) -> Finding:
    return Finding(
        field=path,
        message=(
            f'"{path[-1]}" is not a field of 1.37: kubectl and server-side apply refuse it, and from other clients it is '
            "dropped, with a warning at most: what it asks for is not done"
        ),
        fix=f"write {meant}" if meant else f"remove it; 1.37 has {quoted(known)} there",
        seen=str(path[-1]),
        limit=sorted(known),
        at_most=at_most,
    )


@lru_cache(maxsize=64)
def _fields(as_type: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct] | None]:
    """JSON name -> the struct inside (also inside a list), None where the value is no struct (or is WAS308's)."""
    info = msgspec.inspect.type_info(as_type)
    assert isinstance(info, msgspec.inspect.StructType)  # noqa: S101
    return {
        field.encode_name: None if field.encode_name == "disruptionMode" else _struct(field.type)
        for field in info.fields
    }


def _struct(info: msgspec.inspect.Type) -> type[msgspec.Struct] | None:
    if isinstance(info, msgspec.inspect.UnionType):
        return next((found for item in info.types if (found := _struct(item)) is not None), None)
    if isinstance(info, msgspec.inspect.VarTupleType):
        return _struct(info.item_type)
    return info.cls if isinstance(info, msgspec.inspect.StructType) else None
