"""R38: disruptionMode in the shape of 1.36. The API server refuses it without saying what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import pod_group
from tests.cluster.cluster import Cluster
from tests.support.cases import NOW, FixedPolicies, policy_document
from webhook.cli.review import review_manifests
from webhook.sources.manifests import read_text

ALL = '{"all": {}}'


@pytest.mark.parametrize(
    ("mode", "answer", "fix"),
    [
        ('"PodGroup"', (400, "cannot unmarshal string"), f"write disruptionMode: {ALL}"),
        ('"Pod"', (400, "cannot unmarshal string"), 'write disruptionMode: {"single": {}}'),
        ("{podGroup: {}}", (422, "must specify"), f"write disruptionMode: {ALL}"),
        ("{single: {}, all: {}}", (422, "must specify"), "where the loss of one Pod is fine"),
    ],
    ids=["string", "string of a Pod", "old member", "both"],
)
def test_r38(control_plane: Cluster, namespace: str, mode: str, answer: tuple[int, str], fix: str) -> None:
    """What the API server says, and what `muster review` says of the same manifest before anybody sends it."""
    [manifest] = read_text(MANIFEST.replace("MODE", mode).encode(), "group.yaml")

    refused = control_plane.api.create({**manifest.raw, "metadata": {"name": "train"}}, namespace)
    [violation] = reviewed(manifest).verdict.violations

    status, words = answer
    assert refused.status == status
    assert words in refused.body["message"]
    assert violation.rule == "WAS308"
    assert fix in violation.fix


def test_the_rewritten_manifest_is_accepted(control_plane: Cluster, namespace: str) -> None:
    """R37: the whole rewrite of a v1alpha2 PodGroup, as `muster review` gives it."""
    text = MANIFEST.replace("v1beta1", "v1alpha2").replace("MODE", '"PodGroup"')
    old = text + "  podGroupTemplateRef: {workload: {workloadName: train, podGroupTemplateName: workers}}\n"
    [manifest] = read_text(old.encode(), "group.yaml")

    refused = control_plane.api.create({**manifest.raw, "metadata": {"name": "train"}}, namespace)
    violations = {violation.rule: violation for violation in reviewed(manifest).verdict.violations}
    rewritten = violations["WAS307"].rewrite
    assert rewritten is not None
    stored = control_plane.api.create(dict(rewritten), namespace)

    assert refused.status == 404
    assert stored.status == 201
    assert stored.body["spec"]["workloadRef"] == {"workloadName": "train", "templateName": "workers"}
    assert stored.body["spec"]["disruptionMode"] == {"all": {}}
    assert rewritten["spec"]["schedulingPolicy"] == pod_group().gang(4).dict()["spec"]["schedulingPolicy"]


MANIFEST = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  disruptionMode: MODE
"""


def reviewed(manifest: Any) -> Any:
    policies = FixedPolicies(policy_document({}))
    review = review_manifests([manifest], policies, policy_name="test", clock=lambda: NOW)
    return review.entries[0]
