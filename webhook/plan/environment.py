"""A container's environment and command line as the kubelet will pass them, as far as the object says.

Source: k8s.io/kubernetes v1.37.2 third_party/forked/golang/expansion and pkg/kubelet/kubelet_pods.go: ``$(NAME)`` is
replaced by a variable of the same container (in `env` only by one that stands before it), ``$$`` is a dollar sign, and
a name that is not defined stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.objects import core
from webhook.objects.fieldpath import FieldPath

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


@dataclass(frozen=True, slots=True)
class Variable:
    """value: None where the object does not say it; then `reason` says where it comes from."""

    name: str
    value: str | None
    path: FieldPath
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line, expanded as far as the object says; what it does not say stays as written, and then
    `reason` tells what is missing."""

    text: str
    path: FieldPath
    reason: str = ""


def variables(container: core.Container, path: FieldPath) -> dict[str, Variable]:
    """By name. Of two entries with one name the later wins, as in the kubelet; `envFrom` never overrides `env`."""
    result: dict[str, Variable] = {}
    for index, entry in enumerate(container.env or ()):
        at = (path / "env").at(index)
        if entry.value_from is not None:
            source = next(iter(entry.value_from), "valueFrom")
            reason = f"{entry.name} comes from a {source}"
            result[entry.name] = Variable(entry.name, None, at / "valueFrom", reason)
            continue
        value, missing = _expand(entry.value or "", result)
        reason = f"{entry.name} refers to {missing}" if missing else ""
        result[entry.name] = Variable(entry.name, None if missing else value, at / "value", reason)
    return result


def words(container: core.Container, path: FieldPath, env: Mapping[str, Variable]) -> tuple[Word, ...]:
    """command and args, expanded. Without `command` the image's own entry point, which is not known, stands before."""
    result: list[Word] = []
    for name, texts in (("command", container.command), ("args", container.args)):
        for index, written in enumerate(texts or ()):
            text, missing = _expand(written, env)
            result.append(Word(text, (path / name).at(index), f"it refers to {missing}" if missing else ""))
    return tuple(result)


def _expand(text: str, env: Mapping[str, Variable]) -> tuple[str, str]:
    """The text, and what it refers to that is not known ("" if all is)."""
    if "$" not in text:
        return text, ""
    missing: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        variable = env.get(name)
        if variable is None:
            # It may still come from envFrom or from a Service, so it is not known, rather than literal.
            missing.append(f"$({name}), which is no variable of the container's env")
            return match[0]
        if variable.value is None:
            missing.append(f"$({name}), and {variable.reason}")
            return match[0]
        return variable.value

    expanded = _REFERENCE.sub(replacement, text)
    return expanded, missing[0] if missing else ""
