"""Manifests as they come from helm, kustomize or a text editor: YAML or JSON, many documents, Lists, with line numbers.

Scalars are read as kubectl reads them (sigs.k8s.io/yaml, YAML 1.1 words without sexagesimal numbers): `value: 2:4` is
a string and `on` is true. Hostile input has bounds, each with its reason, and every error names file and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from webhook.objects.fieldpath import FieldPath

# A Secret or ConfigMap holds 1 MiB at most and a cluster's whole helm output a few MiB; more is a mistake.
FILE_BYTES_MAX = 64 * 1024 * 1024
# etcd takes 1.5 MiB an object; a node needs at least two bytes there, so no storable object has more nodes.
NODE_COUNT_MAX = 1_000_000
# encoding/json, which every manifest passes on its way, stops at 10,000; nothing in the Kubernetes API comes near 100.
DEPTH_MAX = 200

_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
_WORDS |= dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
_SURROGATES = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PLAIN = "muster:plain"
_STRING = "tag:yaml.org,2002:str"
_KNOWN_TAGS = {_PLAIN, _STRING, *(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "binary"))}


class ManifestError(Exception):
    """Input that cannot be read: what, in which file, at which line."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file, self.line, self.message = file, line, message


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file. line: 1-based, of its first key. `line_of` finds the line of a field in it."""

    file: str
    line: int
    raw: dict[str, Any]
    node: yaml.MappingNode

    def line_of(self, path: FieldPath) -> int:
        """The line of a field, or of the nearest enclosing field that is written."""
        node: yaml.Node = self.node
        line = self.line
        for part in path:
            child = _child(node, part)
            if child is None:
                return line
            line, node = child
        return line


class _Loader(yaml.CSafeLoader):
    """The C parser, with plain scalars left for `_scalar` to read."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit and implicit[0] else _STRING
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def read_file(path: Path) -> list[Manifest]:
    """All objects of a file. Raises ManifestError."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise ManifestError(str(path), 1, f"has {size} bytes, more than {FILE_BYTES_MAX}: split it")
        return read_text(path.read_bytes(), str(path))
    except OSError as error:
        raise ManifestError(str(path), 1, error.strerror or str(error)) from error


def read_text(data: bytes, file: str) -> list[Manifest]:
    """All objects of some bytes; `file` is their name in errors. Raises ManifestError."""
    if len(data) > FILE_BYTES_MAX:
        raise ManifestError(file, 1, f"has {len(data)} bytes, more than {FILE_BYTES_MAX}: split it")
    try:
        return list(_objects(data, file))
    except yaml.reader.ReaderError as error:
        raise ManifestError(file, data[: error.position].count(b"\n") + 1, f"not text: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise ManifestError(file, mark.line + 1 if mark else 1, f"not YAML: {what}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(file, data[: error.start].count(b"\n") + 1, "not UTF-8 text") from error
    except RecursionError as error:
        raise ManifestError(file, 1, f"nested more than {DEPTH_MAX} levels deep") from error


def _objects(data: bytes, file: str) -> Iterator[Manifest]:
    if data.lstrip()[:1] == b"{":
        # JSON writes characters beyond 0xFFFF as two escapes, which YAML does not know.
        data = _SURROGATES.sub(lambda pair: json.loads(f'"{pair[0].decode()}"').encode(), data)
    for document in yaml.compose_all(data, Loader=_Loader):
        if isinstance(document, yaml.ScalarNode) and not document.value.strip():
            continue  # only comments, or an empty document between two separators
        yield from _flatten(document, file)


def _flatten(node: yaml.Node, file: str) -> Iterator[Manifest]:
    """The object itself, or the items of a List (`v1 List`, `PodList`, ...)."""
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise ManifestError(file, line, "a manifest must be a mapping with apiVersion and kind")
    raw = _Reader(file).mapping(node)
    kind = raw.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(raw.get("items"), list):
        child = _child(node, "items")
        items = child[1].value if child is not None else []
        for item in items:
            yield from _flatten(item, file)
        return
    yield Manifest(file, line, raw, node)


class _Reader:
    """Nodes -> plain Python values, with bounds on what aliases can blow up."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._node_count = 0

    def mapping(self, node: yaml.MappingNode, depth: int = 0) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge" or (
                isinstance(key_node, yaml.ScalarNode) and key_node.tag == _PLAIN and key_node.value == "<<"
            ):
                self._merge(result, value_node, depth)
                continue
            key = self._key(key_node)
            if key in result and key not in self._merged_keys(node):
                raise ManifestError(self._file, line, f'"{key}" is written twice')
            result[key] = self.value(value_node, depth + 1)
        return result

    def value(self, node: yaml.Node, depth: int) -> Any:
        self._node_count += 1
        if self._node_count > NODE_COUNT_MAX:
            raise ManifestError(
                self._file, node.start_mark.line + 1, f"has more than {NODE_COUNT_MAX} values (aliases?)"
            )
        if depth > DEPTH_MAX:
            raise ManifestError(self._file, node.start_mark.line + 1, f"nested more than {DEPTH_MAX} levels deep")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        if node.tag not in _KNOWN_TAGS:
            raise ManifestError(self._file, node.start_mark.line + 1, f"unknown tag {node.tag}")
        return _scalar(node.value) if node.tag != _STRING else node.value

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ManifestError(self._file, node.start_mark.line + 1, "a key must be text")
        if node.tag == _PLAIN:
            word = _scalar(node.value)
            # kubectl turns keys into JSON strings: `true:` becomes "true", `1:` becomes "1".
            return str(word).lower() if isinstance(word, bool) else node.value
        return str(node.value)

    def _merge(self, result: dict[str, Any], node: yaml.Node, depth: int) -> None:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise ManifestError(self._file, node.start_mark.line + 1, "<< must name a mapping")
            for key, value in self.mapping(source, depth + 1).items():
                result.setdefault(key, value)

    def _merged_keys(self, node: yaml.MappingNode) -> set[str]:
        """Keys that only a merge brought in: writing them again is how a merge is overruled."""
        written = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        return {key for key in written if written.count(key) == 1}


def _scalar(text: str) -> Any:
    """A plain scalar as sigs.k8s.io/yaml reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        digits = text.replace("_", "")
        sign, bare = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
        if len(bare) > 1 and bare[0] == "0" and bare[1].isdigit():
            bare = "0o" + bare[1:]
        return int(sign + bare, 0)
    if _FLOAT.match(text):
        return float(text)
    return text


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == part:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def as_objects(manifests: list[Manifest]) -> list[Mapping[str, Any]]:
    return [manifest.raw for manifest in manifests]
