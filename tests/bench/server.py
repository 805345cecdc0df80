"""The servers that tests.bench.http compares, one per process: `python -m tests.bench.server full|bare ...`.

full: what `muster serve` runs, over a folder of manifests, with its log and metrics on. bare: a Flask view that decodes the
AdmissionReview and echoes its uid, with the same worker class and the same TLS.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from flask import Flask, request

from webhook.edge.worker import MusterApplication, gunicorn_options
from webhook.tls.reload import ReloadingContext

THREAD_COUNT = 8


def bare_app() -> Flask:
    """The least that any Flask webhook does."""
    app = Flask("bare")

    @app.post("/validate/submit")
    def validate() -> dict[str, object]:
        review = request.get_json()
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    return app


def serve(which: str, port: int, directory: Path) -> None:
    """Runs until it is stopped. directory: certs/ and, for "full", facts/."""
    certs = directory / "certs"
    if which == "full":
        from webhook.observe.multiprocess import prepare

        prepare(directory / "metrics")
        from webhook.settings import load_settings
        from webhook.wsgi import worker

        factory = partial(worker, load_settings(source=f"folder:{directory / 'facts'}"))
    else:
        factory = bare_app
    options = gunicorn_options(
        bind=f"127.0.0.1:{port}",
        workers=1,
        threads=THREAD_COUNT,
        certfile=str(certs / "tls.crt"),
        keyfile=str(certs / "tls.key"),
        context_factory=ReloadingContext(certs / "tls.crt", certs / "tls.key"),
        log_level="warning",
    )
    MusterApplication(factory, options).run()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
