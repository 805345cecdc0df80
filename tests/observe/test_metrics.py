"""Metrics: what is counted, with which labels, and how many of them there can be."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.edge.reviews import CATALOGUE, make_app, pod, post, review, rule
from webhook.observe.metrics import SECONDS_BUCKETS, Metrics
from webhook.verdict import Unresolved

IDS = [item.META.id for item in CATALOGUE]


class Counting(Metrics):
    """Metrics as the observer itself, without a log."""

    def observe(self, observation: Any) -> None:
        self.count(observation)


def samples(metrics: Metrics) -> dict[tuple[Any, ...], float]:
    """(name, sorted labels) -> value, without buckets and timestamps."""
    text = metrics.exposition()[0].decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics).get((name, *sorted(labels.items())), 0.0)


def test_each_way_to_end_is_counted() -> None:
    """allowed, warned, denied, error, bad-request, overload: no request disappears."""
    metrics = Counting(IDS)
    app = make_app(observer=metrics)
    for body in (review(pod()), review(pod(label="warn")), review(pod(label="deny")), review(pod(label="bug"))):
        post(app, body)
    post(app, b"{")
    post(make_app(observer=metrics, in_flight_max=0), review(pod()))

    def requests(verdict: str, kind: str = "Pod", operation: str = "CREATE") -> float:
        return value(
            metrics,
            "muster_admission_requests_total",
            phase="validating",
            entry="submit",
            kind=kind,
            operation=operation,
            verdict=verdict,
        )

    assert [requests(verdict) for verdict in ("allowed", "warned", "denied", "error", "overload-denied")] == [1.0] * 5
    assert requests("bad-request", "other", "other") == 1.0
    assert value(metrics, "muster_bad_requests_total", status="400") == 1.0
    assert value(metrics, "muster_rule_errors_total", rule="WAS804") == 1.0
    assert value(metrics, "muster_rule_findings_total", rule="WAS801", action="Deny") == 1.0
    assert value(metrics, "muster_rule_findings_total", rule="WAS802", action="Warn") == 1.0
    assert value(metrics, "muster_short_circuits_total", phase="validating", reason="overload") == 1.0
    assert value(metrics, "muster_admission_seconds_count", phase="validating", entry="submit") == 6.0
    assert value(metrics, "muster_admission_waiting_seconds_count") == 6.0


def test_unknowns_are_counted() -> None:
    """A rule that can often not decide is a sign of its own."""
    metrics = Counting(["WAS805"])

    post(make_app((rule("WAS805", lambda _facts: [Unresolved(reason="no answer")]),), observer=metrics), review(pod()))

    assert value(metrics, "muster_rule_findings_total", rule="WAS805", action="unknown") == 1.0


def test_labels_are_bounded_whatever_clients_send() -> None:
    """Kinds, operations, entries and rule IDs from outside the tables are "other"."""
    metrics = Counting(())
    app = make_app(observer=metrics)
    for index in range(50):
        body = review(pod(f"p{index}", label="deny"), user=f"user-{index}")
        body["request"]["kind"]["kind"] = f"Kind{index}"
        body["request"]["operation"] = f"OPERATION{index}"
        body["request"]["namespace"] = f"ns-{index}"
        post(app, body, f"/validate/entry-{index}")
        post(app, review(pod(f"p{index}", label="deny")))

    keys = {key for key in samples(metrics) if key[0] == "muster_admission_requests_total"}
    assert len(keys) == 2
    text = metrics.exposition()[0].decode()
    assert not re.search(r"Kind\d|OPERATION\d|user-|ns-|entry-|team-a", text)
    assert value(metrics, "muster_rule_findings_total", rule="other", action="Deny") == 50.0


def test_histogram_starts_at_a_millisecond() -> None:
    """A plain verdict takes about that long."""
    assert SECONDS_BUCKETS[0] == 0.001
    assert list(SECONDS_BUCKETS) == sorted(SECONDS_BUCKETS)


def test_reloads() -> None:
    """A policy that cannot be used is seen until it can."""
    metrics = Metrics(())

    metrics.reloaded("policy", failed=True)

    assert value(metrics, "muster_reload_failing", what="policy") == 1.0
    metrics.reloaded("policy", failed=False)
    assert value(metrics, "muster_reload_failing", what="policy") == 0.0
    assert value(metrics, "muster_reload_failures_total", what="policy") == 1.0


def test_served_by_path() -> None:
    """GET /metrics, in the text format."""
    metrics = Counting(())
    app = make_app(observer=metrics, metrics=metrics.exposition)
    post(app, review(pod()))

    got = app.test_client().get("/metrics")

    assert got.status_code == 200
    assert got.content_type.startswith("text/plain")
    assert b"muster_admission_requests_total{" in got.data
    assert b"python_gc" not in got.data


WORKER = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from webhook.observe.multiprocess import prepare
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]))
    from tests.edge.reviews import Recorder, make_app, pod, post, review
    from webhook.observe.metrics import Metrics
    recorder, metrics = Recorder(), Metrics(())
    post(make_app(observer=recorder), review(pod()))
    for pid in range(2):
        if os.fork() == 0:
            metrics.count(recorder.last)
            os._exit(0)
        os.wait()
    metrics.count(recorder.last)
    sys.stdout.buffer.write(metrics.exposition()[0])
    """
)


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", WORKER, *arguments],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=60,
    )


@pytest.mark.processes
def test_several_processes_are_summed_and_an_earlier_run_is_forgotten(tmp_path: Path) -> None:
    """Workers come and go; a restarted container finds its old files on the memory volume."""
    first = run("prepare", str(tmp_path / "m"))
    second = run("prepare", str(tmp_path / "m"))

    for done in (first, second):
        assert done.returncode == 0, done.stderr.decode()
        count = re.search(rb"muster_admission_requests_total\{.*\} (\S+)", done.stdout)
        assert count is not None
        assert float(count[1]) == 3.0


@pytest.mark.processes
def test_a_late_variable_is_refused(tmp_path: Path) -> None:
    """prometheus-client decides at import; counting into memory and serving from files would show nothing, silently."""
    code = "import prometheus_client, sys; from pathlib import Path; from webhook.observe.multiprocess import prepare;"
    code += f"prepare(Path({str(tmp_path)!r})); from webhook.observe.metrics import Metrics; Metrics(())"
    late = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)

    assert late.returncode == 1
    assert b"imported before" in late.stderr
