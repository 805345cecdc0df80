"""Allocated claims and DeviceTaintRules as a live cluster tells them: over the devices, and never in the way of a denial."""

from __future__ import annotations

import itertools

import pytest

from tests.inventory.rig import Rig, as_stored, gpus, in_use, node
from webhook.cluster.device_use_feed import CLAIM, RULE, DeviceUseFeed
from webhook.inventory import tables
from webhook.inventory.snapshot import Question
from webhook.policy.model import Cluster


@pytest.fixture
def devices(rig: Rig) -> Rig:
    """Two nodes with two devices each, and both kinds watched."""
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"), node("b"))
    for name in "ab":
        rig.put_slice(name, "d0", "d1")
    rig.use.replace_kind(CLAIM, [])
    rig.use.replace_kind(RULE, [])
    rig.look()
    return rig


def test_held_devices_and_rules_are_put_over_the_devices(devices: Rig) -> None:
    """What rests on none of it stays the same object, the file of the devices included."""
    rig = devices
    first = rig.look(3)
    (file,) = [name for name in rig.files() if "devices" in name]
    rig.put_claim("c", ("a", "d0"), ("b", "d1"))
    rig.put_claim("waiting")
    held = rig.look(3)
    rig.put_rule("repair", pool="a")
    ruled = rig.look(3)

    assert [in_use(one) for one in (first, held, ruled)] == [
        (set(), []),
        ({"a/d0", "b/d1"}, []),
        ({"a/d0", "b/d1"}, ["repair"]),
    ]
    assert [one.version for one in (held, ruled)] == [first.version] * 2
    assert [one.denial_hindrance() for one in (held, ruled)] == [None, None]
    bases = [[tables.base(one, question) for question in Question] for one in (first, held, ruled)]
    assert [same(one, other) for one, other in itertools.pairwise(bases)] == [[True, True, False], [True, False, False]]
    assert file in rig.files()


def same(some: list[tables.Base], others: list[tables.Base]) -> list[bool]:
    return [one is other for one, other in zip(some, others, strict=True)]


def test_what_a_claim_does_not_hold_for_itself_is_free(devices: Rig) -> None:
    devices.put_claim("admin", ("a", "d0"), adminAccess=True)
    devices.put_claim("share", ("a", "d1"), shareID="s")

    assert in_use(devices.look(3)) == (set(), [])


def test_a_claim_or_rule_that_changes_or_goes_counts_as_it_is(devices: Rig) -> None:
    rig = devices
    rig.put_claim("c", ("a", "d0"))
    rig.put_claim("d", ("a", "d1"))
    rig.put_rule("r")
    both = rig.look(3)
    rig.put_claim("c")  # deallocated
    rig.use.put(RULE, "", "r", as_stored(RULE, {"metadata": {"name": "r"}, "spec": {"taint": {"effect": "None"}}}))
    one = rig.look(3)
    rig.use.delete(CLAIM, "x", "d")
    none = rig.look(3)
    rig.put_claim("e", ("b", "d0"))
    rig.put_rule("s")
    rig.look(3)
    rig.use.replace_kind(CLAIM, [])
    rig.use.replace_kind(RULE, [])
    listed = rig.look(3)

    assert [in_use(found) for found in (both, one, none, listed)] == [
        ({"a/d0", "a/d1"}, ["r"]),
        ({"a/d1"}, []),
        (set(), []),
        (set(), []),
    ]


def test_a_claim_that_cannot_be_read_holds_nothing(devices: Rig) -> None:
    devices.put_claim("c", ("a", "d0"))
    devices.use.put(CLAIM, "x", "c", b'{"metadata": {"name": "c"}, "held": 7}')
    devices.use.put(RULE, "", "r", b"{")

    found = devices.look(3)

    assert (in_use(found), found.complete.holds) == ((set(), []), True)


@pytest.mark.parametrize("kind", [CLAIM, RULE])
def test_a_broken_watch_of_what_is_in_use_ends_no_denial(devices: Rig, kind: str) -> None:
    """Nothing is said that rests on it, until it is listed again."""
    rig = devices
    rig.put_claim("c", ("a", "d0"))
    rig.put_rule("r")
    before = rig.look(3)
    rig.use.unsynced(kind, "forbidden")
    during = rig.look(3)
    rig.use.replace_kind(kind, [])
    rig.put_claim("c", ("a", "d0"))
    rig.put_rule("r")
    after = rig.look(3)

    assert [one.denial_hindrance() for one in (before, during, after)] == [None] * 3
    assert in_use(during) == ((set() if kind == CLAIM else {"a/d0"}), ([] if kind == RULE else ["r"]))
    assert in_use(after) == ({"a/d0"}, ["r"])


def test_kinds_that_are_never_listed_or_not_served_end_no_denial(rig: Rig) -> None:
    rig.cluster = Cluster.model_validate({"inventoryClosed": True})
    rig.list_all(node("a"))
    rig.put_slice("a", "d0")
    never_listed = rig.look(3)
    rig.use.not_served(RULE, "404")
    rig.use.unsynced(CLAIM, "forbidden")
    not_served = rig.look(3)

    assert [one.denial_hindrance() for one in (never_listed, not_served)] == [None, None]
    assert in_use(not_served) == (set(), [])


def test_claims_that_come_all_the_time_make_a_version_now_and_then(devices: Rig) -> None:
    rig = devices
    rig.put_claim("c", ("a", "d0"))
    first = rig.look(3)
    rig.put_claim("d", ("a", "d1"))
    rig.pods.replace_kind("Pod", [])
    rig.put_pod("p", "a")
    soon = rig.look(0.5)
    later = rig.look(3)

    assert soon is first
    assert (in_use(later)[0], gpus(later, Question.NOT_NOW)) == ({"a/d0", "a/d1"}, 8)


def test_claims_end_no_denial_before_they_are_taken_up(devices: Rig) -> None:
    devices.put_claim("c", ("a", "d0"))
    devices.now += 3
    devices.feed.step()
    current = devices.inventory.current()

    assert current is not None
    assert (current.denial_hindrance(), in_use(current)) == (None, (set(), []))


@pytest.mark.parametrize("damage", [b"", b"\x93 no such thing", None])
def test_a_file_beside_that_cannot_be_read_ends_no_denial(devices: Rig, damage: bytes | None) -> None:
    rig = devices
    rig.pods.replace_kind("Pod", [])
    rig.put_claim("c", ("a", "d0"))
    rig.now += 3
    rig.feed.step()
    for path in [*rig.folder.glob("inventory-use-*"), *rig.folder.glob("inventory-pods-*")]:
        path.unlink() if damage is None else path.write_bytes(damage)
    rig.inventory.look()
    broken = rig.inventory.current()
    rig.put_claim("d", ("a", "d1"))
    mended = rig.look(3)

    assert broken is not None
    assert (broken.denial_hindrance(), in_use(broken)) == (None, (set(), []))
    assert in_use(mended)[0] == {"a/d0", "a/d1"}


@pytest.mark.parametrize("error", [OSError("full"), ValueError("a bug of ours")])
def test_what_cannot_be_published_beside_holds_up_nothing(
    devices: Rig, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = devices

    def packed(_feed: DeviceUseFeed) -> bytes:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(DeviceUseFeed, "packed", packed)
        rig.put_claim("c", ("a", "d0"))
        rig.put(node("b", "4"))
        during = rig.look(3)
    after = rig.look(6)

    assert (gpus(during, Question.READY), during.denial_hindrance(), in_use(during)[0]) == (12, None, set())
    assert in_use(after)[0] == {"a/d0"}
