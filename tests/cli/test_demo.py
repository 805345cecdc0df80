"""`muster demo` as people and supervisors start and stop it: real processes, real TLS."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

STOP_SECONDS_MAX = 30.0
# As a shell without job control starts what it puts into the background.
IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stops_with_its_server_also_when_started_in_the_background(number: signal.Signals, tmp_path: Path) -> None:
    command = [*IN_BACKGROUND, sys.executable, "-m", "webhook.cli.main"]
    command += ["demo", "--directory", str(tmp_path / "demo")]
    environment = {**os.environ, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        try:
            serving = next(found for line in demo.stdout if (found := re.search(r"https://127\.0\.0\.1:(\d+)", line)))
            demo.send_signal(number)
            assert demo.wait(STOP_SECONDS_MAX) == 0
        finally:
            demo.kill()  # nothing where it has ended
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(serving[1])), timeout=5)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "webhook.cli.main", "demo", "--once", "--directory", str(tmp_path / "file" / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "--directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1
