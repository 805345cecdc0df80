"""What a plan costs: the cases of the field, by number, and every kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    GPU,
    claim,
    claim_template,
    cronjob,
    deployment,
    device_class,
    job,
    jobset,
    lws,
    pod,
    pod_group,
    priority_class,
    runtime_class,
    stateful_set,
    workload,
)
from tests.quota.helpers import amounts, charges, gold_job
from webhook.quota.usage import Amounts, add, claim_devices, growth

DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def test_r52_every_pod_is_charged_not_only_min_count() -> None:
    built = job().gang(2).parallelism(8).completions(8).gpu(1).priority_class("train-gold")

    assert amounts(built) == {"pods": 8, GPU: 8, "gangs": 1, "largest-gang": 8}


def test_r54_sidecars_count_beside_the_application() -> None:
    assert amounts(gold_job(pods=1, gpus=7).sidecar("proxy", **{GPU: "1"}))[GPU] == 8


def test_r55_init_containers_count_once_and_interleaved() -> None:
    plain = gold_job(pods=1, gpus=8)
    for name in "abc":
        plain.init(name, **{GPU: "8"})
    interleaved = gold_job(pods=1, gpus=1).init("a", **{GPU: "1"}).sidecar("s", **{GPU: "1"}).init("b", **{GPU: "2"})

    assert amounts(plain)[GPU] == 8
    assert amounts(interleaved)[GPU] == 3


def test_r59_overhead_comes_from_the_runtime_class() -> None:
    built = gold_job(pods=2, gpus=1).requests(cpu="93").set("spec.template.spec.runtimeClassName", "kata")

    assert amounts(built, runtime_class("kata", cpu="4").dict())["cpu"] == 2 * 97_000
    assert amounts(built)["cpu"] == 2 * 93_000


def test_r60_m15_limits_alone_are_requests() -> None:
    assert amounts(gold_job(pods=1, gpus=2))[GPU] == 2


def test_r62_whole_numbers_are_charged_as_they_are_written() -> None:
    """Four ways to write one; "500m" of a device is refused by WAS117, and never rounded to 1 here."""
    written = {GPU: "3000m", "rdma/ib": "2.0", "example.com/units": "3Ki", "example.com/slots": "1e1"}
    read = {GPU: 3, "rdma/ib": 2, "example.com/units": 3072, "example.com/slots": 10}

    found = amounts(job().limits(**written).priority_class("train-gold"))

    assert {name: found[name] for name in written} == read


def test_m15_a_master_without_devices_beside_workers_with() -> None:
    master = job("master").priority_class("train-gold")
    worker = job("worker").parallelism(2).completions(2).gpu(1).priority_class("train-gold")

    assert amounts(jobset().role("master", master).role("worker", worker)) == {"pods": 3, GPU: 2}


@pytest.mark.parametrize("built", [cronjob(of=gold_job()), workload(), pod_group().priority_class("train-gold")])
def test_made_by_others_costs_nothing(built: Any) -> None:
    """A CronJob pays through its Jobs, a group through its Pods."""
    assert charges(built) == ()


def test_roles_of_two_tiers_pay_in_both() -> None:
    gold = job("a").gpu(1).priority_class("train-gold")
    silver = job("b").parallelism(3).completions(3).gpu(1).priority_class("train-silver")

    found = charges(jobset().role("a", gold).role("b", silver, replicas=2))

    assert [(charge.tier, charge.amounts[GPU]) for charge in found] == [("gold", 1), ("silver", 6)]


def test_delegated_groups_of_a_jobset_are_gangs_each() -> None:
    child = job("w").parallelism(4).completions(4).gpu(2).priority_class("train-gold").group_template("leaf")

    assert amounts(jobset().role("w", child, replicas=3)) == {"pods": 12, GPU: 24, "gangs": 3, "largest-gang": 4}


def test_serving_kinds_count_their_replicas() -> None:
    by_class = [
        deployment().replicas(3).gpu(1).priority_class("train-gold"),
        stateful_set().replicas(3).gpu(1).priority_class("train-gold"),
    ]
    leaders = lws().replicas(2).size(4).gpu(1).priority_class("train-gold")

    assert [amounts(built)[GPU] for built in by_class] == [3, 3]
    assert amounts(leaders)[GPU] == 8


def test_suspended_pods_are_charged_when_they_are_resumed_or_by_policy_before() -> None:
    """Case R115."""
    built = gold_job().suspend()

    assert charges(built) == ()
    assert amounts(built, suspended=True)[GPU] == 16
    assert amounts(built.suspend(False))[GPU] == 16


# ---- tiers ------------------------------------------------------------------------------------------------------
def test_a_class_in_no_tier_belongs_to_the_default_tier_if_the_pods_are_guarded() -> None:
    """R64: never "no quota" because of a name that nobody listed."""
    odd = gold_job().priority_class("my-own")
    plain = job().requests(cpu="1").priority_class("my-own")

    assert charges(odd) == ()
    assert charges(odd, policy={"defaultTier": "silver"})[0].tier == "silver"
    assert charges(plain, policy={"defaultTier": "silver"}) == ()


def test_no_class_means_the_global_default_class() -> None:
    default = priority_class("train-silver", 500, default=True).dict()

    assert charges(job().gpu(1), [default])[0].tier == "silver"
    assert charges(job().requests(cpu="1"), [default]) == ()


# ---- devices ----------------------------------------------------------------------------------------------------
def test_r71_mapped_devices_count_once_under_both_names() -> None:
    mapped = device_class("gpu.example.com", extended_resource=GPU).dict()
    by_resource = gold_job(pods=2, gpus=2)
    by_claim = job().parallelism(2).completions(2).pod_claim("g", template="two").priority_class("train-gold")

    assert amounts(by_resource, mapped) | {"gangs": 0, "largest-gang": 0} == {
        "pods": 2, GPU: 4, DEVICES: 4, "gangs": 0, "largest-gang": 0,
    }  # fmt: skip
    assert amounts(by_claim, mapped, claim_template("two", count=2).dict()) == {"pods": 2, GPU: 4, DEVICES: 4}


def test_the_implicit_resource_of_a_device_class() -> None:
    built = gold_job(pods=2, gpus=0).limits(**{"deviceclass.resource.kubernetes.io/gpu.example.com": "3"})

    assert amounts(built)[DEVICES] == 6


def test_r77_a_shared_claim_counts_once_and_an_own_one_for_each_pod() -> None:
    built = job().gang().parallelism(4).completions(4).priority_class("train-gold")
    built.group_claim("imex", template="imex").pod_claim("imex", template="imex").pod_claim("gpu", template="gpu")
    objects = [claim_template("imex", "imex.example.com").dict(), claim_template("gpu").dict()]

    found = amounts(built, *objects)

    assert found["imex.example.com.deviceclass.resource.k8s.io/devices"] == 1
    assert found[DEVICES] == 4


def test_a_near_miss_of_the_shared_claim_costs_a_device_for_each_pod() -> None:
    built = job().gang().parallelism(4).completions(4).priority_class("train-gold")
    built.group_claim("gpu", template="gpu").pod_claim("gpux", template="gpu")

    assert amounts(built, claim_template("gpu").dict())[DEVICES] == 4


def test_r88_a_named_claim_is_one_object_however_many_pods_use_it() -> None:
    built = job().parallelism(4).completions(4).pod_claim("g", claim="one").priority_class("train-gold")

    assert amounts(built, claim("one").dict())[DEVICES] == 1


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([{"exactly": {"deviceClassName": "a", "count": 2}}], {"a": 2}),
        ([{"exactly": {"deviceClassName": "a"}}, {"exactly": {"deviceClassName": "a"}}], {"a": 2}),
        ([{"firstAvailable": [{"deviceClassName": "a", "count": 2}, {"deviceClassName": "b"}]}], {"a": 2, "b": 1}),
        ([{"firstAvailable": [{"deviceClassName": "a"}, {"deviceClassName": "a", "count": 4}]}], {"a": 4}),
        ([{"exactly": {"deviceClassName": "a", "allocationMode": "All"}}], {"a": 32}),
        ([{"exactly": {"deviceClassName": "a", "adminAccess": True}}], {}),
        ([{"deviceClassName": "a", "count": 3}], {"a": 3}),
        ([None, {"exactly": None}, {"exactly": {"deviceClassName": 7}}], {}),
    ],
)
def test_the_most_that_a_claim_may_take(requests: list[Any], expected: dict[str, int]) -> None:
    total: Amounts = {}
    for found in claim_devices({"devices": {"requests": requests}}):
        add(total, found)
    assert total == expected


def test_alternatives_of_classes_with_one_extended_resource_cost_the_worst_of_it() -> None:
    """One H100 or four slices of it, both called nvidia.com/gpu: four, not five. Requests beside each other add up."""
    either = [{"deviceClassName": "whole"}, {"deviceClassName": "slice", "count": 4}]
    requests = [{"name": "a", "firstAvailable": either}, {"name": "b", "exactly": {"deviceClassName": "whole"}}]
    template = claim_template("t").set("spec.spec.devices.requests", requests).dict()
    classes = [device_class(name, extended_resource=GPU).dict() for name in ("whole", "slice")]
    built = job().parallelism(1).completions(1).pod_claim("g", template="t").priority_class("train-gold")

    found = amounts(built, template, *classes)

    assert found[GPU] == 5
    suffix = ".deviceclass.resource.k8s.io/devices"
    assert (found[f"whole{suffix}"], found[f"slice{suffix}"]) == (2, 4)


# ---- bare gangs -------------------------------------------------------------------------------------------------
def test_a_pod_that_joins_a_bare_gang_brings_the_whole_gang() -> None:
    group = pod_group("train").gang(4).uid("group-uid").dict()
    member = pod("w-0").gpu(2).scheduling_group("train").priority_class("train-gold")

    found = charges(member, [group])[0]

    assert found.amounts == {"largest-gang": 4}
    assert found.joining[0].group_uid == "group-uid"
    assert found.alone == {"pods": 4, GPU: 8, "gangs": 1, "largest-gang": 4}


def test_the_group_of_a_job_is_no_bare_group() -> None:
    group = pod_group("train").gang(4).owner("Job", "train").dict()
    member = pod("w-0").gpu(2).scheduling_group("train").priority_class("train-gold")

    assert amounts(member, group) == {"pods": 1, GPU: 2}


_NAMES = st.sampled_from(["pods", "cpu", GPU, "largest-gang"])
_AMOUNTS = st.dictionaries(_NAMES, st.integers(0, 50))


@given(new=_AMOUNTS, old=_AMOUNTS)
def test_growth_is_never_negative_and_covers_the_new(new: dict[str, int], old: dict[str, int]) -> None:
    more = growth(new, old)

    assert all(amount > 0 for amount in more.values())
    for name, amount in new.items():
        assert amount <= old.get(name, 0) + more.get(name, 0)
