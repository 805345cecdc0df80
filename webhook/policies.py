"""The policy files of a process, for the roots: loaded against the catalogues, reloaded when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from webhook.admission.known import KNOWN
from webhook.observe.metrics import Metrics
from webhook.policy.load import LoadedPolicies, PolicyError, default_policies, load_policies
from webhook.policy.reload import PolicyFiles


def load_policy(paths: Iterable[Path]) -> LoadedPolicies:
    """The policy of these files, checked against the catalogues; none: every rule at its default. Raises PolicyError."""
    paths = tuple(paths)
    return load_policies(paths, known=KNOWN, today=datetime.now(UTC).date()) if paths else default_policies()


def policies_of(paths: tuple[Path, ...], log: FilteringBoundLogger, metrics: Metrics) -> Callable[[], LoadedPolicies]:
    """The policy as it is now, reloaded when its files change. Raises PolicyError."""

    def on_reload(new: LoadedPolicies, old: LoadedPolicies) -> None:
        metrics.reloaded("policy", failed=False)
        log.info("policy reloaded", version=new.version, before=old.version, warnings=list(map(str, new.warnings)))

    def on_error(error: PolicyError) -> None:
        metrics.reloaded("policy", failed=True)
        log.error("policy unusable, the old one stays in force", problems=list(map(str, error.problems)))

    if not paths:
        return partial(_same, default_policies())
    policies = PolicyFiles(paths, partial(load_policy, paths), on_reload=on_reload, on_error=on_error)
    log.info("policy loaded", version=policies().version, warnings=list(map(str, policies().warnings)))
    return policies


def _same(policies: LoadedPolicies) -> LoadedPolicies:
    return policies
