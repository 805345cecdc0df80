"""MUTATIONS: every mutation, in the order of its ID. Explicit, like the rule catalogue."""

from __future__ import annotations

from webhook.mutations.meta import Mutation

MUTATIONS: tuple[Mutation, ...] = ()
