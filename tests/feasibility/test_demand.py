"""Plan -> demand: what becomes a condition, what becomes a doubt, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import composite_pod_group, composite_template, cronjob, job, pod, pod_group_template, workload
from webhook.feasibility import selectors
from webhook.feasibility.demand import demands, is_scheduled
from webhook.feasibility.model import (
    Demand,
    Doubt,
    LeafDemand,
    Part,
    PodDemand,
    Profile,
    Reason,
    Requirement,
    Scope,
    SpreadLimit,
    Toleration,
    TreeDemand,
)
from webhook.inventory.tables import NAME_KEY

RACK = "rack"

ANY = "0.0.0.0"  # noqa: S104  the wildcard of hostPort


def only(made: Any, **settings: Any) -> Demand:
    (demand,) = demands(made.plan(), **settings)
    return demand


def pod_of(made: Any, **settings: Any) -> PodDemand:
    (found,) = only(made, **settings).pods()
    return found


def doubts_of(made: Any) -> set[Doubt]:
    return {reason.doubt for reason in pod_of(made).unknowns}


# ---- requests -----------------------------------------------------------------------------------------------------
def test_requests_are_in_the_schedulers_units_rounded_up() -> None:
    made = job().requests(cpu="0.0001", memory="1.5", **{"x/y": "3"}).overhead("kata", memory="1")
    assert pod_of(made).request == (("cpu", 1), ("memory", 3), ("x/y", 3))


def test_zero_is_not_asked() -> None:
    assert pod_of(job().requests(cpu="0", **{"x/y": "0"})).request == ()


def test_a_runtime_classs_overhead_counts_for_a_template() -> None:
    made = job().requests(memory="1Gi")
    made.pod_spec["runtimeClassName"] = "kata"
    assert pod_of(made).request == (("memory", 2**30),)
    assert pod_of(made, runtime_overheads={"kata": {"memory": "1Gi"}}).request == (("memory", 2**31),)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", True),
        ("ephemeral-storage", True),
        ("hugepages-2Mi", True),
        ("nvidia.com/gpu", True),
        ("storage", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_which_resources_the_scheduler_compares(name: str, expected: bool) -> None:
    assert is_scheduled(name) is expected


def test_ignored_resources_are_left_out() -> None:
    made = job().requests(**{"x/y": "1", "z/w": "1", "cpu": "1"})
    ignoring = Profile(ignored_resources=frozenset({"x/y"}), ignored_groups=frozenset({"z"}))
    assert pod_of(made, profile=ignoring).request == (("cpu", 1000),)


def test_a_request_beyond_counting_is_left_out_and_doubted() -> None:
    made = job().requests(cpu="9E", memory="1")
    assert pod_of(made).request == (("memory", 1),)
    assert doubts_of(made) == {Doubt.UNREADABLE}


# ---- selectors ----------------------------------------------------------------------------------------------------
def affinity(*terms: dict[str, Any]) -> Any:
    made = job()
    required = {"nodeSelectorTerms": list(terms)}
    made.pod_spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return made


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_terms_are_ored_and_an_empty_one_matches_nothing() -> None:
    found = pod_of(affinity(expression("a", "In", "1"), {}, expression("b", "Exists"))).affinity
    assert found is not None
    assert [term.labels for term in found] == [(Requirement("a", "In", ("1",)),), (Requirement("b", "Exists"),)]
    assert pod_of(affinity({})).affinity == ()
    assert pod_of(job()).affinity is None


def test_match_fields_read_the_nodes_name() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    found = pod_of(affinity(fields)).affinity
    assert found is not None
    assert found[0].names == (Requirement(NAME_KEY, "In", ("n1",)),)


@pytest.mark.parametrize(
    "term", [expression("a", "Gt", "x"), expression("a", "Near", "1"), {"matchFields": [{"key": "metadata.uid"}]}]
)
def test_a_term_that_cannot_be_read_leaves_the_whole_out(term: dict[str, Any]) -> None:
    made = affinity(term, expression("a", "In", "1"))
    assert pod_of(made).affinity is None
    assert doubts_of(made) == {Doubt.UNREADABLE}


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ("a",), "a", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "", True),
        ("DoesNotExist", (), "", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("-5",), "+1", True),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "4.5", False),
        ("Gt", ("5",), "00000000000000000000000000006", True),
        ("Gt", ("5",), "60000000000000000000000000000", False),
        ("Lt", ("5",), "4_0", False),
        ("Lt", ("5",), None, False),
        ("Lt", ("5",), "-9223372036854775809", False),
    ],
)
def test_requirements_match_as_labels_do(
    operator: str, values: tuple[str, ...], value: str | None, expected: bool
) -> None:
    assert Requirement("k", operator, values).holds(value) is expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(), False),
        (Toleration(operator="Exists"), True),
        (Toleration(key="a", operator="Exists"), True),
        (Toleration(key="b", operator="Exists"), False),
        (Toleration(key="a", value="1"), True),
        (Toleration(key="a", value="2"), False),
        (Toleration(key="a", operator="Exists", effect="NoExecute"), False),
        (Toleration(value="1"), True),
        (Toleration(key="a", operator="Gt", value="0"), True),
        (Toleration(key="a", operator="Lt", value="0"), False),
        (Toleration(key="a", operator="Like", value="1"), False),
    ],
)
def test_tolerations_as_the_scheduler_reads_them(toleration: Toleration, expected: bool) -> None:
    assert toleration.tolerates("a", "1", "NoSchedule") is expected


# ---- ports, anti-affinity, spread ---------------------------------------------------------------------------------
def test_host_ports_of_containers_and_sidecars() -> None:
    made = job()
    made.container["ports"] = [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2}]
    assert pod_of(made).ports == {(ANY, "TCP", 80)}
    made.pod_spec["hostNetwork"] = True
    assert pod_of(made).ports == {(ANY, "TCP", 80), (ANY, "TCP", 2)}


def test_ports_conflict_by_protocol_and_address() -> None:
    any_, one, other = (frozenset({(ip, "TCP", 80)}) for ip in (ANY, "10.0.0.1", "10.0.0.2"))
    assert selectors.conflict(any_, one)
    assert selectors.conflict(one, one)
    assert not selectors.conflict(one, other)
    assert not selectors.conflict(one, frozenset({("10.0.0.1", "UDP", 80)}))


def anti(selector: Any, **term: Any) -> Any:
    made = job().template_label("app", "train")
    required = [{"topologyKey": RACK, "labelSelector": selector, **term}]
    made.pod_spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return made


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"app": "train"}}])
def test_anti_affinity_against_itself(selector: Any) -> None:
    found = pod_of(anti(selector))
    assert found.apart == (RACK,)
    assert found.apart_labels == (("app", "train"),)
    assert found.unknowns == ()


@pytest.mark.parametrize(
    ("selector", "term"),
    [
        ({"matchLabels": {"app": "other"}}, {}),
        ({"matchExpressions": [{"key": "added", "operator": "DoesNotExist"}]}, {}),
        ({}, {"namespaces": ["elsewhere"]}),
        ({}, {"matchLabelKeys": ["batch.kubernetes.io/job-completion-index"]}),
        (None, {}),
    ],
)
def test_anti_affinity_that_may_not_meet_its_own_pods_is_a_doubt(selector: Any, term: dict[str, Any]) -> None:
    made = anti(selector, **term)
    assert pod_of(made).apart == ()
    assert doubts_of(made) == {Doubt.POD_AFFINITY}


def test_spread_proves_its_keys_and_a_limit_only_with_min_domains() -> None:
    made = job().template_label("app", "train")
    mine = {"matchLabels": {"app": "train"}}
    constraint = {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
    made.pod_spec["topologySpreadConstraints"] = [constraint]
    assert pod_of(made).needed_keys == (RACK,)
    assert pod_of(made).spread == ()
    assert doubts_of(made) == {Doubt.SPREAD}
    constraint["minDomains"] = 3
    assert pod_of(made).spread == (SpreadLimit(RACK, 1, 3),)
    constraint["labelSelector"] = {}
    assert pod_of(made).spread == ()
    constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    assert pod_of(made).needed_keys == ()
    assert doubts_of(made) == set()


# ---- what cannot be asked -----------------------------------------------------------------------------------------
def test_pods_that_are_not_scheduled_or_by_somebody_else() -> None:
    assert only(job().node_name("n1")).skip == Reason(
        Doubt.NODE_NAME, 'Pods with nodeName "n1" are not scheduled at all'
    )
    foreign = only(job().scheduler_name("volcano")).skip
    assert foreign is not None
    assert foreign.doubt is Doubt.SCHEDULER
    assert only(job().scheduler_name("volcano"), profile=Profile(schedulers=("volcano",))).skip is None


@pytest.mark.parametrize(
    ("volume", "binds"), [({"name": "v", "emptyDir": {}}, False), ({"name": "v", "persistentVolumeClaim": {}}, True)]
)
def test_volumes_that_may_tie_pods_to_nodes(volume: dict[str, Any], binds: bool) -> None:
    made = job()
    made.pod_spec["volumes"] = [volume]
    assert doubts_of(made) == ({Doubt.VOLUMES} if binds else set())


# ---- groups -------------------------------------------------------------------------------------------------------
def test_a_gang_jobs_quorum() -> None:
    demand = only(job("train").parallelism(8).completions(8).gang(6).topology(RACK))
    assert isinstance(demand.root, LeafDemand)
    assert (demand.scope, demand.root.needed, demand.root.topology_key) == (Scope.GANG, 6, RACK)


def test_without_gangs_in_the_scheduler_each_pod_is_alone() -> None:
    made = job("train").parallelism(8).completions(8).gang(6).topology(RACK)
    demand = only(made, profile=Profile(gangs=False))
    assert (demand.scope, demand.root.needed, demand.root.topology_key) == (Scope.POD, 1, None)


def test_a_cron_jobs_pods_are_no_gang() -> None:
    demand = only(cronjob("nightly", job().parallelism(17).gang().topology(RACK)))
    assert (demand.scope, demand.root.needed, demand.root.topology_key) == (Scope.POD, 1, None)


def test_a_bare_pod_is_asked_alone() -> None:
    assert only(pod().gpu(8)).scope is Scope.POD


def test_the_pods_of_a_group_are_all_there_are_only_on_somebodys_word() -> None:
    plan = job().parallelism(8).completions(8).scheduling_group("shared").plan()
    (alone,) = demands(plan, is_sole=lambda _: True)
    (shared,) = demands(plan)
    assert shared.root.needed == 1
    assert alone.scope is Scope.POD, "what the group's policy is has not been looked up"


def test_a_composites_templates_may_be_used_any_number_of_times() -> None:
    made = workload("train").composite(
        composite_template(
            "root", pod_group_template("a", 4), pod_group_template("b", 8), min_group_count=3, schedulingConstraints={}
        )
    )
    demand = only(made)
    assert isinstance(demand.root, TreeDemand)
    assert demand.root.needed == 3
    assert [(child.needed, child.copies) for child in demand.root.children] == [(4, None), (8, None)]


def test_a_composite_pod_group_without_its_children() -> None:
    demand = only(composite_pod_group("train").gang(2))
    assert demand.root.needed == 1
    assert {reason.doubt for one in demand.pods() for reason in one.unknowns} == {Doubt.PODS_UNKNOWN}


def test_without_parts_is_never_harder() -> None:
    made = anti({}).node_selector("a", "b").requests(cpu="1").toleration("x")
    made.container["ports"] = [{"containerPort": 1, "hostPort": 80}]
    bare = only(made).without(*Part).pods()[0]
    assert (bare.request, bare.selector, bare.affinity, bare.tolerations) == ((), (), None, None)
    assert (bare.ports, bare.apart, bare.needed_keys, bare.spread) == (frozenset(), (), (), ())
