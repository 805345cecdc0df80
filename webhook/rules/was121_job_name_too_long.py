"""Job name too long for its group.

## What it checks
With WorkloadWithJob on: the name of a Job that has no controller owner and whose Pods name no PodGroup may have 57
characters at most. It does not matter whether the Job says `spec.scheduling`.

## Why
1.37 puts every such Job into a group, and calls the template of that group `<job>-pgt-0`. A template's name may have
63 characters, so with a longer Job name the Job controller can never make the Workload: it tries for ever, and the
Job never gets a Pod. The API server accepts Job names of up to 63 characters. One event on the Job says what happens.
A Job with `manualSelector` only gets a warning: if it finds a Pod to adopt, 1.37 makes no group and it runs.

## Fields read
`metadata.name`

## Allowed
```yaml
kind: Job
metadata: {name: train-llama-70b-run-1}
```

## Denied
```yaml
kind: Job
metadata: {name: train-llama-70b-with-a-very-long-experiment-name-of-58-chars}
```

## Fix
Shorten the name to 57 characters. (A Job whose Pods name a PodGroup of your own by `schedulingGroup` may keep it.)

## References
podGroupTemplateName in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import METADATA
from webhook.rules._schedulers import unless
from webhook.rules._traps import (
    JOB_NAME_LENGTH_MAX,
    LABEL_LENGTH_MAX,
    TEMPLATE_SUFFIX,
    generated_base,
    job_gate_cap,
    own_group,
)
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS121",
    name="job-name-too-long",
    summary="a Job's name is too long for the group that 1.37 makes for it",
    kinds=frozenset({"Job"}),
    operations=frozenset({"CREATE"}),
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding]:
    length = len(facts.name)
    if own_group(facts) is None or length <= JOB_NAME_LENGTH_MAX or generated_base(facts.metadata) is not None:
        return
    yield Finding(
        field=METADATA / "name",
        message=(
            f"has {length} characters, and {JOB_NAME_LENGTH_MAX} is the most: 1.37 calls the Job's group template "
            f'"<job>{TEMPLATE_SUFFIX}", which may have {LABEL_LENGTH_MAX}, so the Job controller cannot make the Workload '
            f"and the Job never gets a Pod{unless(facts)}"
        ),
        fix=f"shorten the name to {JOB_NAME_LENGTH_MAX} characters or less",
        seen=length,
        limit=JOB_NAME_LENGTH_MAX,
        at_most=job_gate_cap(facts) or Action.WARN,
    )
