"""The Job specs that an object holds: itself, a CronJob's template, a JobSet's child templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webhook.facts.model import Facts
from webhook.objects import core
from webhook.objects.fieldpath import METADATA, SPEC, FieldPath
from webhook.plan.parts import GROUP_TEMPLATE_ANNOTATION

JOB_HOLDERS = frozenset({"Job", "CronJob", "JobSet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """One Job spec and where it stands. role: the replicatedJob's name, "" elsewhere."""

    metadata: core.ObjectMeta
    metadata_path: FieldPath
    spec: core.JobSpec
    spec_path: FieldPath
    role: str = ""

    @property
    def scheduling_path(self) -> FieldPath:
        return self.spec_path / "scheduling"

    @property
    def group_path(self) -> FieldPath:
        """The template's schedulingGroup."""
        return self.spec_path / "template" / "spec" / "schedulingGroup"

    @property
    def annotation_path(self) -> FieldPath:
        return self.metadata_path / "annotations" / GROUP_TEMPLATE_ANNOTATION

    @property
    def group_template(self) -> str | None:
        """The value of the delegation annotation, "" for the first template, None where there is none."""
        return self.metadata.annotation(GROUP_TEMPLATE_ANNOTATION)

    @property
    def names_group(self) -> bool:
        """Do the template's Pods name a PodGroup by schedulingGroup?"""
        return self.spec.template.spec.scheduling_group is not None

    @property
    def is_gang(self) -> bool:
        scheduling = self.spec.scheduling
        return scheduling is not None and scheduling.scheduling_policy.gang is not None


def may_adopt(facts: Facts) -> bool:
    """Is it a Job with a selector of its own? If a Pod without a controller matches, now or later, the Job adopts it, is
    not new to the Job controller, and gets no group: it runs by none of the rules for groups (WAS140)."""
    spec = facts.raw.get("spec")
    return isinstance(facts.obj, core.Job) and isinstance(spec, Mapping) and spec.get("manualSelector") is True


def job_parts(obj: core.Base) -> Iterator[JobPart]:
    """In field order; nothing for other kinds."""
    if isinstance(obj, core.Job):
        yield JobPart(metadata=obj.metadata, metadata_path=METADATA, spec=obj.spec, spec_path=SPEC)
    elif isinstance(obj, core.CronJob):
        yield _template_part(obj.spec.job_template, SPEC / "jobTemplate")
    elif isinstance(obj, core.JobSet):
        for index, role in enumerate(obj.spec.replicated_jobs or ()):
            yield _template_part(role.template, (SPEC / "replicatedJobs").at(index) / "template", role.name)


def _template_part(template: core.JobTemplateSpec, path: FieldPath, role: str = "") -> JobPart:
    return JobPart(
        metadata=template.metadata,
        metadata_path=path / "metadata",
        spec=template.spec,
        spec_path=path / "spec",
        role=role,
    )
