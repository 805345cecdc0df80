"""`muster serve`: the webhook server of one replica.

Facts from a folder: this process becomes gunicorn. Facts from the cluster: it becomes the supervisor of gunicorn and the agent
(webhook/cli/supervise.py), each a fresh process of its own (`python -m webhook.cli.serve gunicorn|agent`), since gunicorn forks and the agent has threads.
"""

from __future__ import annotations

import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from webhook.cli.options import PolicyNames, policy_path
from webhook.cli.supervise import to_stderr
from webhook.observe import multiprocess
from webhook.settings import PREFIX, Settings, SettingsError, load_settings


def serve(
    bind: Annotated[str | None, typer.Option(metavar="ADDRESS:PORT", help="default 0.0.0.0:8443")] = None,
    policy: PolicyNames = None,
    source: Annotated[str | None, typer.Option(metavar="cluster|folder:PATH", help="where facts come from")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate chain")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM key")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="default: the Pod's service account")] = None,
    workers: Annotated[int | None, typer.Option(help="processes, default 2")] = None,
    threads: Annotated[int | None, typer.Option(help="per process, default 8")] = None,
    log_format: Annotated[Literal["json", "text"] | None, typer.Option(help="default json")] = None,
) -> None:
    """Serve admission requests.

    Every option is also a setting MUSTER_*. Exit 1: cannot start, 2: wrong settings.
    """
    given = {
        "bind": bind,
        "policy": tuple(map(policy_path, policy)) if policy else None,
        "source": source,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "kubeconfig": kubeconfig,
        "workers": workers,
        "threads": threads,
        "log_format": log_format,
    }
    settings = _settings({name: value for name, value in given.items() if value is not None})
    temporary = settings.snapshot_dir is None
    directory = settings.snapshot_dir or Path(tempfile.mkdtemp(prefix="muster-"))
    # Not a `finally`: workers are forks of this very frame and would run it too.
    cleanup = partial(shutil.rmtree, directory, ignore_errors=True) if temporary else _nothing
    settings = settings.model_copy(update={"snapshot_dir": directory})
    multiprocess.prepare(directory / "metrics")  # before anything imports prometheus-client
    if settings.folder is not None:
        if not _usable(settings):
            cleanup()
            raise typer.Exit(1)
        _gunicorn(settings, cleanup)
    os.environ.update(environment(settings))
    # Threads that seldom work at the same time need no heap each: 15 MiB less in the agent.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    # A process that only waits needs nothing of what the others need; the policy is checked by gunicorn's, which needs it
    # anyway, while the agent lists already.
    # -P: a folder "webhook" where it is started is not ours.
    words = [sys.executable, "-P", "-m", "webhook.cli.supervise", *([str(directory)] if temporary else [])]
    os.execv(sys.executable, words)  # noqa: S606  no shell is wanted


def _nothing() -> None:
    pass


def environment(settings: Settings) -> dict[str, str]:
    """The settings as the variables that give them again, for child processes."""
    texts = {}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if value is None or value == ():
            continue
        texts[PREFIX + name.upper()] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return texts


def _settings(overrides: dict[str, Any]) -> Settings:
    try:
        return load_settings(**overrides)
    except SettingsError as error:
        for problem in error.problems:
            to_stderr(problem)
        raise typer.Exit(2) from None


def _usable(settings: Settings) -> bool:
    """Says once and plainly what would make every worker fail."""
    from webhook.wsgi import check

    problems = check(settings)
    for problem in problems:
        to_stderr(problem)
    if settings.tls_cert is None and not problems:
        to_stderr("no MUSTER_TLS_CERT: speaking plain HTTP, which no API server calls")
    return not problems


def _gunicorn(settings: Settings, cleanup: Callable[[], None] = _nothing) -> NoReturn:
    """Become gunicorn. Ends by SystemExit; `cleanup` runs when the arbiter stops."""
    from webhook.edge.worker import MusterApplication, gunicorn_options
    from webhook.tls.reload import CertificateError, ReloadingContext, ReloadState
    from webhook.wsgi import preload, worker

    listeners: list[Callable[[ReloadState], None]] = []

    def certificate_changed(state: ReloadState) -> None:
        for tell in listeners:
            tell(state)

    context: Callable[[], ssl.SSLContext] | None = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            context = ReloadingContext(settings.tls_cert, settings.tls_key, on_change=certificate_changed)
        except CertificateError as error:
            to_stderr(str(error))
            raise SystemExit(1) from None
    options = gunicorn_options(
        bind=settings.bind,
        workers=settings.workers,
        threads=settings.threads,
        certfile=None if settings.tls_cert is None else str(settings.tls_cert),
        keyfile=None if settings.tls_key is None else str(settings.tls_key),
        context_factory=context,
        worker_tmp_dir=None if settings.snapshot_dir is None else str(settings.snapshot_dir),
        log_level=settings.log_level,
        child_exit=_worker_ended,
        on_exit=lambda _arbiter: cleanup(),
    )
    preload(settings)
    MusterApplication(partial(worker, settings, listeners.append), options).run()
    raise SystemExit(0)


def _worker_ended(_arbiter: Any, worker: Any) -> None:
    multiprocess.forget(worker.pid)


def _agent(settings: Settings) -> None:
    """Be the agent, until told to stop."""
    from webhook import agent
    from webhook.admission.known import KNOWN
    from webhook.cluster.connection import ConfigError
    from webhook.observe.log import configure, make_logger
    from webhook.observe.metrics import Metrics
    from webhook.observe.quota import QuotaMetrics
    from webhook.policies import policies_of
    from webhook.policy.load import PolicyError

    configure(settings.log_format)
    assert settings.snapshot_dir is not None  # noqa: S101  given by `serve`
    try:
        metrics = Metrics(KNOWN.rules | KNOWN.mutations)
        policies = policies_of(settings.policy, make_logger(settings.log_format), metrics)
    except PolicyError:
        raise SystemExit(1) from None  # gunicorn's process says what is wrong with it
    quotas = agent.Quotas(
        policies=policies,
        namespace=settings.namespace,
        reservation_seconds=settings.reservation_seconds,
        journal=QuotaMetrics(),
    )
    try:
        agent.run(
            settings.snapshot_dir,
            settings.kubeconfig,
            quotas=quotas,
            inventory=settings.inventory,
            pods=settings.inventory_pods,
            namespace=settings.namespace,
        )
    except ConfigError:
        raise SystemExit(1) from None  # gunicorn's process says what is wrong with it


def main(words: list[str]) -> None:
    """A child process of `serve`: its settings are in the environment."""
    settings = _settings({})
    if words == ["gunicorn"]:
        if not _usable(settings):
            raise SystemExit(1)
        _gunicorn(settings)
    elif words == ["agent"]:
        _agent(settings)
    else:
        raise SystemExit("usage: python -m webhook.cli.serve gunicorn|agent (started by `muster serve`)")


if __name__ == "__main__":
    main(sys.argv[1:])
