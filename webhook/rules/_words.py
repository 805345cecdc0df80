"""Lists, and scopes and subjects of the policy, as the texts of rules print them."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.policy.model import NamespaceScope, Subjects

_LISTED_MAX = 10


def quoted(names: Iterable[str]) -> str:
    """``"a", "b" and 3 more``: sorted, in double quotes, at most ten; "" for none."""
    unique = sorted(set(names))
    text = ", ".join(f'"{name}"' for name in unique[:_LISTED_MAX])
    more = len(unique) - _LISTED_MAX
    return f"{text} and {more} more" if more > 0 else text


def scope_words(scope: NamespaceScope | None) -> str:
    """``"ml-*", "team-a" or namespaces with ...``; for limits in texts."""
    if scope is None:
        return "every namespace"
    words = quoted(scope.namespaces)
    if scope.namespace_selector is None:
        return words or "no namespace"
    selector = "namespaces with the labels of its namespaceSelector"
    return f"{words} or {selector}" if words else selector


def subject_words(subjects: Subjects) -> str:
    """``users "alice"; groups "ml"``."""
    parts = (("users", subjects.users), ("groups", subjects.groups), ("service accounts", subjects.service_accounts))
    return "; ".join(f"{word} {quoted(names)}" for word, names in parts if names) or "nobody"
