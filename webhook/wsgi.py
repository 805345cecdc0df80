"""Composition root of a worker: builds the parts and hands them to `create_app`. The only place that knows them all."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from flask import Flask
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from webhook.admission.known import KNOWN
from webhook.admission.pipeline import Pipeline
from webhook.edge.app import create_app
from webhook.facts.source import FactSource
from webhook.inventory.build import build as build_snapshot
from webhook.inventory.profile import settings_of
from webhook.inventory.snapshot import Snapshot
from webhook.observe.log import make_logger
from webhook.observe.metrics import Metrics
from webhook.observe.observer import RequestObserver
from webhook.observe.quota import QuotaMetrics
from webhook.policies import load_policy, policies_of
from webhook.policy.load import LoadedPolicies, PolicyError
from webhook.quota.advance import Advances
from webhook.quota.ledger import Ledger, in_thread
from webhook.quota.model import QuotaError
from webhook.quota.pricer import counted_among, quotas_among
from webhook.quota.store import InMemoryStore
from webhook.settings import Settings
from webhook.sources.folder import ObjectSetSource
from webhook.tls.reload import ReloadState

SYNC_SECONDS_MAX: Final = 30.0
"""A new replica waits so long for the agent's first lists, so that its first requests are not all read live. After that
it is ready without: the agent saves time, it decides nothing."""

CertificateWatch = Callable[[Callable[[ReloadState], None]], None]


def build(settings: Settings, watch_certificate: CertificateWatch | None = None) -> Flask:
    """The application, from all real parts; call it after the fork. watch_certificate: takes a function that is told of
    every reload of the TLS certificate. Raises what `check` would have reported."""
    log = make_logger(settings.log_format)
    registry = CollectorRegistry()
    metrics = Metrics(KNOWN.rules | KNOWN.mutations, registry=registry)
    if watch_certificate is not None:
        watch_certificate(partial(_certificate_changed, log, metrics))
    policies = policies_of(settings.policy, log, metrics)
    inventory = _inventory(settings, policies)
    source, ready, ledger = _source(settings, policies, QuotaMetrics(registry), inventory)
    pipeline = Pipeline(
        policies=policies,
        source=source,
        own_namespace=settings.namespace,
        ledger=ledger,
        inventory=inventory,
    )
    return create_app(
        pipeline,
        RequestObserver(metrics, log),
        ready=ready,
        version={"version": version("muster-webhook"), "python": platform.python_version()},
        metrics=metrics.exposition,
        in_flight_max=settings.in_flight_max,
    )


def worker(settings: Settings, watch_certificate: CertificateWatch | None = None) -> Flask:
    """`build` for a process that does nothing else. What is alive now lives as long as the process, so the garbage
    collector need not walk it over and over: measured, an eighth of a request's time, and the longest pauses."""
    app = build(settings, watch_certificate)
    gc.collect()
    gc.freeze()
    return app


def preload(settings: Settings) -> None:
    """For the process that forks the workers: what all of them import, so that they share its memory. Starts nothing."""
    if settings.folder is None:
        import webhook.cluster.inventory
        import webhook.cluster.quota_store
        import webhook.cluster.source  # noqa: F401
    gc.collect()
    gc.freeze()


def check(settings: Settings) -> list[str]:
    """Reads once what every worker will read, so that a fault is said before anything starts; the faults, one a line."""
    from webhook.sources.manifests import ManifestError

    try:
        load_policy(settings.policy)
        if settings.folder is not None:
            quotas_among(_folder_source(settings.folder)[1])
            return []
    except PolicyError as error:
        return [str(problem) for problem in error.problems]
    except (ManifestError, QuotaError, OSError) as error:
        return [str(error)]
    from webhook.cluster.connection import ConfigError, Connection

    try:
        Connection(settings.kubeconfig)
    except (ConfigError, OSError, ValueError) as error:
        if settings.kubeconfig is not None:
            return [f"no cluster to serve: {settings.kubeconfig}: {error}"]
        return [f"no cluster to serve: {error}; outside a Pod give --kubeconfig FILE, or --source folder:PATH"]
    return []


# ---- facts and quotas -------------------------------------------------------------------------------------------
Ready = Callable[[], list[str]]


def _source(
    settings: Settings,
    policies: Callable[[], LoadedPolicies],
    reporter: QuotaMetrics,
    inventory: Callable[[], Snapshot | None],
) -> tuple[FactSource, Ready, Ledger]:
    """(where facts come from, why it is not ready, the quotas). Each kind of source is imported only where it is used."""
    if settings.folder is not None:
        return _folder(settings, settings.folder, policies, reporter)
    return _cluster(settings, reporter, inventory)


def _folder_source(folder: Path) -> tuple[ObjectSetSource, list[Mapping[str, Any]]]:
    """A folder of manifests that is the whole world: what is not in it does not exist."""
    from webhook.sources.folder import BUILT_IN_OBJECTS
    from webhook.sources.manifests import read_file

    files = (
        [folder]
        if folder.is_file()
        else sorted(file for file in folder.rglob("*") if file.suffix in (".yaml", ".yml", ".json") and file.is_file())
    )
    objects: list[Mapping[str, Any]] = [manifest.raw for file in files for manifest in read_file(file)]
    return ObjectSetSource([*BUILT_IN_OBJECTS, *objects], complete=True), objects


def _folder(
    settings: Settings, folder: Path, policies: Callable[[], LoadedPolicies], reporter: QuotaMetrics
) -> tuple[FactSource, Ready, Ledger]:
    """Several workers share one file of reservations; a single process without a shared folder keeps them in memory."""
    from webhook.sources.quota_file import QuotaFile

    source, objects = _folder_source(folder)
    quotas = counted_among(quotas_among(objects), objects, source, lambda name: policies().effective(name, {}))
    store = (
        InMemoryStore(quotas) if settings.snapshot_dir is None else QuotaFile(settings.snapshot_dir / "quotas", quotas)
    )
    return source, list, Ledger(store, reporter=reporter)


def _cluster(
    settings: Settings, reporter: QuotaMetrics, inventory: Callable[[], Snapshot | None]
) -> tuple[FactSource, Ready, Ledger]:
    from webhook.cluster.connection import Connection
    from webhook.cluster.quota_store import ClusterQuotaStore
    from webhook.cluster.source import ClusterSource
    from webhook.cluster.store import STORE_FILE, StoreReader

    store = None if settings.snapshot_dir is None else StoreReader(settings.snapshot_dir / STORE_FILE)
    connection = Connection(settings.kubeconfig)
    source = ClusterSource(connection, store)
    ledger = Ledger(
        ClusterQuotaStore(connection), is_live=True, reporter=reporter, aside=in_thread, advances=Advances()
    )
    started = time.monotonic()

    def ready() -> list[str]:
        if time.monotonic() - started > SYNC_SECONDS_MAX:
            return []
        reasons = []
        if store is not None and not store.synced("PodGroup"):
            reasons.append("the agent has not listed the cluster's objects yet")
        if store is not None and settings.inventory and inventory() is None:
            reasons.append("the agent has not listed the cluster's nodes yet")
        return [*reasons, *ledger.not_ready()]

    return source, ready, ledger


def _inventory(settings: Settings, policies: Callable[[], LoadedPolicies]) -> Callable[[], Snapshot | None]:
    """Capacity: the Nodes that the agent watches, or those in the folder; without any, rules on it have nothing to say."""
    if settings.folder is not None:
        objects = _folder_source(settings.folder)[1]
        if not any(raw.get("kind") == "Node" for raw in objects):
            return lambda: None
        snapshot = build_snapshot(objects, settings_of(policies().policy.spec.cluster, is_file=True))
        return lambda: snapshot
    if settings.snapshot_dir is None or not settings.inventory:
        return lambda: None
    from webhook.cluster.inventory import LiveInventory
    from webhook.cluster.store import STORE_FILE, StoreReader

    store = StoreReader(settings.snapshot_dir / STORE_FILE)
    live = LiveInventory(store, settings.snapshot_dir, lambda: policies().policy.spec.cluster)
    live.start()
    return live.current


def _certificate_changed(log: FilteringBoundLogger, metrics: Metrics, state: ReloadState) -> None:
    metrics.reloaded("certificate", failed=state.error is not None)
    if state.error is None:
        log.info("certificate reloaded", loads=state.loads)
    else:
        log.error("certificate unusable, the old one stays in use", problem=state.error)
