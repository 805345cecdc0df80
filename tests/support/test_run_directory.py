"""What a killed run leaves behind goes with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.run_directory import run_directory

_RUN = """
import sys, tempfile, time
from pathlib import Path
from tests.support.run_directory import run_directory
with run_directory(Path(sys.argv[1])):
    print(tempfile.mkdtemp(prefix="muster-"), flush=True)
    sys.stdin.read()
"""


def started(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """A run in a process of its own, and a folder that it made."""
    command = [sys.executable, "-c", _RUN, str(root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """SIGKILL leaves no time to tidy up; a run that lives keeps its own."""
    killed, left = started(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    living, kept = started(tmp_path)
    with run_directory(tmp_path) as mine:
        made = Path(tempfile.mkdtemp(prefix="muster-"))

        assert made.parent == mine
        assert (left.exists(), kept.exists()) == (False, True)
        assert left.parent.parent == kept.parent.parent == mine.parent
    living.communicate("")

    assert list(mine.parent.iterdir()) == []


def test_everything_that_a_test_run_starts_uses_it() -> None:
    """The fixture of the run is in force: the temporary directory is this run's."""
    assert Path(tempfile.gettempdir()).name == str(os.getpid())
    assert Path(os.environ["TMPDIR"]).parent.name == f"muster-tests-{os.getuid()}"
