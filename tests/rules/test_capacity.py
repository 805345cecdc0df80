"""The capacity rules at their edges: what makes a proof a warning, one fault one denial, one engine result for all."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import pytest

from tests.builders import AnyBuilder, composite_template, job, jobset, pod, pod_group, workload
from tests.feasibility.inventories import objects
from tests.support.cases import FixedPolicies, policy_document, request_for
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.feasibility.model import Part, PodDemand, Requirement, Term
from webhook.inventory.build import Settings, build
from webhook.inventory.snapshot import Snapshot, State
from webhook.objects.request import UserInfo
from webhook.rules import _capacity
from webhook.rules._pod_causes import contradiction
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

GPU, RACK = "nvidia.com/gpu", "topo.example.com/rack"
ON = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadWithJob")


def racks(**settings: Any) -> Snapshot:
    return build(objects("racks"), Settings(is_file=True, **settings))


def verdict(
    made: AnyBuilder,
    snapshot: Snapshot | None = None,
    *,
    phase: Phase = Phase.VALIDATING,
    gates: dict[str, bool] | None = None,
    user: UserInfo | None = None,
    **cluster: Any,
) -> Verdict:
    """With the gates of `gates` declared, the others unknown."""
    document = policy_document({})
    declared = dict.fromkeys(ON, True) if gates is None else gates
    document["spec"]["cluster"] = {"featureGates": declared, **cluster}
    policies = FixedPolicies(document)
    pipeline = Pipeline(
        policies=lambda: policies,
        source=ObjectSetSource([], complete=True),
        inventory=lambda: racks() if snapshot is None else snapshot,
    )
    return pipeline.judge(request_for(made.dict(), None, user=user), phase, time.monotonic() + 60)


def said(found: Verdict) -> list[tuple[str, str]]:
    return [(one.rule, str(one.action)) for one in found.violations if one.rule.startswith("WAS5")]


def gang(count: int, gpus: int = 8) -> Any:
    made = job("train").parallelism(count).completions(count).gang().disruption("all").gpu(gpus)
    return made.toleration(GPU)


# ---- what a proof may rest on -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"age_seconds": 120.0}, "the inventory is 120 s old, more than 60 s"),
        ({"synced": State(False, "the agent has not listed Nodes yet")}, "the agent has not listed Nodes yet"),
        ({"closed": "false"}, "the policy says that the inventory is not closed"),
    ],
)
def test_a_snapshot_that_may_be_wrong_only_warns_and_says_why(settings: dict[str, Any], words: str) -> None:
    found = verdict(gang(5), racks(**settings))

    assert found.allowed
    assert said(found) == [("WAS501", "Warn")]
    assert words in found.warnings[0]


@pytest.mark.parametrize(
    ("gates", "made", "action"),
    [
        (ON, lambda: gang(3).topology(RACK), "Deny"),
        # A Job's own topology field says nothing of the scheduler's gate; without the key three Pods fit.
        (("GenericWorkload",), lambda: gang(3).topology(RACK), "Warn"),
        # Too many for the cluster, whatever the key: the Job's gang field proves the gate of gangs.
        ((), lambda: gang(5).topology(RACK), "Deny"),
        ((), lambda: gang(5), "Deny"),
        # Not even one Pod fits: whatever the gates are.
        ((), lambda: gang(2, 16), "Deny"),
    ],
)
def test_a_gate_that_nobody_declared(gates: tuple[str, ...], made: Any, action: str) -> None:
    found = verdict(made(), gates=dict.fromkeys(gates, True))

    assert [one for _, one in said(found)] == [action]


@pytest.mark.parametrize(("declared", "action"), [(True, "Deny"), (None, "Warn")])
def test_a_tree_of_groups_rests_on_the_gate_of_composites(declared: bool | None, action: str) -> None:
    """A scheduler without the gate places each group by itself, in any rack."""
    leaf = {"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1000}}}
    made = workload().composite(composite_template("root", leaf, min_group_count=1))

    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    found = verdict(made, gates=gates if declared is None else {**gates, "CompositePodGroup": declared})

    assert [one for rule, one in said(found) if rule.startswith("WAS5")] == [action]


def test_offline_nothing_proves_the_gate_of_gangs() -> None:
    assert said(verdict(gang(5), phase=Phase.REVIEW, gates={})) == [("WAS501", "Warn")]
    assert said(verdict(gang(2, 16), phase=Phase.REVIEW, gates={})) == [("WAS504", "Deny")]


def test_a_gate_declared_off_leaves_the_gang_out() -> None:
    assert said(verdict(gang(5), gates={"GenericWorkload": False})) == []


@pytest.mark.parametrize(
    ("may_change", "parts"),
    [
        ("spec.tolerations", {Part.TAINTS}),
        ("spec.nodeSelector", {Part.TAINTS, Part.NODE_SELECTOR}),
        ("spec.containers[*].resources", {Part.TAINTS, Part.REQUESTS, Part.CLAIMS}),
        ("spec.affinity", {Part.TAINTS, Part.NODE_AFFINITY, Part.POD_AFFINITY}),
        ("metadata.labels", {Part.TAINTS, Part.POD_AFFINITY, Part.SPREAD}),
        ("spec", set(Part) - {Part.TOPOLOGY}),
        ("something new", set(Part) - {Part.TOPOLOGY}),
    ],
)
def test_what_a_declared_mutator_may_change(may_change: str, parts: set[Part]) -> None:
    """A word that is not known may mean anything."""
    seen: list[frozenset[Part]] = []
    original = _capacity.changeable

    def spy(facts: Any) -> frozenset[Part]:
        seen.append(original(facts))
        return seen[-1]

    with patch.object(_capacity, "changeable", spy):
        verdict(gang(5), podMutators=[{"name": "m", "mayChange": [may_change]}])

    assert seen
    assert set(seen[0]) == parts


def test_dry_run_mutators_are_unknown_and_warn() -> None:
    assert said(verdict(gang(2, 16), podMutators="dry-run")) == [("WAS504", "Warn")]


def test_a_bare_pod_is_final_in_the_webhook_and_not_in_a_file() -> None:
    made = pod("w-0").gpu(8)

    assert said(verdict(made)) == [("WAS508", "Deny")]
    assert said(verdict(made, phase=Phase.REVIEW)) == [("WAS508", "Warn")]


def test_a_runtime_class_may_bring_tolerations() -> None:
    """The API server's RuntimeClass plugin adds them when the Pod is made, even where the policy knows no mutator."""
    plain, classed = job("train").gpu(8), job("train").gpu(8)
    classed.pod_spec["runtimeClassName"] = "gpu"

    assert said(verdict(plain, podMutators="none")) == [("WAS508", "Deny")]
    assert said(verdict(classed, podMutators="none")) == [("WAS508", "Warn")]


# ---- one fault, one denial ----------------------------------------------------------------------------------------
def test_each_role_that_fits_nowhere_has_its_own_finding() -> None:
    roles = jobset("train")
    roles.role("a", job("a").gpu(8, "nvidia.com/gpus"), replicas=1)
    roles.role("b", job("b").requests(cpu="97").toleration(GPU), replicas=1)
    roles.role("c", job("c").gpu(8).toleration(GPU), replicas=1)

    found = verdict(roles)

    assert sorted(said(found)) == [("WAS503", "Deny"), ("WAS504", "Deny")]
    fields = {one.rule: one.field for one in found.violations}
    assert fields["WAS503"].startswith("spec.replicatedJobs[0]")
    assert fields["WAS504"].startswith("spec.replicatedJobs[1]")


def test_a_selector_that_contradicts_itself_is_said_once() -> None:
    made = gang(2).node_selector("accel", "h200")
    term = {"matchExpressions": [{"key": "accel", "operator": "NotIn", "values": ["h200"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made.pod_spec["affinity"] = {"nodeAffinity": required}

    assert said(verdict(made)) == [("WAS512", "Deny")]


def test_selectors_that_no_node_meets_at_once() -> None:
    """Each value is on some node, both together on none."""
    made = gang(1, 0).node_selector("accel", "h200").node_selector("kubernetes.io/hostname", "c1")
    made.container.pop("resources", None)

    found = verdict(made)

    assert said(found) == [("WAS505", "Deny")]
    assert "all that its selectors ask at once" in found.violations[0].message


def test_resources_that_no_node_has_together() -> None:
    """96 CPUs are on GPU nodes, a resource of its own on a CPU node."""
    extra = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {}}
    extra["status"] = {"allocatable": {"cpu": "1", "pods": "9", "example.com/odd": "1"}}
    snapshot = build([*objects("racks"), extra], Settings(is_file=True))
    made = gang(1, 1).limits(**{"example.com/odd": "1"})

    found = verdict(made, snapshot)

    assert said(found) == [("WAS504", "Deny")]
    assert "no single node" in found.violations[0].message


def test_a_bare_group_is_judged_by_what_it_says() -> None:
    assert said(verdict(pod_group("train").gang(2).disruption("all").topology("topo.example.com/none"))) == [
        ("WAS502", "Deny")
    ]
    assert said(verdict(pod_group("train").gang(2).disruption("all").topology(RACK))) == []


# ---- the rest -----------------------------------------------------------------------------------------------------
def test_the_engine_is_asked_once_for_all_rules() -> None:
    with patch.object(_capacity, "demands", wraps=_capacity.demands) as asked:
        verdict(gang(2))

    assert asked.call_count == 1


def test_what_a_trusted_controller_makes_is_not_looked_at() -> None:
    """It was judged where a person wrote it."""
    controller = UserInfo(username="system:serviceaccount:kube-system:job-controller")

    with patch.object(_capacity, "demands", wraps=_capacity.demands) as asked:
        found = verdict(pod("w-0").gpu(16), user=controller)

    assert said(found) == []
    assert asked.call_count == 0


def test_the_verdict_names_the_inventory_it_rests_on() -> None:
    snapshot = racks()

    assert verdict(gang(5), snapshot).versions.inventory == snapshot.version


def test_unknown_admits_and_is_counted() -> None:
    found = verdict(gang(2).scheduler_name("volcano"))

    assert found.allowed
    assert [one.rule for one in found.unknowns if "volcano" in one.reason] == ["WAS501"]


@pytest.mark.parametrize(
    ("requirements", "clashes"),
    [
        ([("In", "a"), ("In", "b")], True),
        ([("In", "a", "b"), ("NotIn", "a")], False),
        ([("In", "a"), ("NotIn", "a")], True),
        ([("NotIn", "a"), ("DoesNotExist",)], False),
        ([("Exists",), ("DoesNotExist",)], True),
        ([("Gt", "5"), ("Lt", "7")], False),
        ([("Gt", "5"), ("Lt", "6")], True),
        ([("Gt", "5"), ("In", "5", "6")], False),
        ([("Gt", "5"), ("In", "4", "x")], True),
        ([("Gt", "5"), ("DoesNotExist",)], True),
        ([("In",)], True),
    ],
)
def test_contradictions(requirements: list[tuple[str, ...]], clashes: bool) -> None:
    made = tuple(Requirement("k", operator, tuple(values)) for operator, *values in requirements)

    assert (contradiction(PodDemand(count=1, selector=made)) is not None) is clashes
    assert (contradiction(PodDemand(count=1, affinity=(Term(labels=made),))) is not None) is clashes


def test_one_term_that_can_hold_is_enough() -> None:
    wrong = Term(labels=(Requirement("k", "Exists"), Requirement("k", "DoesNotExist")))
    right = Term(labels=(Requirement("k", "Exists"),))

    assert contradiction(PodDemand(count=1, affinity=(wrong, right))) is None
    assert contradiction(PodDemand(count=1, affinity=(wrong, wrong))) is not None
    assert contradiction(PodDemand(count=1, affinity=())) is not None
