"""PodGroup, CompositePodGroup and Workload."""

from __future__ import annotations

import pytest

from tests.builders import (
    Raw,
    composite_pod_group,
    composite_template,
    pod_group,
    pod_group_template,
    workload,
)
from webhook.plan.model import CompositeGroup, DisruptionModeKind, GroupOrigin, LeafGroup, PolicyKind


def test_a_pod_group_is_itself_and_says_nothing_of_its_pods() -> None:
    (group,) = pod_group("train").gang(8).plan().leaf_groups()

    assert (group.origin, group.policy, group.name) == (GroupOrigin.ITSELF, PolicyKind.GANG, "train")
    assert (group.min_count, group.min_count_explicit) == (8, True)
    assert (group.pod_sets, group.pod_count) == ((), None)
    assert str(group.min_count_path) == "spec.schedulingPolicy.gang.minCount"


def test_every_field_of_a_pod_group_is_read() -> None:
    built = pod_group().basic().topology("rack").disruption("single").claim("gpu", claim="shared").priority(9)
    built.priority_class("gold").preemption_policy("Never").workload_ref("train", "leaf").parent("root")

    (group,) = built.plan().leaf_groups()

    assert (group.policy, group.min_count) == (PolicyKind.BASIC, None)
    assert (group.topology_key, group.disruption_mode) == ("rack", DisruptionModeKind.SINGLE)
    assert [claim.key for claim in group.claims] == [("gpu", "shared", None)]
    assert (group.priority, group.priority_class_name, group.preemption_policy) == (9, "gold", "Never")
    assert (group.workload_name, group.workload_template_name, group.parent_name) == ("train", "leaf", "root")


def test_an_unnamed_group_has_no_name_yet() -> None:
    (group,) = pod_group().generate_name("train-").plan().leaf_groups()

    assert group.name is None


@pytest.mark.parametrize("policy", [{}, {"quorum": {}}])
def test_a_policy_that_is_left_out_or_newer_is_unknown(policy: Raw) -> None:
    (group,) = pod_group().set("spec.schedulingPolicy", policy).plan().leaf_groups()

    assert group.policy is PolicyKind.UNKNOWN


@pytest.mark.parametrize("constraints", [{}, {"topology": []}, {"topology": [{}]}])
def test_an_empty_list_of_keys_is_no_topology(constraints: Raw) -> None:
    (group,) = pod_group().set("spec.schedulingConstraints", constraints).plan().leaf_groups()

    assert (group.topology_key, group.topology_path) == (None, None)


def test_a_disruption_mode_of_a_newer_version_is_not_known() -> None:
    (group,) = pod_group().set("spec.disruptionMode", {"none": {}}).plan().leaf_groups()

    assert group.disruption_mode is None


def test_a_composite_is_itself_and_its_children_name_it() -> None:
    built = composite_pod_group("root", "train", "root").gang(3).topology("zone").disruption("all").parent("top")

    (group,) = built.plan().groups

    assert isinstance(group, CompositeGroup)
    assert (group.origin, group.children, group.children_known) == (GroupOrigin.ITSELF, (), False)
    assert (group.min_group_count, group.topology_key, group.parent_name) == (3, "zone", "top")
    assert (group.workload_name, group.workload_template_name) == ("train", "root")
    assert group.disruption_mode is DisruptionModeKind.ALL


def test_templates_of_a_workload_are_groups_of_unknown_number() -> None:
    built = (
        workload()
        .controller("Job", "train")
        .template(
            pod_group_template("leaf", 4, disruptionMode={"all": {}}, priorityClassName="gold"), pod_group_template("b")
        )
    )

    first, second = built.plan().leaf_groups()

    assert (first.origin, first.template_name, first.min_count) == (GroupOrigin.TEMPLATE, "leaf", 4)
    assert (first.group_count, first.pod_count) == (None, None)
    assert (first.disruption_mode, first.priority_class_name) == (DisruptionModeKind.ALL, "gold")
    assert [str(group.path) for group in (first, second)] == ["spec.podGroupTemplates[0]", "spec.podGroupTemplates[1]"]


def test_a_tree_of_templates_keeps_its_shape_and_paths() -> None:
    inner = composite_template("inner", pod_group_template("leaf", 2), min_group_count=1)
    built = workload().composite(composite_template("root", pod_group_template("direct", 1), inner, min_group_count=2))

    plan = built.plan()

    (root,) = plan.groups
    assert isinstance(root, CompositeGroup)
    assert [type(child) for child in root.children] == [LeafGroup, CompositeGroup]
    assert [group.template_name for group in plan.composite_groups()] == ["root", "inner"]
    assert [group.template_name for group in plan.leaf_groups()] == ["direct", "leaf"]
    assert [group.min_group_count for group in plan.composite_groups()] == [2, 1]
    leaf = list(plan.leaf_groups())[1]
    root_path = "spec.compositePodGroupTemplates[0]"
    assert str(leaf.path) == f"{root_path}.compositePodGroupTemplates[0].podGroupTemplates[0]"


def test_a_hostile_tree_is_cut_and_told() -> None:
    nested: Raw = composite_template("deep", pod_group_template("leaf"))
    for _ in range(100):
        nested = composite_template("deep", nested)

    plan = workload().composite(nested).plan()

    assert len(list(plan.composite_groups())) == 16
    assert len(plan.unknown) == 1
