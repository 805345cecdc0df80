"""The NO-REJECT cases of feasibility in one list, each with the fixtures that hold it: no capacity rule denies them.

A case that loses its last fixture fails here, and so does one that begins to deny. R89 says "no deviceSelector"; in 1.37
that taints nothing, and an empty one taints every device.
"""

from __future__ import annotations

import pytest

from tests.support.cases import Case, judge, load_cases

# case -> what its fixtures say; those that must deny for contrast are named by their file.
NO_REJECT = {
    "R04": (),  # a Job paused with parallelism 0
    "R33": (),  # a Pod larger than its template
    "R81": ("strict",),  # a DeviceClass that comes later; only the strict profile denies (WAS216)
    "R89": (),  # a blanket DeviceTaintRule
    "R90": (),  # CEL that Muster cannot run
    "R92": (),  # scale from zero with devices
    "R93": (),  # drivers that publish on demand
    "R94": (),  # a busy cluster
    "R98": (),  # scale from zero
    "R100": (),  # a pool that would grow
    "R101": ("r101-all-deleted",),  # cordoned and not ready; deleted for good denies
    "R111": (),  # no NIC asked
    "R114": (),  # more replicas than fit at once
    "R115": ("r115-resumed",),  # suspended may change; resumed it counts
}


def cases_of(number: str) -> list[Case]:
    return [case for case in load_cases() if number in str(case.header.get("case", "")).replace(",", " ").split()]


@pytest.mark.parametrize("number", NO_REJECT)
def test_it_is_admitted(number: str) -> None:
    contrast = NO_REJECT[number]
    found = [case for case in cases_of(number) if case.path.stem not in contrast]

    denied = {str(case): [rule for rule in denials(case) if rule.startswith(("WAS5", "WAS216"))] for case in found}

    assert found, f"no fixture holds {number}"
    assert {name: rules for name, rules in denied.items() if rules} == {}
    for case in cases_of(number):
        if case.path.stem in contrast:
            assert denials(case), str(case)


def denials(case: Case) -> list[str]:
    return [one.rule for one in judge(case).denials]
