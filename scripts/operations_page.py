"""The text of docs/operations/settings-and-metrics.md, taken from the settings, the chart and the metrics themselves."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from webhook.cli.serve import serve
from webhook.edge.observer import Outcome
from webhook.observe.metrics import Metrics
from webhook.observe.quota import QuotaMetrics
from webhook.settings import PREFIX, Settings
from webhook.verdict import Action

_DEPLOYMENT = Path(__file__).parent.parent / "charts" / "muster" / "templates" / "deployment.yaml"
_CHART_VALUE = re.compile(r"\.Values\.([\w.]+)")

# What each label says, and the values it can have; a label that is missing here fails the run.
_LABELS: Mapping[str, str] = {
    "phase": "`validating` or `mutating`",
    "entry": "which webhook entry was called: `submit`, `controllers`, `traps`, `default`, `other`",
    "kind": "of the object, where Muster judges it; else `other`",
    "operation": "`CREATE`, `UPDATE`, `DELETE`, `CONNECT`, `other`",
    "verdict": ", ".join(f"`{outcome}`" for outcome in Outcome),
    "rule": "a rule's ID, or `other`",
    "action": ", ".join(f"`{action}`" for action in Action) + ", `unknown`",
    "reason": "the name of the short-circuit: `system-namespace`, `nothing-changed`, `kind`, `overload`, ...",
    "status": "HTTP status",
    "what": "`policy` or `certificate`",
    "outcome": "`granted`, `refused`, `undecided`",
    "quota": "name of a TierQuota",
    "tier": "name of a tier",
    "resource": "name of a resource in a TierQuota",
}

_HEAD = """\
# Settings and metrics

Made from the code by `make docs`; `make check` fails where it is stale.

What administrators decide about objects is in the [policy](../../policies/README.md), and is read again while Muster
runs. Here is only how the process runs: read once, at start.

## Settings

Environment variables of `muster serve`. Where there is an option, it stands above the variable. A variable that begins
with `MUSTER_` and is none of these, or a value that cannot be, is an error that names it, and Muster does not start.
"""

_METRICS_HEAD = """\
## Metrics

`GET /metrics` on the admission port, over the same TLS; any worker answers for all processes of the replica. No label
holds what a client wrote. A histogram has `_bucket`, `_sum` and `_count`; all times are seconds.
"""

_WATCH = """\
## What to watch

| when | it means |
|---|---|
| `muster_rule_errors_total` grows | a bug in a rule: such requests end in HTTP 500, and the failurePolicy decides. Switch the rule off in the policy and report it |
| `muster_reload_failing` is 1 | the policy or the certificate on disk cannot be used, and the old one is served; the log says why |
| the 0.99 quantile of `muster_admission_seconds` comes near the webhook's timeout (5 s) | requests are about to be lost: look at `muster_admission_waiting_seconds` (too few threads or workers) |
| `muster_admission_requests_total{verdict=~"overload-.*"}` grows | more at once than `MUSTER_IN_FLIGHT_MAX` |
| `muster_rule_findings_total{action="unknown"}` grows faster than before | rules cannot decide: facts are missing (rights, an API server that does not answer, an inventory that is not complete). `muster doctor` |
| `muster_quota_lapsed_total` grows | admitted objects are not stored: another webhook refuses them, or `MUSTER_RESERVATION_SECONDS` is too short |
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, _table(("variable", "option", "default", "may be", "in the chart", "meaning"), _settings())]
    parts += ["", _METRICS_HEAD, _table(("metric", "type", "labels", "meaning"), _metrics())]
    parts += ["", _table(("label", "values"), ((f"`{name}`", text) for name, text in _LABELS.items())), "", _WATCH]
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines).replace("| --- ", "|---").replace("---|---", "---|---")


# ---- settings -----------------------------------------------------------------------------------------------------
def _settings() -> Iterator[tuple[str, ...]]:
    options = inspect.signature(serve).parameters
    chart = dict(_chart_settings())
    for name, field in Settings.model_fields.items():
        variable = PREFIX + name.upper()
        option = f"`--{name.replace('_', '-')}`" if name in options else ""
        yield (
            f"`{variable}`",
            option,
            _default(field.default),
            _allowed(field),
            chart.get(variable, ""),
            _escaped(field.description or ""),
        )


def _default(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(field: Any) -> str:
    """The bounds of a number, the words of a choice."""
    if typing.get_origin(field.annotation) is typing.Literal:
        return ", ".join(f"`{word}`" for word in typing.get_args(field.annotation))
    if field.annotation is bool:
        return "`true`, `false`"
    bounds = {key: getattr(item, key) for item in field.metadata for key in ("ge", "le") if hasattr(item, key)}
    return f"{bounds['ge']} to {bounds['le']}" if len(bounds) == 2 else ""


def _chart_settings() -> Iterator[tuple[str, str]]:
    """(variable, what the Deployment sets it to: a value of values.yaml by its name, or a fixed one)."""
    text = _DEPLOYMENT.read_text()
    for name, value in re.findall(r"name: (MUSTER_\w+), value: (.+)}\n", text):
        of_chart = _CHART_VALUE.search(value)
        fixed = value.strip(' "')
        yield name, f"`{of_chart[1]}`" if of_chart else f"`{fixed}`"
    for name in re.findall(r"name: (MUSTER_\w+)\n\s+valueFrom", text):
        yield name, "the release's namespace"


# ---- metrics ------------------------------------------------------------------------------------------------------
class _Listing(CollectorRegistry):
    """Remembers what is registered, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Any] = []

    def register(self, collector: Any) -> None:
        super().register(collector)
        self.collectors.append(collector)


def _metrics() -> Iterator[tuple[str, ...]]:
    listing = _Listing()
    Metrics((), registry=listing)
    QuotaMetrics(listing)
    for collector in listing.collectors:
        (family,) = collector.describe()
        labels = collector._labelnames  # noqa: SLF001  there is no public word for a metric without samples
        if missing := [label for label in labels if label not in _LABELS]:
            raise SystemExit(f"scripts/operations_page.py must say what the labels {missing} are")
        name = family.name + ("_total" if family.type == "counter" else "")
        yield f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), _escaped(family.documentation)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
