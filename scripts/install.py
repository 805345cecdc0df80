"""`make install`: pip, with a count of the packages as they come. Standard library only: nothing is installed yet.

python scripts/install.py REQUIREMENTS
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
STEP = 20  # packages between two lines where there is no terminal to write over


def main(requirements: Path) -> int:
    total = sum("==" in line for line in requirements.read_text().splitlines())
    shown_before: list[str] = []
    count = 0
    with subprocess.Popen(
        [*PIP, "--require-hashes", "-r", str(requirements)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None  # noqa: S101  asked for above
        for line in pip.stdout:
            shown_before.append(line)
            if line.startswith("Collecting"):
                count += 1
                say(f"{count} of at most {total} packages fetched", is_last=False, every=count % STEP == 0)
            if line.startswith("Installing collected"):
                say(f"writing {count} packages", is_last=True, every=True)
    if pip.returncode:
        sys.stderr.write("\n" + "".join(shown_before[-30:]))
        return pip.returncode
    return subprocess.call([*PIP, "--quiet", "--no-build-isolation", "--no-deps", "--editable", "."])


def say(text: str, *, is_last: bool, every: bool) -> None:
    """Over the same line on a terminal, else a line now and then."""
    if sys.stdout.isatty():
        print(f"\r  {text:<60}", end="\n" if is_last else "", flush=True)
    elif every:
        print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
