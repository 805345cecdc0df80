"""generateName too long for the Job's group.

## What it checks
With WorkloadWithJob on: the `generateName` of a Job that has no controller owner and whose Pods name no PodGroup may
have 52 characters at most. It does not matter whether the Job says `spec.scheduling`.

## Why
The API server cuts `generateName` to 58 characters and adds 5 random ones, so a base of more than 52 makes a name of
more than 57. 1.37 calls the template of the Job's group `<job>-pgt-0`, which may have 63 characters: the Job
controller can never make the Workload, and the Job never gets a Pod. When Muster sees the Job in a cluster, the name
is generated already.

## Fields read
`metadata.generateName`, `metadata.name`

## Allowed
```yaml
kind: Job
metadata: {generateName: train-llama-}
```

## Denied
```yaml
kind: Job
metadata: {generateName: train-llama-70b-with-a-very-long-experiment-name-set-}   # 53 characters
```

## Fix
Shorten `generateName` to 52 characters.

## References
k8s.io/apiserver storage/names; podGroupTemplateName in pkg/controller/job/job_scheduling_manager.go of 1.37.2
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.objects.fieldpath import METADATA
from webhook.rules._schedulers import unless
from webhook.rules._traps import (
    GENERATED_BASE_LENGTH_MAX,
    JOB_NAME_LENGTH_MAX,
    LABEL_LENGTH_MAX,
    RANDOM_LENGTH,
    TEMPLATE_SUFFIX,
    generated_base,
    job_gate_cap,
    own_group,
)
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS123",
    name="generate-name-too-long",
    summary="a Job's generateName makes a name too long for the group that 1.37 makes for it",
    kinds=frozenset({"Job"}),
    operations=frozenset({"CREATE"}),
    gate="WorkloadWithJob",
)

_BASE_LENGTH_MAX = JOB_NAME_LENGTH_MAX - RANDOM_LENGTH


def check(facts: Facts) -> Iterator[Finding]:
    base = generated_base(facts.metadata)
    if own_group(facts) is None or base is None or len(base) <= _BASE_LENGTH_MAX:
        return
    name_length = min(len(base), GENERATED_BASE_LENGTH_MAX) + RANDOM_LENGTH
    yield Finding(
        field=METADATA / "generateName",
        message=(
            f"has {len(base)} characters, {_BASE_LENGTH_MAX} is the most: the API server adds {RANDOM_LENGTH} (the name "
            f'has {name_length}), and the group template "<job>{TEMPLATE_SUFFIX}" may have {LABEL_LENGTH_MAX}: in 1.37 the '
            f"Job controller cannot make the Workload and makes no Pod{unless(facts)}"
        ),
        fix=f"shorten generateName to {_BASE_LENGTH_MAX} characters or less",
        seen=len(base),
        limit=_BASE_LENGTH_MAX,
        at_most=job_gate_cap(facts) or Action.WARN,
    )
