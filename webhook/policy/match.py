"""Does a name, a namespace or a user match? Globs, label selectors, subjects. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from webhook.policy.model import LabelSelector, NamespaceScope, Subjects

_SERVICE_ACCOUNT = "system:serviceaccount:"


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")) + r"\Z", re.DOTALL)


def glob_matches(glob: str, text: str) -> bool:
    """`*` matches any text, everything else itself."""
    return glob == text or ("*" in glob and _pattern(glob).match(text) is not None)


def any_glob(globs: Iterable[str], text: str) -> bool:
    return any(glob_matches(glob, text) for glob in globs)


def selector_matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """metav1.LabelSelector semantics: all parts must hold; an empty selector matches everything."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for requirement in selector.match_expressions:
        value = labels.get(requirement.key)
        holds = {
            "In": value is not None and value in requirement.values,
            "NotIn": value is None or value not in requirement.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[requirement.operator]
        if not holds:
            return False
    return True


def in_scope(scope: NamespaceScope, namespace: str, labels: Mapping[str, str]) -> bool:
    if any_glob(scope.namespaces, namespace):
        return True
    return scope.namespace_selector is not None and selector_matches(scope.namespace_selector, labels)


def is_subject(subjects: Subjects, username: str, groups: Iterable[str]) -> bool:
    if any_glob(subjects.users, username):
        return True
    if username.startswith(_SERVICE_ACCOUNT) and any_glob(
        subjects.service_accounts, username.removeprefix(_SERVICE_ACCOUNT)
    ):
        return True
    return any(any_glob(subjects.groups, group) for group in groups)
