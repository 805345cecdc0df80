"""High-water marks: what they keep, what ends, and what an export makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.inventory.build import Settings, build
from webhook.inventory.marks import (
    GONE_SECONDS,
    MARK_SECONDS,
    Former,
    Marks,
    MarksError,
    decoded,
    encoded,
    exported,
    lasting,
    raw_node,
    still,
)
from webhook.inventory.snapshot import Node, Question, Taint

GPU = "nvidia.com/gpu"
_seen = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), max_size=8)


@given(seen=_seen, now=st.integers(0, 40))
def test_the_most_of_what_counts_still_is_never_lost(seen: list[tuple[int, int]], now: int) -> None:
    """Whatever is left out, at any time the largest amount that is not too old is found first."""
    whole = [(amount, float(at)) for amount, at in seen]
    moment = now + MARK_SECONDS - 20

    kept = still(lasting(whole), moment)

    wanted = max((amount for amount, at in whole if moment - at < MARK_SECONDS), default=None)
    assert (kept[0][0] if kept else None) == wanted


def test_two_leaders_marks_are_joined() -> None:
    former = Former(5.0, {"metadata": {"name": "x"}})
    one = Marks(fingerprint="now", nodes={"a": {GPU: ((8, 10.0),)}}, gone={"x": former})
    other = Marks(
        fingerprint="then",
        nodes={"a": {GPU: ((4, 20.0),), "cpu": ((9, 1.0),)}, "b": {GPU: ((1, 1.0),)}},
        gone={"x": Former(4.0, {})},
        slices={"s/1": former},
    )

    both = one.merged(other)

    assert both.nodes == {"a": {GPU: ((8, 10.0), (4, 20.0)), "cpu": ((9, 1.0),)}, "b": {GPU: ((1, 1.0),)}}
    assert (both.gone, both.slices, both.fingerprint) == ({"x": former}, {"s/1": former}, "now")


def test_what_is_old_ends() -> None:
    marks = Marks(
        nodes={"a": {GPU: ((8, 0.0), (4, 100.0))}, "b": {GPU: ((1, 0.0),)}},
        gone={"x": Former(MARK_SECONDS - GONE_SECONDS, {}), "y": Former(MARK_SECONDS, {})},
        slices={"s": Former(0.0, {}), "t": Former(1.0, {})},
    )

    left = marks.without_old(MARK_SECONDS)

    assert left.nodes == {"a": {GPU: ((4, 100.0),)}}
    assert (set(left.gone), set(left.slices)) == ({"y"}, {"t"})


def test_bytes_come_back_as_they_were() -> None:
    marks = Marks(
        changed_at=1.5, fingerprint="f", nodes={"a": {GPU: ((8, 10.0),)}}, slices={"s": Former(1.0, {"spec": {}})}
    )

    assert decoded(encoded(marks, 9.0)) == marks
    for bad in (b"", b"no gzip", encoded(marks, 9.0)[:-9]):
        with pytest.raises(MarksError):
            decoded(bad)


def test_an_export_with_marks_gives_the_answers_of_the_cluster() -> None:
    """Node b has lost its GPUs, node c is gone, and so is a slice."""
    there = [
        {"apiVersion": "v1", "kind": "Node", **raw_node(Node(name=name, allocatable={"cpu": 1500, "pods": 9}))}
        for name in ("a", "b")
    ]
    taint = Taint("k", "v", "NoSchedule")
    gone = Node(name="c", allocatable={GPU: 8, "cpu": 2000}, labels={"rack": "r"}, taints=(taint,))
    pool = {"name": "c", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "c", "pool": pool, "devices": [{"name": "d0"}]}
    marks = Marks(
        nodes={"b": {GPU: ((8, 1.0), (4, 2.0))}},
        gone={"c": Former(1.0, raw_node(gone)), "a": Former(1.0, raw_node(gone))},
        slices={"s/1": Former(1.0, {"metadata": {"name": "s"}, "spec": spec})},
    )

    snapshot = build(exported(there, marks), Settings(is_file=True))

    assert snapshot.complete.holds
    assert [one.capacity(Question.NEVER).get(GPU, 0) for one in snapshot.nodes] == [0, 8, 8]
    assert [one.allocatable.get("cpu") for one in snapshot.nodes] == [1500, 1500, None]
    assert (snapshot.nodes[2].taints, snapshot.nodes[2].away, snapshot.nodes[2].real) == ((taint,), "deleted", False)
    assert [one.is_former for one in snapshot.devices.local["c"]] == [True]  # type: ignore[attr-defined]
