"""Any JSON object that reads as a known kind gives a plan, a barrier and requests, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import Raw, planned_objects
from webhook.objects.fieldpath import METADATA
from webhook.objects.kinds import KINDS, Kind
from webhook.objects.read import read
from webhook.plan.adapters import plan_of
from webhook.plan.annotations import checkpoint_interval, expected_run_time
from webhook.plan.barrier import Barrier, read_barrier
from webhook.plan.model import GangPlan
from webhook.plan.requests import effective_request


def look_at_everything(plan: GangPlan) -> None:
    """Whatever a rule may ask for."""
    for composite in plan.composite_groups():
        assert str(composite.path)
    for group in plan.leaf_groups():
        assert str(group.path)
        assert group.pod_count is None or group.pod_count >= 0
        assert group.policy != "gang" or group.min_count is not None or group.origin in {"itself", "template"}
    for pod_set in plan.all_pod_sets():
        assert str(pod_set.pod_count_path)
        assert len(pod_set.claims) == len(pod_set.template.spec.resource_claims or ())
        assert (pod_set.pod_count is None) == (pod_set.replicas is None) == (pod_set.ranks is None)
        if pod_set.pod_count is not None and pod_set.replicas is not None and pod_set.ranks is not None:
            assert pod_set.pod_count == pod_set.replicas * pod_set.ranks
        effective_request(pod_set.template.spec, pod_set.spec_path)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(planned=planned_objects())
def test_every_readable_object_has_a_plan(planned: tuple[Kind, Raw]) -> None:
    kind, raw = planned
    obj = read(raw, kind.type)

    plan = plan_of(kind.kind, kind.api_version, "team-a", obj)

    look_at_everything(plan)
    metadata = obj.metadata  # type: ignore[attr-defined]
    barrier = read_barrier(tuple(plan.all_pod_sets()), metadata)
    if isinstance(barrier, Barrier):
        assert 1 <= barrier.minimum <= barrier.maximum
        for known in barrier.in_pods():
            assert barrier.fits(known.minimum) is True
    for written in (checkpoint_interval(metadata, METADATA), expected_run_time(metadata, METADATA)):
        assert written is None or (written.value is None) == (written.error is not None)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_an_empty_object_has_a_plan(kind: Kind) -> None:
    look_at_everything(plan_of(kind.kind, kind.api_version, "", read({}, kind.type)))
    look_at_everything(plan_of(kind.kind, kind.api_version, "", read({"spec": {}, "metadata": None}, kind.type)))
