"""How large an application says it is: the values that the barrier reader and the launcher readers share."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from webhook.objects.fieldpath import FieldPath

_RANGE = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?\Z")


class BarrierKind(enum.StrEnum):
    """PODS: a number of Pods. PROCESSES: a number of processes, several of which may share a Pod. EITHER: the name
    is used for both (WORLD_SIZE)."""

    PODS = "pods"
    PROCESSES = "processes"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Size:
    """One place that says how large the application is. text: as written, with its name (``--nnodes=2:4``)."""

    kind: BarrierKind
    minimum: int
    maximum: int
    text: str
    path: FieldPath


@dataclass(frozen=True, slots=True)
class Unclear:
    """A place that says it in a way that cannot be read here. launcher: on a command line, as opposed to `env`."""

    reason: str
    path: FieldPath
    launcher: bool = False


@dataclass(slots=True)
class Reading:
    """What one container says. per_pod: processes in each Pod; None in it means as many as the Pod has devices.
    per_pod_unclear: it is said, but not readable."""

    sizes: list[Size] = field(default_factory=list)
    flags: list[Size] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    per_pod: list[int | None] = field(default_factory=list)
    per_pod_unclear: bool = False

    def add(self, other: Reading) -> None:
        self.sizes += other.sizes
        self.flags += other.flags
        self.unclear += other.unclear
        self.per_pod += other.per_pod
        self.per_pod_unclear = self.per_pod_unclear or other.per_pod_unclear

    def say_per_pod(self, text: str) -> None:
        """A value of ``--nproc-per-node``: a number, or a word by which torchrun counts the devices itself."""
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
            self.per_pod.append(int(text))
        elif text in {"gpu", "auto", "xpu"}:
            self.per_pod.append(None)
        else:
            self.per_pod_unclear = True


def parse_range(text: str) -> tuple[int, int] | None:
    """``"4"`` -> (4, 4), ``"2:4"`` -> (2, 4); None for all else, an empty range included."""
    match = _RANGE.match(text.strip())
    if match is None:
        return None
    minimum = int(match[1])
    maximum = int(match[2]) if match[2] is not None else minimum
    return (minimum, maximum) if 1 <= minimum <= maximum else None
