"""Fixtures of the capacity rules at the third height: real Nodes, the real agent, the API server's answer.

Only those with the inventory `[racks]`, whose nodes are created here; the pipeline's own verdict is what is expected.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders import job
from tests.cases.support import let_in
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.live.muster import Muster
from tests.support.cases import Case, inventory_of, judge, load_cases, merge, policy_document
from webhook.facts.model import Phase

CASES = [
    case
    for case in load_cases()
    if case.header.get("inventory") == ["racks"]
    and case.operation == "CREATE"
    and case.phase is Phase.VALIDATING
    and case.obj["kind"] in ("Job", "Pod", "PodGroup")
]
# The policy is read anew within a second, the inventory a second later.
_SETTLE_SECONDS_MAX = 30.0
_RULE = re.compile(r"\[(WAS\d{3})\]")


def policy_of(case: Case) -> dict[str, object]:
    """The case's own, and closed by the admin's word: a live inventory closes by itself only after ten minutes."""
    closed = case.policy["spec"]["cluster"].get("inventoryClosed", "true")
    return merge(case.policy, {"spec": {"cluster": {"inventoryClosed": closed}}})


@pytest.fixture
def racks(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> Cluster:
    """A control plane with the nodes of examples/inventories/racks.yaml."""
    options = ControlPlaneOptions(
        disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "DefaultTolerationSeconds")
    )
    cluster = start_control_plane(options)
    for raw in inventory_of(["racks"]):
        cluster.api.create(raw).expect(201)
    return cluster


@pytest.fixture
def muster(racks: Cluster, tmp_path: Path) -> Iterator[Muster]:
    with Muster(racks, tmp_path, inventory=True) as running:
        running.start()
        yield running


def test_the_fixtures_of_the_capacity_rules(racks: Cluster, muster: Muster, subtests: pytest.Subtests) -> None:
    """Each object as a dry run of a tenant: the same rules deny, and what warns is in the warnings."""
    namespace = racks.new_namespace("capacity")
    let_in(racks, namespace)
    by_policy: dict[str, list[Case]] = {}
    for case in CASES:
        by_policy.setdefault(json.dumps(policy_of(case), sort_keys=True), []).append(case)
    assert len(CASES) > 30

    for document, cases in by_policy.items():
        muster.use_policy(json.loads(document))
        wait_for_inventory(racks, namespace)
        for case in cases:
            with subtests.test(case=str(case)):
                compare(racks, namespace, case)


def wait_for_inventory(cluster: Cluster, namespace: str) -> None:
    """Until an impossible Pod draws a capacity rule, and the snapshot had time to follow the policy."""
    probe = job("probe").gpu(1, "example.com/nobody-has-it").dict()
    del probe["metadata"]["namespace"]

    def heard() -> bool:
        answer = cluster.api_as("alice").create(probe, namespace, dryRun="All")
        return "WAS503" in str(answer.body.get("message")) + " ".join(answer.warnings)

    # A plain Job without a guarded resource never reaches Muster; a group makes it one that does.
    probe["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
    cluster.wait_for(heard, _SETTLE_SECONDS_MAX, "the capacity rules to speak")
    time.sleep(2.5)


def compare(cluster: Cluster, namespace: str, case: Case) -> None:
    verdict = judge(case)
    denied = {violation.rule for violation in verdict.denials}
    warned = {violation.rule for violation in verdict.violations if str(violation.action) == "Warn"}

    answer = cluster.api_as("alice").create(case.obj, namespace, dryRun="All")

    message = str(answer.body.get("message", ""))
    assert answer.ok == verdict.allowed, message or answer.body
    if denied:
        assert "admission webhook" in message
        assert set(_RULE.findall(message)) == denied
    assert set(_RULE.findall(" ".join(answer.warnings))) >= warned


def test_a_label_that_was_put_on_a_moment_ago(racks: Cluster, muster: Muster) -> None:
    """`kubectl label node ... && kubectl apply -f job.yaml`: what the agent has seen counts at once, and a Job that it makes
    possible is not denied by the version before."""
    namespace = racks.new_namespace("labelled")
    let_in(racks, namespace)
    muster.use_policy(policy_document({"cluster": {"inventoryClosed": "true", "podMutators": "none"}}))
    wait_for_inventory(racks, namespace)
    name = next(raw["metadata"]["name"] for raw in inventory_of(["racks"]) if raw["kind"] == "Node")
    denied = []
    for number in range(8):
        made = job("fresh").gang().dict()
        del made["metadata"]["namespace"]
        made["spec"]["template"]["spec"]["nodeSelector"] = {"round": f"r{number}"}
        before = racks.api_as("alice").create(made, namespace, dryRun="All")
        racks.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"round": f"r{number}"}}}).expect()
        time.sleep(0.1)  # a command line takes longer to start
        answer = racks.api_as("alice").create(made, namespace, dryRun="All")
        assert "WAS505" in str(before.body.get("message")), before.body
        if not answer.ok:
            denied.append(number)
        time.sleep(2.5)
    assert denied == []
