"""Manifests as they come from helm, kustomize or a text editor: YAML or JSON, many documents, Lists, with line numbers.

Scalars are read as kubectl reads them (sigs.k8s.io/yaml, YAML 1.1 words without sexagesimal numbers): `value: 2:4` is
a string and `on` is true. Hostile input has bounds, each with its reason, and every error names file and line.
Documents are taken apart first and read one by one, as kubectl does, so a broken one costs only itself.
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
# From here on encoding/json writes exponents.
_WHOLE_MAX = 1e21
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
_WORDS |= dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
_SURROGATES = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LINE_END = re.compile(rb"\r\n?|\n")
# "---" and "..." at the start of a line end a document wherever they stand, also inside quoted or literal text.
_MARKER = re.compile(rb"(?:\A|(?<=[\r\n]))(?:---|\.\.\.)(?=[ \t\r\n]|\Z)")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_TEMPLATE = re.compile(
    rb"\{\{-?\s*(?:/\*|\$|\.|(?:if|else|end|range|with|define|block|include|template|toYaml|default|printf|tpl)\b)"
)
_TEMPLATE_HINT = "this is a Helm template: render it first (helm template ... | muster review -)"
_PLAIN = "muster:plain"
_STRING = "tag:yaml.org,2002:str"
_KNOWN_TAGS = {_PLAIN, _STRING, *(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "binary"))}


class ManifestError(Exception):
    """Input that cannot be read: what, in which file, at which line. line None: it is the file as a whole."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        super().__init__(f"{file}: {message}" if line is None else f"{file}:{line}: {message}")
        self.file, self.line, self.message = file, line, message


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file. line: 1-based, of its first key. `line_of` finds the line of a field in it. lines_before:
    lines of the file above the document, in which the node counts from 0."""

    file: str
    line: int
    raw: dict[str, Any]
    node: yaml.MappingNode
    lines_before: int = 0

    def line_of(self, path: FieldPath) -> int:
        """The line of a field, or of the nearest enclosing field that is written."""
        node: yaml.Node = self.node
        line = self.line
        for part in path:
            child = _child(node, part)
            if child is None:
                return line
            line, node = child
            line += self.lines_before
        return line


class _Loader(yaml.CSafeLoader):
    """The C parser, with plain scalars left for `_scalar` to read."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit and implicit[0] else _STRING
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def read_file(path: Path) -> list[Manifest]:
    """All objects of a file. Raises ManifestError for the first thing that cannot be read."""
    return list(map(_or_raise, scan_file(path)))


def read_text(data: bytes, file: str) -> list[Manifest]:
    """All objects of some bytes; `file` is their name in errors. Raises ManifestError."""
    return list(map(_or_raise, scan_text(data, file)))


def scan_file(path: Path) -> Iterator[Manifest | ManifestError]:
    """The objects of a file in their order, and in place of what cannot be read the error that says so."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= FILE_BYTES_MAX else b""
    except OSError as error:
        yield ManifestError(str(path), None, error.strerror or str(error))
        return
    yield from scan_text(data, str(path)) if data or not size else [_too_large(str(path), size)]


def scan_text(data: bytes, file: str) -> Iterator[Manifest | ManifestError]:
    """The same of some bytes; `file` is their name in errors."""
    if len(data) > FILE_BYTES_MAX:
        yield _too_large(file, len(data))
        return
    try:
        if data.startswith(_UTF16_MARKS):
            data = data.decode("utf-16").encode()
    except UnicodeDecodeError:
        yield ManifestError(file, None, "not text: it starts as UTF-16 does and does not go on so")
        return
    lines_before = 0
    for document in _documents(data):
        for found in _scanned(document, file, lines_before):
            if isinstance(found, ManifestError):
                hint = f"; {_TEMPLATE_HINT}" if _TEMPLATE.search(document) else ""
                line = None if found.line is None else found.line + lines_before
                yield ManifestError(file, line, f"{found.message}{hint}")
            else:
                yield found
        lines_before += len(_LINE_END.findall(document))


def _or_raise(found: Manifest | ManifestError) -> Manifest:
    if isinstance(found, ManifestError):
        raise found
    return found


def _too_large(file: str, size: int) -> ManifestError:
    return ManifestError(file, None, f"has {size} bytes, more than {FILE_BYTES_MAX}: split it")


def _documents(data: bytes) -> Iterator[bytes]:
    """The bytes of each document, its marker included; together they are all bytes."""
    start = 0
    for marker in _MARKER.finditer(data):
        # A document's end marker belongs to it, and what %YAML and %TAG say belongs to the document below.
        end = marker.end() if marker[0] == b"..." else marker.start()
        if end > start and not _only_directives(data[start:end]):
            yield data[start:end]
            start = end
    yield data[start:]


def _only_directives(text: bytes) -> bool:
    return b"%" in text and all(line[:1] in (b"#", b"%") or not line.strip() for line in text.splitlines())


def _scanned(document: bytes, file: str, lines_before: int) -> Iterator[Manifest | ManifestError]:
    """The objects of one document, and errors with a line of the document."""
    try:
        yield from _objects(document, file, lines_before)
    except ManifestError as error:
        yield error


def _objects(document: bytes, file: str, lines_before: int) -> Iterator[Manifest | ManifestError]:
    """The same; raises the error that leaves nothing more to read of the document."""
    if document.lstrip()[:1] == b"{":
        # JSON writes characters beyond 0xFFFF as two escapes, which YAML does not know.
        document = _SURROGATES.sub(lambda pair: json.loads(f'"{pair[0].decode()}"').encode(), document)
    for node in _nodes(document, file, lines_before):
        if isinstance(node, yaml.ScalarNode) and not node.value.strip():
            continue  # only comments, or an empty document between two separators
        yield from _flatten(node, file, lines_before)


def yaml_fault(error: yaml.MarkedYAMLError, lines_before: int = 0) -> tuple[int, str]:
    """(line in the document, what is wrong). What was opened and never closed is said with the line where it begins:
    the parser only notices at the end."""
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    context = error.context or ""
    if context and start and mark and start.line != mark.line:
        context += f" that begins at line {start.line + 1 + lines_before}"
    what = ", ".join(part for part in (context, error.problem) if part)
    return mark.line + 1 if mark else 1, f"not YAML: {what}"


def _nodes(document: bytes, file: str, lines_before: int) -> list[yaml.Node]:
    try:
        return list(yaml.compose_all(document, Loader=_Loader))
    except yaml.reader.ReaderError as error:
        line = len(_LINE_END.findall(document[: error.position])) + 1
        raise ManifestError(file, line, f"not text: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        line, what = yaml_fault(error, lines_before)
        raise ManifestError(file, line, what) from error
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(document[: error.start])) + 1
        raise ManifestError(file, line, "not UTF-8 text") from error
    except RecursionError as error:
        raise ManifestError(file, 1, f"nested more than {DEPTH_MAX} levels deep") from error


def _flatten(node: yaml.Node, file: str, lines_before: int) -> Iterator[Manifest | ManifestError]:
    """The object itself, or the items of a List (`v1 List`, `PodList`, ...), of which a broken one costs only itself.
    Raises ManifestError for an object."""
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise ManifestError(file, line, "a manifest must be a mapping with apiVersion and kind")
    raw = _Reader(file).mapping(node)
    kind = raw.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(raw.get("items"), list):
        child = _child(node, "items")
        items = child[1].value if child is not None else []
        for item in items:
            try:
                yield from _flatten(item, file, lines_before)
            except ManifestError as error:
                yield error
        return
    yield Manifest(file, line + lines_before, raw, node, lines_before)


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
        number = float(text)
        # On its way to the API server 4.0 becomes the JSON number 4, which a field for whole numbers takes.
        return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number
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
