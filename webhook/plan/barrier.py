"""The barrier: how many Pods the application itself waits for before it does any work.

Kubernetes does not know it; a gang whose minCount is smaller starts Pods that hold devices and wait. Read from, in
this order: the annotation `muster.dev/barrier` (on the Pod template, then on the object), which overrules all else; the
command line of a launcher; environment variables. What these do not say plainly is unknown, never guessed, and places
that contradict each other are unknown as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.objects.core import Container, ObjectMeta
from webhook.objects.fieldpath import METADATA, FieldPath
from webhook.plan.annotations import BARRIER, PodRange, annotated_barrier
from webhook.plan.environment import Variable, Word, variables, words
from webhook.plan.launchers import read_command
from webhook.plan.model import PodSet
from webhook.plan.requests import effective_request, is_extended
from webhook.plan.size import BarrierKind, Reading, Size, Unclear, parse_range

__all__ = ["Barrier", "BarrierKind", "BarrierUnknown", "read_barrier"]

# torchrun reads PET_* as the defaults of its flags; NNODES and WORLD_SIZE are what scripts and operators use.
_POD_VARIABLES = ("PET_NNODES", "NNODES")
_EITHER_VARIABLES = ("WORLD_SIZE", "JAX_NUM_PROCESSES")
_PER_POD_VARIABLES = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE", "LOCAL_WORLD_SIZE")
# NUM_PROCESSES is also what tools call their worker threads: it counts only beside a JAX coordinator.
_COORDINATED_VARIABLE = "NUM_PROCESSES"
# A text names at most so many places: one line has to fit into an answer.
_SHOWN_COUNT_MAX = 4


@dataclass(frozen=True, slots=True)
class Barrier:
    """minimum and maximum are equal where the size is fixed. text and path: what says so and where.

    processes_per_pod: how many processes may share a Pod (``--nproc-per-node``, or the devices of a Pod); None where
    that is not known. It matters for kinds other than PODS.
    """

    kind: BarrierKind
    minimum: int
    maximum: int
    text: str
    path: FieldPath
    processes_per_pod: tuple[int, ...] | None = None

    @property
    def is_fixed(self) -> bool:
        return self.minimum == self.maximum

    def in_pods(self) -> tuple[PodRange, ...]:
        """Every way to read it as Pods that is known, the plainest first. Empty for processes that cannot be placed."""
        ranges: list[PodRange] = []
        if self.kind is not BarrierKind.PROCESSES:
            ranges.append(PodRange(self.minimum, self.maximum))
        if self.kind is not BarrierKind.PODS:
            ranges.extend(
                PodRange(self.minimum // count, self.maximum // count)
                for count in self.processes_per_pod or ()
                if self.minimum % count == 0 and self.maximum % count == 0
            )
        return tuple(dict.fromkeys(ranges))

    def reading_for(self, pod_count: int) -> PodRange | None:
        """The way of reading it by which `pod_count` Pods are right; None if there is no such way."""
        return next((known for known in self.in_pods() if known.minimum <= pod_count <= known.maximum), None)

    def fits(self, pod_count: int) -> bool | None:
        """Can an application of this size run on `pod_count` Pods? None where the object does not say enough: where
        the processes of a Pod are not known, or all would fit one Pod, so that each may be an application of its own.
        """
        if self.reading_for(pod_count) is not None:
            return True
        readable = self.kind is BarrierKind.PODS or self.processes_per_pod is not None
        return False if readable and PodRange(1, 1) not in self.in_pods() else None


@dataclass(frozen=True, slots=True)
class BarrierUnknown:
    """Something says how large the application is, but not in a way that can be read. sizes: what contradicts."""

    reason: str
    path: FieldPath
    sizes: tuple[Size, ...] = ()


def read_barrier(
    pod_sets: Sequence[PodSet], metadata: ObjectMeta, metadata_path: FieldPath = METADATA
) -> Barrier | BarrierUnknown | None:
    """The barrier of the Pods that form one application (a group's Pod sets, or one of them). metadata: the object's.

    None: nothing is said, or the application is a single Pod and so waits for nobody. Never raises.
    """
    annotated = _annotation(pod_sets, metadata, metadata_path)
    if annotated is not None:
        return annotated
    reading = Reading()
    for pod_set in pod_sets:
        for index, container in enumerate(pod_set.template.spec.containers or ()):
            reading.add(_read_container(container, (pod_set.spec_path / "containers").at(index)))
    per_pod = _processes_per_pod(reading, pod_sets)
    return _settle(reading, per_pod)


def _annotation(
    pod_sets: Sequence[PodSet], metadata: ObjectMeta, metadata_path: FieldPath
) -> Barrier | BarrierUnknown | None:
    written = [annotated_barrier(pod_set.template.metadata, pod_set.path / "metadata") for pod_set in pod_sets]
    found = [item for item in written if item is not None]
    if not found:
        own = annotated_barrier(metadata, metadata_path)
        if own is None:
            return None
        found = [own]
    for item in found:
        if item.value is None:
            return BarrierUnknown(f'{BARRIER} "{item.text[:40]}" {item.error}', item.path)
    sizes = tuple(
        Size(BarrierKind.PODS, item.value.minimum, item.value.maximum, f'{BARRIER} "{item.text}"', item.path)
        for item in found
        if item.value is not None
    )
    first = sizes[0]
    if any((size.minimum, size.maximum) != (first.minimum, first.maximum) for size in sizes):
        return _contradiction(sizes)
    return Barrier(first.kind, first.minimum, first.maximum, first.text, first.path)


def _read_container(container: Container, path: FieldPath) -> Reading:
    env = variables(container, path)
    coordinated = any("COORDINATOR" in name or name == "JAX_PROCESS_ID" for name in env)
    reading = Reading()
    for variable in env.values():
        _read_variable(variable, reading, coordinated=coordinated)

    def assignment(name: str, word: Word, into: Reading) -> None:
        value = None if word.reason else word.text
        reason = f"{name} is not readable: {word.reason}" if word.reason else ""
        _read_variable(Variable(name, value, word.path, reason), into, coordinated=coordinated)

    reading.add(read_command(words(container, path, env), assignment, coordinated=coordinated))
    return reading


def _read_variable(variable: Variable, reading: Reading, *, coordinated: bool) -> None:
    name = variable.name
    if name in _PER_POD_VARIABLES:
        if variable.value is None:
            reading.per_pod_unclear = True
        else:
            reading.say_per_pod(variable.value.strip())
        return
    if name in _POD_VARIABLES:
        kind = BarrierKind.PODS
    elif name in _EITHER_VARIABLES or (name == _COORDINATED_VARIABLE and coordinated):
        kind = BarrierKind.EITHER
    else:
        return
    if variable.value is None:
        reading.unclear.append(Unclear(variable.reason, variable.path))
        return
    if not variable.value.strip():
        return
    found = parse_range(variable.value)
    if found is None:
        reading.unclear.append(Unclear(f'{name} is "{variable.value[:40]}", which is no number', variable.path))
        return
    reading.sizes.append(Size(kind, *found, text=f"{name}={variable.value.strip()}", path=variable.path))


def _processes_per_pod(reading: Reading, pod_sets: Iterable[PodSet]) -> tuple[int, ...] | None:
    """What is said, else one process for each device of a Pod; None where neither is known."""
    if reading.per_pod_unclear:
        return None
    said = {count for count in reading.per_pod if count is not None}
    if said and None not in reading.per_pod:
        return tuple(sorted(said))
    devices: set[int] = set()
    for pod_set in pod_sets:
        spec = pod_set.template.spec
        if spec.resource_claims:
            return None  # devices that a claim brings are not counted here
        request = effective_request(spec, pod_set.spec_path)
        if request.unreadable:
            return None
        devices |= {amount.value() for name, amount in request.amounts.items() if is_extended(name) and amount}
    return tuple(sorted(said | devices)) or None


def _settle(reading: Reading, per_pod: tuple[int, ...] | None) -> Barrier | BarrierUnknown | None:
    """A launcher's own number of Pods makes the variables that it sets for its processes irrelevant, if unreadable."""
    launched = any(size.kind is BarrierKind.PODS for size in reading.flags)
    for unclear in reading.unclear:
        if unclear.launcher or not launched:
            return BarrierUnknown(unclear.reason, unclear.path)
    sizes = sorted((*reading.flags, *reading.sizes), key=lambda size: _PLAINEST.index(size.kind))
    if not sizes:
        return None
    plainest = sizes[0]
    if not all(_agree(plainest, size, per_pod) for size in sizes[1:]):
        return _contradiction(tuple(sizes))
    if plainest.maximum == 1:
        return None
    if plainest.kind is BarrierKind.PROCESSES and not reading.per_pod:
        per_pod = None  # ranks of MPI need no device each, so devices say nothing of how many share a Pod
    return Barrier(plainest.kind, plainest.minimum, plainest.maximum, plainest.text, plainest.path, per_pod)


_PLAINEST = (BarrierKind.PODS, BarrierKind.PROCESSES, BarrierKind.EITHER)


def _agree(plain: Size, other: Size, per_pod: tuple[int, ...] | None) -> bool:
    """May both be true? `plain` is of a kind at least as plain as the other's."""
    if (plain.minimum, plain.maximum) == (other.minimum, other.maximum):
        return other.kind is not BarrierKind.PROCESSES or plain.kind is not BarrierKind.PODS or per_pod in (None, (1,))
    if plain.kind is other.kind:
        return False
    # One counts Pods and the other processes: a whole number of processes in each Pod, the known one if it is known.
    more, fewer = (other, plain) if other.minimum >= plain.minimum else (plain, other)
    if plain.kind is BarrierKind.PODS and more is plain:
        return False
    if more.minimum % fewer.minimum or more.maximum % fewer.maximum:
        return False
    each = more.minimum // fewer.minimum
    return more.maximum // fewer.maximum == each and (per_pod is None or each in per_pod)


def _contradiction(sizes: tuple[Size, ...]) -> BarrierUnknown:
    shown = [f"{size.text} ({size.path})" for size in sizes[:_SHOWN_COUNT_MAX]]
    if len(sizes) > _SHOWN_COUNT_MAX:
        shown.append(f"{len(sizes) - _SHOWN_COUNT_MAX} more")
    texts = " and ".join(shown)
    return BarrierUnknown(f"these say different sizes: {texts}", sizes[0].path, sizes)
