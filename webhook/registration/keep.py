"""What an update of a stored configuration keeps of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]


def updated(stored: Mapping[str, Any], rendered: Mapping[str, Any]) -> JsonObject:
    """The object to PUT: the rendered webhooks, under the stored metadata.

    Labels and annotations of others stay (Helm's, cert-manager's). So does the CA bundle where none was rendered:
    cert-manager writes it into the stored object, and without it no call would be trusted.
    """
    metadata = dict(stored.get("metadata") or {})
    for key in ("labels", "annotations"):
        words = {**(metadata.get(key) or {}), **(rendered["metadata"].get(key) or {})}
        if words:
            metadata[key] = words
    metadata.pop("managedFields", None)
    bundles = [_ca_bundle(webhook) for webhook in stored.get("webhooks") or ()]
    # An entry that is new takes the bundle of its neighbours: they are one server.
    any_bundle = next((bundle for bundle in bundles if bundle), "")
    webhooks = [_with_bundle(webhook, any_bundle) for webhook in rendered["webhooks"]]
    return {**rendered, "metadata": metadata, "webhooks": webhooks}


def is_current(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Does the stored object say the same? What is rendered names every field, so no defaults differ."""
    metadata, old = wanted["metadata"], stored.get("metadata") or {}
    same_words = all((old.get(key) or {}) == (metadata.get(key) or {}) for key in ("labels", "annotations"))
    return same_words and stored.get("webhooks") == wanted["webhooks"]


def _ca_bundle(webhook: Mapping[str, Any]) -> str:
    return str((webhook.get("clientConfig") or {}).get("caBundle") or "")


def _with_bundle(webhook: Mapping[str, Any], bundle: str) -> JsonObject:
    config = webhook["clientConfig"]
    if config.get("caBundle") or not bundle:
        return dict(webhook)
    return {**webhook, "clientConfig": {**config, "caBundle": bundle}}
