"""Fixtures that several files of this room share."""

from __future__ import annotations

import pytest

from tests.builders import GPU
from tests.quota.helpers import quota
from tests.quota.test_advance import HARD
from tests.quota.test_ledger import Troubled


@pytest.fixture
def store() -> Troubled:
    """One quota of `HARD` GPUs, nothing in use."""
    return Troubled(quota(**{GPU: HARD}))
