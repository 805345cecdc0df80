"""Any bytes and any JSON on both endpoints, with the real catalogue: never a 5xx, never a traceback.

A 5xx here is a bug of ours by definition. The trees are AdmissionReviews of known kinds in which parts are replaced by
something else, since random JSON hardly ever gets past the first field.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from flask import Flask
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.edge.reviews import Recorder, pod, pod_group, post, review
from tests.edge.test_schema import make_real_app
from tests.support.cases import load_cases
from webhook.objects.kinds import KINDS

PATHS = ("/validate/submit", "/validate/controllers", "/mutate")
RECORDER = Recorder()


@pytest.fixture(scope="module")
def app() -> Flask:
    return make_real_app(RECORDER)


def check(app: Flask, body: Any, path: str) -> int:
    """Posts and returns the status. Fails with the cause where there is a bug."""
    RECORDER.seen.clear()
    got = post(app, body, path)

    if got.status_code >= 500:
        error = RECORDER.last.error
        assert error is not None
        raise AssertionError(f"{type(error).__name__} on {body!r}") from (error.__cause__ or error)
    assert got.status_code in (200, 400)
    assert b"Traceback" not in got.data
    json.loads(got.data)
    return got.status_code


# ---- bytes ------------------------------------------------------------------------------------------------------
@given(body=st.binary(max_size=200), path=st.sampled_from(PATHS))
def test_any_bytes(app: Flask, body: bytes, path: str) -> None:
    """Bytes are no AdmissionReview."""
    assert check(app, body, path) == 400


GOOD = json.dumps(review(pod(schedulingGroup={"podGroupName": "pg"}))).encode()


@given(data=st.data(), path=st.sampled_from(PATHS))
def test_damaged_bytes(app: Flask, data: st.DataObject, path: str) -> None:
    """A good AdmissionReview with bytes replaced, dropped or doubled."""
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(body) - 1))
        length = data.draw(st.integers(0, 8))
        body[start : start + length] = data.draw(st.binary(max_size=8))
    check(app, bytes(body), path)


# ---- trees ------------------------------------------------------------------------------------------------------
# Numbers that Go's decoder would take for some field, and their neighbours; texts with a meaning somewhere.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, 1e300, -0.0]),
    st.integers(-10, 100),
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "1e3",
            "1e999",
            "8Gi",
            "100m",
            "1k",
            "9" * 40,
            "$(WORLD_SIZE)",
            "4..8",
            "8..4",
            "..",
            "1:4",
            "/",
            "a/b",
        ]
    ),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def objects() -> list[dict[str, Any]]:
    """Real objects of every kind: the rules' own fixtures, with their old versions, and a bare one of each kind."""
    found = [pod(schedulingGroup={"podGroupName": "pg"}), pod_group()]
    found += [case.new for case in load_cases()]
    for kind in KINDS:
        api_version = f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]
        found.append({"apiVersion": api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": {}})
    return found


OBJECTS = objects()


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a tree."""
    found = []
    stack = [tree]
    while stack:
        part = stack.pop()
        for key, item in part.items() if isinstance(part, dict) else enumerate(part):
            found.append((part, key))
            if isinstance(item, dict | list):
                stack.append(item)
    return found


def damaged(tree: Any, draw: Any) -> Any:
    """A copy with one to three parts replaced, removed, doubled or swapped with another part of the tree."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        spots = places(tree)
        if not spots:
            break
        container, key = draw(st.sampled_from(spots))
        match draw(st.sampled_from(["replace", "replace", "remove", "double", "move"])):
            case "replace":
                container[key] = draw(TREES)
            case "remove":
                del container[key]
            case "double" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case "move":
                other, at = draw(st.sampled_from(spots))
                container[key] = copy.deepcopy(other[at]) if _has(other, at) else None
    return tree


def _has(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)


@settings(max_examples=400)
@given(data=st.data(), path=st.sampled_from(PATHS))
def test_damaged_objects(app: Flask, data: st.DataObject, path: str) -> None:
    """Objects that no API server would let through reach the rules all the same (an edited registration, a newer API):
    a verdict, whatever it is."""
    raw = data.draw(st.sampled_from(OBJECTS))
    new, old = damaged(raw, data.draw), damaged(raw, data.draw)
    for part in (new, old):
        part |= {"apiVersion": raw["apiVersion"], "kind": raw["kind"]}
        part["metadata"] = part["metadata"] if isinstance(part.get("metadata"), dict) else {"name": "x"}
    operation = data.draw(st.sampled_from(["CREATE", "UPDATE", "DELETE"]))
    subresource = data.draw(st.sampled_from(["", "", "", "resize", "scale", "status"]))
    bodies = {"CREATE": (new, None), "UPDATE": (new, old), "DELETE": (None, old)}
    user = data.draw(st.sampled_from(["alice", "system:serviceaccount:kube-system:job-controller", ""]))
    body = review(*bodies[operation], operation, name="x", subresource=subresource, user=user)

    assert check(app, body, path) in (200, 400)


@settings(max_examples=200)
@given(data=st.data(), path=st.sampled_from(PATHS))
def test_damaged_reviews(app: Flask, data: st.DataObject, path: str) -> None:
    """The envelope damaged too."""
    raw = data.draw(st.sampled_from(OBJECTS))

    check(app, damaged(review(raw, copy.deepcopy(raw), "UPDATE", name="x"), data.draw), path)


@given(tree=TREES, path=st.sampled_from(PATHS))
@example(tree={"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}, path="/mutate")
def test_any_json(app: Flask, tree: Any, path: str) -> None:
    """JSON is no AdmissionReview."""
    assert check(app, json.dumps(tree).encode(), path) == 400


@pytest.mark.prove
def test_a_million_damages(app: Flask) -> None:
    """The long form, on plain random numbers, which are faster than hypothesis: seeds are in the message."""
    for seed in range(100_000):
        random_ = random.Random(seed)
        raw = random_.choice(OBJECTS)
        body = review(copy.deepcopy(raw), copy.deepcopy(raw), "UPDATE", name="x")
        for _ in range(10):
            container, key = random_.choice(places(body))
            container[key] = random_.choice([None, 0, -1, 1.5, "", "x", [], {}, True, 2**63])
            check(app, body, random_.choice(PATHS))
