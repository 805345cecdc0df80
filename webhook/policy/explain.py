"""pydantic's errors -> Problems: where in the file, in words that a policy's author can act on."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from webhook.objects.fieldpath import ROOT, FieldPath
from webhook.policy.problems import Problem, did_you_mean, listed
from webhook.policy.yamltree import Node, kind_of, plain

M = TypeVar("M", bound=BaseModel)

_CHOICE = re.compile(r"'([^']*)'")
_SHAPES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "string_type": "must be text (put it in quotes)",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
_ACTIONS = ("Deny", "Warn", "Audit", "Off")
# One faulty part can hide another (a tier without a name hides its class that is twice): so many looks are enough for
# what people write, and a bound for what they do not.
LOOK_COUNT_MAX = 8


def validated(file: str, root: Node, model: type[M]) -> tuple[M | None, list[Problem]]:
    """The model, and every fault of shape. Faulty parts are cut out of `root` and the rest is read again, so that
    checks of meaning can run on what is sound; None where nothing sound is left."""
    problems: list[Problem] = []
    gone: set[FieldPath] = set()  # required parts that are missing only because they were cut
    for _ in range(LOOK_COUNT_MAX):
        data = plain(file, root)
        try:
            # JSON mode: strict about types, but lists and dates are written as YAML has them.
            return model.model_validate_json(json.dumps(data), strict=True, by_alias=True, by_name=False), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        found = [_problem(file, root, data, model, detail) for detail in details if not _echo(detail)]
        problems += [problem for problem in found if problem.field not in gone]
        cuts = {root.existing(_path(detail["loc"], data)) for detail in details} - {ROOT}
        if not cuts:
            break
        gone |= {root.find(path)[0] for path in cuts}
        root.cut(cuts)
    return None, problems


def _echo(detail: ErrorDetails) -> bool:
    """An error that only repeats another one: the wrong branch of a union, a list that is short of its bad items."""
    kind, value = detail["type"], detail["input"]
    if kind == "literal_error" and isinstance(value, list):
        return True
    if kind == "tuple_type" and isinstance(value, str) and any("tuple[" in str(part) for part in detail["loc"]):
        return True
    return kind == "too_short" and isinstance(value, Sequence) and len(value) > 0


def _path(loc: Sequence[str | int], data: Any) -> FieldPath:
    """The path in the file: pydantic's loc without the names of union branches and its mark for keys."""
    parts: list[str | int] = []
    value = data
    for index, part in enumerate(loc):
        if part == "[key]":
            break
        if (part in value) if isinstance(value, dict) else (isinstance(value, list) and isinstance(part, int)):
            value = value[part]
        elif "[" in str(part):
            continue  # the branch of a union, for example tuple[PodMutator, ...]
        elif index < len(loc) - 1:
            break
        parts.append(part)
    return FieldPath(parts)


def _problem(file: str, root: Node, data: Any, model: type[BaseModel], detail: ErrorDetails) -> Problem:
    path = _path(detail["loc"], data)
    written, line, column = root.find(path)
    return Problem(file=file, line=line, column=column, field=written, message=_message(model, path, detail))


def _message(model: type[BaseModel], path: FieldPath, detail: ErrorDetails) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f'unknown key "{path[-1]}"{did_you_mean(str(path[-1]), known_keys(model, path[:-1]))}'
    if kind == "missing":
        return "must be given"
    if kind == "literal_error":
        choices = _CHOICE.findall(context["expected"])
        if detail["loc"][-1] == "[key]":
            return f"unknown name{did_you_mean(str(value), choices)}"
        if len(choices) == 1:
            return f'must be "{choices[0]}", got {kind_of(value)}'
        return f"must be one of {listed(choices)}, got {kind_of(value)}{_hint(value, choices)}"
    if kind in _SHAPES:
        hint = (
            f"; write {{action: {value}}}" if context.get("class_name") == "RuleSettings" and value in _ACTIONS else ""
        )
        return f"{_SHAPES[kind]}, got {kind_of(value)}{hint}"
    return _value_message(kind, value, context, str(detail["msg"]))


def _hint(value: Any, choices: Sequence[str]) -> str:
    guess = did_you_mean(value, choices) if isinstance(value, str) else ""
    return guess if "did you mean" in guess else ""


def _value_message(kind: str, value: Any, context: Mapping[str, Any], message: str) -> str:
    if kind == "string_pattern_mismatch":
        if "WAS" in context["pattern"]:
            return f'"{value}" is no rule ID; a rule ID is "WAS" and three digits'
        return f'"{value}" must match {context["pattern"]}'
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters, got {len(value)}"
    if kind == "too_short":
        return f"must have at least {context['min_length']} item"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}, got {value}"
    if kind.startswith("date"):
        return f'must be a date like 2027-01-31, got "{value}"'
    return message[:1].lower() + message[1:].replace("a valid ", "a ").replace("Input", "the value")


def known_keys(model: type[BaseModel], path: Sequence[str | int]) -> frozenset[str]:
    """The keys that may stand under this path, as they are written in the file."""
    kinds: list[Any] = [model]
    for part in path:
        kinds = [inner for kind in kinds for inner in _step(kind, part)]
    return frozenset(
        info.alias or name
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for name, info in kind.model_fields.items()
    )


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            if part == (info.alias or name):
                yield from _unwrapped(info.annotation)
    elif get_origin(kind) is dict:
        yield from _unwrapped(get_args(kind)[1])
    elif get_origin(kind) is tuple:
        yield from _unwrapped(get_args(kind)[0])


def _unwrapped(kind: Any) -> Iterator[Any]:
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _unwrapped(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for inner in get_args(kind):
            yield from _unwrapped(inner)
    elif origin is not Literal:
        yield kind
