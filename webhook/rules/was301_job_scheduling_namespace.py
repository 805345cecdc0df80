"""Job `.spec.scheduling` in a namespace that may not use it.

## What it checks
`spec.scheduling` of a Job, of a CronJob's job template or of a JobSet's child templates, in a namespace that the
policy's `features.jobScheduling` does not list. No list means every namespace.

## Why
The field is alpha in 1.37 (gate WorkloadWithJob): its shape may change and objects stored with it may have to be
deleted before an upgrade. It also takes part of a tenant's freedom away from others: a gang holds its Pods back until
all of them fit. Another webhook, for example a queue controller's, may write the field into Jobs that never asked for
it, so the text says so and names the way to opt out. A Job that writes `basic: {}` behaves as one without the field;
it only gets a warning.

## Fields read
`spec.scheduling`, `spec.jobTemplate.spec.scheduling`, `spec.replicatedJobs[].template.spec.scheduling`.

## Allowed
```yaml
kind: Job            # in a namespace on the list, or without spec.scheduling
spec: {parallelism: 4, completions: 4}
```

## Denied
```yaml
kind: Job            # policy: features: {jobScheduling: {namespaces: [ml-*]}}, namespace team-b
spec:
  scheduling: {schedulingPolicy: {gang: {}}}
```

## Fix
Use a namespace on the list, ask the cluster's administrators to add yours, or opt out with
`spec.scheduling: {schedulingPolicy: {basic: {}}}`.

## References
k8s.io/api v0.37.2 batch/v1 JobSpec.scheduling; KEP-5547.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._features import allowed_here, not_allowed
from webhook.rules._jobs import JOB_HOLDERS, job_parts
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS301",
    name="job-scheduling-namespace",
    summary="Job spec.scheduling in a namespace that is not on the allow-list",
    kinds=JOB_HOLDERS,
)


def check(facts: Facts) -> Iterator[Finding]:
    if allowed_here(facts, "job_scheduling"):
        return
    for part in job_parts(facts.obj):
        if part.spec.scheduling is None:
            continue
        if part.is_gang:
            yield not_allowed(
                facts,
                "job_scheduling",
                part.scheduling_path,
                what="spec.scheduling of a Job (alpha)",
                why="if you did not write it, another webhook, for example a queue controller's, has added it",
                fix="write schedulingPolicy: {basic: {}} to opt out, or ask for the namespace to be added",
            )
        else:
            yield not_allowed(
                facts,
                "job_scheduling",
                part.scheduling_path,
                what="spec.scheduling of a Job (alpha)",
                why="without a gang it changes nothing, so it is let in",
                fix="leave it out, or ask for the namespace to be added",
                at_most=Action.WARN,
            )
