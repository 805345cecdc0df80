"""What random pairs cannot show: things that change between the object and the scheduler, or in time.

Each is a way in which a sound-looking proof could be wrong; the scheduler decides.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.cluster.client import object_path
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.judge import pairs
from tests.judge.engine import FEASIBLE, NEVER, answers, verdict_on
from tests.judge.pairs import NAMESPACE, LeafSpec, Pair, Raw, SetSpec
from tests.judge.scheduler import Judge, options
from webhook.feasibility.model import Profile
from webhook.inventory.build import HIGH_WATER

RACK = "topo.example.com/rack"
GPU = "example.com/gpu"
Start = Callable[[ControlPlaneOptions], ControlPlane]


def node(name: str, rack: str, gpus: str = "1") -> Raw:
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110", GPU: gpus}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, RACK: rack}},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def gang(name: str, count: int, *, key: str | None = None, spec: Raw | None = None, job: bool = False) -> Pair:
    """`count` Pods with a device each on two nodes with one device each, one per rack."""
    container = {"name": "main", "image": "pause:3.10", "resources": {"limits": {GPU: "1"}}}
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container], **(spec or {})}}
    return Pair(
        name=name,
        nodes=(node(f"{name}-a", "r1"), node(f"{name}-b", "r2")),
        root=LeafSpec(
            name=f"{name}-g", min_count=count, sets=(SetSpec(role="", count=count, template=template),), key=key
        ),
        job=job,
    )


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    if request.config.getoption("--cluster") != "local":
        pytest.skip("starts a control plane with options of its own: --cluster=local")
    with ControlPlane(options(directory=tmp_path_factory.mktemp("scenarios"))) as control_plane:
        found = Judge(control_plane)
        found.start()
        yield found
        found.close()


# ---- a template changed by a MutatingAdmissionPolicy --------------------------------------------------------------
def mutating_policy(name: str, expression: str) -> list[Raw]:
    """A policy that patches every Pod of the namespace `judge`, and its binding."""
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return [
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            },
        },
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]


@contextlib.contextmanager
def mutating(judge: Judge, name: str, expression: str, probe: Raw, acted: Callable[[Raw], bool]) -> Iterator[None]:
    """The policy is in force inside, and no longer afterwards: the API server takes note of either some time later, and
    the next test's Pods must not meet it. probe: a Pod; acted: has the policy changed it?"""

    def acts() -> bool:
        return acted(judge.cluster.api.create(probe, NAMESPACE, dryRun="All").expect(201))

    objects = mutating_policy(name, expression)
    for obj in objects:
        judge.cluster.api.create(obj).expect(201)
    try:
        judge.cluster.wait_for(acts, 30, f"the policy {name} to act")
        yield
    finally:
        for obj in reversed(objects):
            judge.cluster.api.delete(object_path(obj))
        judge.cluster.wait_for(lambda: not acts(), 30, f"the policy {name} to be forgotten")


def test_a_selector_that_a_mutator_removes(judge: Judge) -> None:
    """The template selects a label that no node has; a policy takes the selector away, and the Job runs. Muster denies
    it only where the policy does not declare such a mutator."""
    pair = gang("mutated", 2, spec={"nodeSelector": {"nobody": "has-it"}}, job=True)
    probe = {**pairs.pods(pair.root)[0], "metadata": {"name": "probe"}}  # type: ignore[arg-type]
    removal = "'nodeSelector' in object.spec ? [JSONPatch{op: 'remove', path: '/spec/nodeSelector'}] : []"
    with mutating(judge, "no-selectors", removal, probe, lambda pod: "nodeSelector" not in pod["spec"]):
        outcome = judge.run(pair, 2)

    assert outcome.placed == (True,)
    declared = verdict_on(
        pairs.job(pair), pair, podMutators=[{"name": "no-selectors", "mayChange": ["spec.nodeSelector"]}]
    )
    assert declared.allowed
    assert [violation.rule for violation in declared.violations] == ["WAS505"]
    assert not verdict_on(pairs.job(pair), pair, podMutators="none").allowed


def test_a_label_that_a_mutator_removes(judge: Judge) -> None:
    """The Pods keep each other away by a label of their own; a policy takes the label away, and one node holds both."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    drawn = gang("unlabelled", 2, spec=spec, job=True)
    assert isinstance(drawn.root, LeafSpec)
    template = {**drawn.root.sets[0].template, "metadata": {"labels": {"app": "train"}}}
    root = replace(drawn.root, sets=(replace(drawn.root.sets[0], template=template),))
    pair = replace(drawn, nodes=(node("unlabelled-a", "r1", gpus="2"),), root=root)
    probe = {**pairs.pods(pair.root)[0], "metadata": {"name": "probe", "labels": {"app": "train"}}}  # type: ignore[arg-type]
    removal = "'app' in object.metadata.labels ? [JSONPatch{op: 'remove', path: '/metadata/labels/app'}] : []"
    with mutating(
        judge, "no-app-label", removal, probe, lambda pod: "app" not in (pod["metadata"].get("labels") or {})
    ):
        outcome = judge.run(pair, 2)

    assert outcome.placed == (True,)
    assert not verdict_on(pairs.job(pair), pair, podMutators="none").allowed
    declared = verdict_on(
        pairs.job(pair), pair, podMutators=[{"name": "no-app-label", "mayChange": ["metadata.labels"]}]
    )
    assert declared.allowed


# ---- a label that is a long number --------------------------------------------------------------------------------
def test_a_number_with_many_zeros_in_front(judge: Judge) -> None:
    """The scheduler reads the label as strconv.ParseInt does, however many digits it has."""
    expression = {"key": "generation", "operator": "Gt", "values": ["4"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    drawn = gang("zeros", 1, spec=spec)
    numbered = copy.deepcopy(drawn.nodes[0])
    numbered["metadata"]["labels"]["generation"] = "5".zfill(30)
    pair = replace(drawn, nodes=(numbered,))

    outcome = judge.run(pair, 2)

    assert outcome.placed == (True,)
    assert answers(pair) == (FEASIBLE,)


# ---- a resource that the scheduler's configuration ignores --------------------------------------------------------
def test_a_resource_that_the_scheduler_ignores(start_control_plane: Start) -> None:
    """NodeResourcesFitArgs.ignoredResources: no node has it, and the gang is placed. Muster denies only where the policy
    does not say so."""
    arguments = {"name": "NodeResourcesFit", "args": {"ignoredResources": [GPU], "ignoredResourceGroups": ["z.io"]}}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [arguments]}
    judge = Judge(start_control_plane(options(scheduler_config={"podInitialBackoffSeconds": 1, "profiles": [profile]})))
    judge.start()
    container = {"name": "main", "image": "pause:3.10", "resources": {"limits": {GPU: "9", "z.io/y": "1"}}}
    pair = gang("ignoring", 2, spec={"containers": [container]}, job=True)

    outcome = judge.run(pair, 2)
    judge.close()

    assert outcome.placed == (True,)
    assert not verdict_on(pairs.job(pair), pair).allowed
    ignoring = {"ignoredResources": [GPU], "ignoredResourceGroups": ["z.io"]}
    assert verdict_on(pairs.job(pair), pair, **ignoring).allowed


# ---- the topology gate off in the scheduler only ------------------------------------------------------------------
def test_the_topology_gate_off_in_the_scheduler_only(start_control_plane: Start) -> None:
    """The API server stores the key, and the scheduler does not read it: two racks together hold the gang. Muster
    denies only where the policy says that the scheduler reads it."""
    gates = {"TopologyAwareWorkloadScheduling": False, "CompositePodGroup": False}
    judge = Judge(start_control_plane(options(component_feature_gates={"kube-scheduler": gates})))
    judge.start()
    pair = gang("gateless", 2, key=RACK)

    outcome = judge.run(pair, 2)
    judge.close()

    assert outcome.placed == (True,)
    assert answers(pair) == (NEVER,)
    assert answers(pair, Profile(topology=False)) == (FEASIBLE,)
    as_job = replace(pair, job=True)
    assert not verdict_on(pairs.job(as_job), as_job).allowed, "the policy declares the gate"
    gate_unknown = {"TopologyAwareWorkloadScheduling": None, "CompositePodGroup": None}
    assert verdict_on(pairs.job(as_job), as_job, featureGates=gate_unknown).allowed


# ---- allocatable that drops to 0 and returns ----------------------------------------------------------------------
def test_allocatable_that_drops_to_nothing_and_returns(judge: Judge) -> None:
    """A device plugin restarts while the gang is submitted: it waits, and is placed when the devices are back. With the
    high-water mark Muster never calls it impossible."""
    pair = gang("restart", 2)
    gone = replace(pair, nodes=(pair.nodes[0], without_devices(pair.nodes[1])))

    def devices_return() -> None:
        path = f"/api/v1/nodes/{pair.nodes[1]['metadata']['name']}/status"
        patch = {"status": {"allocatable": {GPU: "1"}, "capacity": {GPU: "1"}}}
        judge.cluster.api.patch(path, patch).expect()

    outcome = judge.run(gone, 3, after_refusal=devices_return)

    assert outcome.placed == (True,)
    assert outcome.rounds >= 1
    assert answers(gone) == (NEVER,), "without the mark it looks impossible"
    assert answers(replace(gone, nodes=(gone.nodes[0], marked(gone.nodes[1])))) == (FEASIBLE,)


def without_devices(raw: Raw) -> Raw:
    changed = copy.deepcopy(raw)
    changed["status"]["allocatable"][GPU] = changed["status"]["capacity"][GPU] = "0"
    return changed


def marked(raw: Raw) -> Raw:
    changed = copy.deepcopy(raw)
    changed["metadata"]["annotations"] = {HIGH_WATER: json.dumps({GPU: "1"})}
    return changed
