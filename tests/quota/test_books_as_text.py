"""The books as they stand in a TierQuota's status: what is written is what is read, and what is damaged is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU
from webhook.quota.model import (
    UNKNOWN_GENERATION,
    Holder,
    Join,
    OpenGroup,
    QuotaError,
    Reservation,
    TierQuota,
    from_raw,
    line_of,
    reservation_of,
    status_of,
)
from webhook.quota.pricer import quotas_among

RESOURCES = (GPU, "cpu", "memory", "pods", "gpu.example.com.deviceclass.resource.k8s.io/devices", "hugepages-2Mi")

names = st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?\Z")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 2**50), max_size=4)
counts = st.integers(0, 10_000)
joins = st.builds(Join, group=names, slots=counts, opens=counts, per_pod=amounts, pays=amounts)
reservations = st.builds(
    Reservation,
    id=names,
    uid=names,
    kind=st.sampled_from(["Job", "Pod", "LeaderWorkerSet"]),
    namespace=names | st.just(""),
    name=names | st.just(""),
    generation=st.integers(0, 100) | st.just(UNKNOWN_GENERATION),
    amounts=amounts,
    joins=st.lists(joins, max_size=2).map(tuple),
    detached=st.booleans(),
    settled=st.booleans(),
)
holders = st.builds(Holder, kind=st.sampled_from(["Job", "Pod"]), namespace=names, name=names, amounts=amounts)
groups = st.builds(OpenGroup, uid=names, open=counts, per_pod=amounts)


def raw_of(quota: TierQuota) -> dict[str, object]:
    """As the API server has it."""
    return {
        "metadata": {"name": quota.name},
        "spec": {"tier": quota.tier, "hard": {GPU: quota.hard[GPU]}},
        "status": status_of(quota),
    }


@given(
    st.lists(reservations, max_size=5, unique_by=lambda item: item.id),
    st.lists(holders, max_size=3),
    st.lists(groups, max_size=3),
)
def test_what_is_written_is_what_is_read(
    reserved: list[Reservation], holding: list[Holder], opened: list[OpenGroup]
) -> None:
    quota = TierQuota(name="q", tier="gold", hard={GPU: 16})
    quota = replace(quota, reservations=tuple(reserved), holders=tuple(holding), groups=tuple(opened))

    read = from_raw(raw_of(quota))

    assert (read.reservations, read.holders, read.groups) == (quota.reservations, quota.holders, quota.groups)


def test_a_line_is_words_without_quotes() -> None:
    """A person reads it, and the API server need not escape it."""
    item = Reservation(id="a1", uid="u1", kind="Job", namespace="team-a", name="train", generation=2, amounts={GPU: 16})

    assert line_of(item) == "a1 u1 Job team-a train 2 nvidia.com/gpu=16"


@pytest.mark.parametrize(
    "line",
    [
        "a1 u1 Job team-a train 2",
        "a1 u1 Job team-a train two nvidia.com/gpu=16",
        "a1 u1 Job team-a train 2 nvidia.com/gpu",
        "a1 u1 Job team-a train 2 nvidia.com/gpu=many",
        "a1 u1 Job team-a train 2 - forgotten",
        "a1 u1 Job team-a train 2 - join=group;1",
        "a1 u1 Job team-a train 2 nvidia.com/gpu=-100",
        "a1 u1 Job team-a train 2 - join=group;-1;0;-;-",
        '{"id":"a1"}',
        "",
    ],
)
def test_a_damaged_line_is_damaged_books(line: str) -> None:
    """Never a reservation that is silently left out."""
    raw = raw_of(TierQuota(name="q", tier="gold", hard={GPU: 16}))
    raw["status"] = {"reservations": f"{line}\nb1 u2 Job team-a other 1 nvidia.com/gpu=1"}

    read = from_raw(raw)

    assert read.damage
    assert not read.is_counted
    assert read.reservations == ()
    with pytest.raises(QuotaError, match='TierQuota "q" cannot be read'):
        quotas_among([{"apiVersion": "muster.dev/v1alpha1", "kind": "TierQuota", **raw}])  # nobody counts a file anew


@pytest.mark.parametrize(
    "status",
    [
        {"used": {GPU: "much"}}, {"used": ["a"]}, {"counted": "yes"}, {"groups": "one"}, {"groups": "u -1 -"},
        {"holders": "x\ny"}, {"holders": {"a": 1}}, {"reservations": "\x00" * 1_400_000},
    ],
)  # fmt: skip
def test_a_status_that_somebody_broke_damages_its_own_quota(status: dict[str, Any]) -> None:
    raw = raw_of(TierQuota(name="q", tier="gold", hard={GPU: 16}))
    raw["status"] |= status

    read = from_raw(raw)

    assert (read.name, read.hard, bool(read.damage), read.is_counted) == ("q", {GPU: 16}, True, False)
    assert len(read.damage) <= 200


def test_lines_are_remembered_whole() -> None:
    """The same line gives the same reservation, another one another."""
    assert reservation_of("a u Job n j 1 -") != reservation_of("a u Job n j 1 - settled")
