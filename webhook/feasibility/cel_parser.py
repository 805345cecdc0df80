"""A parser for CEL expressions: text -> tree. What is not listed raises UnreadableError, and the caller lets it match.

Left out on purpose: bytes, triple-quoted strings, doubles, uints, messages, map literals and optional syntax; no
selector that may support a proof needs them. Grammar: the CEL language definition, "Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# cel-go's own limit is 250; what is nested deeper than this is not written by hand.
DEPTH_MAX = 40

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
      | (?P<number>0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.])
      | (?P<text>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\\'\"`?nrt]|.)", re.DOTALL)
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False}
_RELATIONS = {"==", "!=", "<", "<=", ">", ">="}


class UnreadableError(ValueError):
    """The expression is outside what this parser reads."""


@dataclass(frozen=True, slots=True)
class Node:
    """begin, end: the part of the text it stands for."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: bool | int | str | None


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    of: Node
    name: str


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """An operator ("&&", "[]", "?:"), a function, or with a target a member function."""

    function: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    begin: int
    end: int


def parse(text: str) -> Node:
    """Raises UnreadableError."""
    parser = _Parser(_tokens(text), len(text))
    tree = parser.expression(0)
    if parser.peek() is not None:
        raise UnreadableError("more follows")
    return tree


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnreadableError(f"at character {at}")
        if match.lastgroup != "space":
            found.append(_Token(str(match.lastgroup), match[0], at, match.end()))
        at = match.end()
    return found


class _Parser:
    """Recursive descent, one method per level of precedence."""

    def __init__(self, tokens: list[_Token], length: int) -> None:
        self.tokens = tokens
        self.length = length
        self.at = 0

    def peek(self) -> str | None:
        """The next sign or name; None at the end, "" before a literal."""
        if self.at == len(self.tokens):
            return None
        token = self.tokens[self.at]
        return token.text if token.kind in ("sign", "name") else ""

    def take(self) -> _Token:
        if self.at == len(self.tokens):
            raise UnreadableError("ends early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, sign: str) -> _Token:
        token = self.take()
        if token.kind == "text" or token.text != sign:
            raise UnreadableError(f"expected {sign}")
        return token

    def expression(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise UnreadableError("nested too deep")
        condition = self._or(depth)
        if self.peek() != "?":
            return condition
        self.take()
        yes = self._or(depth)
        self.expect(":")
        no = self.expression(depth + 1)
        return Call(condition.begin, no.end, "?:", None, (condition, yes, no))

    def _or(self, depth: int) -> Node:
        return self._chain("||", lambda: self._chain("&&", lambda: self._relation(depth)))

    def _chain(self, sign: str, operand: Callable[[], Node]) -> Node:
        """`a && b && c` is one call with three operands: long chains are not deep."""
        parts = [operand()]
        while self.peek() == sign:
            self.take()
            parts.append(operand())
        return parts[0] if len(parts) == 1 else Call(parts[0].begin, parts[-1].end, sign, None, tuple(parts))

    def _relation(self, depth: int) -> Node:
        left = self._sum(depth)
        for _ in self._limited(lambda: self.peek() in _RELATIONS or self.peek() == "in"):
            sign = self.take().text
            right = self._sum(depth)
            left = Call(left.begin, right.end, sign, None, (left, right))
        return left

    def _sum(self, depth: int) -> Node:
        left = self._unary(depth)
        for _ in self._limited(lambda: self.peek() in {"+", "-", "*", "/", "%"}):
            # Arithmetic is outside the subset, so its precedence does not matter.
            self.take()
            right = self._unary(depth)
            left = Call(left.begin, right.end, "arithmetic", None, (left, right))
        return left

    def _unary(self, depth: int) -> Node:
        signs: list[_Token] = []
        while self.peek() in {"!", "-"}:
            signs.append(self.take())
        if len(signs) > DEPTH_MAX:
            raise UnreadableError("nested too deep")
        minus = bool(signs) and signs[-1].text == "-"
        if minus and self.at < len(self.tokens) and self.tokens[self.at].kind == "number":
            sign = signs.pop()
            number = self.take()
            node: Node = Literal(sign.begin, number.end, _integer("-" + number.text))
            node = self._members(node, depth)
        else:
            node = self._members(self._primary(depth), depth)
        for sign in reversed(signs):
            node = Call(sign.begin, node.end, "!" if sign.text == "!" else "arithmetic", None, (node,))
        return node

    def _members(self, node: Node, depth: int) -> Node:
        for _ in self._limited(lambda: self.peek() in {".", "["}):
            sign = self.peek()
            if sign == ".":
                self.take()
                name = self.take()
                if name.kind != "name":
                    raise UnreadableError("expected a name")
                if self.peek() == "(":
                    arguments, end = self._arguments(depth)
                    node = Call(node.begin, end, name.text, node, arguments)
                else:
                    node = Select(node.begin, name.end, node, name.text)
            else:
                self.take()
                key = self.expression(depth + 1)
                node = Call(node.begin, self.expect("]").end, "[]", None, (node, key))
        return node

    @staticmethod
    def _limited(goes_on: Callable[[], bool]) -> Iterator[None]:
        """Repeats that nest the tree, up to DEPTH_MAX."""
        for _ in range(DEPTH_MAX):
            if not goes_on():
                return
            yield
        if goes_on():
            raise UnreadableError("nested too deep")

    def _arguments(self, depth: int) -> tuple[tuple[Node, ...], int]:
        self.expect("(")
        items = self._items(")", depth)
        return items, self.expect(")").end

    def _items(self, closing: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while self.peek() != closing:
            items.append(self.expression(depth + 1))
            if self.peek() != ",":
                break
            self.take()
        return tuple(items)

    def _primary(self, depth: int) -> Node:
        token = self.take()
        if token.kind == "number":
            return Literal(token.begin, token.end, _integer(token.text))
        if token.kind == "text":
            return Literal(token.begin, token.end, _text(token.text))
        if token.kind == "name":
            if token.text in _WORDS:
                return Literal(token.begin, token.end, _WORDS[token.text])
            if token.text in {"null", "in"}:
                raise UnreadableError(token.text)
            if self.peek() == "(":
                arguments, end = self._arguments(depth)
                return Call(token.begin, end, token.text, None, arguments)
            return Identifier(token.begin, token.end, token.text)
        if token.text == "(":
            inner = self.expression(depth + 1)
            self.expect(")")
            return inner
        if token.text == "[":
            items = self._items("]", depth)
            return ListOf(token.begin, self.expect("]").end, items)
        raise UnreadableError(token.text)


def _integer(text: str) -> int:
    number = int(text, 0) if "x" in text.lower() else int(text)
    if not -(2**63) <= number < 2**63:
        raise UnreadableError("beyond int64")
    return number


def _text(token: str) -> str:
    if token[0] in "rR":
        return token[2:-1]

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code[0] in "ux" and len(code) > 1:
            return chr(int(code[1:], 16))
        raise UnreadableError(f"escape {code}")

    return _ESCAPE.sub(one, token[1:-1])
