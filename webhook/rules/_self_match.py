"""Does a label selector, for certain, match the Pods of the template it stands in?

What a controller or another webhook adds to a Pod can make a label appear, never disappear or change, so only what the
template itself shows is counted, and a requirement that an added label could break proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """A raw metav1.LabelSelector. None matches nothing, an empty one everything (as in the scheduler)."""
    if not isinstance(selector, Mapping):
        return False
    wanted = selector.get("matchLabels") or {}
    if not isinstance(wanted, Mapping) or any(labels.get(key) != value for key, value in wanted.items()):
        return False
    requirements = selector.get("matchExpressions") or []
    return isinstance(requirements, list) and all(
        isinstance(item, Mapping) and _holds(item, labels) for item in requirements
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    values = _items(requirement.get("values"))
    operator = requirement.get("operator")
    if value is None:
        return False  # the label may be added later, so NotIn and DoesNotExist prove nothing either
    return (
        operator == "Exists" or (operator == "In" and value in values) or (operator == "NotIn" and value not in values)
    )


def own_namespace(term: Mapping[str, Any], namespace: str) -> bool:
    """Does a Pod affinity term look at the Pod's own namespace, for certain?"""
    if namespace in _items(term.get("namespaces")):
        return True
    selector = term.get("namespaceSelector")
    if selector is None:
        return not term.get("namespaces")
    return isinstance(selector, Mapping) and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _items(value: Any) -> list[Any]:
    """A raw list; what is none holds nothing."""
    return value if isinstance(value, list) else []
