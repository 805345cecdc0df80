"""docs/operations/settings-and-metrics.md leaves nothing out, wherever in the code it stands."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from webhook.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations" / "settings-and-metrics.md").read_text()


def constants() -> Iterator[str]:
    """Every string in the code of Muster."""
    for path in (ROOT / "webhook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_metric_that_the_code_names_is_on_the_page() -> None:
    """A metric made in a place that the generator does not know would be missing."""
    named = {text for text in constants() if re.fullmatch(r"muster_[a-z_]+", text)}

    assert len(named) > 15
    assert [name for name in sorted(named) if f"| `{name}`" not in PAGE and f"| `{name}_total`" not in PAGE] == []


def test_every_setting_is_on_the_page_and_no_variable_is_read_past_the_settings() -> None:
    """MUSTER_* that stands in the code is a setting."""
    variables = {PREFIX + name.upper() for name in Settings.model_fields}
    named = {word for text in constants() for word in re.findall(r"\bMUSTER_[A-Z_]+[A-Z]\b", text)}

    assert [name for name in sorted(variables) if f"| `{name}`" not in PAGE] == []
    assert named - variables - {"MUSTER_PORT", "MUSTER_SERVICE_HOST"} == set()


def test_a_stale_page_fails_the_check(tmp_path: Path) -> None:
    """What `make check` runs sees a page that was edited by hand."""
    script = ROOT / "scripts" / "generate_docs.py"
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "settings-and-metrics.md").write_text(PAGE.replace("worker processes", "cooks"))
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import generate_docs as g; "
        "g.DOCS = pathlib.Path(sys.argv[2]); sys.argv = ['x', '--check']; sys.exit(g.main())"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(script.parent), str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "docs/operations/settings-and-metrics.md is not what the code says" in done.stdout
