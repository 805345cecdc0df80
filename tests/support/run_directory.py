"""One folder for what a test run leaves in the temporary directory, so that a killed run leaves one folder and not
hundreds: the next run removes it. (pytest's own tmp_path, with the logs of failed tests, is not in it.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def run_directory(root: Path | None = None) -> Iterator[Path]:
    """The temporary directory of this process and of all it starts, until the end. root: default, the system's."""
    folder = (Path(tempfile.gettempdir()) if root is None else root) / f"muster-tests-{os.getuid()}"
    _remove_dead(folder)
    mine = folder / str(os.getpid())
    mine.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"], tempfile.tempdir = str(mine), None
    try:
        yield mine
    finally:
        tempfile.tempdir = None
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        shutil.rmtree(mine, ignore_errors=True)


def _remove_dead(folder: Path) -> None:
    """The folders of runs that are no more, each named after its process."""
    for left in folder.iterdir() if folder.is_dir() else ():
        if left.name.isdigit() and not _lives(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
