"""A selector that adopts Pods.

## What it checks
A Job that asks for a group by `spec.scheduling` and brings its own selector (`manualSelector: true`): no Pods without
a controller may match it already.

## Why
The Job controller of 1.37 makes a group only for a Job that has no Pod yet. With a selector of its own the Job adopts
the Pods that match, those that an earlier Job left behind with `--cascade=orphan` for example. Then it is not new, and
all its Pods, the new ones too, run without a group: gang, topology and shared claims are silently lost. The Pods may
be gone in a moment, so this warns.

## Fields read
`spec.manualSelector`, `spec.selector`; labels and owners of the Pods in the namespace

## Allowed
```yaml
kind: Job
spec: {scheduling: {schedulingPolicy: {gang: {}}}, ...}      # the selector is generated
```

## Denied
```yaml
kind: Job
# Pod "old-worker-1" has the label and no controller
spec: {manualSelector: true, selector: {matchLabels: {app: train}}, scheduling: {schedulingPolicy: {gang: {}}}, ...}
```

## Fix
Leave `manualSelector` and `selector` out, or delete the old Pods first.

## References
isNewJob in pkg/controller/job/job_scheduling_manager.go of 1.37.2; tests/live/test_traps.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.facts.model import Facts
from webhook.facts.use import is_own_word
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.words import plural
from webhook.rules._names import quoted
from webhook.rules._traps import own_group
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding, Unresolved

META = RuleMeta(
    id="WAS140",
    name="selector-adopts-pods",
    summary="a Job with a selector of its own adopts Pods that are there, and so never gets a group",
    kinds=frozenset({"Job"}),
    operations=frozenset({"CREATE"}),
    default_action=Action.WARN,
    gate="WorkloadWithJob",
)


def check(facts: Facts) -> Iterator[Finding | Unresolved]:
    group = own_group(facts)
    spec = facts.raw.get("spec")
    if (
        group is None
        or not is_own_word(group)
        or not isinstance(spec, Mapping)
        or spec.get("manualSelector") is not True
    ):
        return
    pods = facts.surroundings.pods(facts.namespace)
    if pods.value is None:
        yield Unresolved(reason=f"the Pods that the selector matches: {pods.unknown}", field=SPEC / "selector")
        return
    adopted = [pod.metadata.name for pod in pods.value if _is_adopted(spec.get("selector"), pod)]
    if adopted:
        yield Finding(
            field=SPEC / "selector",
            message=(
                f"matches {plural(len(adopted), 'Pod')} without a controller ({quoted(adopted)}): the Job adopts such Pods, "
                "and 1.37 makes no group for a Job that has any, so all run one by one"
            ),
            fix="leave manualSelector and selector out, or delete these Pods first",
            seen=len(adopted),
            limit=0,
        )


def _is_adopted(selector: Any, pod: core.Pod) -> bool:
    free = pod.metadata.controller() is None and pod.metadata.deletion_timestamp is None
    return free and _matches(selector, pod.metadata.labels or {})


def _matches(selector: Any, labels: Mapping[str, str]) -> bool:
    """metav1.LabelSelector; an empty one matches nothing here, since a Job's must not be empty."""
    if not isinstance(selector, Mapping) or not selector:
        return False
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(item, labels) for item in expressions
    )


def _holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(item.get("key")), item.get("values") or ()
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(str(item.get("operator")), False)
