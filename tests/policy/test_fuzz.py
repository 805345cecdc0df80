"""Whatever is in a policy file: it loads, or every fault is told. Nothing else is ever raised."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.policy.load import Known, PolicyError, Problem, parse_policies

TEXT = b"""\
apiVersion: muster.dev/v1alpha1
kind: Policy
metadata: {name: p}
spec:
  actionMax: Warn
  cluster: {featureGates: {GenericWorkload: true}, podMutators: [{name: istio, mayChange: [a]}]}
  tiers: &t
    - {name: gold, priorityClasses: [g], scope: {namespaceSelector: {matchLabels: {a: b}}}}
  rules: {WAS101: {action: Off}}
  overrides:
    - name: o
      scope: {namespaces: ["team-*"]}
  exemptions:
    - {name: e, owner: alice, reason: "old\\ttorch", expires: 2026-06-01, rules: [WAS101], scope: {}}
"""
KNOWN = Known(rules=frozenset({"WAS101"}))

KEYS = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "name", "tiers", "rules", "overrides", "exemptions", "scope", "cluster",
     "featureGates", "podMutators", "priorityClasses", "namespaces", "WAS101", "action", "expires", "mayChange", "x"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.text(max_size=5)
    | st.sampled_from(["Policy", "Off"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def loads_or_says_why(text: bytes) -> None:
    for problem in problems(text):
        assert problem.file == "p.yaml"
        assert problem.message
        assert "invalid" not in problem.message.lower()


def problems(text: bytes) -> tuple[Problem, ...]:
    try:
        parse_policies([("p.yaml", text)], known=KNOWN)
    except PolicyError as error:
        return error.problems or (Problem(file="", message="a PolicyError that says nothing"),)
    return ()


@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.binary(max_size=6) | st.sampled_from([b"\t", b"*t", b"&t ", b": ", b"- ", b"{", b"!!set ", b"\r", b"---\n", b"<<: *t\n"]))  # fmt: skip
def test_a_policy_somebody_typed_into(start: int, length: int, inserted: bytes) -> None:
    loads_or_says_why(TEXT[:start] + inserted + TEXT[start + length :])


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_structure(spec: dict[str, Any]) -> None:
    head = {"apiVersion": "muster.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}}
    loads_or_says_why(json.dumps({**head, "spec": spec}).encode())


@given(VALUES)
def test_any_document(value: Any) -> None:
    loads_or_says_why(json.dumps(value).encode())
