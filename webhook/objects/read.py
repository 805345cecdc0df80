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
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")


class ShapeError(Exception):
    """The object is bad: a known field has a type that the API does not allow. Answered with 422, never 500."""

    def __init__(self, field: FieldPath, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


def read(raw: Mapping[str, Any], as_type: type[T], at: FieldPath = FieldPath()) -> T:  # noqa: B008  a frozen tuple
    """Raises ShapeError. `at` is where `raw` stands in the whole object, for the error's field."""
    try:
        return msgspec.convert(raw, as_type)
    except msgspec.ValidationError:
        # JSON null and an absent field are the same to Kubernetes; only objects that hold nulls pay for this.
        try:
            return msgspec.convert(_lenient(raw), as_type)
        except msgspec.ValidationError as error:
            raise _shape_error(error, at) from None


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


def _shape_error(error: msgspec.ValidationError, at: FieldPath) -> ShapeError:
    match = _AT.match(str(error))
    what, where = (match["what"], match["where"]) if match else (str(error), None)
    parts: list[str | int] = []
    for name, index, anything in _STEP.findall((where or "$").removeprefix("$")):
        parts.append(name or (int(index) if index else anything))
    what = what[:1].lower() + what[1:]
    what = what.replace("`", "").replace("int | null", "an integer").replace("object | null", "an object")
    return ShapeError(at.join(FieldPath(parts)), what)
