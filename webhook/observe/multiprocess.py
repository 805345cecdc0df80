"""Metrics of several gunicorn workers as one: each process writes mapped files, any of them can sum up all.

prometheus-client decides for files when it is first imported, by an environment variable. So `prepare` must run before
anything imports it, in the process that starts gunicorn, and this module imports it only inside functions.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def prepare(directory: Path) -> None:
    """Make the directory, drop the files of an earlier run (a restarted container keeps its memory volume, and its
    numbers would be added to ours), and turn multiprocess mode on for this process and its children. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for left_over in directory.glob("*.db"):
        left_over.unlink()
    os.environ[VARIABLE] = str(directory)


def forget(pid: int) -> None:
    """A worker has ended: its live gauges go, its counts stay. For gunicorn's child_exit hook."""
    if VARIABLE in os.environ:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid)  # type: ignore[no-untyped-call]
