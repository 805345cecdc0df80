"""CompositePodGroups in a namespace that may not use them.

## What it checks
A CompositePodGroup, a Workload with `compositePodGroupTemplates`, or a PodGroup with `parentCompositePodGroupName`, in
a namespace that the policy's `features.compositePodGroup` does not list. No list means every namespace.

## Why
Composites are alpha in 1.37, served as v1alpha3 only, and the scheduler writes no condition on them: a tree that can
never be placed stays pending without a word. Clusters often allow them only where somebody watches.

## Fields read
The kind; `spec.compositePodGroupTemplates`; `spec.parentCompositePodGroupName`.

## Allowed
```yaml
kind: Workload
spec: {podGroupTemplates: [{name: workers, schedulingPolicy: {gang: {minCount: 4}}}]}
```

## Denied
```yaml
kind: CompositePodGroup      # policy: features: {compositePodGroup: {namespaces: [ml-*]}}, namespace team-b
spec: {workloadRef: {workloadName: train, templateName: all}, schedulingPolicy: {gang: {minGroupCount: 2}}}
```

## Fix
Use PodGroups without a parent, a namespace on the list, or ask the cluster's administrators to add yours.

## References
k8s.io/api v0.37.2 scheduling/v1alpha3 CompositePodGroup.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.rules._features import allowed_here, not_allowed
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS302",
    name="composite-namespace",
    summary="CompositePodGroups in a namespace that is not on the allow-list",
    kinds=frozenset({"Workload", "PodGroup", "CompositePodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if allowed_here(facts, "composite_pod_group"):
        return
    for field in _fields(facts):
        yield not_allowed(
            facts,
            "composite_pod_group",
            field,
            what="CompositePodGroups (alpha)",
            why="1.37 says nothing of a composite that it cannot place",
            fix="use PodGroups without a parent composite, or ask for the namespace to be added",
        )


def _fields(facts: Facts) -> Iterator[FieldPath]:
    obj = facts.obj
    if isinstance(obj, core.CompositePodGroup):
        yield SPEC
    elif isinstance(obj, core.Workload) and obj.spec.composite_pod_group_templates:
        yield SPEC / "compositePodGroupTemplates"
    elif isinstance(obj, core.PodGroup) and obj.spec.parent_composite_pod_group_name is not None:
        yield SPEC / "parentCompositePodGroupName"
