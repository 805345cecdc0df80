"""Templates of a Workload: which one a PodGroup or CompositePodGroup names."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.objects import core

AnyTemplate = core.PodGroupTemplate | core.CompositePodGroupTemplate


def templates(workload: core.Workload) -> Iterator[AnyTemplate]:
    """All templates of the tree, composites before what they hold."""
    stack: list[AnyTemplate] = [
        *(workload.spec.pod_group_templates or ()),
        *(workload.spec.composite_pod_group_templates or ()),
    ]
    while stack:
        template = stack.pop()
        yield template
        if isinstance(template, core.CompositePodGroupTemplate):
            stack.extend(template.pod_group_templates or ())
            stack.extend(template.composite_pod_group_templates or ())


def template_kind(kind: str) -> type[AnyTemplate]:
    """Which templates a group of this kind is made from."""
    return core.CompositePodGroupTemplate if kind == "CompositePodGroup" else core.PodGroupTemplate
