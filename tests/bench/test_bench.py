"""The benchmarks run: figures are for people, only what makes them meaningful is asserted."""

from __future__ import annotations

import pytest

from tests.bench import http, inventory, steps
from tests.bench.reviews import POD_REVIEW_BYTES, body, job, jobset, member_pod, pipeline
from webhook.edge.review import parse
from webhook.facts.model import Phase


@pytest.mark.parametrize("raw", [member_pod(), job(), jobset()], ids=["pod", "job", "jobset"])
def test_subjects_are_judged_to_the_end(raw: dict) -> None:
    """Admitted, by rules that knew everything: a short-circuit or an unknown would measure something else."""
    verdict = pipeline().judge(parse(body(raw)), Phase.VALIDATING)

    assert verdict.allowed
    assert not verdict.short_circuit
    assert [unknown for unknown in verdict.unknowns if unknown.warn] == []


def test_pod_review_has_its_size() -> None:
    """2.3 kB, as in what it is compared with."""
    assert len(body(member_pod())) == POD_REVIEW_BYTES


def test_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step of every subject takes some time."""
    monkeypatch.setattr(steps, "ROUND_COUNT", 1)
    monkeypatch.setattr(steps, "ROUND_SECONDS", 0.001)

    results = steps.measure(steps.steps(member_pod()))
    steps.main()

    assert set(results) == {"decode", "read", "plan", "rules", "respond", "all"}
    assert all(fastest > 0 for fastest, _ in results.values())
    assert results["all"][0] > results["decode"][0]
    assert "JobSet" in capsys.readouterr().out


@pytest.mark.processes
def test_http() -> None:
    """Both servers answer every request well."""
    series = http.compare(round_count=1, seconds=0.5)

    assert all(one.rates[0] > 0 and one.latencies for one in series.values())
    assert [one.bad_count for one in series.values()] == [0, 0]


@pytest.mark.processes
def test_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    """A replica over the list server knows a handful of nodes, devices and Pods, and says what it costs."""
    inventory.measure(node_count=32, slice_count=64, pod_count=64, claim_count=16, storms=False)

    out = capsys.readouterr().out
    assert "every answer knows the nodes after" in out
    assert "worker" in out.split("PSS")[1]
