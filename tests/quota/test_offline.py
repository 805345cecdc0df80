"""Quotas without a cluster: in `muster review`, and for a folder that several workers serve."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import GPU, NAMESPACE, pod
from tests.quota.helpers import CLASSES, TIERS, gold_job, policies, quota
from tests.support.cases import policy_document
from webhook.cli.main import app
from webhook.quota.book import Order
from webhook.quota.ledger import Granted, Ledger, Refused
from webhook.quota.pricer import counted_among, quotas_among
from webhook.sources.folder import ObjectSetSource
from webhook.sources.quota_file import RESERVATION_SECONDS, QuotaFile

RAW: dict[str, Any] = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "TierQuota",
    "metadata": {"name": "gold"},
    "spec": {"tier": "gold", "namespaces": [NAMESPACE], "hard": {GPU: 16}},
}


def write(path: Path, *objects: Mapping[str, Any]) -> str:
    path.write_text("\n---\n".join(json.dumps(item) for item in objects))
    return str(path)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    return write(tmp_path / "policy.yaml", policy_document(TIERS))


@pytest.mark.parametrize("in_the_set", [True, False], ids=["in the set", "by --quota"])
def test_review_charges_a_set_in_its_order(tmp_path: Path, policy: str, in_the_set: bool) -> None:
    jobs = [gold_job("a").dict(), gold_job("b").dict()]
    files = [write(tmp_path / "jobs.yaml", *jobs, *([RAW] if in_the_set else []))]
    options = [] if in_the_set else ["--quota", write(tmp_path / "quota.yaml", RAW)]

    result = CliRunner().invoke(app, ["review", *files, "--policy", policy, "-o", "json", *options])

    assert result.exit_code == 1, result.output
    assert 'tier \\"gold\\" of team-a allows 16 nvidia.com/gpu, 16 in use' in result.output
    assert "In use: job/a (16)" in result.output


def test_review_goes_on_from_exported_books(tmp_path: Path, policy: str) -> None:
    """kubectl get tierquotas -o yaml brings along what is in use."""
    exported = RAW | {"status": {"used": {GPU: "12"}, "hard": {GPU: "16"}}}
    files = [write(tmp_path / "set.yaml", gold_job("a", pods=1).dict(), exported)]

    result = CliRunner().invoke(app, ["review", *files, "--policy", policy])

    assert result.exit_code == 1
    assert "12 in use" in result.output.replace("\n", " ")


def test_a_quota_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, policy: str) -> None:
    wrong = RAW | {"spec": {"tier": "gold", "hard": {"limits.nvidia.com/gpu": 1}}}

    result = CliRunner().invoke(app, ["review", write(tmp_path / "set.yaml", wrong), "--policy", policy])

    assert result.exit_code == 2
    assert "name the resource itself" in result.output.replace("\n", " ")


def test_the_example_quota_lets_one_example_gang_in_and_not_two() -> None:
    """As examples/README.md has it."""
    examples = Path(__file__).parents[2] / "examples"
    gangs = [str(examples / "gangs" / name) for name in ("03-barrier-too-big.yaml", "01-whole-gang.yaml")]
    options = [str(examples / "cluster"), "--policy", str(examples / "policy.yaml")]

    without = CliRunner().invoke(app, ["review", *gangs, *options])
    charged = CliRunner().invoke(app, ["review", *gangs, *options, "--quota", str(examples / "tierquota.yaml")])

    assert (without.exit_code, charged.exit_code) == (0, 1)
    text = " ".join(charged.output.split())
    assert "64 in use, this gang asks for 32 (4 Pods x 8); 32 are missing. In use: job/resume-from-16 (64)" in text


def test_what_a_folder_holds_is_in_use() -> None:
    """As if all of it lived: a Job with its plan, a finished one with nothing, a bare Pod with its own."""
    finished = gold_job("old").set("status", {"conditions": [{"type": "Complete", "status": "True"}]})
    objects = [gold_job("a", pods=1).dict(), finished.dict(), pod("p").gpu(2).priority_class("train-gold").dict(), RAW]
    source = ObjectSetSource([*CLASSES, *objects], complete=True)

    counted = counted_among(quotas_among(objects), objects, source, lambda name: policies().effective(name, {}))

    assert counted[0].used == {GPU: 10}
    assert [str(holder) for holder in counted[0].holders] == ["job/a", "pod/p"]


def order(number: int, gpus: int = 1) -> Order:
    return Order(
        id=f"{number}", uid=f"{number}", kind="Job", namespace=NAMESPACE, name=f"j{number}", amounts={GPU: gpus}
    )


def test_workers_of_a_folder_share_one_book(tmp_path: Path) -> None:
    """Each worker has its own store over the same file; together they let in what there is, and no more."""
    ledgers = [Ledger(QuotaFile(tmp_path / "quotas", [quota(**{GPU: 10})])) for _ in range(4)]
    start = threading.Barrier(16)

    def one(number: int) -> object:
        start.wait()
        return ledgers[number % 4].charge("gold", order(number), {}, time.monotonic() + 20)

    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(one, range(16)))

    assert sum(isinstance(outcome, Granted) for outcome in outcomes) == 10


def test_in_a_folder_what_is_admitted_lapses_by_itself(tmp_path: Path) -> None:
    now = [1000.0]
    ledger = Ledger(QuotaFile(tmp_path / "quotas", [quota(**{GPU: 1})], clock=lambda: now[0]))

    assert isinstance(ledger.charge("gold", order(1), {}, time.monotonic() + 5), Granted)
    assert isinstance(ledger.charge("gold", order(2), {}, time.monotonic() + 5), Refused)
    now[0] += RESERVATION_SECONDS + 1
    assert isinstance(ledger.charge("gold", order(3), {}, time.monotonic() + 5), Granted)
