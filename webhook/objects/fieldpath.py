"""Paths of fields as Kubernetes prints them, and as JSON Patch needs them."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


class FieldPath(tuple[str | int, ...]):
    """A field of an object, for example ``spec.template.spec.containers[0].env``.

    ``path / "name"`` goes into a field or map key, ``path[0]`` stays a tuple lookup, ``path.at(0)`` goes into a
    list item. The text form follows apimachinery's ``field.Path``: ``metadata.annotations[muster.dev/barrier]``.
    """

    __slots__ = ()

    @classmethod
    def of(cls, *parts: str | int) -> FieldPath:
        return cls(parts)

    def __truediv__(self, part: str | int) -> FieldPath:
        return FieldPath((*self, part))

    def at(self, index: int) -> FieldPath:
        return FieldPath((*self, index))

    def join(self, other: FieldPath) -> FieldPath:
        return FieldPath((*self, *other))

    def __str__(self) -> str:
        text = ""
        for part in self:
            if isinstance(part, int):
                text += f"[{part}]"
            elif _PLAIN.match(part):
                text += f".{part}" if text else part
            else:
                text += f"[{part}]"
        return text

    def pointer(self) -> str:
        """The JSON Pointer (RFC 6901) of this field, for patches."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self)


ROOT = FieldPath()
SPEC = FieldPath(("spec",))
METADATA = FieldPath(("metadata",))
