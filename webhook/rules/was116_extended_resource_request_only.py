"""Extended resource without an equal limit.

## What it checks
In every container of a Pod template: an extended resource (`nvidia.com/gpu`) or hugepages in `requests` must have the
same amount in `limits`, and hugepages need a request or limit of cpu or memory beside them.

## Why
Extended resources and hugepages are never overcommitted: the API server refuses a Pod that requests one without a
limit, or with another limit. It checks the templates of Jobs and StatefulSets, but a JobSet's or a LeaderWorkerSet's
is plain text to it: the object is accepted, and then every Job or StatefulSet made from it is refused, again and again,
in the log of a controller. A limit alone is enough: the request follows. What a bare Pod lacks a LimitRange may fill
in, so of a Pod in a file this only warns.

## Fields read
`resources.requests` and `resources.limits` of containers and init containers

## Allowed
```yaml
resources: {limits: {nvidia.com/gpu: 1}}
```

## Denied
```yaml
resources: {requests: {nvidia.com/gpu: 1}}
```

## Fix
Write the amount into `limits`, and leave it out of `requests`.

## References
pkg/apis/core/validation validateResourceRequirements of 1.37.2; case R61
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts
from webhook.rules._resources import (
    POD_KINDS,
    ContainerResources,
    amount,
    container_resources,
    is_hugepages,
    never_overcommitted,
    refused,
    strongest,
)
from webhook.rules.meta import RuleMeta
from webhook.verdict import Finding

META = RuleMeta(
    id="WAS116",
    name="extended-resource-request-only",
    summary="an extended resource or hugepages requested without an equal limit: every Pod is refused",
    kinds=POD_KINDS,
)


def check(facts: Facts) -> Iterator[Finding]:
    for resources in container_resources(facts):
        for name in sorted(filter(never_overcommitted, resources.requests)):
            yield from _unequal(facts, resources, name)
        yield from _hugepages_alone(facts, resources)


def _unequal(facts: Facts, resources: ContainerResources, name: str) -> Iterator[Finding]:
    raw, raw_limit = resources.requests[name], resources.limits.get(name)
    if raw == raw_limit:
        return
    request = amount(raw)
    if raw_limit is None:
        seen_limit = "no limit"
    elif request is not None and (limit := amount(raw_limit)) is not None and request != limit:
        seen_limit = f'limit "{raw_limit}"'
    else:
        return
    yield Finding(
        field=resources.path / "requests" / name,
        message=f'"{name}" has request "{raw}" and {seen_limit}, and the two must be equal: the API server refuses '
        f"{refused(facts)}",
        fix=f'write limits: {{{name}: "{raw}"}}, and no request of it',
        seen=raw,
        limit=raw_limit,
        at_most=strongest(facts, missing=raw_limit is None),
    )


def _hugepages_alone(facts: Facts, resources: ContainerResources) -> Iterator[Finding]:
    names = {*resources.requests, *resources.limits}
    pages = sorted(filter(is_hugepages, names))
    if pages and not names & {"cpu", "memory"}:
        yield Finding(
            field=resources.path,
            reason="hugepages without cpu or memory",
            message=f'"{pages[0]}" stands without cpu or memory in the same container: the API server refuses {refused(facts)}',
            fix="add a request of cpu or memory to this container",
            seen=pages,
            at_most=strongest(facts, missing=True),
        )
