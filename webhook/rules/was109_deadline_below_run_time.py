"""Deadline below the expected run time.

## What it checks
`activeDeadlineSeconds` of a Job, or of its Pods, against the annotation `muster.dev/expected-run-time` (`30m`,
`1h30m`, or seconds) of the object or of the Pod template.

## Why
A Job's deadline runs from its start time on, which is set before its Pods are placed: a gang that waits an hour for its
place has an hour less. A deadline below the run time that the object itself declares ends the work before it is done, after
it has held its
accelerators all the time. Only the tenant knows how exact the declared time is, so this is a warning.

## Fields read
`spec.activeDeadlineSeconds`, `spec.template.spec.activeDeadlineSeconds`,
`metadata.annotations[muster.dev/expected-run-time]`

## Allowed
```yaml
metadata: {annotations: {muster.dev/expected-run-time: 2h}}
spec: {activeDeadlineSeconds: 14400}
```

## Denied
```yaml
metadata: {annotations: {muster.dev/expected-run-time: 2h}}
spec: {activeDeadlineSeconds: 3600}
```

## Fix
Raise `activeDeadlineSeconds` above the run time and the longest wait you accept, or leave it out.

## References
k8s.io/api v0.37.2 batch/v1 JobSpec.activeDeadlineSeconds
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from webhook.facts.model import Facts
from webhook.objects.fieldpath import METADATA, FieldPath
from webhook.plan.annotations import EXPECTED_RUN_TIME, Written, expected_run_time
from webhook.plan.model import PodSet
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS109",
    name="deadline-below-run-time",
    summary="activeDeadlineSeconds is shorter than the declared run time",
    kinds=frozenset({"Job", "CronJob", "JobSet"}),
    default_action=Action.WARN,
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    pod_sets = tuple(facts.plan.all_pod_sets())
    for pod_set in pod_sets:
        declared = _declared(facts, pod_set, only_role=len(pod_sets) == 1)
        if declared is None:
            continue
        if declared.value is None:
            reason = f'"{EXPECTED_RUN_TIME}" is "{declared.text}": it {declared.error}'
            yield Unresolved(reason=reason, field=declared.path, warn=True)
            continue
        for seconds, path, starts in _deadlines(pod_set):
            if seconds < declared.value:
                yield _finding(seconds, path, starts, declared.text, declared.value)


def _declared(facts: Facts, pod_set: PodSet, *, only_role: bool) -> Written[Fraction] | None:
    """The template's own word, else the object's, which is about the whole and says nothing of one role of several."""
    of_template = expected_run_time(pod_set.template.metadata, pod_set.path / "metadata")
    if of_template is not None or not only_role:
        return of_template
    return expected_run_time(facts.metadata, METADATA)


def _deadlines(pod_set: PodSet) -> Iterator[tuple[int, FieldPath, str]]:
    if pod_set.active_deadline_seconds is not None and pod_set.active_deadline_path is not None:
        yield pod_set.active_deadline_seconds, pod_set.active_deadline_path, "runs while the Pods are Pending, too"
    of_pod = pod_set.template.spec.active_deadline_seconds
    if of_pod is not None:
        yield of_pod, pod_set.spec_path / "activeDeadlineSeconds", "ends each Pod"


def _finding(seconds: int, path: FieldPath, starts: str, text: str, expected: Fraction) -> Finding:
    needed = -(-expected.numerator // expected.denominator)
    return Finding(
        field=path,
        message=f'{seconds} s is less than the {needed} s of {EXPECTED_RUN_TIME}: "{text}", and this deadline {starts}: the '
        "work ends before it is done",
        fix=f"set it above {needed}, with room for the wait, or leave it out",
        seen=seconds,
        limit=needed,
        excess=needed - seconds,
    )
