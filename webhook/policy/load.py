"""Policy files -> one checked policy, or every fault at once.

**Files.** Exactly one file holds a `Policy`; any others hold a `PolicyPart` each, whose tiers, overrides and exemptions
are appended in the order of the file names. Nothing is ever merged key by key, so what a policy says stands in one
place. This serves a ConfigMap with several keys: the admins own `policy.yaml`, a team owns `exemptions-team-a.yaml`.
A folder stands for the `*.yaml` and `*.yml` files in it (not below it; names that start with a dot are a ConfigMap
mount's own).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from webhook.objects.fieldpath import FieldPath
from webhook.policy.check import Document, Findings, Known, check, scopes, written_tier_names
from webhook.policy.effective import EffectivePolicy
from webhook.policy.explain import validated
from webhook.policy.model import Policy, PolicyMetadata, PolicyPart
from webhook.policy.problems import PolicyError, Problem, did_you_mean
from webhook.policy.yamltree import FILE_BYTES_MAX, Node, kind_of, parse

__all__ = ["FILE_COUNT_MAX", "Known", "LoadedPolicies", "PolicyError", "Problem", "default_policies", "load_policies"]

V = TypeVar("V")

FILE_COUNT_MAX = 100
# Namespaces of one cluster that are looked at between two changes of the policy; an entry is about 2 kB.
CACHE_COUNT_MAX = 4096

_KIND = FieldPath.of("kind")


class LoadedPolicies:
    """A checked policy. Immutable and thread-safe; the pipeline's `Policies`."""

    def __init__(self, policy: Policy, warnings: Sequence[Problem] = ()) -> None:
        self.policy = policy
        self.warnings: tuple[Problem, ...] = tuple(warnings)
        text = policy.model_dump_json(by_alias=True)
        #: The first 12 hex digits of the SHA-256 of the policy's content: the same wherever the same policy is read.
        self.version = hashlib.sha256(text.encode()).hexdigest()[:12]
        #: Does any scope select namespaces by label? Else labels need not be looked up.
        self.needs_labels = any(scope.namespace_selector is not None for _, scope in scopes(policy))
        self._effective = lru_cache(maxsize=CACHE_COUNT_MAX)(self._build)

    def effective(self, namespace: str, labels: Mapping[str, str]) -> EffectivePolicy:
        """The policy as it applies to a namespace with these labels. Cached."""
        return self._effective(namespace, frozenset(labels.items()) if self.needs_labels else frozenset())

    def _build(self, namespace: str, labels: frozenset[tuple[str, str]]) -> EffectivePolicy:
        return EffectivePolicy(self.policy, self.version, namespace, dict(labels))


def default_policies() -> LoadedPolicies:
    """The policy of somebody who wrote none: every rule at its own default action, no gate declared."""
    policy = Policy(api_version="muster.dev/v1alpha1", kind="Policy", metadata=PolicyMetadata(name="default"))
    return LoadedPolicies(policy)


def load_policies(
    paths: Iterable[Path | str], *, known: Known | None = None, today: date | None = None
) -> LoadedPolicies:
    """Reads and checks files or folders.

    known: the rule and mutation IDs there are; None leaves them unchecked. today: UTC, for the warning about
    exemptions that ended; None leaves it out. Raises PolicyError with every fault, and for files that cannot be read.
    """
    return parse_policies([(str(path), _read(path)) for path in policy_files(paths)], known=known, today=today)


def parse_policies(
    texts: Sequence[tuple[str, bytes]], *, known: Known | None = None, today: date | None = None
) -> LoadedPolicies:
    """`load_policies` on (file name, content) pairs: no I/O."""
    documents: list[Document] = []
    errors: list[Problem] = []
    for file, text in texts:
        document, problems = _document(file, text)
        errors += problems
        documents += [] if document is None else [document]
    policies = [document for document in documents if isinstance(document.model, Policy)]
    for extra in policies[1:]:
        message = f'a second Policy, beside {policies[0].file}; keep one, and make the other a "kind: PolicyPart"'
        errors.append(extra.problem(_KIND, message))
    if not policies and not errors:
        names = ", ".join(file for file, _ in texts) or "no files"
        errors.append(Problem(file=names, message='holds no "kind: Policy"; one file must'))
    findings = check(documents, known, today)
    errors += findings.errors
    if errors:
        order = {file: index for index, (file, _) in enumerate(texts)}
        raise PolicyError(sorted(errors, key=lambda error: (order.get(error.file, 0), error.line, error.column)))
    return _joined(policies[0], documents, known, findings)


# -- files --------------------------------------------------------------------------------------------------------
def policy_files(paths: Iterable[Path | str]) -> list[Path]:
    """The files that the paths stand for, in order of name within a folder. Raises PolicyError."""
    files: list[Path] = []
    for given in paths:
        path = Path(given)
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else None
        except OSError as error:
            raise PolicyError([Problem(file=str(path), message=f"cannot be listed: {error.strerror}")]) from None
        if inside is None:
            files.append(path)
            continue
        found = [file for file in inside if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")]
        if not found:
            raise PolicyError([Problem(file=str(path), message="is a folder without a .yaml file")])
        files += [file for file in found if file.is_file()]
    if len(files) > FILE_COUNT_MAX:
        raise PolicyError([Problem(file=str(files[0]), message=f"{len(files)} files, the limit is {FILE_COUNT_MAX}")])
    return files


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PolicyError([Problem(file=str(path), message=f"cannot be read: {error.strerror}")]) from None


# -- documents ----------------------------------------------------------------------------------------------------
_KINDS: Mapping[str, type[Policy | PolicyPart]] = {"Policy": Policy, "PolicyPart": PolicyPart}


def _document(file: str, text: bytes) -> tuple[Document | None, list[Problem]]:
    """One file, as far as it is sound, and its faults of shape."""
    try:
        root = parse(file, text)
        names = written_tier_names(root)
        problems = _set_kind(file, root)
        model = _KINDS[root.value["kind"].value] if "kind" in root.value else Policy
        sound, more = validated(file, root, model)
    except PolicyError as error:
        return None, list(error.problems)
    return (None if sound is None else Document(file, root, sound, names)), problems + more


def _set_kind(file: str, root: Node) -> list[Problem]:
    """Reports a kind that is neither of the two, and reads the rest of the file as a Policy."""
    kind = root.child("kind")
    if kind is None or (isinstance(kind.value, str) and kind.value in _KINDS):
        return []
    _, line, column = root.find(_KIND)
    hint = did_you_mean(kind.value, tuple(_KINDS)) if isinstance(kind.value, str) else ""
    message = f'must be "Policy" or "PolicyPart", got {kind_of(kind.value)}{hint}'
    kind.value = "Policy"
    return [Problem(file=file, line=line, column=column, field=_KIND, message=message)]


def _joined(policy: Document, documents: Sequence[Document], known: Known | None, findings: Findings) -> LoadedPolicies:
    """One Policy out of all documents, old rule IDs replaced."""
    assert isinstance(policy.model, Policy)  # noqa: S101  chosen by the caller
    spec = policy.model.spec
    # The Policy's own lists come first, whatever its file is called.
    parts = [policy, *(document for document in documents if document is not policy)]
    redirects = {} if known is None else known.redirects
    changes = {
        "rules": _redirected(spec.rules, redirects),
        "tiers": tuple(tier for part in parts for tier in part.model.spec.tiers),
        "overrides": tuple(
            override.model_copy(update={"rules": _redirected(override.rules, redirects)})
            for part in parts
            for override in part.model.spec.overrides
        ),
        "exemptions": tuple(
            exemption.model_copy(update={"rules": tuple(_redirected(dict.fromkeys(exemption.rules), redirects))})
            for part in parts
            for exemption in part.model.spec.exemptions
        ),
    }
    whole = policy.model.model_copy(update={"spec": spec.model_copy(update=changes)})
    return LoadedPolicies(whole, findings.warnings)


def _redirected(rules: Mapping[str, V], redirects: Mapping[str, str | None]) -> dict[str, V]:
    renamed = ((redirects.get(rule, rule), value) for rule, value in rules.items())
    return {rule: value for rule, value in renamed if rule is not None}
