"""YAML text -> a tree that remembers line and column of every key and value. Strict and bounded.

Built from ruamel's parse events instead of its constructors: nothing is ever instantiated from a tag, duplicate keys
are seen, and every limit holds before memory is spent. Plain scalars are read by the YAML 1.2 core schema, so ``Off``
and ``no`` are words; a date stays text. null is the same as an absent key, as everywhere in Kubernetes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from webhook.objects.fieldpath import ROOT, FieldPath
from webhook.policy.problems import PolicyError, Problem

# A ConfigMap holds at most 1 MiB in all its keys.
FILE_BYTES_MAX = 1024 * 1024
# ruamel reads about 75,000 events a second: the limit keeps a reload under a second. A policy with 200 tiers and 200
# overrides has about 8,000 nodes.
NODE_COUNT_MAX = 50_000
# The deepest path of the model is spec.overrides[].scope.namespaceSelector.matchExpressions[].values[]: 9.
DEPTH_MAX = 32

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,18}\Z")
_PLAIN_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(slots=True)
class Node:
    """value: dict[str, Node], list[Node], or a scalar (str, int, bool, None). line, column: from 1. keys: where each
    key of a mapping stands. index: the place in its list as written, which stays when items before it are cut."""

    value: Any
    line: int
    column: int
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    index: int = 0

    def find(self, path: FieldPath) -> tuple[FieldPath, int, int]:
        """The path as the file counts it, and line and column of the deepest part of it that is written."""
        node, line, column = self, self.line, self.column
        written: list[str | int] = []
        for depth, part in enumerate(path):
            inner = node.child(part)
            if inner is None:
                written += path[depth:]
                break
            line, column = node.keys.get(str(part), (inner.line, inner.column))
            written.append(inner.index if isinstance(part, int) else part)
            node = inner
        return FieldPath(written), line, column

    def child(self, part: str | int) -> Node | None:
        if isinstance(self.value, dict):
            return self.value.get(part)
        if isinstance(self.value, list) and isinstance(part, int) and part < len(self.value):
            item: Node = self.value[part]
            return item
        return None

    def existing(self, path: FieldPath) -> FieldPath:
        """The longest part of the path that is written."""
        node: Node | None = self
        for depth, part in enumerate(path):
            node = node.child(part) if node is not None else None
            if node is None:
                return FieldPath(path[:depth])
        return path

    def cut(self, paths: Iterable[FieldPath]) -> None:
        """Removes what is written at existing paths. Two paths may be one place: an alias is the anchor's own node."""
        keys_by_holder: dict[int, tuple[Node, set[Any]]] = {}
        for path in paths:
            holder: Node | None = self
            for part in path[:-1]:
                holder = holder.child(part) if holder is not None else None
            if holder is not None:
                keys_by_holder.setdefault(id(holder), (holder, set()))[1].add(path[-1])
        for holder, keys in keys_by_holder.values():
            for key in sorted(keys, reverse=True):  # from the back: an index then still means what it meant
                holder.value.pop(key)


def parse(file: str, text: bytes) -> Node:
    """The one document of a file. Raises PolicyError: unreadable YAML (the first fault only, what follows it means
    nothing), or all duplicate keys and refused tags."""
    builder = _Builder(file)
    try:
        for event in YAML(typ="safe", pure=True).parse(io.StringIO(_decode(file, text))):
            builder.take(event)
    except MarkedYAMLError as error:
        raise PolicyError([_syntax_problem(file, error)]) from None
    except ReaderError as error:
        raise PolicyError([_character_problem(file, text, error)]) from None
    except YAMLError as error:
        raise PolicyError([Problem(file=file, message=f"cannot be read as YAML: {error}")]) from None
    return builder.root()


def _decode(file: str, text: bytes) -> str:
    if len(text) > FILE_BYTES_MAX:
        raise PolicyError(
            [
                Problem(
                    file=file, message=f"is {len(text)} bytes long, the limit is {FILE_BYTES_MAX} (a ConfigMap's own)"
                )
            ]
        )
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        message = f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise PolicyError([Problem(file=file, line=line, column=column, message=message)]) from None


def _syntax_problem(file: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem or error.context or "cannot be read as YAML")
    if "'\\t'" in problem:
        problem = "a tab where YAML wants spaces; indent with spaces"
    elif "mapping values are not allowed" in problem:
        problem = 'a ": " inside a value; put the value in quotes, or check the indentation'
    elif problem == "found unexpected end of stream":
        problem = "the file ends inside a quoted text; close the quote"
    else:
        problem = f"cannot be read as YAML: {problem}"
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return Problem(file=file, line=line, column=column, message=problem)


def _character_problem(file: str, text: bytes, error: ReaderError) -> Problem:
    before = text.decode("utf-8-sig")[: error.position]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    character = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
    message = f"the control character U+{character:04X} is not allowed in YAML; remove it"
    return Problem(file=file, line=line, column=column, message=message)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end is not reached. key: the key that waits for its value."""

    node: Node
    path: FieldPath
    anchor: str | None
    key: str | None = None
    key_at: tuple[int, int] = (0, 0)


class _Builder:
    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._roots: list[Node] = []
        self._event_count = 0

    def take(self, event: Event) -> None:
        self._event_count += 1
        if self._event_count > NODE_COUNT_MAX:
            raise self._refused(event, f"more than {NODE_COUNT_MAX} YAML nodes, which is no policy people can read")
        if isinstance(event, DocumentStartEvent) and self._roots:
            raise self._refused(event, "a second document; one file holds one Policy or one PolicyPart")
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._open(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            closed = self._stack.pop()
            if closed.anchor:
                self._anchors[closed.anchor] = closed.node

    def root(self) -> Node:
        """The document. Raises PolicyError where it is empty, not a mapping, or anything in it was refused."""
        if self._problems:
            raise PolicyError(self._problems)
        root = self._roots[0] if self._roots else Node(None, 1, 1)
        if not isinstance(root.value, dict):
            what = "is empty" if root.value is None else f"holds {kind_of(root.value)} at its top"
            message = f'{what}, but must be a mapping that starts with "apiVersion: muster.dev/v1alpha1"'
            raise PolicyError([Problem(file=self._file, line=root.line, column=root.column, message=message)])
        return root

    # -- events -------------------------------------------------------------------------------------------------
    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        value: Any = {} if isinstance(event, MappingStartEvent) else []
        node = Node(value, event.start_mark.line + 1, event.start_mark.column + 1)
        self._check_tag(event)
        path = self._add(event, node)
        self._stack.append(_Open(node, path, event.anchor))
        if len(self._stack) > DEPTH_MAX:
            raise self._refused(event, f"nested more than {DEPTH_MAX} deep")

    def _scalar(self, event: ScalarEvent) -> None:
        self._check_tag(event)
        plain = event.style is None and event.tag is None
        node = Node(
            _resolve(event.value) if plain else event.value, event.start_mark.line + 1, event.start_mark.column + 1
        )
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.node.value, dict) and top.key is None:
            self._take_key(top, event)
            return
        self._add(event, node)
        if event.anchor:
            self._anchors[event.anchor] = node

    def _alias(self, event: AliasEvent) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise self._refused(event, f'the alias "*{event.anchor}" names no finished anchor above it')
        self._add(event, node)

    def _take_key(self, top: _Open, event: ScalarEvent) -> None:
        key = event.value
        if key == "<<" and event.style is None:
            self._problem(event, 'merge keys ("<<") are not read; write the keys out', top.path)
        elif key in top.node.value:
            first_line = top.node.keys[key][0]
            self._problem(event, f'the key "{key}" is given twice, first in line {first_line}', top.path / key)
        top.key = key
        top.key_at = (event.start_mark.line + 1, event.start_mark.column + 1)

    def _add(self, event: Event, node: Node) -> FieldPath:
        """Puts a value where it belongs and returns its path."""
        if not self._stack:
            self._roots.append(node)
            return ROOT
        top = self._stack[-1]
        if isinstance(top.node.value, list):
            node.index = len(top.node.value)
            top.node.value.append(node)
            return top.path / node.index
        if top.key is None:
            raise self._refused(event, "a key must be a plain word, not a list or a mapping", top.path)
        key, top.key = top.key, None
        top.node.value[key] = node
        top.node.keys[key] = top.key_at
        return top.path / key

    def _check_tag(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent) -> None:
        tag = None if event.tag is None else str(event.tag)
        if tag not in _PLAIN_TAGS:
            self._problem(event, f'the YAML tag "{tag}" is not read; remove it')

    def _problem(self, event: Event, message: str, path: FieldPath = ROOT) -> None:
        mark = event.start_mark
        problem = Problem(file=self._file, line=mark.line + 1, column=mark.column + 1, field=path, message=message)
        self._problems.append(problem)

    def _refused(self, event: Event, message: str, path: FieldPath = ROOT) -> PolicyError:
        self._problem(event, message, path)
        return PolicyError(self._problems)


def _resolve(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    return int(text) if _INT.match(text) else text


def kind_of(value: Any) -> str:
    """What a value is, in words for people."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return f'"{str(value).lower()}"'
    return "nothing" if value is None else f'"{value}"'


def plain(file: str, root: Node) -> Any:
    """The tree as plain data, without keys that are null. Raises PolicyError where aliases make it too large."""
    budget = iter(range(NODE_COUNT_MAX))
    return _plain(file, root, budget, DEPTH_MAX)


def _plain(file: str, node: Node, budget: Iterator[int], depth: int) -> Any:
    if next(budget, None) is None or depth == 0:
        message = f"aliases make the document larger than {NODE_COUNT_MAX} nodes or {DEPTH_MAX} levels"
        raise PolicyError([Problem(file=file, line=node.line, column=node.column, message=message)])
    if isinstance(node.value, dict):
        items = {key: _plain(file, item, budget, depth - 1) for key, item in node.value.items()}
        return {key: item for key, item in items.items() if item is not None}
    if isinstance(node.value, list):
        return [_plain(file, item, budget, depth - 1) for item in node.value]
    return node.value
