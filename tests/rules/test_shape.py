"""Rules on shape, minCount, barrier, composites and start order (WAS101-WAS119) beyond their fixtures."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    Builder,
    composite_pod_group,
    composite_template,
    cronjob,
    deployment,
    job,
    jobset,
    lws,
    pod,
    pod_group,
    pod_group_template,
    stateful_set,
    workload,
)
from tests.support.cases import (
    NAMESPACE,
    NOW,
    RULES,
    FixedPolicies,
    judge,
    load_case,
    policy_document,
    request_for,
)
from webhook.admission.pipeline import Pipeline
from webhook.facts.model import Phase
from webhook.facts.source import Answer, Query, Unknown
from webhook.objects.core import PodTemplateSpec
from webhook.objects.fieldpath import SPEC
from webhook.objects.request import UserInfo
from webhook.plan.model import DisruptionModeKind as Mode
from webhook.plan.model import GroupOrigin, LeafGroup, PodSet, PolicyKind
from webhook.rules._gangs import Gang
from webhook.rules._self_match import own_namespace, selects
from webhook.rules.was114_startup_order_deadlock import _start
from webhook.sources.folder import ObjectSetSource
from webhook.verdict import Verdict

RACK = "topo.example.com/rack"
HOSTNAME = "kubernetes.io/hostname"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NO_GATES = {"cluster": {"featureGates": None}}
OFF = {"cluster": {"featureGates": {"WorkloadWithJob": False}}}


def verdict(
    obj: Builder,
    *surroundings: Builder,
    old: Builder | None = None,
    phase: Phase = Phase.VALIDATING,
    complete_set: bool = False,
    policy: dict[str, Any] | None = None,
    user: str = "alice",
) -> Verdict:
    """The verdict on an object among complete surroundings."""
    policies = FixedPolicies(policy_document(policy or {}))
    source = ObjectSetSource([item.dict() for item in surroundings], complete=True, default_namespace=NAMESPACE)
    request = request_for(
        obj.dict(), old.dict() if old else None, "UPDATE" if old else "CREATE", UserInfo(username=user)
    )
    pipeline = Pipeline(policies=lambda: policies, source=source, clock=lambda: NOW, complete_set=complete_set)
    return pipeline.judge(request, phase)


def said(answer: Verdict) -> dict[str, str]:
    """Rule -> action, of this family only."""
    return {v.rule: str(v.action) for v in answer.violations if v.rule < "WAS120"}


# ---- gates, requesters, what is not known ------------------------------------------------------------------------
IMPOSSIBLE = job().parallelism(8).completions(4).gang()


def test_a_gate_that_is_off_silences_the_rule() -> None:
    """With WorkloadWithJob off the API server drops spec.scheduling: there is no gang."""
    assert said(verdict(IMPOSSIBLE, policy=OFF)) == {}


def test_a_gate_that_is_not_known_warns_in_review() -> None:
    """Offline nothing proves the gate."""
    assert said(verdict(IMPOSSIBLE, policy=NO_GATES, phase=Phase.REVIEW)) == {"WAS101": "Warn"}


def test_the_field_itself_proves_the_gate_at_admission() -> None:
    """A field that is still there in the validating phase was not dropped."""
    assert said(verdict(IMPOSSIBLE, policy=NO_GATES)) == {"WAS101": "Deny"}


def test_a_controller_is_warned_at_most() -> None:
    """A denied child leaves its parent stuck in silence."""
    assert said(verdict(IMPOSSIBLE, user=CONTROLLER)) == {"WAS101": "Warn"}


def test_an_unreadable_group_is_no_finding() -> None:
    """A PodGroup that cannot be read now says nothing about the Pods that name it."""

    class Nothing:
        def ask(self, query: Query, *, fresh: bool, deadline: float) -> Answer:
            return Unknown("the API server did not answer")

    policies = FixedPolicies(policy_document({}))
    request = request_for(stateful_set().replicas(4).scheduling_group("train").dict(), None)

    answer = Pipeline(policies=lambda: policies, source=Nothing(), clock=lambda: NOW).judge(request, Phase.VALIDATING)

    assert said(answer) == {}


@pytest.mark.parametrize(
    "path",
    sorted(RULES.glob("WAS1[01]*/deny/*.yaml")),
    ids=lambda path: f"{path.parent.parent.name}-{path.stem}",
)
def test_warnings_fit_a_warning_header(path: Any) -> None:
    """What is wrong, and what to change, each below the 256 characters to which the API server may cut."""
    for violation in judge(load_case(path)).violations:
        assert len(f"{violation.field}: {violation.message} [{violation.rule}]") < 256
        assert len(f"{violation.field}: {violation.fix} [{violation.rule}]") < 256


# ---- WAS101 / WAS102: counts -------------------------------------------------------------------------------------
@pytest.mark.parametrize("delta", [-1, 0, 1])
@pytest.mark.parametrize("pod_count", [1, 2, 8])
def test_minimum_at_the_limit(pod_count: int, delta: int) -> None:
    """One more than can exist is denied, the exact number is not."""
    gang = job().parallelism(pod_count + 3).completions(pod_count).gang(max(1, pod_count + delta))

    assert ("WAS101" in said(verdict(gang))) == (max(1, pod_count + delta) > pod_count)


def test_an_update_that_makes_it_better_is_not_denied() -> None:
    """From 8 of 4 to 6 of 4: still not possible, and no worse."""
    better, worse = job().parallelism(6).completions(4).gang().suspend(), job().parallelism(8).completions(4).gang()

    assert said(verdict(better, old=worse.suspend())) == {"WAS101": "Warn"}


def test_pods_of_a_set_are_summed_over_kinds() -> None:
    """A Job, a StatefulSet, a JobSet and a bare Pod fill one group."""
    group = pod_group().gang(1 + 2 + 3 + 1)
    others = (
        stateful_set("b").replicas(2).parallel().scheduling_group("train"),
        jobset("c").role("w", job().parallelism(3).completions(3).scheduling_group("train")),
        pod("d").scheduling_group("train"),
        job("elsewhere").parallelism(9).scheduling_group("other"),
    )
    own = job("a").parallelism(1).completions(1).scheduling_group("train")

    def answer(*surroundings: Builder) -> dict[str, str]:
        return said(verdict(own, group, *surroundings, phase=Phase.REVIEW, complete_set=True))

    assert answer(*others) == {}
    assert answer(*others[1:]) == {"WAS102": "Deny"}


@pytest.mark.parametrize(
    "uncounted",
    [
        deployment("serve").scheduling_group("train"),
        lws("serve").scheduling_group("train"),
        cronjob("nightly", job().scheduling_group("train")),
    ],
    ids=lambda builder: str(builder.raw["kind"]),
)
def test_what_may_have_more_pods_for_a_while_proves_nothing(uncounted: Builder) -> None:
    """A rollout surges, runs overlap: the set is not denied on their account."""
    own = job("a").parallelism(1).completions(1).scheduling_group("train")

    answer = verdict(own, pod_group().gang(9), uncounted, phase=Phase.REVIEW, complete_set=True)

    assert said(answer) == {"WAS102": "Warn"}


def test_twins_without_a_name_count_each() -> None:
    """Two generateName Jobs are two Jobs, so the object under judgement may be counted twice, never too few."""
    twin = job().generate_name("train-").parallelism(2).completions(2).scheduling_group("train")

    answer = verdict(twin, pod_group().gang(4), twin, phase=Phase.REVIEW, complete_set=True)

    assert said(answer) == {}


# ---- barrier -----------------------------------------------------------------------------------------------------
def torchrun(nnodes: str, pod_count: int) -> Any:
    return (
        job().parallelism(pod_count).completions(pod_count).disruption("all").command("torchrun", f"--nnodes={nnodes}")
    )


def test_child_applications_are_no_mismatch() -> None:
    """Two child Jobs of 4 Pods, each an application with WORLD_SIZE 4, in one group of 8."""
    child = job().parallelism(4).completions(4).scheduling_group("train").gpu(1).env("WORLD_SIZE", "4")
    group = pod_group().gang(8).disruption("all")

    assert said(verdict(jobset().role("worker", child, replicas=2), group)) == {}


def test_leader_and_workers_are_one_application() -> None:
    """LeaderWorkerSet: each of the 2 replicas is 1 leader and 3 workers."""
    serve = lws().replicas(2).size(4).scheduling_group("train").gpu(1).env("WORLD_SIZE", "4")
    group = pod_group().gang(8).disruption("all")

    assert said(verdict(serve, group)) == {}


def test_a_barrier_over_several_groups_is_not_compared_with_one() -> None:
    """Workers wait for the leader too, which is in a group of its own."""
    worker = job().parallelism(2).completions(2).scheduling_group("workers").command("torchrun", "--nnodes=3")
    leader = job().parallelism(1).completions(1).scheduling_group("leaders").command("torchrun", "--nnodes=3")
    both = jobset().role("leader", leader).role("worker", worker)

    assert said(verdict(both, pod_group("leaders").gang(1), pod_group("workers").gang(2))) == {}


def test_part_of_a_larger_object_is_judged_with_it() -> None:
    """A child Job has its owner's barrier, and the owner was judged."""
    child = torchrun("8", 4).gang().owner("JobSet", "train")

    assert "WAS104" not in said(verdict(child))


def test_contradicting_sizes_are_said_to_be_not_checked() -> None:
    """Nothing is denied on a size that is not plain, and the tenant learns why."""
    answer = verdict(torchrun("4", 4).gang().env("NNODES", "8"))

    assert said(answer) == {}
    assert [unknown.rule for unknown in answer.unknowns if unknown.warn] == ["WAS106"]


@given(minimum=st.integers(1, 6), extra=st.integers(0, 5), pod_count=st.integers(1, 8), min_count=st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_inside_the_range_nothing_is_said(minimum: int, extra: int, pod_count: int, min_count: int) -> None:
    """R05: with MIN <= minCount <= min(MAX, Pods) no rule on counts speaks; below MIN one always does."""
    min_count = min(min_count, pod_count)
    answer = said(verdict(torchrun(f"{minimum}:{minimum + extra}", pod_count).gang(min_count)))

    if minimum <= min_count <= minimum + extra:
        assert answer == {}
    elif minimum + extra > 1:  # an application of one Pod waits for nobody
        assert answer


# ---- composites --------------------------------------------------------------------------------------------------
def test_a_cycle_of_parents_is_another_rules() -> None:
    """It ends, and says nothing about depth."""
    a, b = composite_pod_group("a").parent("b"), composite_pod_group("b").parent("a")

    assert said(verdict(pod_group("leaf").gang(1).workload_ref("w", "t").parent("b"), a, b)) == {}
    assert said(verdict(a, b)) == {}


def test_the_longest_branch_below_a_late_parent_counts() -> None:
    """Three levels on one side, one on the other."""
    chain = [composite_pod_group(f"c{n}").parent("root" if n == 0 else f"c{n - 1}") for n in range(4)]
    side = composite_pod_group("side").parent("root")

    assert said(verdict(composite_pod_group("root"), side, *chain[:2])) == {}
    assert said(verdict(composite_pod_group("root"), side, *chain[:3])) == {"WAS112": "Warn"}
    assert said(verdict(composite_pod_group("root"), side, *chain)) == {"WAS112": "Deny"}


def test_a_topology_key_below_the_top_is_safe() -> None:
    """Only the walk from a group that has the key itself is limited (seen on 1.37.2)."""
    tree = [composite_pod_group("a"), composite_pod_group("b").parent("a").topology(RACK)]
    tree += [composite_pod_group("c").parent("b"), composite_pod_group("d").parent("c")]

    assert said(verdict(pod_group("leaf").gang(1).workload_ref("w", "t").parent("d"), *tree)) == {"WAS112": "Warn"}


def test_nested_lists_of_templates_have_the_limit_too() -> None:
    """Nine leaves inside one composite template."""
    leaves = [pod_group_template(f"leaf-{n}", 1) for n in range(9)]

    answer = verdict(workload().composite(composite_template("all", *leaves, min_group_count=1)), phase=Phase.REVIEW)

    assert [v.field for v in answer.violations if v.rule == "WAS113"] == [
        "spec.compositePodGroupTemplates[0].podGroupTemplates"
    ]


# ---- WAS114: start order against every possible course of events ----------------------------------------------------
@st.composite
def plans(draw: st.DrawFn) -> tuple[tuple[PodSet, ...], list[Gang]]:
    """Up to four roles with start conditions on earlier ones, spread over no, one or two gangs."""
    sets = []
    for index in range(draw(st.integers(1, 4))):
        after = tuple(f"r{n}" for n in range(index) if draw(st.booleans()))
        sets.append(
            PodSet(
                role=f"r{index}",
                template=PodTemplateSpec(),
                path=SPEC,
                pod_count=draw(st.integers(1, 3)),
                pod_count_path=SPEC,
                starts_after=after,
                starts_condition=draw(st.sampled_from(["Ready", "Complete"])) if after else "",
            )
        )
    place = [draw(st.sampled_from([None, 0, 1])) for _ in sets]
    gangs = []
    for number in (0, 1):
        members = tuple(s for s, at in zip(sets, place, strict=True) if at == number)
        if members:
            group = LeafGroup(
                path=SPEC, origin=GroupOrigin.REFERENCED, policy=PolicyKind.GANG, name=f"g{number}", pod_sets=members
            )
            least = draw(st.integers(1, sum(s.pod_count or 0 for s in members)))
            gangs.append(Gang(group=group, min_count=least, topology_key=None, disruption_mode=Mode.SINGLE))
    return tuple(sets), gangs


@given(plans())
@settings(deadline=None, max_examples=300)
def test_start_order_agrees_with_every_course_of_events(plan: tuple[tuple[PodSet, ...], list[Gang]]) -> None:
    """A role is said to run exactly if some order of creating, placing and finishing makes it run."""
    sets, gangs = plan

    _, running = _start(sets, gangs)

    assert running == ever_running(sets, gangs)


def ever_running(sets: tuple[PodSet, ...], gangs: list[Gang]) -> set[str]:
    """All states that can be reached, one step at a time: absent, created, running, done per role."""
    index = {s.role: n for n, s in enumerate(sets)}
    gang_of = {s.role: gang for gang in gangs for s in gang.pod_sets}

    def steps(state: tuple[str, ...]) -> list[tuple[str, ...]]:
        found = []
        for number, pod_set in enumerate(sets):
            now, after = state[number], [state[index[role]] for role in pod_set.starts_after]
            wanted = {"done"} if pod_set.starts_condition == "Complete" else {"running", "done"}
            if now == "absent" and all(other in wanted for other in after):
                found.append("created")
            elif now == "created" and placed(state, pod_set):
                found.append("running")
            elif now == "running":
                found.append("done")
            else:
                found.append(now)
        return [(*state[:n], new, *state[n + 1 :]) for n, new in enumerate(found) if new != state[n]]

    def placed(state: tuple[str, ...], pod_set: PodSet) -> bool:
        gang = gang_of.get(pod_set.role)
        if gang is None:
            return True
        alive = sum(s.pod_count or 0 for s in gang.pod_sets if state[index[s.role]] in ("created", "running"))
        return alive >= gang.min_count

    seen: set[tuple[str, ...]] = set()
    waiting = [("absent",) * len(sets)]
    while waiting:
        state = waiting.pop()
        if state not in seen:
            seen.add(state)
            waiting += steps(state)
    return {s.role for s, n in product(sets, seen) if n[index[s.role]] == "running"}


def test_a_waiting_role_names_the_field_that_makes_it_wait() -> None:
    """The deadlock of the second pair is found next to a healthy first one."""
    one = job().parallelism(1).completions(1)
    both = (
        jobset()
        .role("a", one.scheduling_group("free"))
        .role("b", job().parallelism(1).completions(1).scheduling_group("train"), depends_on=("a", "Ready"))
        .role("c", job().parallelism(1).completions(1).scheduling_group("train"), depends_on=("b", "Ready"))
    )

    answer = verdict(both, pod_group("free").gang(1), pod_group().gang(2))

    assert [v.field for v in answer.denials if v.rule == "WAS114"] == ["spec.replicatedJobs[2].dependsOn"]


def test_a_group_that_this_object_cannot_fill_is_left_to_others() -> None:
    """More Pods come from elsewhere, so the order here proves nothing."""
    assert said(verdict(stateful_set().replicas(2).scheduling_group("train"), pod_group().gang(5))) == {
        "WAS102": "Warn"
    }


# ---- WAS119: what is certain to match itself ---------------------------------------------------------------------
LABELS = {"app": "train", "role": "worker"}


@pytest.mark.parametrize(
    ("selector", "certain"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "train"}}, True),
        ({"matchLabels": {"app": "train", "job-name": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "train"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["train"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "index", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "index", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": ["not a mapping"]}, False),
        ({"matchLabels": "not a mapping"}, False),
    ],
)
def test_selectors_that_are_certain_to_match(selector: Any, certain: bool) -> None:
    """Labels may be added to a Pod after its template, so an absent one proves nothing."""
    assert selects(selector, LABELS) is certain


@pytest.mark.parametrize(
    ("term", "own"),
    [
        ({}, True),
        ({"namespaces": ["team-a"]}, True),
        ({"namespaces": ["team-b"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["team-a"]}, True),
    ],
)
def test_terms_that_look_at_the_own_namespace(term: Any, own: bool) -> None:
    """No namespaces and no selector means the Pod's own."""
    assert own_namespace(term, "team-a") is own


def test_one_free_role_can_fill_the_gang() -> None:
    """Two Pods block each other, and the gang needs only one of them beside three that do not."""
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "driver"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    driver = job().parallelism(2).completions(2).scheduling_group("train").template_label("app", "driver")
    driver.pod_spec["affinity"] = affinity
    both = jobset().role("driver", driver).role("worker", job().parallelism(3).completions(3).scheduling_group("train"))

    assert "WAS119" not in said(verdict(both, pod_group().gang(4).topology(RACK)))
    assert said(verdict(both, pod_group().gang(5).topology(RACK))) == {"WAS119": "Deny"}


# ---- the rest: one sentence each ---------------------------------------------------------------------------------
def test_processes_that_do_not_fit_the_pods() -> None:
    """64 ranks with 8 on each node are 8 Pods, and 4 exist: likely wrong, not proven."""
    gang = job().parallelism(4).completions(4).gang().disruption("all")
    gang.command("mpirun", "-np", "64", "./train").env("NPROC_PER_NODE", "8")

    assert said(verdict(gang)) == {"WAS104": "Warn"}


def test_a_run_time_that_cannot_be_read_is_said() -> None:
    """Three days are no Go duration: the tenant learns that nothing was compared."""
    limited = job().gang().active_deadline_seconds(60).annotation("muster.dev/expected-run-time", "3d")

    answer = verdict(limited)

    assert said(answer) == {}
    assert [unknown.rule for unknown in answer.unknowns if unknown.warn] == ["WAS109"]


def test_the_run_time_of_a_jobset_is_not_that_of_one_role() -> None:
    """A short role of a long JobSet may have a short deadline."""
    short = job().active_deadline_seconds(60)
    both = jobset().role("init", short).role("worker", job()).annotation("muster.dev/expected-run-time", "2h")

    assert said(verdict(both)) == {}


@pytest.mark.parametrize("mutators", ["dry-run", [{"name": "x", "mayChange": ["spec.containers.resources"]}]])
def test_resources_that_others_may_mend_only_warn(mutators: Any) -> None:
    """The template is not what the Pod will be."""
    serve = lws().requests(**{"nvidia.com/gpu": "500m"})

    answer = verdict(serve, policy={"cluster": {"podMutators": mutators}})

    assert said(answer) == {"WAS116": "Warn", "WAS117": "Warn"}


def test_an_amount_that_is_no_quantity_is_no_fraction() -> None:
    """Something else refuses it; these two rules compare numbers."""
    serve = lws().requests(**{"nvidia.com/gpu": "many"}).limits(**{"nvidia.com/gpu": "1"})

    assert said(verdict(serve)) == {}


def test_both_halves_of_a_retry_and_a_tail_are_one_warning() -> None:
    """More completions than parallelism: the tail speaks, the retry does not."""
    gang = job().indexed().parallelism(4).completions(8).backoff_limit_per_index(1).gang()

    assert said(verdict(gang)) == {"WAS107": "Warn"}


def test_a_resume_without_completed_work_says_nothing() -> None:
    """No status yet."""
    gang = job().indexed().parallelism(4).completions(4).gang()
    suspended = job().indexed().parallelism(4).completions(4).gang().suspend()

    assert said(verdict(gang, old=suspended)) == {}


def test_roles_of_unknown_size_prove_nothing() -> None:
    """A foreign controller decides how many Pods the first role has."""
    leader = job().managed_by("example.com/other").scheduling_group("train")
    worker = job().parallelism(2).completions(2).scheduling_group("train")
    both = jobset().role("leader", leader).role("worker", worker, depends_on=("leader", "Ready"))

    assert said(verdict(both, pod_group().gang(3))) == {}


def owned(min_count: int, *owners: str) -> Any:
    group = pod_group("train-1a2b-train-pgt-0").gang(min_count)
    for number, kind in enumerate(owners):
        group.owner(kind, "train", controller=number == 0)
    return group


@pytest.mark.parametrize(
    ("owners", "user", "warned"),
    [
        (("Job", "Workload"), "alice", True),
        (("Job", "Workload"), CONTROLLER, False),
        (("Job",), "alice", False),  # delegated: the Job controller leaves its minCount alone
        (("JobSet",), "alice", False),
        ((), "alice", False),
    ],
)
def test_who_owns_a_group_whose_minimum_is_patched(owners: tuple[str, ...], user: str, warned: bool) -> None:
    """Only the group of a root Job is put back."""
    answer = verdict(owned(2, *owners), old=owned(4, *owners), user=user)

    assert ("WAS115" in said(answer)) is warned


def test_metadata_of_an_owned_group_may_change() -> None:
    """The same minCount is no patch of it."""
    changed = owned(4, "Job", "Workload").label("a", "b")

    assert said(verdict(changed, old=owned(4, "Job", "Workload"))) == {}


def test_an_update_that_changes_no_size_is_not_told_again() -> None:
    """R16 is about the scale; later updates of a Job that is behind already say nothing new."""

    def behind() -> Any:
        return job().parallelism(6).scheduling_group("train").command("torchrun", "--nnodes=6")

    group = pod_group().gang(2).disruption("all")

    assert said(verdict(behind().label("a", "b"), group, old=behind())) == {}


def test_another_key_is_no_block() -> None:
    """A spread over hosts, and a port on them, in a gang of one rack."""
    gang = job().parallelism(4).completions(4).gang().topology(RACK).template_label("app", "train")
    labels = {"matchLabels": {"app": "train"}}
    spread = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
    soft = {**spread, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway"}
    foreign = {**spread, "topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "serve"}}}
    gang.pod_spec["topologySpreadConstraints"] = [spread, soft, foreign]
    gang.container["ports"] = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]

    assert said(verdict(gang)) == {}


@pytest.mark.parametrize("rule", ["WAS103", "WAS105", "WAS106", "WAS107", "WAS108"])
def test_strict_never_denies_an_update_of_what_may_run(rule: str) -> None:
    """A scale, or a lower minCount, of a running Job is the tenant's way out, whatever the policy's action is."""
    running = job().indexed().parallelism(8).completions(8).gang(8).backoff_limit_per_index(2)
    changed = {
        "WAS103": torchrun("4", 4).gang(1),
        "WAS105": torchrun("2:4", 4).gang(1),
        "WAS106": job().parallelism(2).gang().disruption("all").gpu(4).env("WORLD_SIZE", "16"),
        "WAS107": job().indexed().parallelism(4).completions(8).gang(),
        "WAS108": job().indexed().parallelism(4).completions(4).gang().backoff_limit_per_index(2),
    }[rule]
    strict = {"rules": {rule: {"action": "Deny"}}}

    assert said(verdict(changed, policy=strict))[rule] == "Deny"
    assert said(verdict(changed, old=running, policy=strict))[rule] == "Warn"
