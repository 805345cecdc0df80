# ruff: noqa: INP001  a script beside the chart, in no package
"""What the chart holds of the rest of the repository, since Helm reads no file outside a chart:

charts/muster/files/policies/<name>.yaml       copies of policies/
charts/muster/files/registration/<name>.yaml   the webhook configurations that `muster registration render` makes of them

    python charts/generate.py           # write them
    python charts/generate.py --check   # exit 1 where one is not current
"""

from __future__ import annotations

import sys
from pathlib import Path

from webhook.admission.known import KNOWN
from webhook.cli.options import SHIPPED
from webhook.cli.registration import to_yaml
from webhook.policy.load import parse_policies
from webhook.registration.render import ServiceRef, Target, render_webhook_configurations

ROOT = Path(__file__).parents[1]
FILES = ROOT / "charts" / "muster" / "files"
# The template puts the release's namespace and Service in their places.
TARGET = Target(client=ServiceRef(namespace="muster-system", name="muster"))


def generated() -> dict[Path, str]:
    """The content of every generated file."""
    files: dict[Path, str] = {}
    for name in SHIPPED:
        text = (ROOT / "policies" / f"{name}.yaml").read_text()
        policy = parse_policies([(f"policies/{name}.yaml", text.encode())], known=KNOWN).policy
        document = {"apiVersion": "v1", "kind": "List", "items": render_webhook_configurations(policy, TARGET)}
        # The editor's schema comment would point nowhere from here.
        files[FILES / "policies" / f"{name}.yaml"] = text.partition("\n#\n")[2]
        files[FILES / "registration" / f"{name}.yaml"] = (
            f"# Made by charts/generate.py from policies/{name}.yaml: do not edit.\n" + to_yaml(document)
        )
    return files


def main(arguments: list[str]) -> int:
    """0: written, or current. 1: not current. 2: wrong usage."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python charts/generate.py [--check]\n")
        return 2
    files = generated()
    present = {path for folder in ("policies", "registration") for path in (FILES / folder).glob("*")}
    if arguments:
        stale = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
        stale += sorted(present - files.keys())
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not current; run: python charts/generate.py\n")
        return 1 if stale else 0
    for path in present - files.keys():
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
