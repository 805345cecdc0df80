"""Raw dict -> small typed object.

The typed objects hold only what Muster looks at. Unknown and newer fields are passed over, never an error: an
upgraded cluster must go on. What is known but has the wrong type is a `ShapeError` that names the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from webhook.objects.fieldpath import FieldPath

T = TypeVar("T")

# disruptionMode was a string until 1.36: read as the struct it became, so that `review` can judge the rest of such a
# manifest too. The string itself is WAS308's; in a cluster the API server refuses it before any webhook.
OLD_DISRUPTION_MODES = {"Pod": "single", "PodGroup": "all"}

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`\Z")
_ANY_FIX = "write the field as the API reference of this version shows it"
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_TYPES = {"int": "a whole number", "str": "a string", "bool": "true or false", "array": "a list", "object": "an object"}
_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,19})?\Z")
_PLAIN = re.compile(r"(-?\d{1,19}(\.\d{1,19})?|true|false|yes|no)\Z", re.IGNORECASE)


class ShapeError(Exception):
    """The object is bad: a known field has a type that the API does not allow. Answered with 422, never 500. message:
    what is expected and what was found; fix: what to write instead."""

    def __init__(self, field: FieldPath, message: str, fix: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message
        self.fix = fix


def read(raw: Mapping[str, Any], as_type: type[T], at: FieldPath = FieldPath()) -> T:  # noqa: B008  a frozen tuple
    """Raises ShapeError. `at` is where `raw` stands in the whole object, for the error's field."""
    try:
        return msgspec.convert(raw, as_type)
    except msgspec.ValidationError:
        # JSON null and an absent field are the same to Kubernetes; only objects that hold nulls pay for this.
        try:
            return msgspec.convert(_lenient(raw), as_type)
        except msgspec.ValidationError as error:
            raise _shape_error(error, raw, at) from None


def _lenient(value: Any) -> Any:
    """Without nulls, and with old disruption modes as structs."""
    if isinstance(value, Mapping):
        return {key: _lenient(_mode(key, item)) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_lenient(item) for item in value]
    return value


def _mode(key: Any, value: Any) -> Any:
    if key == "disruptionMode" and isinstance(value, str) and value in OLD_DISRUPTION_MODES:
        return {OLD_DISRUPTION_MODES[value]: {}}
    return value


def _shape_error(error: msgspec.ValidationError, raw: Any, at: FieldPath) -> ShapeError:
    match = _AT.match(str(error))
    what, where = (match["what"], match["where"]) if match else (str(error), None)
    types = _EXPECTED.match(what)
    if types is None:
        return ShapeError(at.join(FieldPath(_steps(where))), what[:1].lower() + what[1:], _ANY_FIX)
    found: Any = raw
    parts: list[str | int] = []
    for step in _steps(where):
        # A key of a map is not told; the first member of the type that was found is one that is wrong.
        part = _member(found, types["got"]) if step == "..." else step
        parts.append(part)
        found = _inside(found, part)
    wanted = [name for name in types["expected"].split(" | ") if name != "null"]
    message = f"expected {_expected(wanted)}, found {_found(wanted, found)}"
    return ShapeError(at.join(FieldPath(parts)), message, _fix(wanted, found))


def _steps(where: str | None) -> list[str | int]:
    found = _STEP.findall((where or "$").removeprefix("$"))
    return [name or (int(index) if index else anything) for name, index, anything in found]


def _inside(found: Any, part: str | int) -> Any:
    try:
        return found[part]
    except (KeyError, IndexError, TypeError):
        return None


def _member(found: Any, got: str) -> str:
    members = found.items() if isinstance(found, Mapping) else ()
    return next((str(key) for key, value in members if _type_of(value) == got), "...")


def _type_of(value: Any) -> str:
    """In the words of msgspec."""
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


def _expected(types: list[str]) -> str:
    if "float" in types:
        types = ["float", *(name for name in types if name not in ("int", "float"))]
    return " or ".join({**_TYPES, "float": "a number"}.get(name, name) for name in types)


def _found(types: list[str], value: Any) -> str:
    """Shown is only what a number or a switch was meant to be: any other text may be a secret (an env value), and an answer is
    kept in logs."""
    kind = _type_of(value)
    if isinstance(value, bool):
        return str(value).lower()
    if {"int", "float", "bool"} & set(types) and _PLAIN.match(str(value)):
        return f'a string "{value}"' if kind == "str" else f"the number {value}"
    return {**_TYPES, "int": "a number", "float": "a number"}.get(kind, "null")


def _fix(types: list[str], value: Any) -> str:
    if {"int", "float"} & set(types) and isinstance(value, str) and _NUMBER.match(value):
        return f"write {value} without quotes"
    if types == ["bool"] and isinstance(value, str) and value in ("true", "false"):
        return f"write {value} without quotes"
    if types == ["str"] and isinstance(value, (bool, int, float)):
        return "write it in quotes"
    if types == ["array"]:
        return "write a list, each item after a dash"
    if types == ["object"]:
        return "write its members as lines of key: value"
    return f"write {_expected(types)}"
