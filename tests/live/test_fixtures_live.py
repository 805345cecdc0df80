"""Every fixture at the third height: a real kube-apiserver 1.37.2 asks a running Muster about the case's object.

The object is sent as its user with dryRun=All, so admission runs and nothing stays; surroundings and stored objects are
created for real, by a trusted controller's name (which Muster warns at most). Policies are switched by hot reload.
JobSet and LeaderWorkerSet are installed with an extended schema: the released ones drop the fields the rules look at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.cluster.client import MERGE_PATCH, Response, object_path
from tests.cluster.cluster import Cluster
from tests.live.muster import Muster, running
from tests.support.cases import NAMESPACE, Case, judge, load_cases

MAKER = "system:serviceaccount:kube-system:job-controller"
# While a rule is written: ONLY_RULE=WAS340 leaves the others out.
ONLY = os.environ.get("ONLY_RULE", "")
CASES = sorted((case for case in load_cases() if case.not_at_apiserver is None and ONLY in ("", case.rule)), key=lambda case: json.dumps(case.policy, sort_keys=True, default=str))  # fmt: skip
# A policy that names the namespace is another one for each case.
GROUPS = [
    list(cases) for _, cases in groupby(CASES, key=lambda case: json.dumps(case.policy, sort_keys=True, default=str))
]


@pytest.fixture(scope="module")
def muster(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    control_plane.install_crds("jobset", "lws", extended=True)
    with running(control_plane, tmp_path_factory.mktemp("muster")) as muster:
        yield muster


@pytest.mark.parametrize("cases", GROUPS, ids=lambda cases: str(cases[0]))
def test_at_the_api_server(cases: list[Case], muster: Muster, subtests: pytest.Subtests) -> None:
    """kube-apiserver answers with the verdict of the pipeline: the same rules deny, the same rules warn."""
    in_force = ""
    for case in cases:
        with subtests.test(str(case)):
            namespace = muster.cluster.new_namespace(re.sub("[^a-z0-9]+", "-", str(case).lower())[:40].strip("-"))
            stage = Stage(muster.cluster, namespace)
            policy = stage.renamed(case.policy)
            if json.dumps(policy, default=str) != in_force:
                muster.use_policy(policy)
                in_force = json.dumps(policy, default=str)
            try:
                _check(case, stage)
            finally:
                stage.clean()


def _check(case: Case, stage: Stage) -> None:
    for raw in case.surroundings:
        stage.create(raw)
    verdict = judge(case)
    denied = {violation.rule for violation in verdict.denials}
    warned = {violation.rule for violation in verdict.violations if str(violation.action) == "Warn"}

    answer = stage.ask(case)

    message = str(answer.body.get("message", ""))
    said = set(re.findall(r"\[(WAS\d{3})\]", message))
    if not denied:
        assert answer.ok, f"{answer.status}: {message}"
    if denied and answer.ok and not answer.warnings:
        pytest.fail("admitted without a word: the object did not reach Muster (webhook/registration/conditions.py)")
    assert said == denied, f"{answer.status}: {message} {answer.warnings}"
    assert set(re.findall(r"\[(WAS\d{3})\]", " ".join(answer.warnings))) == warned, answer.warnings
    if denied:
        assert answer.status == 403
        assert re.search(r"webhook \"(submit|traps)\.muster\.dev\"", message)


class Stage:
    """One case's place in the cluster: its namespace, and cluster-scoped objects to remove afterwards."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._maker = cluster.api_as(MAKER, ("system:masters",))
        self._made: list[dict[str, Any]] = []

    def renamed(self, document: Any) -> Any:
        """The same, with the case's namespace in place of the fixtures' one."""
        return json.loads(json.dumps(document, default=str).replace(f'"{NAMESPACE}"', f'"{self._namespace}"'))

    def create(self, raw: dict[str, Any]) -> dict[str, Any]:
        raw = self.renamed(raw)
        if raw["kind"] == "Namespace":
            labels = (raw["metadata"].get("labels")) or {}
            path = f"/api/v1/namespaces/{self._namespace}"
            return self._maker.patch(path, {"metadata": {"labels": labels}}, content_type=MERGE_PATCH).expect(200)
        namespace = raw["metadata"].get("namespace")
        answer = self._maker.create(raw, namespace)
        if answer.status == 409 and not namespace:
            return raw  # a cluster-scoped object that is there already (a DeviceClass, a system class)
        stored = answer.expect(201)
        if not namespace:
            self._made.append(stored)
        if stored["kind"] == "PriorityClass":
            self._until_priority_class(stored, known=True)
        return stored

    def _until_priority_class(self, raw: dict[str, Any], *, known: bool) -> None:
        """The Priority plugin reads classes from a cache. A class that one case removes and the next one creates again
        would be found, then missing, then found: wait for each step by a Pod that is never stored."""
        name = raw["metadata"]["name"]
        pod = {"priorityClassName": name, "containers": [{"name": "c", "image": "pause:3.10"}]}
        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": pod}

        def found() -> bool:
            answer = self._maker.create(probe, self._namespace, dryRun="All")
            return f"no PriorityClass with name {name} was found" not in str(answer.body.get("message"))

        self._cluster.wait_for(lambda: found() is known, 15, f"PriorityClass {name}, known: {known}")

    def ask(self, case: Case) -> Response:
        groups = (*(case.user.groups or ()), "system:masters")
        api = self._cluster.api_as(case.user.username, groups)
        new = self.renamed(case.new)
        if case.operation == "CREATE":
            return api.create(new, self._namespace, dryRun="All")
        if case.operation == "DELETE":
            stored = self.create(case.new)
            return api.delete(object_path(stored), dryRun="All")
        assert case.old is not None
        old = self.renamed(case.old)
        stored = self.create(case.old)
        return api.patch(object_path(stored), difference(old, new), content_type=MERGE_PATCH, dryRun="All")

    def clean(self) -> None:
        for stored in self._made:
            self._cluster.api.delete(object_path(stored))
            if stored["kind"] == "PriorityClass":
                self._until_priority_class(stored, known=False)
        self._cluster.delete_namespace(self._namespace)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The RFC 7386 merge patch that makes `new` of `old`."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := difference(before, value):
                patch[key] = inner
        elif value != before:
            patch[key] = value
    return patch


def test_every_case_that_is_left_out_says_why() -> None:
    """Nothing is skipped in silence."""
    for case in load_cases():
        reason = case.not_at_apiserver
        assert reason is None or len(reason) > 5, str(case)
