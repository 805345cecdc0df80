"""Too many templates in a Workload.

## What it checks
A Workload's lists of templates (`podGroupTemplates`, `compositePodGroupTemplates`, at every level): at most 8 in
each. On UPDATE: templates cannot be added or removed.

## Why
The API server of 1.37 refuses both. In `muster review` this is said before anything is applied: a framework that
makes one template for each role of a job (head and worker groups) runs into the limit when it grows.

## Fields read
`spec.podGroupTemplates`, `spec.compositePodGroupTemplates`, and the lists inside composite templates

## Allowed
```yaml
kind: Workload
spec:
  podGroupTemplates: [{name: head, ...}, {name: workers, ...}]   # 8 or fewer
```

## Denied
```yaml
kind: Workload
spec:
  podGroupTemplates:         # 9
  - {name: role-0, ...}
  - {name: role-1, ...}
  - {name: role-2, ...}
  - {name: role-3, ...}
  - {name: role-4, ...}
  - {name: role-5, ...}
  - {name: role-6, ...}
  - {name: role-7, ...}
  - {name: role-8, ...}
```

## Fix
Give roles that may share a template one template (several PodGroups may be made of it), nest templates under a
composite template, or use a second Workload. To change the templates of a Workload, create a new one.

## References
k8s.io/api v0.37.2 scheduling/v1beta1 WorkloadMaxPodGroupTemplates; case R31
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import SPEC, FieldPath
from webhook.objects.words import plural
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS113",
    name="too-many-templates",
    summary="more than 8 templates in one list of a Workload, or templates added or removed later",
    kinds=frozenset({"Workload"}),
    gate="GenericWorkload",
    also_checked_by_apiserver=True,
)

_TEMPLATES_MAX = 8  # WorkloadMaxPodGroupTemplates

Templates = Sequence[core.PodGroupTemplate] | Sequence[core.CompositePodGroupTemplate]


def check(facts: Facts) -> Iterator[Finding]:
    if not isinstance(facts.obj, core.Workload):
        return
    old = dict(_lists(facts.old.spec, SPEC)) if isinstance(facts.old, core.Workload) else None
    for path, templates in _lists(facts.obj.spec, SPEC):
        if len(templates) > _TEMPLATES_MAX:
            yield Finding(
                field=path,
                message=f"{len(templates)} templates in one list, and the API server of 1.37 takes {_TEMPLATES_MAX}",
                fix="let roles share a template, nest them under a composite template, or use a second Workload",
                seen=len(templates),
                limit=_TEMPLATES_MAX,
            )
        if old is not None and len(templates) != len(old.get(path, ())):
            yield Finding(
                field=path,
                reason="templates added or removed",
                message=f"had {plural(len(old.get(path, ())), 'template')} and would have {len(templates)}: in 1.37 templates "
                "cannot be added or removed after creation",
                fix="create a new Workload with the templates you need",
                seen=len(templates),
                limit=len(old.get(path, ())),
            )


def _lists(
    owner: core.WorkloadSpec | core.CompositePodGroupTemplate, path: FieldPath
) -> Iterator[tuple[FieldPath, Templates]]:
    """Every list of templates with its path, parents first."""
    stack: list[tuple[core.WorkloadSpec | core.CompositePodGroupTemplate, FieldPath]] = [(owner, path)]
    while stack:
        current, at = stack.pop(0)
        yield at / "podGroupTemplates", current.pod_group_templates or ()
        composites = current.composite_pod_group_templates or ()
        yield at / "compositePodGroupTemplates", composites
        inner = at / "compositePodGroupTemplates"
        stack.extend((composite, inner.at(index)) for index, composite in enumerate(composites))
