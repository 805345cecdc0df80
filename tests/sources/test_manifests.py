"""Manifests as people write them, and as they should never be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.fieldpath import FieldPath
from webhook.sources.manifests import ManifestError, read_file, read_text, scan_text


def raws(text: str | bytes) -> list[dict[str, object]]:
    data = text.encode() if isinstance(text, str) else text
    return [manifest.raw for manifest in read_text(data, "f.yaml")]


def test_documents_comments_and_empty_documents() -> None:
    """Helm writes comments between separators and empty documents for templates that are off."""
    assert raws("# Source: x\n---\n# only a comment\n---\na: 1\n---\n\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_bom_crlf_and_utf16() -> None:
    """A Windows editor changes nothing."""
    assert raws("a: 1\r\nb:\r\n- x\r\n".encode("utf-8-sig")) == [{"a": 1, "b": ["x"]}]
    assert raws("a: ü\n".encode("utf-16")) == [{"a": "ü"}]


def test_json_is_yaml() -> None:
    """`kubectl get -o json` output is a manifest."""
    assert raws('{"apiVersion": "v1", "x": [1, 2.5, null, true]}') == [{"apiVersion": "v1", "x": [1, 2.5, None, True]}]


def test_lists_are_their_items_with_their_lines() -> None:
    """A List (of Lists) is what it holds; `XList` is not a List where it has no items."""
    found = read_text(
        b"kind: List\nitems:\n- kind: A\n- kind: PodList\n  items:\n  - kind: B\n---\nkind: WishList\n", "f"
    )

    assert [(item.raw.get("kind"), item.line) for item in found] == [("A", 3), ("B", 6), ("WishList", 8)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2:4", "2:4"),  # PET_NNODES, a sexagesimal number to other YAML 1.1 readers
        ("1e3", 1000.0),
        ("010", 8),
        ("0x10", 16),
        ("on", True),
        ("No", False),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", 1000),
        ("500m", "500m"),
        (".5", 0.5),
        ("=", "="),
    ],
)
def test_scalars_are_read_as_kubectl_reads_them(text: str, value: object) -> None:
    """sigs.k8s.io/yaml decides what a plain word means, not YAML 1.2 and not Python."""
    assert raws(f"a: {text}\n") == [{"a": value}]


def test_anchors_and_merge_keys() -> None:
    """A merge is overruled by what is written beside it, in either order."""
    assert raws("b: &b {x: 1, z: 2}\nm: {<<: *b, x: 3}\nn: {x: 4, <<: *b}\n")[0]["m"] == {"x": 3, "z": 2}
    assert raws("b: &b {x: 1, z: 2}\nq: {x: 4, <<: *b}\n")[0]["q"] == {"x": 4, "z": 2}


def test_the_line_of_a_field_or_of_what_encloses_it() -> None:
    """Errors name the line of the field, and the nearest written one where it is missing."""
    manifest = read_text(b"a: 1\n---\nspec:\n  list:\n  - x: 1\n    z: 2\n", "f")[1]

    assert manifest.line_of(FieldPath.of("spec", "list", 0, "z")) == 6
    assert manifest.line_of(FieldPath.of("spec", "list", 0, "nope")) == 5
    assert manifest.line_of(FieldPath.of("status")) == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"a: 1\na: 2\n", 2, '"a" is written twice'),
        (b"- 1\n", 1, "must be a mapping"),
        (b"x: 1\ny: [\n", 3, "not YAML"),
        (b"a:\n\t- b\n", 2, "not YAML"),
        (b"a: !secret x\n", 1, "unknown tag"),
        (b"a: \x00\n", 1, "not text"),
        (b"\xff\xfe\x00", None, "not text"),
        (b"a: 1\nb: \xe9\n", 2, "not text"),
        (b"a: &a [*a]\n", 1, "nested more than"),
        (b"{a: " * 5000, 1, "nesting"),
        (b"? [1, 2]\n: 3\n", 1, "a key must be text"),
        (b"a: *nobody\n", 1, "not YAML"),
    ],
)
def test_unreadable_input_names_the_line(text: bytes, line: int | None, words: str) -> None:
    """Hostile or broken input ends in one clear error, never in a traceback."""
    with pytest.raises(ManifestError) as caught:
        read_text(text, "f.yaml")

    assert caught.value.line == line
    assert words in str(caught.value)
    assert str(caught.value).startswith("f.yaml:")


def test_an_alias_bomb_is_refused() -> None:
    """Ten levels of ten aliases are ten thousand million values: counted, not built."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    with pytest.raises(ManifestError, match="more than 1000000 values"):
        read_text("\n".join(lines).encode(), "bomb.yaml")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    """The operating system's word, with the file's name."""
    with pytest.raises(ManifestError, match=r"gone\.yaml: No such file"):
        read_file(tmp_path / "gone.yaml")
    with pytest.raises(ManifestError, match="Is a directory"):
        read_file(tmp_path)


@given(st.binary(max_size=400))
def test_any_bytes_are_objects_or_one_error(data: bytes) -> None:
    """No third outcome."""
    try:
        found = read_text(data, "f")
    except ManifestError:
        return
    assert all(isinstance(manifest.raw, dict) for manifest in found)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=5), s, max_size=3), max_leaves=12))  # fmt: skip
def test_json_survives(value: object) -> None:
    """What json.dumps writes is what is read."""
    if '"<<"' in json.dumps(value):
        return  # a quoted << is a plain key to JSON and to us, but json.dumps cannot tell a merge from it
    assert raws(json.dumps({"a": value})) == [{"a": value}]


def scanned(text: str) -> list[object]:
    """Objects, and (line, message) of what cannot be read, in their order."""
    found = scan_text(text.encode(), "f.yaml")
    return [(one.line, one.message) if isinstance(one, ManifestError) else one.raw for one in found]


def test_a_broken_document_costs_only_itself() -> None:
    """Its line counts from the top of the file, and what stands below is read with its own lines."""
    first, fault, last = scan_text(b"a: 1\n---\nb: {\n---\n# c\nc:\n  d: 1\n", "f.yaml")

    assert not isinstance(first, ManifestError)
    assert isinstance(fault, ManifestError)
    assert not isinstance(last, ManifestError)
    assert (first.line, fault.line, last.line, last.line_of(FieldPath(["c", "d"]))) == (1, 4, 6, 7)


def test_a_broken_item_of_a_list_costs_only_itself() -> None:
    found = scanned("a: 1\n---\nkind: List\nitems:\n- b: 1\n- words\n- c: 1\n")

    assert found == [{"a": 1}, {"b": 1}, (6, "a manifest must be a mapping with apiVersion and kind"), {"c": 1}]


def test_what_is_never_closed_is_said_with_the_line_where_it_begins() -> None:
    """The parser notices at the end of the document, which may be a thousand lines below. Lines of the file, not of the
    document."""
    _, fault = scan_text(b'a: 1\n---\nb: "x\nc: 1\nd: 1\n', "f.yaml")

    assert isinstance(fault, ManifestError)
    assert (fault.line, fault.message) == (
        6,
        "not YAML: while scanning a quoted scalar that begins at line 3, found unexpected end of stream",
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_documents_are_taken_apart_as_yaml_does(end: str) -> None:
    """A directive belongs below, an end marker above, and three dashes further right are text."""
    text = "a: 1\n...\n%YAML 1.1\n# c\n---\nb: |\n  x\n  ---\n  y\n--- # c\nc: ---\n".replace("\n", end)

    assert scanned(text) == [{"a": 1}, {"b": "x\n---\ny\n"}, {"c": "---"}]


@pytest.mark.parametrize(
    "text",
    [
        "name: {{ .Release.Name }}\n",
        "{{- if .Values.gang }}\nkind: Job\n",
        'metadata:\n  labels:\n    {{- include "x.labels" . | nindent 4 }}\n',
        "{{/* a comment */}}\nkind: Job\n",
    ],
)
def test_a_helm_template_is_named_as_such(text: str) -> None:
    """Who gives the chart itself is told to render it."""
    [(_, message)] = scanned(text)  # type: ignore[misc]

    assert message.endswith("this is a Helm template: render it first (helm template ... | muster review -)")


def test_other_braces_are_no_helm_template() -> None:
    """Argo's placeholders stand in many broken files that no `helm template` mends."""
    [(_, message)] = scanned("args: ['{{inputs.parameters.x}}']\nb: c: d\n")  # type: ignore[misc]

    assert "Helm" not in message
    assert scanned("a: '{{ .Values.x }}'\n") == [{"a": "{{ .Values.x }}"}]
