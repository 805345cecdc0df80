"""`/scale`: judged as the UPDATE of the object that it scales, which is read live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.builders import GPU, NAMESPACE, Builder, deployment, lws, replica_set, stateful_set
from tests.quota.helpers import Desk, quota, quota_denials
from tests.support.cases import request_for
from webhook.facts.source import Answer, Query, Unknown
from webhook.objects.kinds import BY_NAME
from webhook.objects.request import AdmissionRequest, GroupVersionResource


def serving(built: Builder, replicas: int = 2) -> dict[str, Any]:
    """As it is stored: two replicas of 4 GPUs each, generation 7."""
    built = built.set("spec.replicas", replicas).set("metadata.uid", "d").set("metadata.generation", 7)
    return built.dict()


def gold_deployment(replicas: int = 2) -> dict[str, Any]:
    return serving(deployment("serve").gpu(4).priority_class("train-gold"), replicas)


def scale_of(raw: Mapping[str, Any], was: int, to: int, *, dry_run: bool = False) -> AdmissionRequest:
    """What the API server sends: 0 replicas are left out."""

    def scale(replicas: int) -> dict[str, Any]:
        metadata = {key: raw["metadata"][key] for key in ("name", "namespace", "uid")}
        spec = {"replicas": replicas} if replicas else {}
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}

    kind = BY_NAME[raw["kind"]]
    request = request_for(scale(to), scale(was), "UPDATE", subresource="scale")
    resource = GroupVersionResource(group=kind.group, version=kind.versions[0], resource=kind.plural)
    return msgspec.structs.replace(request, resource=resource, namespace=NAMESPACE, dry_run=dry_run)


def test_growth_pays_the_difference() -> None:
    """From 2 to 4 replicas of 4 GPUs: 8 more, for the generation that the change will have."""
    desk = Desk(objects=[gold_deployment()])

    assert desk.ask(scale_of(gold_deployment(), 2, 4)).allowed

    (reserved,) = desk.book().reservations
    assert (reserved.kind, reserved.name, reserved.uid, reserved.generation) == ("Deployment", "serve", "d", 8)
    assert reserved.amounts == {GPU: 8}


def test_growth_beyond_the_limit_is_refused_in_the_object_s_words() -> None:
    desk = Desk(objects=[gold_deployment()])

    (text,) = quota_denials(desk.ask(scale_of(gold_deployment(), 2, 7)))

    assert text == (
        'tier "gold" of team-a allows 16 nvidia.com/gpu, none in use, this Deployment asks for 20 more; 4 are missing'
    )
    assert not desk.book().reservations


@pytest.mark.parametrize(
    "built",
    [
        deployment("serve").gpu(4).priority_class("train-gold"),
        replica_set("serve").gpu(4).priority_class("train-gold"),
        stateful_set("serve").gpu(4).priority_class("train-gold"),
        lws("serve").size(1).gpu(4).priority_class("train-gold"),
    ],
    ids=lambda built: built.dict()["kind"],
)
def test_every_kind_that_can_be_scaled(built: Builder) -> None:
    raw = serving(built)
    desk = Desk(objects=[raw])

    assert desk.ask(scale_of(raw, 2, 4)).allowed
    assert desk.reserved() == 8
    assert quota_denials(desk.ask(scale_of(raw, 2, 7)))


def test_from_nothing() -> None:
    """0 replicas are no field at all."""
    raw = gold_deployment(0)
    desk = Desk(objects=[raw])

    assert desk.ask(scale_of(raw, 0, 1)).allowed
    assert desk.reserved() == 4


@pytest.mark.parametrize(("was", "to"), [(4, 2), (4, 4), (4, 0)])
def test_what_does_not_grow_is_not_even_looked_up(was: int, to: int) -> None:
    class Unasked:
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            raise AssertionError(query)

    verdict = Desk(quota(**{GPU: 0})).ask(scale_of(gold_deployment(), was, to), source=Unasked())

    assert verdict.allowed
    assert verdict.short_circuit == "nothing-grows"


def test_the_number_that_counts_is_the_stored_one() -> None:
    """Somebody scaled it in between: the API server will judge again what it stores; until then the live object decides."""
    desk = Desk(objects=[gold_deployment(4)])

    assert desk.ask(scale_of(gold_deployment(), 2, 4)).allowed
    assert desk.reserved() == 0


def test_two_calls_for_the_same_change_pay_once() -> None:
    desk = Desk(objects=[gold_deployment()])
    for _ in range(3):
        assert desk.ask(scale_of(gold_deployment(), 2, 4)).allowed

    assert desk.reserved() == 8


def test_a_dry_run_reserves_nothing() -> None:
    desk = Desk(objects=[gold_deployment()])

    assert desk.ask(scale_of(gold_deployment(), 2, 4, dry_run=True)).allowed
    assert not desk.book().reservations


def test_ordinary_ones_pass_without_a_word() -> None:
    raw = serving(deployment("web"))
    verdict = Desk(quota(**{GPU: 0}), objects=[raw]).ask(scale_of(raw, 2, 50))

    assert verdict.allowed
    assert not verdict.warnings


def test_an_object_that_is_gone_or_going_is_not_held_up() -> None:
    going = gold_deployment()
    going["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"

    assert Desk(quota(**{GPU: 0})).ask(scale_of(going, 2, 9)).short_circuit == "scaled-object-gone"
    assert Desk(quota(**{GPU: 0}), objects=[going]).ask(scale_of(going, 2, 9)).short_circuit == "being-deleted"


def test_an_object_that_cannot_be_read_is_scaled_and_that_is_said() -> None:
    """The entry fails open: nobody knows whether it has a tier at all."""

    class Silent:
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            assert fresh, "an old number of replicas would charge the wrong difference"
            return Unknown("the API server did not answer")

    verdict = Desk(quota(**{GPU: 0})).ask(scale_of(gold_deployment(), 2, 9), source=Silent())

    assert verdict.allowed
    (warning,) = map(str, verdict.warnings)
    assert warning == "scaled without a look at the quota of its tier: the API server did not answer"


def test_another_scale_is_not_ours() -> None:
    """replicationcontrollers/scale, or a custom resource's."""
    request = scale_of(gold_deployment(), 1, 5)
    other = GroupVersionResource(group="", version="v1", resource="replicationcontrollers")

    assert Desk().ask(msgspec.structs.replace(request, resource=other)).short_circuit == "subresource"
