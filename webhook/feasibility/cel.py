"""Device selectors in CEL: a subset that is understood in full, in three truth values. Pure.

`selector(text)` compiles (cached); `Selector.of(device)` answers YES, NO or MAYBE as kube-scheduler's own CEL would. Only
NO supports a proof, and NO is given only for forms whose answers were compared with the real kube-scheduler
(tests/live/test_devices_cel.py). All else is MAYBE: a construct outside the subset, an attribute that a device does not
have (a runtime error in 1.37, which a driver may mend by publishing it), a comparison of unlike types.

The rules that matter (k8s.io/dynamic-resource-allocation v0.37.2 cel/compile.go): an unknown domain is an empty map;
an attribute without a domain has the driver's; `false && error` is false and `true || error` is true, in either order;
values of different types are unequal, ordering them is an error.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from webhook.feasibility.cel_parser import Call, Identifier, ListOf, Literal, Node, Select, UnreadableError, parse
from webhook.inventory.versions import Version
from webhook.objects.quantity import Quantity, QuantityError

# k8s.io/api resource/v1: CELSelectorExpressionMaxLength.
EXPRESSION_BYTES_MAX = 10 * 1024

_PLAIN_PATTERN = re.compile(r"\^?(?:[A-Za-z0-9_ -]|\.[*+]?)*\$?")
_WILDCARDS_MAX = 3
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}

Key = tuple[str, str]


class Truth(enum.IntEnum):
    """Does a device satisfy a selector?"""

    NO = 0
    MAYBE = 1
    YES = 2


class _Unknown:
    """A value, or an error, that is not known. Compared by identity."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
ABSENT = None


class DeviceValues(Protocol):
    """What an expression may see of a device. attribute and capacity: by (domain, id); ABSENT where there is none,
    UNKNOWN where nobody can tell. A version is a Version, a capacity a Quantity, a list a tuple."""

    @property
    def driver(self) -> str: ...
    @property
    def is_multiple(self) -> bool | _Unknown: ...
    def attribute(self, key: Key) -> Any: ...
    def capacity(self, key: Key) -> Any: ...


Evaluate = Callable[[DeviceValues], Any]


@dataclass(frozen=True, slots=True)
class Selector:
    """One compiled expression. reads: the attributes and capacities that it may look at, ("attribute", domain, id).
    is_whole: no part of it is outside the subset. conjuncts: the parts of its outermost `&&`, for explanations."""

    text: str
    reads: frozenset[tuple[str, str, str]]
    is_whole: bool
    conjuncts: tuple[tuple[str, Evaluate], ...] = field(compare=False, repr=False)
    _evaluate: Evaluate = field(compare=False, repr=False)

    def of(self, device: DeviceValues) -> Truth:
        """The answer for one device."""
        return _truth(self._evaluate(device))

    def culprits(self, device: DeviceValues) -> Iterator[str]:
        """The parts of the outermost `&&` that are NO for the device."""
        return (text for text, evaluate in self.conjuncts if _truth(evaluate(device)) is Truth.NO)


def _truth(value: Any) -> Truth:
    # A selector that does not give a bool is a runtime error.
    return Truth.YES if value is True else Truth.NO if value is False else Truth.MAYBE


@lru_cache(maxsize=4096)
def selector(text: str) -> Selector:
    """Compiles an expression; never raises. What cannot be read may match."""
    try:
        if len(text.encode()) > EXPRESSION_BYTES_MAX:
            raise UnreadableError("longer than 1.37 takes")
        tree = parse(text)
    except UnreadableError:
        return Selector(text, frozenset(), False, (), lambda _: UNKNOWN)
    compiler = _Compiler()
    evaluate = compiler.compile(tree)
    parts = tuple((text[node.begin : node.end].strip(), compiler.compile(node)) for node in _conjuncts(tree))
    return Selector(text, frozenset(compiler.reads), not compiler.is_partial, parts, evaluate)


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.function == "&&":
        for part in node.arguments:
            yield from _conjuncts(part)
    else:
        yield node


# ---- compilation ----------------------------------------------------------------------------------------------------
class _Compiler:
    """Turns a tree into closures. Whatever is not listed here evaluates to UNKNOWN."""

    def __init__(self) -> None:
        self.reads: set[tuple[str, str, str]] = set()
        self.is_partial = False

    def compile(self, node: Node) -> Evaluate:
        if isinstance(node, Literal):
            value = node.value
            return lambda _: value
        if isinstance(node, ListOf):
            items = [self.compile(item) for item in node.items]
            return lambda device: tuple(item(device) for item in items)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        return self._opaque()

    def _opaque(self) -> Evaluate:
        self.is_partial = True
        return lambda _: UNKNOWN

    # -- device.driver, device.attributes["d"].id, device.capacity["d"].id --------------------------------------------
    def _select(self, node: Select) -> Evaluate:
        if _is_device(node.of) and node.name == "driver":
            return lambda device: device.driver
        if _is_device(node.of) and node.name == "allowMultipleAllocations":
            return lambda device: device.is_multiple
        found = _device_map(node)
        if found is None:
            return self._opaque()
        kind, domain, name = found
        self.reads.add(found)
        read = _reader(kind, (domain, name))

        def value(device: DeviceValues) -> Any:
            have = read(device)
            return UNKNOWN if have is ABSENT else have

        return value

    def _call(self, node: Call) -> Evaluate:
        if node.target is not None:
            return self._member_call(node)
        name, arguments = node.function, node.arguments
        if name == "[]":
            return self._index(node)
        if name == "has" and len(arguments) == 1 and isinstance(arguments[0], Select):
            return self._has(arguments[0])
        apply = _OPERATORS.get(name)
        if apply is not None:
            parts = [self.compile(argument) for argument in arguments]
            return lambda device: apply(*[part(device) for part in parts])
        if name == "in" and len(arguments) == 2:
            return self._in(arguments[0], arguments[1])
        if name in _CONSTRUCTORS and len(arguments) == 1 and isinstance(arguments[0], Literal):
            made = _CONSTRUCTORS[name](arguments[0].value)
            return lambda _: made
        return self._opaque()

    def _index(self, node: Call) -> Evaluate:
        """`device.attributes["d"]["id"]` is `device.attributes["d"].id`."""
        of, key = node.arguments
        if isinstance(key, Literal) and isinstance(key.value, str):
            return self._select(Select(node.begin, node.end, of, key.value))
        return self._opaque()

    def _has(self, node: Select) -> Evaluate:
        found = _device_map(node)
        if found is None:
            return self._opaque()
        self.reads.add(found)
        return _presence(_reader(found[0], (found[1], found[2])))

    def _in(self, item: Node, of: Node) -> Evaluate:
        domain = _device_domain(of)
        if domain is not None:
            if not isinstance(item, Literal) or not isinstance(item.value, str):
                return self._opaque()
            kind, name = domain
            self.reads.add((kind, name, item.value))
            return _presence(_reader(kind, (name, item.value)))
        left, right = self.compile(item), self.compile(of)
        return lambda device: _contains(left(device), right(device))

    def _member_call(self, node: Call) -> Evaluate:
        known = _MEMBERS.get(node.function)
        assert node.target is not None  # noqa: S101  the caller looked
        if known is None or len(node.arguments) != known[0]:
            return self._opaque()
        if node.function == "matches":
            pattern = node.arguments[0]
            if not isinstance(pattern, Literal) or _matches("", pattern.value) is UNKNOWN:
                return self._opaque()
        parts = [self.compile(part) for part in (node.target, *node.arguments)]
        apply = known[1]

        def call(device: DeviceValues) -> Any:
            values = [part(device) for part in parts]
            return UNKNOWN if any(value is UNKNOWN for value in values) else apply(*values)

        return call


def _reader(kind: str, key: Key) -> Evaluate:
    return (lambda device: device.attribute(key)) if kind == "attribute" else (lambda device: device.capacity(key))


def _presence(read: Evaluate) -> Evaluate:
    def present(device: DeviceValues) -> Any:
        have = read(device)
        return UNKNOWN if have is UNKNOWN else have is not ABSENT

    return present


def _is_device(node: Node) -> bool:
    return isinstance(node, Identifier) and node.name == "device"


_MAPS = {"attributes": "attribute", "capacity": "capacity"}


def _device_domain(node: Node) -> tuple[str, str] | None:
    """`device.attributes["domain"]`: which map, and the domain."""
    if not isinstance(node, Call) or node.function != "[]" or node.target is not None:
        return None
    of, key = node.arguments
    if not isinstance(of, Select) or not _is_device(of.of) or of.name not in _MAPS:
        return None
    return (_MAPS[of.name], key.value) if isinstance(key, Literal) and isinstance(key.value, str) else None


def _device_map(node: Select) -> tuple[str, str, str] | None:
    domain = _device_domain(node.of)
    return None if domain is None else (*domain, node.name)


# ---- values -------------------------------------------------------------------------------------------------------
_ORDERED = (int, str, bool)


def _and(*values: Any) -> Any:
    if any(value is False for value in values):
        return False
    return True if all(value is True for value in values) else UNKNOWN


def _or(*values: Any) -> Any:
    if any(value is True for value in values):
        return True
    return False if all(value is False for value in values) else UNKNOWN


def _not(value: Any) -> Any:
    return (not value) if isinstance(value, bool) else UNKNOWN


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition is True else no if condition is False else UNKNOWN


def _equal(left: Any, right: Any) -> Any:
    """Equality of scalars; a version or quantity against another type is an error in 1.37."""
    if not isinstance(left, (*_ORDERED, Version, Quantity)) or not isinstance(right, (*_ORDERED, Version, Quantity)):
        return UNKNOWN
    if type(left) is not type(right):
        return False if type(left) in _ORDERED and type(right) in _ORDERED else UNKNOWN
    if isinstance(left, Version) and isinstance(right, Version):
        return left.compare(right) == 0
    return bool(left == right)


def _unequal(left: Any, right: Any) -> Any:
    return _not(_equal(left, right))


def _order(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if type(left) is not type(right) or type(left) not in (int, str):
            return UNKNOWN
        return test(left, right)

    return apply


def _contains(item: Any, of: Any) -> Any:
    if not isinstance(of, tuple):
        return UNKNOWN
    answers = [_equal(item, one) for one in of]
    if any(answer is True for answer in answers):
        return True
    return False if all(answer is False for answer in answers) else UNKNOWN


def _compare(left: Any, right: Any) -> Any:
    if isinstance(left, Version) and isinstance(right, Version):
        return left.compare(right)
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left > right) - (left < right)
    return UNKNOWN


def _is_greater(left: Any, right: Any) -> Any:
    order = _compare(left, right)
    return UNKNOWN if order is UNKNOWN else order > 0


def _is_less(left: Any, right: Any) -> Any:
    order = _compare(left, right)
    return UNKNOWN if order is UNKNOWN else order < 0


def _on_text(apply: Callable[[str, str], bool]) -> Callable[[Any, Any], Any]:
    return lambda text, other: apply(text, other) if isinstance(text, str) and isinstance(other, str) else UNKNOWN


def _matches(text: Any, pattern: Any) -> Any:
    """RE2 and Python agree on patterns of plain characters, `.`, `.*`, `.+` and anchors. Few wildcards: Python tries
    every way to spread the text over them."""
    if not isinstance(text, str) or not isinstance(pattern, str) or not _PLAIN_PATTERN.fullmatch(pattern):
        return UNKNOWN
    if pattern.count("*") + pattern.count("+") > _WILDCARDS_MAX or "\n" in text:
        return UNKNOWN
    return re.search(pattern, text) is not None


def _quantity(text: Any) -> Any:
    try:
        made = Quantity.parse(text) if isinstance(text, str) else None
    except QuantityError:
        return UNKNOWN
    return UNKNOWN if made is None or made.is_capped else made


def _semver(text: Any) -> Any:
    made = Version.parse(text) if isinstance(text, str) else None
    return UNKNOWN if made is None else made


_OPERATORS: dict[str, Callable[..., Any]] = {
    "&&": _and,
    "||": _or,
    "!": _not,
    "?:": _choose,
    "==": _equal,
    "!=": _unequal,
    "<": _order(lambda left, right: left < right),
    "<=": _order(lambda left, right: left <= right),
    ">": _order(lambda left, right: left > right),
    ">=": _order(lambda left, right: left >= right),
}
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {"quantity": _quantity, "semver": _semver}
# Member function -> (how many arguments, what it does). Its parts are never UNKNOWN.
_MEMBERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "compareTo": (1, _compare),
    "isGreaterThan": (1, _is_greater),
    "isLessThan": (1, _is_less),
    "startsWith": (1, _on_text(str.startswith)),
    "endsWith": (1, _on_text(str.endswith)),
    "contains": (1, _on_text(lambda text, other: other in text)),
    "matches": (1, _matches),
    "lowerAscii": (0, lambda text: text.translate(_LOWER) if isinstance(text, str) else UNKNOWN),
    "upperAscii": (0, lambda text: text.translate(_UPPER) if isinstance(text, str) else UNKNOWN),
}
