"""What a mutation says of itself. Same convention as rules: one file, META, a pure function; each opt-in by policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from webhook.facts.model import Facts
from webhook.objects.fieldpath import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationMeta:
    """id: ``WAS9nn``. The same fields as RuleMeta, as far as they make sense. Mutations run on CREATE only."""

    id: str
    name: str
    summary: str
    kinds: frozenset[str]
    gate: str | None = None
    since: str = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field set. `value` is JSON. `note` is the warning that announces it, one sentence.

    The pipeline turns changes into the smallest JSON patch (adding missing parents), and drops what is already so.
    """

    path: FieldPath
    value: Any
    note: str


class Mutation(Protocol):
    META: MutationMeta

    def mutate(self, facts: Facts, /) -> Iterable[Change]: ...
