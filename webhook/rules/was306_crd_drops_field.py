"""A CRD whose schema does not have the scheduling fields.

## What it checks
`spec.scheduling`, a child Job's `spec.scheduling` or a Pod template's `schedulingGroup` in a JobSet or LeaderWorkerSet
(in `muster review`): does the schema of its CustomResourceDefinition know the field? If the CRD is among the given
files, its schema decides; if not, the released ones do (JobSet v0.11.1, LeaderWorkerSet v0.8.0), which know none of
the three.

## Why
These CRDs embed older core types. `kubectl create` and `kubectl apply` ask for strict validation and fail with "unknown
field"; server-side apply fails for every client with "field not declared in schema". From any other client (a
controller, `kubectl --validate=warn` or `=ignore`) the API server takes the JobSet without the field, with a Warning
header at most, and its Pods run one by one. No webhook ever sees what was written. Only the annotation
`scheduling.k8s.io/group-template-name` on the child template survives. Each answer as 1.37.2 gives it:
docs/what-1.37-does.md.

## Fields read
`spec.scheduling`, `spec.replicatedJobs[].template.spec.scheduling`, `schedulingGroup` of all Pod templates; the CRD's
`spec.versions[].schema.openAPIV3Schema`.

## Allowed
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - name: workers
    template:
      metadata: {annotations: {scheduling.k8s.io/group-template-name: workers}}
```

## Denied
```yaml
kind: JobSet
spec:
  replicatedJobs:
  - name: workers
    template: {spec: {template: {spec: {schedulingGroup: {podGroupName: train}}}}}
```

## Fix
Delegate with the annotation and a Workload, use a plain Job, or install a CRD that has the field.

## References
fieldValidation and CustomResourceDefinition field pruning; the CRDs of JobSet v0.11.1 and LeaderWorkerSet v0.8.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.rules._jobs import job_parts
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS306",
    name="crd-drops-field",
    summary="a JobSet or LeaderWorkerSet carries a scheduling field that its CRD does not have",
    kinds=frozenset({"JobSet", "LeaderWorkerSet"}),
    default_action=Action.WARN,
    review_only=True,
)

_RELEASED = {"JobSet": "JobSet v0.11.1", "LeaderWorkerSet": "LeaderWorkerSet v0.8.0"}


def check(facts: Facts) -> Iterator[Finding]:
    fields = list(_fields(facts))
    if not fields:
        return
    kind = BY_NAME[facts.kind]
    name = f"{kind.plural}.{kind.group}"
    crd = facts.surroundings.crd(name).value
    schema = None if crd is None else _schema(crd.spec or {}, split_api_version(facts.api_version)[1])
    for field in fields:
        if schema is not None and keeps(schema, field):
            continue
        judged_by = (
            f'the given CRD "{name}"' if schema is not None else f"the CRD of {_RELEASED[facts.kind]}, the newest known"
        )
        yield Finding(
            field=field,
            message=(
                f"is not in {judged_by}: kubectl and server-side apply refuse it, and from other clients it is dropped, with a "
                "warning at most: the Pods run without it"
            ),
            fix=(
                'use a Workload and the annotation "scheduling.k8s.io/group-template-name", a plain Job, or a CRD that has '
                "the field"
            ),
            at_most=Action.WARN if schema is None else Action.DENY,
        )


def _fields(facts: Facts) -> Iterator[FieldPath]:
    if isinstance(facts.obj, core.JobSet) and facts.obj.spec.scheduling is not None:
        yield SPEC / "scheduling"
    for part in job_parts(facts.obj):
        if part.spec.scheduling is not None:
            yield part.scheduling_path
    seen = set()
    for pod_set in facts.plan.all_pod_sets():
        field = pod_set.spec_path / "schedulingGroup"
        if pod_set.template.spec.scheduling_group is not None and field not in seen:
            seen.add(field)
            yield field


def _schema(crd_spec: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """The openAPIV3Schema of the version, None where the CRD does not serve it or is not readable."""
    versions = crd_spec.get("versions")
    for entry in versions if isinstance(versions, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == version:
            schema = entry.get("schema")
            found = schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
            return found if isinstance(found, Mapping) else None
    return None


def keeps(schema: Mapping[str, Any], field: FieldPath) -> bool:
    """Does a structural schema keep the field (apiextensions pruning: known property, or preserve-unknown-fields)?"""
    at: Any = schema
    for part in field:
        if not isinstance(at, Mapping):
            return False
        if at.get("x-kubernetes-preserve-unknown-fields") is True:
            return True
        if isinstance(part, int):
            at = at.get("items")
            continue
        properties = at.get("properties")
        inner = properties.get(part) if isinstance(properties, Mapping) else None
        at = at.get("additionalProperties") if inner is None else inner
    return isinstance(at, Mapping)
