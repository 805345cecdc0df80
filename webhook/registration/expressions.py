"""Small pieces of CEL as text: literals, lists, globs. Kubernetes 1.37's CEL (k8s.io/apiserver pkg/cel/environment).

Every piece is an expression that can stand in parentheses anywhere and never raises on the values it is meant for:
an error in a matchCondition of a webhook with failurePolicy Fail refuses the object.
"""

from __future__ import annotations

from collections.abc import Iterable

# RE2's own: what QuoteMeta would escape of printable ASCII that has a meaning. Other escapes are errors in RE2.
_RE2_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def literal(text: str) -> str:
    """A CEL string literal in single quotes."""
    return "'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def any_of(*expressions: str) -> str:
    """At least one holds. An error in one does not matter where another holds (CEL's ||)."""
    return _joined(" || ", expressions, neutral="false", decisive="true")


def all_of(*expressions: str) -> str:
    return _joined(" && ", expressions, neutral="true", decisive="false")


def _joined(operator: str, expressions: Iterable[str], neutral: str, decisive: str) -> str:
    parts = [expression for expression in expressions if expression != neutral]
    if decisive in parts:
        return decisive
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else "(" + operator.join(parts) + ")"


def among(subject: str, words: Iterable[str]) -> str:
    """Is the subject one of these words?"""
    ordered = sorted(set(words))
    if not ordered:
        return "false"
    if len(ordered) == 1:
        return f"{subject} == {literal(ordered[0])}"
    return f"{subject} in [{', '.join(literal(word) for word in ordered)}]"


def matches_any(subject: str, globs: Iterable[str]) -> str:
    """The same as webhook.policy.match.any_glob: `*` matches any text, everything else itself."""
    ordered = sorted(set(globs))
    words = [glob for glob in ordered if "*" not in glob]
    return any_of(among(subject, words), *(_glob(subject, glob) for glob in ordered if "*" in glob))


def _glob(subject: str, glob: str) -> str:
    first, *middle, last = glob.split("*")
    # Stars side by side are one star.
    middle = [part for part in middle if part]
    if len(middle) == 1 and not first and not last:
        return f"{subject}.contains({literal(middle[0])})"
    if middle:
        pattern = ".*".join(_re2_quoted(part) for part in (first, *middle, last))
        return f"{subject}.matches({literal(f'(?s)^{pattern}$')})"
    conditions = []
    if first:
        conditions.append(f"{subject}.startsWith({literal(first)})")
    if last:
        conditions.append(f"{subject}.endsWith({literal(last)})")
    if first and last:
        # "a*a" does not match "a": the two ends must not be the same characters.
        conditions.append(f"size({subject}) >= {len(first) + len(last)}")
    return all_of(*conditions)


def _re2_quoted(text: str) -> str:
    return "".join("\\" + character if character in _RE2_SPECIAL else character for character in text)


def some(variable: str, optionals: Iterable[str], condition: str) -> str:
    """Does the condition hold for one of these optional values (``o.?spec.?template``)? Absent ones are left out."""
    if condition == "false":
        return "false"
    items = ", ".join(f"?{optional}" for optional in optionals)
    return f"[{items}].exists({variable}, {condition})"
