"""Global default PriorityClass that never preempts.

## What it checks
With the gate PodGroupPreemptionPolicy on: no PriorityClass with `preemptionPolicy: Never` becomes the global default,
neither when it is created nor by an update of `globalDefault`.

## Why
A PodGroup without a policy is filled with PreemptLowerPriority, one without a class gets the global default class, and
the Priority plugin then refuses the group, since the class says Never. With WorkloadWithJob on, the Job controller makes
such a PodGroup for every Job that nobody controls and that names no class, whether it is a gang or not: from that moment
none of them gets a Pod, in any namespace, without condition or event (WAS125 says the same to each Job). What runs goes
on, and so do CronJobs, so it may take hours until somebody looks at a class that was changed long before.

Without WorkloadWithJob only people's own PodGroups are refused, at once and with a reason: a warning.

## Fields read
`globalDefault`, `preemptionPolicy`

## Allowed
```yaml
kind: PriorityClass
globalDefault: true
preemptionPolicy: PreemptLowerPriority
```

## Denied
```yaml
kind: PriorityClass
globalDefault: true
preemptionPolicy: Never
```

## Fix
Make a class that preempts the default, and name the polite one where it is wanted. `preemptionPolicy` of a stored class
cannot change, `globalDefault` can: take it away, and the Jobs that hang start by themselves.

## References
SetDefaults of scheduling v1beta1 and plugin/pkg/admission/priority/admission.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.rules._traps import job_gate_cap
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS141",
    name="default-class-never-preempts",
    summary="a global default PriorityClass that never preempts: no Job that names no class starts",
    kinds=frozenset({"PriorityClass"}),
    gate="PodGroupPreemptionPolicy",
)

_NEVER = "Never"
_PREEMPTS = "PreemptLowerPriority"

_JOBS = "in 1.37 no new Job without a class gets a PodGroup or a Pod, in the whole cluster, and no event says why"
_GROUPS = f'in 1.37 the API server refuses every PodGroup that names no class and does not say "{_NEVER}" itself'


def check(facts: Facts) -> Iterator[Finding]:
    priority_class = facts.obj
    if not isinstance(priority_class, core.PriorityClass):
        return
    if not priority_class.global_default or priority_class.preemption_policy != _NEVER:
        return
    cap = job_gate_cap(facts)
    yield Finding(
        field=FieldPath.of("globalDefault"),
        message=(
            f'every group without a class gets this one, and its preemptionPolicy "{_NEVER}" is not a group\'s '
            f'"{_PREEMPTS}": {_GROUPS if cap is None else _JOBS}'
        ),
        fix=f'leave globalDefault out, and make a class with preemptionPolicy "{_PREEMPTS}" the default',
        seen=_NEVER,
        limit=_PREEMPTS,
        at_most=Action.WARN if cap is None else cap,
    )
