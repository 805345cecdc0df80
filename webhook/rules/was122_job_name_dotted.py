"""Job name with a dot.

## What it checks
With WorkloadWithJob on: the name, or `generateName`, of a Job that has no controller owner and whose Pods name no
PodGroup must have no dot. It does not matter whether the Job says `spec.scheduling`.

## Why
1.37 puts every such Job into a group, and calls the template of that group `<job>-pgt-0`. A template's name is a DNS
label and must not contain dots, so the Job controller can never make the Workload: it tries for ever, and the Job
never gets a Pod. The API server accepts a Job called "train.v1", as it always has, with a warning about host names.

## Fields read
`metadata.name`, `metadata.generateName`

## Allowed
```yaml
kind: Job
metadata: {name: train-v1}
```

## Denied
```yaml
kind: Job
metadata: {name: train.v1}
```

## Fix
Write a dash instead of the dot.

## References
podGroupTemplateName in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import METADATA
from webhook.rules._schedulers import unless
from webhook.rules._traps import TEMPLATE_SUFFIX, generated_base, job_gate_cap, own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS122",
    name="job-name-dotted",
    summary="a Job's name has a dot, which the group that 1.37 makes for it must not have",
    kinds=frozenset({"Job"}),
    operations=frozenset({"CREATE"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding]:
    if own_group(facts) is None:
        return
    base = generated_base(facts.metadata)
    name = facts.name if base is None else base
    if "." not in name:
        return
    yield Finding(
        field=METADATA / ("name" if base is None else "generateName"),
        message=(
            f'"{name}" has a dot: 1.37 calls the Job\'s group template "<job>{TEMPLATE_SUFFIX}", which must have none, '
            f"so the Job controller cannot make the Workload and the Job never gets a Pod{unless(facts)}"
        ),
        fix=f'write "{name.replace(".", "-")}"',
        seen=name,
        limit="no dots",
        at_most=job_gate_cap(facts) or Action.WARN,
    )
