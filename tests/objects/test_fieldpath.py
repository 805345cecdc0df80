"""Paths as Kubernetes prints them, and as JSON Patch needs them."""

from __future__ import annotations

import pytest

from webhook.objects.fieldpath import METADATA, ROOT, SPEC, FieldPath


@pytest.mark.parametrize(
    ("path", "text", "pointer"),
    [
        (ROOT, "", ""),
        (SPEC, "spec", "/spec"),
        ((SPEC / "containers").at(0) / "env", "spec.containers[0].env", "/spec/containers/0/env"),
        (METADATA / "annotations" / "muster.dev/barrier", "metadata.annotations[muster.dev/barrier]", "/metadata/annotations/muster.dev~1barrier"),
        (METADATA / "labels" / "a~b", "metadata.labels[a~b]", "/metadata/labels/a~0b"),
        (FieldPath.of("items", 3), "items[3]", "/items/3"),
        (SPEC.join(FieldPath.of("a", "b")), "spec.a.b", "/spec/a/b"),
    ],
)  # fmt: skip
def test_a_path_has_a_text_and_a_pointer(path: FieldPath, text: str, pointer: str) -> None:
    assert (str(path), path.pointer()) == (text, pointer)


def test_paths_of_one_place_are_equal() -> None:
    assert FieldPath.of("spec", "a") == SPEC / "a"
    assert len({SPEC / "a", FieldPath.of("spec", "a")}) == 1
