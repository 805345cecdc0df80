"""Workload missing.

## What it checks
The `workloadRef` of a PodGroup or CompositePodGroup: the Workload must exist, and hold a template of that name and of
the right sort (a podGroupTemplate for a PodGroup, a compositePodGroupTemplate for a CompositePodGroup).

## Why
1.37 stores any reference; the admission plugin that checked it in 1.36 was removed. The group is scheduled all the
same, so this warns. But nothing can be found through it: tools that follow a group to its Workload see a group from
nowhere, and the reference is immutable. A Workload may also be on its way.

## Fields read
`spec.workloadRef`; the Workload

## Allowed
```yaml
# Workload "train" has podGroupTemplates [{name: workers}]
spec:
  workloadRef: {workloadName: train, templateName: workers}
```

## Denied
```yaml
spec:
  workloadRef: {workloadName: train, templateName: worker}
```

## Fix
Create the Workload first, and use one of its template names. A bare PodGroup may also leave `workloadRef` out.

## References
KEP-4671 (GenericWorkload); k8s.io/api scheduling/v1beta1 WorkloadReference
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.words import nearest
from webhook.rules._names import quoted
from webhook.rules._templates import template_kind, templates
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS207",
    name="workload-missing",
    summary="a group refers to a Workload or template that does not exist",
    kinds=frozenset({"PodGroup", "CompositePodGroup"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="GenericWorkload",
)

_AT = SPEC / "workloadRef"


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    ref = facts.obj.spec.workload_ref if isinstance(facts.obj, core.PodGroup | core.CompositePodGroup) else None
    if ref is None or facts.requester.trusted:
        return
    looked = facts.surroundings.workload(facts.namespace, ref.workload_name)
    if looked.unknown is not None:
        yield Unresolved(field=_AT, reason=f'whether Workload "{ref.workload_name}" exists: {looked.unknown}')
    elif looked.value is None:
        yield _no_workload(facts, ref.workload_name)
    else:
        yield from _no_template(facts, ref.template_name, looked.value)


def _no_workload(facts: Facts, name: str) -> Finding:
    existing = facts.surroundings.workloads(facts.namespace).value or ()
    near = nearest(name, [workload.metadata.name for workload in existing])
    hint = f' (nearest: "{near}")' if near else ""
    return Finding(
        field=_AT / "workloadName",
        message=(
            f'no Workload "{name}" in namespace "{facts.namespace}"{hint}: 1.37 schedules the group all the same, and '
            "the reference cannot be changed later"
        ),
        fix="create the Workload first, or correct the name",
        seen=name,
    )


def _no_template(facts: Facts, name: str, workload: core.Workload) -> Iterator[Finding]:
    wanted = template_kind(facts.kind)
    matches = [template for template in templates(workload) if template.name == name]
    if any(isinstance(template, wanted) for template in matches):
        return
    usable = [template.name for template in templates(workload) if isinstance(template, wanted)]
    sort = "podGroupTemplate" if wanted is core.PodGroupTemplate else "compositePodGroupTemplate"
    near = nearest(name, usable)
    what = f'no {sort} "{name}" in' if not matches else f'"{name}" is no {sort} of'
    yield Finding(
        field=_AT / "templateName",
        message=(
            f'{what} Workload "{workload.metadata.name}" (it has {quoted(usable, nothing="none")}): 1.37 schedules '
            "the group all the same, with nothing to compare it with"
        ),
        fix=f'write templateName: "{near}"' if near else "use the name of one of its templates",
        seen=name,
        limit=sorted(usable),
    )
