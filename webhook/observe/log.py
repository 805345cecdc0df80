"""One log line per admission request: who asked for what, what Muster said, and how long each step took.

Never the object, a value of it, or a token: names, rule IDs and numbers only. Of an exception its type and the places in
the code, not its text, which may quote the object.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import PurePath
from typing import Any, BinaryIO, Final, Literal

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from webhook.edge.observer import Observation, Outcome
from webhook.verdict import Action, Verdict

TEXT_LENGTH_MAX: Final = 256
"""Characters of one text in the log: above the 253 of the longest Kubernetes name. Who sends more is no API server."""

FRAME_COUNT_MAX: Final = 12
"""Places in the code per logged exception, innermost last."""

LogFormat = Literal["json", "text"]
_ENCODER = msgspec.json.Encoder(enc_hook=str)


def make_logger(log_format: LogFormat = "json", stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """A logger on standard output (or `stream`): JSON for a cluster, text for a terminal."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream or sys.stdout.buffer),
        processors=_processors(log_format),
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        cache_logger_on_first_use=True,
    )
    return logger


def configure(log_format: LogFormat) -> None:
    """The same for every `structlog.get_logger` of this process. For a process's root only."""
    structlog.configure(
        processors=_processors(log_format),
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.BytesLoggerFactory(sys.stdout.buffer),
        cache_logger_on_first_use=True,
    )


def _processors(log_format: LogFormat) -> list[Any]:
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        return [*processors, structlog.processors.JSONRenderer(serializer=_serialize)]
    return [*processors, structlog.dev.ConsoleRenderer(colors=False), _encode]


def _serialize(event: Any, **_: Any) -> bytes:
    return _ENCODER.encode(event)


def _encode(_logger: Any, _method: str, text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def log_request(logger: FilteringBoundLogger, seen: Observation) -> None:
    """Level error for our bugs, warning for what was no verdict, info for the rest."""
    write = logger.info
    if seen.outcome is Outcome.ERROR:
        write = logger.error
    elif seen.outcome in (Outcome.BAD_REQUEST, Outcome.OVERLOAD_DENIED, Outcome.OVERLOAD_ADMITTED):
        write = logger.warning
    write("admission", **fields(seen))


def fields(seen: Observation) -> dict[str, Any]:
    """What the line says, in its order. Durations in milliseconds."""
    line: dict[str, Any] = {}
    request = seen.request
    if request is not None:
        line |= {
            "uid": request.uid,
            "phase": str(seen.phase),
            "entry": seen.entry,
            "kind": request.kind.kind[:TEXT_LENGTH_MAX],
            "namespace": request.namespace[:TEXT_LENGTH_MAX],
            "name": request.display_name[:TEXT_LENGTH_MAX],
            "operation": request.operation[:TEXT_LENGTH_MAX],
            "user": request.user_info.username[:TEXT_LENGTH_MAX],
            "dry_run": bool(request.dry_run),
        }
        if request.sub_resource:
            line["subresource"] = request.sub_resource[:TEXT_LENGTH_MAX]
    else:
        line |= {"phase": str(seen.phase), "entry": seen.entry}
    line |= {"outcome": str(seen.outcome), "status": seen.status}
    verdict = seen.verdict
    if verdict is not None:
        line |= {
            "allowed": verdict.allowed,
            "code": verdict.code,
            "denied": _rules(verdict, Action.DENY),
            "warned": _rules(verdict, Action.WARN),
            "unknown": len(verdict.unknowns),
            "patched": len(verdict.patch),
            "policy": verdict.versions.policy,
        }
        if audited := _rules(verdict, Action.AUDIT):
            line["audited"] = audited
        if verdict.short_circuit:
            line["short_circuit"] = verdict.short_circuit
    if seen.detail:
        line["detail"] = seen.detail
    if seen.error is not None:
        line |= _error(seen.error)
    line |= {
        "waited_ms": _ms(seen.waited_seconds),
        "decode_ms": _ms(seen.decode_seconds),
        "judge_ms": _ms(seen.judge_seconds),
        "respond_ms": _ms(seen.respond_seconds),
        "total_ms": _ms(seen.total_seconds),
    }
    return line


def _rules(verdict: Verdict, action: Action) -> list[str]:
    if not verdict.violations:
        return []
    return sorted({violation.rule for violation in verdict.violations if violation.action is action})


def _error(error: BaseException) -> dict[str, Any]:
    """The exception and, where a rule raised, the cause behind it."""
    cause = error.__cause__ or error
    frames = traceback.extract_tb(cause.__traceback__)[-FRAME_COUNT_MAX:]
    line: dict[str, Any] = {
        "error": type(cause).__name__,
        "at": [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if rule := getattr(error, "rule_id", ""):
        line["rule"] = rule
    return line


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
