"""The supervisor: what ends it, what is started again, and in which order it stops."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def supervise(tmp_path: Path, essential: str, helper: str) -> tuple[int, str, list[str]]:
    """Runs two children with this code each; (exit code, what the supervisor said, what the children wrote).

    They know ``note`` and ``wait_for`` (until a word was noted so many times): nobody guesses how long another one starts.
    """
    notes = tmp_path / "notes"
    notes.touch()
    prelude = f"notes = {str(notes)!r}\n" + textwrap.dedent(
        """
        import os, signal, sys, time

        def note(text):
            with open(notes, "a") as file:
                file.write(text + "\\n")

        def wait_for(word, count=1):
            while open(notes).read().split().count(word) < count:
                time.sleep(0.02)

        """
    )
    program = textwrap.dedent(
        f"""
        import sys
        from webhook.cli.supervise import Child, run, to_stderr
        sys.exit(run([
            Child("helper", (sys.executable, "-c", {prelude + helper!r}), essential=False),
            Child("essential", (sys.executable, "-c", {prelude + essential!r}), essential=True),
        ], to_stderr))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    return done.returncode, done.stderr, notes.read_text().split()


STAY = "signal.signal(signal.SIGTERM, lambda *_: (note('NAME-stopped'), sys.exit(0))); note('NAME');"


def test_the_end_of_an_essential_child_is_the_end(tmp_path: Path) -> None:
    """With its exit code; the helper is told to stop and waited for."""
    code, said, notes = supervise(
        tmp_path,
        "wait_for('helper'); note('essential'); sys.exit(3)",
        STAY.replace("NAME", "helper") + "time.sleep(60)",
    )

    assert code == 3
    assert "essential ended with 3" in said
    assert notes == ["helper", "essential", "helper-stopped"]


def test_a_helper_that_ends_is_started_again(tmp_path: Path) -> None:
    """After a pause that doubles, for as long as the essential child lives."""
    code, said, notes = supervise(tmp_path, "wait_for('helper', 3); sys.exit(0)", "note('helper'); sys.exit(1)")

    assert code == 0
    assert notes == ["helper"] * 3
    assert "starts again in 1 s" in said
    assert "starts again in 2 s" in said


def test_sigterm_stops_the_essential_child_first(tmp_path: Path) -> None:
    """It still uses the helper while it finishes its requests."""
    code, _, notes = supervise(
        tmp_path,
        STAY.replace("NAME", "essential") + "wait_for('helper'); os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)",
        STAY.replace("NAME", "helper") + "time.sleep(60)",
    )

    assert code == 0
    assert notes[-2:] == ["essential-stopped", "helper-stopped"]


def test_a_child_that_will_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper that ignores SIGTERM holds nobody up for ever."""
    from webhook.cli import supervise as module

    monkeypatch.setattr(module, "STOP_SECONDS_MAX", 0.5)
    stubborn = module.Child(
        "stubborn",
        (
            sys.executable,
            "-c",
            "import signal,time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)",
        ),
        essential=False,
    )
    stubborn.process = subprocess.Popen(stubborn.command, stdout=subprocess.PIPE)
    with stubborn.process as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"

        module._stop([stubborn])

        assert process.returncode == -9
