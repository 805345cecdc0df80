"""Inventories from files, for offline commands: what `kubectl get ... -o yaml` or `-o json` prints, or the export."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer
import yaml

from webhook.inventory.build import build
from webhook.inventory.profile import settings_of
from webhook.inventory.snapshot import Snapshot
from webhook.objects.words import plural
from webhook.policy.model import Cluster
from webhook.sources.manifests import yaml_fault

_SUFFIXES = {".yaml", ".yml", ".json"}
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C reads 5,120 Nodes in seconds, not minutes


class _Loader(_Base):  # type: ignore[misc]
    """Without dates: a label value that looks like one is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def snapshot_from(paths: Sequence[str], cluster: Cluster) -> Snapshot | None:
    """The snapshot of these files and folders, None without any. Exits with 2 where one cannot be read.

    A file is closed unless the policy says otherwise, or something in it is a sign of an autoscaler. One without any Node
    is the wrong file, unless the policy declares pools that bring nodes: by it, nothing would ever fit.
    """
    if not paths:
        return None
    try:
        read = [pair for name in paths for pair in _read(name)]
        objects = [raw for _, raw in read]
        _only_once(read)
        if not cluster.node_pools and not any(raw.get("kind") == "Node" for raw in objects):
            raise ValueError(_no_nodes(paths, objects))
        return build(objects, settings_of(cluster, is_file=True))
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"the inventory cannot be read: {why}", file=sys.stderr)
        raise typer.Exit(2) from None


def _no_nodes(paths: Sequence[str], objects: Sequence[dict[str, Any]]) -> str:
    kinds = Counter(str(raw.get("kind") or "object without kind") for raw in objects)
    held = ", ".join(plural(count, kind) for kind, count in sorted(kinds.items()))
    instead = f", only {held}" if held else ""
    return (
        f"{', '.join(paths)} holds no Node{instead}; give what `muster inventory export` or `kubectl get "
        "nodes,resourceslices,deviceclasses -o yaml` prints, or declare cluster.nodePools in the policy"
    )


def read_objects(name: str) -> Iterator[dict[str, Any]]:
    """All objects of a file, or of the .yaml, .yml and .json files of a folder; Lists are flattened. Raises OSError, or
    ValueError that names the file and, if there is one, the line."""
    return (raw for _, raw in _read(name))


def _read(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file, object) of each."""
    path = Path(name)
    files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{name}: a folder without .yaml, .yml or .json files")
    for file in files:
        for document in _documents(file.read_bytes(), str(file)):
            for raw in _flat(document, str(file)):
                yield str(file), raw


def _only_once(read: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Two exports of one cluster would be a cluster of twice the size. Raises ValueError."""
    seen: dict[tuple[str, str, str], str] = {}
    for file, raw in read:
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            continue
        kind, name = str(raw.get("kind")), str(metadata["name"])
        key = (kind, str(metadata.get("namespace")), name)
        if key in seen:
            where = f"twice in {file}" if seen[key] == file else f"in {seen[key]} and in {file}"
            raise ValueError(f'{kind} "{name}" is {where}; give one export of one cluster')
        seen[key] = file


def _documents(content: bytes, file: str) -> Iterator[Any]:
    try:
        if content.lstrip()[:1] in (b"{", b"["):
            yield msgspec.json.decode(content)
        else:
            yield from yaml.load_all(content, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line, what = yaml_fault(error)
        raise ValueError(f"{file}:{line}: {what}") from error
    except yaml.reader.ReaderError as error:
        raise ValueError(f"{file}: not text: {error.reason}") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"{file}: not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{file}: nested too deep") from error


def _flat(document: Any, file: str) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if isinstance(document, list):
        for item in document:
            yield from _flat(item, file)
    elif isinstance(document, dict) and isinstance(document.get("items"), list):
        kind = str(document.get("kind", "")).removesuffix("List")
        for item in document["items"]:
            # In a typed list (kubectl get --raw) the items do not repeat kind and apiVersion.
            typed = {"kind": kind, "apiVersion": document.get("apiVersion")} if kind else {}
            yield from _flat({**typed, **item} if isinstance(item, dict) else item, file)
    elif isinstance(document, dict):
        yield document
    else:
        raise ValueError(f"{file}: holds something that is no object")
