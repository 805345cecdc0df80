"""What the Job controller of 1.37 makes for Jobs, and where the traps of that lie.

With WorkloadWithJob on, every Job without a controller owner gets a Workload and a PodGroup, whether it says
`spec.scheduling` or not, and no Pod before both exist (pkg/controller/job/job_scheduling_manager.go). A child Job with
the group-template annotation gets a PodGroup from its parent's Workload, if that is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import FieldPath
from webhook.plan.job import plan_job
from webhook.plan.model import CompositeGroup, GroupOrigin, LeafGroup
from webhook.rules._groups import view_of
from webhook.rules._jobs import may_adopt
from webhook.rules._schedulers import unless
from webhook.verdict import Action

# k8s.io/apimachinery validation.DNS1123LabelMaxLength: the name of a group template is a DNS label.
LABEL_LENGTH_MAX = 63
TEMPLATE_SUFFIX = "-pgt-0"
JOB_NAME_LENGTH_MAX = LABEL_LENGTH_MAX - len(TEMPLATE_SUFFIX)

# k8s.io/apiserver storage/names: a generated name is the base, cut to 58 characters, and 5 random ones.
GENERATED_BASE_LENGTH_MAX = 58
RANDOM_LENGTH = 5

# k8s.io/api scheduling/v1: HighestUserDefinablePriority, the most that a PodGroup may have.
PRIORITY_MAX = 1_000_000_000

# pkg/apis/scheduling: SystemPriorityClasses, made by the API server when it starts.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGroup:
    """A group for which somebody will create a PodGroup or CompositePodGroup, and what its PriorityClass will be.

    class_name: "" where none is named, so that the global default class counts. field: where to change it.
    at_most: WARN where it is not sure that anybody makes a group of it. effect: what happens if the API server refuses
    the group, for texts.
    """

    group: LeafGroup | CompositeGroup
    class_name: str
    preemption_policy: str | None
    field: FieldPath
    at_most: Action
    effect: str


_JOB = "the Job gets no PodGroup and no Pod, without an event"
_CHILD = "the child Job gets no PodGroup and no Pod, without an event"
_OBJECT = "the API server refuses this group"
_TEMPLATE = "the API server refuses each group made of this"


def made_groups(facts: Facts) -> Iterator[MadeGroup]:
    """Every group of the plan that an object will be created for, in field order. A group that Pods only name is
    somebody else's, and where a child Job's Workload is missing no group is made at all (WAS312)."""
    for leaf in facts.plan.leaf_groups():
        if leaf.origin is GroupOrigin.CONTROLLER:
            yield from _by_job_controller(facts, leaf)
        elif leaf.origin in (GroupOrigin.ITSELF, GroupOrigin.TEMPLATE):
            yield _as_written(leaf)
    for composite in facts.plan.composite_groups():
        yield _as_written(composite)


def own_group(facts: Facts) -> LeafGroup | None:
    """The group that the Job controller makes for this Job, which is nobody's child; None for everything else."""
    if facts.kind != "Job":
        return None
    groups = (group for group in facts.plan.leaf_groups() if group.origin is GroupOrigin.CONTROLLER)
    return next((group for group in groups if group.workload_template_name is None), None)


def gets_own_group(job: core.Job) -> bool:
    """Does the Job controller make a Workload and a PodGroup for this Job (its gate being on)?"""
    group = next(plan_job("batch/v1", job.metadata.namespace, job).leaf_groups(), None)
    return group is not None and group.origin is GroupOrigin.CONTROLLER and group.workload_template_name is None


def delegated_groups(facts: Facts) -> list[LeafGroup]:
    """The groups that the Job controller makes for child Jobs from their parent's Workload."""
    return [group for group in facts.plan.leaf_groups() if group.workload_template_name is not None
            and group.origin is GroupOrigin.CONTROLLER]  # fmt: skip


def job_gate_cap(facts: Facts) -> Action | None:
    """How sure it is that the Job controller makes a group; None where its gate is declared off."""
    gate = facts.gate("WorkloadWithJob")
    if gate is False:
        return None
    return Action.DENY if gate and not may_adopt(facts) else Action.WARN


def generated_base(metadata: core.ObjectMeta) -> str | None:
    """The generateName that the object's name comes, or will come, from; None for a name that somebody chose."""
    base = metadata.generate_name
    if not base:
        return None
    cut = base[:GENERATED_BASE_LENGTH_MAX]
    generated = metadata.name.startswith(cut) and len(metadata.name) == len(cut) + RANDOM_LENGTH
    return base if generated or not metadata.name else None


def _by_job_controller(facts: Facts, leaf: LeafGroup) -> Iterator[MadeGroup]:
    cap = job_gate_cap(facts)
    if cap is None:
        return
    if leaf.workload_template_name is None:
        # The controller copies the template's class, and no preemption policy.
        yield MadeGroup(
            group=leaf,
            class_name=leaf.priority_class_name or "",
            preemption_policy=None,
            field=leaf.priority_class_path,
            at_most=cap,
            effect=_JOB + unless(facts),
        )
        return
    view = view_of(facts, leaf).value
    if view is not None:
        yield MadeGroup(
            group=leaf,
            class_name=view.priority_class_name,
            preemption_policy=None,
            field=leaf.path,
            at_most=cap,
            effect=_CHILD,
        )


def _as_written(group: LeafGroup | CompositeGroup) -> MadeGroup:
    itself = group.origin is GroupOrigin.ITSELF
    return MadeGroup(
        group=group,
        class_name=group.priority_class_name or "",
        preemption_policy=group.preemption_policy,
        field=group.priority_class_path or group.path / "priorityClassName",
        at_most=Action.DENY if itself else Action.WARN,
        effect=_OBJECT if itself else _TEMPLATE,
    )
