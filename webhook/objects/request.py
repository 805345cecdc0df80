"""admission.k8s.io/v1 AdmissionRequest, as much of it as Muster uses. Source: k8s.io/api v0.37.2 admission/v1."""

from __future__ import annotations

from typing import Any

from webhook.objects.core import Base


class GroupVersionKind(Base, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(Base, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Base, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, list[str]] | None = None


class AdmissionRequest(Base, frozen=True):
    """`object` and `old_object` are raw JSON objects: patches and unknown-field checks need every byte's meaning.

    `kind` is what the API server converted the object to for this webhook, `request_kind` what the client used:
    always parse by `kind`. `name` is empty for generateName in the mutating phase and for deletecollection.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = "CREATE"
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None
    options: dict[str, Any] | None = None

    @property
    def display_name(self) -> str:
        """What to call the object in a text: its name; "train-*" where the API server will generate one; or ""."""
        if self.name:
            return self.name
        metadata = (self.object or self.old_object or {}).get("metadata")
        if not isinstance(metadata, dict):
            return ""
        name, prefix = metadata.get("name"), metadata.get("generateName")
        if isinstance(name, str) and name:
            return name
        return f"{prefix}*" if isinstance(prefix, str) and prefix else ""
