"""Reads the size of the application from the command line of a launcher: torchrun, mpirun, accelerate, deepspeed, JAX.

Words are those of a container's command and args, or of the script of a ``sh -c``. A word that holds a shell variable,
a command substitution or an unresolved ``$(NAME)`` is unclear, never guessed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from webhook.plan.environment import Word
from webhook.plan.size import BarrierKind, Reading, Size, Unclear, parse_range

_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh"}
_SHELL_C = re.compile(r"-[a-zA-Z]*c\Z")
_PYTHON = re.compile(r"python[0-9.]*\Z")
_TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_MPI = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun"}
_MPI_COUNT = {"np", "n", "c", "num-proc"}
_HOST_SLOTS = re.compile(r":[0-9]+")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)
_OPERATOR = re.compile(r"[();<>|&]+\Z")
_COORDINATOR = {"coordinator-address", "coordinator-addr", "process-id"}
# What makes an unreadable script worth a note: without one of these it says nothing of a size.
_TELLING = re.compile(r"torchrun|torch\.distributed|mpirun|mpiexec|horovodrun|deepspeed|accelerate|--num[_-]processes")

# Splitting costs about a microsecond a character; a launcher's start script is far shorter.
_SCRIPT_LENGTH_MAX = 16 * 1024

AssignmentReader = Callable[[str, Word, Reading], None]


def read_command(words: Sequence[Word], assignment: AssignmentReader, *, coordinated: bool) -> Reading:
    """assignment: reads ``NAME=value`` of a script as a variable of `env` would be. coordinated: the container names a
    JAX coordinator, so ``--num_processes`` counts the application and not the threads of some tool."""
    reading = Reading()
    script = _script(words)
    if script is None:
        _read_segment(words, reading, coordinated=coordinated)
        return reading
    try:
        segments = list(_segments(script))
    except ValueError as error:
        if _TELLING.search(script.text):
            reason = f"the shell text cannot be split into words: {str(error).lower()}"
            reading.unclear.append(Unclear(reason, script.path, launcher=True))
        return reading
    for segment in segments:
        rest = _read_assignments(segment, assignment, reading)
        _read_segment(rest, reading, coordinated=coordinated)
    return reading


def _script(words: Sequence[Word]) -> Word | None:
    """The text behind the ``-c`` of a shell. An image whose entry point is a shell may get it by args alone."""
    in_shell = bool(words) and _SHELL_C.match(words[0].text) is not None
    for index, word in enumerate(words[:-1]):
        if _name(word.text) in _SHELLS:
            in_shell = True
        elif in_shell and _SHELL_C.match(word.text):
            return words[index + 1]
        elif in_shell and not word.text.startswith("-") and not words[index - 1].text.endswith("o"):
            return None  # a script file, and not the value of ``-o pipefail``
    return None


def _segments(script: Word) -> Iterator[list[Word]]:
    """The simple commands of a shell text. Raises ValueError where quotes do not close, or the text is very long."""
    if len(script.text) > _SCRIPT_LENGTH_MAX:
        raise ValueError(f"it is longer than {_SCRIPT_LENGTH_MAX} characters")
    text = _COMMENT.sub("", script.text.replace("\\\n", " ")).replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    segment: list[Word] = []
    for token in lexer:
        if _OPERATOR.match(token):
            yield segment
            segment = []
        else:
            unclear = "$" in token or "`" in token
            segment.append(Word(token, script.path, f'the shell makes it from "{token[:80]}"' if unclear else ""))
    yield segment


def _read_assignments(segment: Sequence[Word], assignment: AssignmentReader, reading: Reading) -> Sequence[Word]:
    """Reads leading ``NAME=value`` words (also behind export and env) and returns the command that follows."""
    for index, word in enumerate(segment):
        match = _ASSIGNMENT.match(word.text)
        if match is not None:
            assignment(match[1], Word(match[2], word.path, word.reason), reading)
        elif word.text not in {"export", "env", "exec"}:
            return segment[index:]
    return ()


def _read_segment(words: Sequence[Word], reading: Reading, *, coordinated: bool) -> None:
    """Every launcher of one command, each with the words up to the next one (mpirun may start torchrun)."""
    starts = [(index, reader) for index in range(len(words)) if (reader := _launcher(words, index)) is not None]
    for number, (index, reader) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else len(words)
        reader(words[index + 1 : end], reading)
    if not starts:
        _read_jax(words, reading, coordinated=coordinated)


def _launcher(words: Sequence[Word], index: int) -> Callable[[Sequence[Word], Reading], None] | None:
    name = _name(words[index].text)
    before = words[index - 1].text if index > 0 else ""
    if name == "torchrun" or (before == "-m" and words[index].text in _TORCH_MODULES):
        return _read_torch
    if name in _MPI:
        return _read_mpi
    if name == "deepspeed":
        return _read_deepspeed
    if name == "launch" and _name(before) == "accelerate":
        return _read_accelerate
    if before == "-m" and words[index].text == "accelerate.commands.launch":
        return _read_accelerate
    return None


# ---- one reader per launcher ------------------------------------------------------------------------------------
def _read_torch(words: Sequence[Word], reading: Reading) -> None:
    """https://docs.pytorch.org/docs/stable/elastic/run.html: ``--nnodes`` is a number or MIN:MAX of agents, one a Pod."""
    flags = _flags(_before_program(words))
    per_pod = flags.get("nproc-per-node")
    if per_pod is not None:
        if per_pod.reason:
            reading.per_pod_unclear = True
        else:
            reading.say_per_pod(per_pod.text)
    if "standalone" in flags:
        return
    _say(flags.get("nnodes"), "--nnodes", BarrierKind.PODS, reading)


def _read_mpi(words: Sequence[Word], reading: Reading) -> None:
    """The number of ranks. How many go into one Pod is said elsewhere (slots), so the kind is PROCESSES."""
    options = list(_before_program(words))
    texts = [word.text for word in options]
    if any(word.text == ":" for word in words):
        reading.unclear.append(Unclear("mpirun starts more than one program", words[0].path, launcher=True))
        return
    count = _mpi_count(options)
    if count is None:
        return
    for index, text in enumerate(texts):
        name = text.lstrip("-").lower()
        value = texts[index + 1] if index + 1 < len(texts) else ""
        over = name == "oversubscribe" or (name.startswith("map-by") and "OVERSUBSCRIBE" in (text + value).upper())
        by_hand = (
            name.split("=")[0] in {"host", "h", "hosts"} and text.startswith("-") and _HOST_SLOTS.search(text + value)
        )
        if over or by_hand:
            reason = f'mpirun places its processes by hand ("{text}"), so slots say nothing of the Pods'
            reading.unclear.append(Unclear(reason, options[index].path, launcher=True))
            return
    _say(count, "-np", BarrierKind.PROCESSES, reading)


def _read_deepspeed(words: Sequence[Word], reading: Reading) -> None:
    flags = _flags(_before_program(words))
    if "num-nodes" in flags:
        _say(flags["num-nodes"], "--num_nodes", BarrierKind.PODS, reading)
    elif "hostfile" in flags or "H" in flags:
        word = flags.get("hostfile") or flags["H"]
        reading.unclear.append(Unclear("deepspeed takes its hosts from a file", word.path, launcher=True))
    per_pod = flags.get("num-gpus")
    if per_pod is not None and not per_pod.reason:
        reading.say_per_pod(per_pod.text)


def _read_accelerate(words: Sequence[Word], reading: Reading) -> None:
    """num_processes is the total over all machines."""
    flags = _flags(_before_program(words))
    machines, processes = flags.get("num-machines"), flags.get("num-processes")
    if machines is None and processes is None:
        if "config-file" in flags:
            reason = "accelerate takes the number of machines from a file"
            reading.unclear.append(Unclear(reason, flags["config-file"].path, launcher=True))
        return
    _say(machines, "--num_machines", BarrierKind.PODS, reading)
    _say(processes, "--num_processes", BarrierKind.PROCESSES, reading)
    if machines is None or processes is None or machines.reason or processes.reason:
        return
    pods, total = parse_range(machines.text), parse_range(processes.text)
    if pods and total and total[0] % pods[0] == 0:
        reading.per_pod.append(total[0] // pods[0])


def _read_jax(words: Sequence[Word], reading: Reading, *, coordinated: bool) -> None:
    flags = _flags(words)
    if coordinated or _COORDINATOR & flags.keys():
        _say(flags.get("num-processes"), "--num_processes", BarrierKind.EITHER, reading)


# ---- words ------------------------------------------------------------------------------------------------------
def _say(word: Word | None, name: str, kind: BarrierKind, reading: Reading) -> None:
    if word is None:
        return
    if word.reason:
        reading.unclear.append(Unclear(f"{name} is not readable: {word.reason}", word.path, launcher=True))
        return
    found = parse_range(word.text)
    if found is None:
        reason = f'{name} is "{word.text[:40]}", which is no number'
        reading.unclear.append(Unclear(reason, word.path, launcher=True))
        return
    reading.flags.append(Size(kind, *found, text=f"{name} {word.text}", path=word.path))


def _flags(words: Sequence[Word]) -> dict[str, Word]:
    """Options by name, without dashes and with ``-`` for ``_``; the later one wins. A switch has the next option's
    word, or nothing, as its value: only `in` may be asked of it."""
    result: dict[str, Word] = {}
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        key = name.replace("_", "-")
        if equals:
            result[key] = Word(value, word.path, word.reason)
        elif index + 1 < len(words):
            result[key] = words[index + 1]
        else:
            result[key] = Word("", word.path)
    return result


def _mpi_count(options: Sequence[Word]) -> Word | None:
    """The value of the first -np, -n, --np or -c."""
    for index, word in enumerate(options):
        if not word.text.startswith("-"):
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        if name in _MPI_COUNT:
            if equals:
                return Word(value, word.path, word.reason)
            return options[index + 1] if index + 1 < len(options) else None
    return None


def _before_program(words: Sequence[Word]) -> Sequence[Word]:
    """The launcher's own options: up to the program it starts, whose options may have the same names."""
    for index, word in enumerate(words):
        if word.text in {"-m", "--module"} or _is_program(words, index):
            return words[:index]
    return words


def _is_program(words: Sequence[Word], index: int) -> bool:
    text = words[index].text
    if text.startswith("-"):
        return False
    if text.endswith((".py", ".sh")) or _PYTHON.match(_name(text)) or _name(text) in _SHELLS:
        return True
    before = words[index - 1].text if index > 0 else ""
    is_value = before.startswith("-") and "=" not in before
    return "/" in text and not is_value


def _name(text: str) -> str:
    """``/usr/bin/torchrun`` -> ``torchrun``"""
    return text.rstrip("/").rpartition("/")[2]
