"""Policy files: what loads, and what is said about what does not."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest

from webhook.policy.load import (
    Known,
    LoadedPolicies,
    PolicyError,
    Problem,
    default_policies,
    load_policies,
    parse_policies,
)
from webhook.policy.yamltree import DEPTH_MAX, FILE_BYTES_MAX, NODE_COUNT_MAX
from webhook.verdict import Action

KNOWN = Known(
    rules=frozenset({"WAS101", "WAS102", "WAS201"}),
    mutations=frozenset({"WAS901", "WAS902"}),
    redirects={"WAS150": "WAS101", "WAS151": None},
)
TODAY = date(2026, 6, 1)
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"
PART = "apiVersion: muster.dev/v1alpha1\nkind: PolicyPart\nmetadata: {name: more}\n"


def load(spec: str, *more: str) -> LoadedPolicies:
    texts = [("p.yaml", (HEAD + dedent(spec)).encode())]
    texts += [(f"more-{index}.yaml", (PART + dedent(text)).encode()) for index, text in enumerate(more)]
    return parse_policies(texts, known=KNOWN, today=TODAY)


def faults(spec: str, *more: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(spec, *more)
    return [str(problem) for problem in caught.value.problems]


def faults_of_text(text: str | bytes) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parse_policies([("p.yaml", text.encode() if isinstance(text, str) else text)], known=KNOWN)
    return [str(problem) for problem in caught.value.problems]


# -- what loads ---------------------------------------------------------------------------------------------------
def test_the_smallest_policy_is_a_head() -> None:
    assert load("").policy.spec == default_policies().policy.spec
    assert load("spec: {}").policy == load("spec:").policy


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xef\xbb\xbf" + HEAD.encode(), id="byte order mark"),
        pytest.param(HEAD.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(b"---\n" + HEAD.encode() + b"...\n", id="document marks"),
        pytest.param(b"# words\n\n" + HEAD.encode() + b"# end", id="comments"),
        pytest.param(b'{"apiVersion":"muster.dev/v1alpha1","kind":"Policy","metadata":{"name":"p"}}', id="JSON"),
    ],
)
def test_files_as_editors_and_tools_write_them(text: bytes) -> None:
    assert parse_policies([("p.yaml", text)]).policy.metadata.name == "p"


def test_off_is_a_word_also_after_a_tool_that_reads_yaml_1_1() -> None:
    """Helm hands a bare Off on as false."""
    for word in ("Off", '"Off"', "false"):
        policies = load(f"spec: {{rules: {{WAS101: {{action: {word}}}}}}}")
        assert policies.effective("a", {}).action("WAS101", Action.DENY) is None


def test_null_is_the_same_as_absent_as_everywhere_in_kubernetes() -> None:
    assert load("spec: {freeze: null, rules: ~, tiers:}").policy.spec == default_policies().policy.spec


def test_anchors_save_writing() -> None:
    policies = load("""
        spec:
          features:
            jobScheduling: &teams {namespaces: [team-a, team-b]}
            sharedClaims: *teams
        """)
    assert policies.policy.spec.features.shared_claims == policies.policy.spec.features.job_scheduling


def test_parts_are_appended_in_order() -> None:
    tier = "spec: {{tiers: [{{name: {0}, priorityClasses: [{0}]}}]}}"
    policies = load(tier.format("gold"), tier.format("silver"), tier.format("bronze"))

    assert [tier.name for tier in policies.policy.spec.tiers] == ["gold", "silver", "bronze"]


def test_a_folder_stands_for_its_yaml_files(tmp_path: Path) -> None:
    """As a ConfigMap is mounted: names are links into a hidden folder that is itself a link."""
    data = tmp_path / "..2026_06_01"
    data.mkdir()
    (data / "policy.yaml").write_text(HEAD)
    (data / "a-team.yaml").write_text(PART + "spec: {tiers: [{name: gold, priorityClasses: [g]}]}")
    (data / "notes.txt").write_text("not a policy")
    (tmp_path / "..data").symlink_to(data.name)
    for name in ("policy.yaml", "a-team.yaml", "notes.txt"):
        (tmp_path / name).symlink_to(f"..data/{name}")

    assert [tier.name for tier in load_policies([tmp_path]).policy.spec.tiers] == ["gold"]


def test_the_version_is_of_the_content_not_of_the_writing() -> None:
    one = load("spec: {rules: {WAS101: {action: Warn}}}")
    same = load("# words\nspec:\n  rules:\n    WAS101:\n      action: 'Warn'\n")
    other = load("spec: {rules: {WAS101: {action: Deny}}}")

    assert one.version == same.version != other.version
    assert len(one.version) == 12


# -- places and words -----------------------------------------------------------------------------------------------
def test_all_faults_at_once_each_with_its_place() -> None:
    assert faults("""
        spec:
          rulez: {}
          rules:
            WAS101: {action: deny}
            WAS109: {action: Deny}
            WAS901: {action: Deny}
          tiers:
            - {priorityClasses: [a]}
            - {name: gold, priorityClasses: [b], scpe: {}}
            - {name: gold, priorityClasses: [b, c]}
          defaultTier: glod
        """) == [
        'p.yaml:6:3: spec.rulez: unknown key "rulez"; did you mean "rules"?',
        'p.yaml:8:14: spec.rules.WAS101.action: must be one of "Audit", "Deny", "Off", "Warn", got "deny"; did you mean "Deny"?',
        'p.yaml:9:5: spec.rules.WAS109: no rule has the ID "WAS109"; `muster rules` lists all',
        'p.yaml:10:5: spec.rules.WAS901: "WAS901" is a mutation, not a rule; it is switched on and off under "mutations"',
        "p.yaml:12:7: spec.tiers[0].name: must be given",
        'p.yaml:13:42: spec.tiers[1].scpe: unknown key "scpe"; did you mean "scope"?',
        'p.yaml:14:8: spec.tiers[2].name: there is another tier "gold" (p.yaml:13); rename one of them',
        'p.yaml:14:38: spec.tiers[2].priorityClasses[0]: PriorityClass "b" belongs to tier "gold" already; one class, one tier',
        'p.yaml:15:3: spec.defaultTier: no tier is called "glod"; did you mean "gold"?',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("spec: {action_max: Warn}", 'unknown key "action_max"; did you mean "actionMax"?'),
        ("spec: {cluster: {featureGates: {GenericWorklod: true}}}", 'unknown name; did you mean "GenericWorkload"?'),
        ("spec: {cluster: {featureGates: {WorkloadWithJob: 'yes'}}}", 'must be true or false, got "yes"'),
        ("spec: {cluster: {podMutators: addditive}}", 'must be one of "additive", "dry-run", "none", got "addditive"; did you mean "additive"?'),
        ("spec: {cluster: {podMutators: [{name: istio}]}}", "spec.cluster.podMutators[0].mayChange: must be given"),
        ("spec: {cluster: {excludedNamespaces: ['gpu-*']}}", '"gpu-*" must match ^[a-z0-9]'),
        ("spec: {tiers: [{name: Gold, priorityClasses: [a]}]}", '"Gold" must match ^[a-z0-9]'),
        ("spec: {tiers: [{name: gold, priorityClasses: []}]}", "must have at least 1 item"),
        ("spec: {tiers: {name: gold}}", "spec.tiers: must be a list, got a mapping"),
        ("spec: {tiers: [gold]}", 'spec.tiers[0]: must be a mapping, got "gold"'),
        ("spec: {rules: {WAS101: Deny}}", 'spec.rules.WAS101: must be a mapping, got "Deny"; write {action: Deny}'),
        ("spec: [1]", "spec: must be a mapping, got a list"),
        ("spec: {rules: {was101: {action: Deny}}}", '"was101" is no rule ID; a rule ID is "WAS" and three digits'),
        ("spec: {freeze: {cluster: 1}}", 'must be true or false, got "1"'),
        ("spec: {freeze: {reason: 1}}", 'must be text (put it in quotes), got "1"'),
        ("spec: {tiers: [{name: a, priorityClasses: [b], requires: {gangPodCountMax: 0}}]}", "must be at least 1, got 0"),
        ("spec: {tiers: [{name: a, priorityClasses: [b], requires: {gangPodCountMax: '8'}}]}", 'must be a whole number, got "8"'),
        ("spec: {tiers: [{name: a, priorityClasses: ['']}]}", "spec.tiers[0].priorityClasses[0]: must not be empty"),
        ("spec: {mutations: {WAS101: true}}", '"WAS101" is a rule, not a mutation; it gets its action under "rules"'),
        ("spec: {mutations: {WAS903: true}}", 'no mutation has the ID "WAS903"; known: "WAS90'),
        ("spec: {guardedResources: ['']}", "must not be empty"),
    ],
)  # fmt: skip
def test_faults_of_shape_in_words(spec: str, fault: str) -> None:
    (found,) = faults(spec)

    assert fault in found


def test_a_missing_head_and_a_wrong_kind() -> None:
    assert faults_of_text("spec: {}") == [
        "p.yaml:1:1: apiVersion: must be given",
        "p.yaml:1:1: kind: must be given",
        "p.yaml:1:1: metadata: must be given",
    ]
    assert faults_of_text(HEAD.replace("kind: Policy", "kind: Polcy")) == [
        'p.yaml:2:1: kind: must be "Policy" or "PolicyPart", got "Polcy"; did you mean "Policy"?'
    ]
    assert faults_of_text(HEAD.replace("v1alpha1", "v1")) == [
        'p.yaml:1:1: apiVersion: must be "muster.dev/v1alpha1", got "muster.dev/v1"'
    ]
    assert faults_of_text(HEAD.replace("{name: p}", "{nam: p}")) == [
        "p.yaml:3:1: metadata.name: must be given",
        'p.yaml:3:12: metadata.nam: unknown key "nam"; did you mean "name"?',
    ]


def test_the_same_fault_in_an_anchor_is_told_where_it_is_written() -> None:
    found = faults("spec: {features: {jobScheduling: &x {namespacs: [a]}, sharedClaims: *x}}")

    assert len(found) == 2
    assert all("p.yaml:4:38" in fault for fault in found)


# -- YAML that is refused ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'p.yaml:1:1: is empty, but must be a mapping that starts with "apiVersion: muster.dev/v1alpha1"'),
        ("# words only\n", "is empty, but must be a mapping"),
        ("- a\n", "holds a list at its top, but must be a mapping"),
        ("just words\n", 'holds "just words" at its top'),
        ("a:\n\tb: 1\n", "p.yaml:2:1: a tab where YAML wants spaces; indent with spaces"),
        ("a: b: c\n", 'p.yaml:1:5: a ": " inside a value; put the value in quotes, or check the indentation'),
        ("a: 'x\n", "the file ends inside a quoted text; close the quote"),
        ("a: [1\n", "p.yaml:2:1: cannot be read as YAML: expected ',' or ']'"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2:1: a second document; one file holds one Policy or one PolicyPart"),
        ("a: 1\nb: 2\na: 3\n", 'p.yaml:3:1: a: the key "a" is given twice, first in line 1'),
        ("a: {b: 1, b: 2}\n", 'p.yaml:1:11: a.b: the key "b" is given twice, first in line 1'),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 'p.yaml:3:3: c: merge keys ("<<") are not read; write the keys out'),
        ("a: !!python/object:os.system 1\n", 'the YAML tag "tag:yaml.org,2002:python/object:os.system" is not read'),
        ("a: *nobody\n", 'the alias "*nobody" names no finished anchor above it'),
        ("a: &x [*x]\n", 'the alias "*x" names no finished anchor above it'),
        ("? [a]\n: 1\n", "a key must be a plain word, not a list or a mapping"),
        ("a: \x07\n", "p.yaml:1:4: the control character U+0007 is not allowed in YAML; remove it"),
        (b"a: caf\xe9\n", "p.yaml:1:7: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "byte 0xff is not UTF-8"),
        ("x: " + "[" * (DEPTH_MAX + 5), f"nested more than {DEPTH_MAX} deep"),
        ("x: [" + "1," * (NODE_COUNT_MAX + 5) + "]", f"more than {NODE_COUNT_MAX} YAML nodes"),
        ("x: " + "y" * FILE_BYTES_MAX, f"the limit is {FILE_BYTES_MAX} (a ConfigMap's own)"),
    ],
)  # fmt: skip
def test_yaml_that_is_refused(text: str | bytes, fault: str) -> None:
    (found,) = faults_of_text(text)

    assert fault in found


def test_several_duplicate_keys_are_told_together() -> None:
    assert len(faults_of_text("a: 1\na: 2\nb: {c: 1, c: 2}\n")) == 2


def test_aliases_cannot_make_a_small_file_large() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = faults_of_text("\n".join(levels))

    assert f"aliases make the document larger than {NODE_COUNT_MAX} nodes" in found


# -- meaning ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("gates", "fault"),
    [
        ("CompositePodGroup: true, TopologyAwareWorkloadScheduling: false", '"CompositePodGroup" cannot be on while "TopologyAwareWorkloadScheduling" is off'),
        ("WorkloadWithJob: true, GenericWorkload: false", '"WorkloadWithJob" cannot be on while "GenericWorkload" is off'),
        ("DRAWorkloadResourceClaims: true, GenericWorkload: false", '"DRAWorkloadResourceClaims" cannot be on'),
    ],
)  # fmt: skip
def test_gates_that_contradict_each_other(gates: str, fault: str) -> None:
    (found,) = faults(f"spec: {{cluster: {{featureGates: {{{gates}}}}}}}")

    assert fault in found


@pytest.mark.parametrize(
    "gates", ["CompositePodGroup: true", "GenericWorkload: false", "WorkloadWithJob: false, GenericWorkload: true"]
)
def test_gates_that_do_not(gates: str) -> None:
    load(f"spec: {{cluster: {{featureGates: {{{gates}}}}}}}")


def test_names_are_unique_over_all_files() -> None:
    one = "spec: {overrides: [{name: o, scope: {namespaces: [a]}}]}"
    assert faults(one, one) == [
        'more-0.yaml:4:21: spec.overrides[0].name: there is another override "o" (p.yaml:4); rename one of them'
    ]


def test_a_part_may_name_a_tier_of_the_policy() -> None:
    load("spec: {tiers: [{name: gold, priorityClasses: [g]}]}", "spec: {overrides: [{name: o, scope: {namespaces: [a]}, defaultTier: gold}]}")  # fmt: skip
    (found,) = faults("", "spec: {overrides: [{name: o, scope: {namespaces: [a]}, defaultTier: gold}]}")
    assert 'no tier is called "gold"' in found


def test_a_part_holds_lists_only() -> None:
    (found,) = faults("", "spec: {rules: {WAS101: {action: Off}}}")

    assert 'unknown key "rules"' in found


def test_a_selector_that_can_match_nothing_or_says_too_much() -> None:
    expression = "spec: {{features: {{jobScheduling: {{namespaceSelector: {{matchExpressions: [{{key: a, operator: {0}}}]}}}}}}}}"
    assert '"In" needs at least one value' in faults(expression.format("In"))[0]
    assert '"Exists" takes no values' in faults(expression.format("Exists, values: [x]"))[0]


@pytest.mark.parametrize("texts", [[], [("a.yaml", PART.encode())]])
def test_one_file_must_hold_the_policy(texts: list[tuple[str, bytes]]) -> None:
    with pytest.raises(PolicyError, match='holds no "kind: Policy"'):
        parse_policies(texts)


def test_two_policies_are_one_too_many() -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policies([("a.yaml", HEAD.encode()), ("b.yaml", HEAD.encode())])

    assert str(caught.value) == (
        'b.yaml:2:1: kind: a second Policy, beside a.yaml; keep one, and make the other a "kind: PolicyPart"'
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"missing\.yaml: cannot be read: No such file"):
        load_policies([tmp_path / "missing.yaml"])
    with pytest.raises(PolicyError, match=r"is a folder without a \.yaml file"):
        load_policies([tmp_path])


# -- warnings -----------------------------------------------------------------------------------------------------
def warnings(spec: str) -> list[Problem]:
    return list(load(spec).warnings)


def exemption(**changes: str) -> str:
    fields = {
        "name": "old-torch", "owner": "alice", "reason": "torch 1 counts nodes itself", "expires": "2026-09-01",
        "rules": "[WAS101]", "scope": "{namespaces: [team-a]}",
    } | changes  # fmt: skip
    return f"spec: {{exemptions: [{{{', '.join(f'{key}: {value}' for key, value in fields.items())}}}]}}"


def test_an_exemption_that_is_in_order_brings_no_warning() -> None:
    assert warnings(exemption()) == []


def test_an_exemption_that_ended_is_no_error_its_rule_simply_acts_again() -> None:
    (warning,) = warnings(exemption(expires="2026-06-01"))

    assert "ended on 2026-06-01: its rules act again" in warning.message
    assert str(warning).startswith("p.yaml:4:")


def test_an_exemption_for_a_kind_that_is_none_is_noticed() -> None:
    """It would exempt nothing, without a word."""
    (warning,) = warnings(exemption(kinds="[Job, podgroup]"))

    assert 'names the kind "podgroup", which no rule is about; did you mean "PodGroup"?' in warning.message
    assert str(warning.field) == "spec.exemptions[0].kinds[1]"


def test_an_exemption_for_ever_and_a_scope_that_covers_nothing_are_noticed() -> None:
    assert "lasts 2680 more days" in warnings(exemption(expires="2033-10-02"))[0].message
    assert "so it does nothing" in warnings(exemption(scope="{}"))[0].message


def test_an_old_rule_id_still_loads_and_acts_under_its_new_name() -> None:
    policies = load("spec: {rules: {WAS150: {action: Audit}, WAS151: {action: Deny}}}")

    assert [warning.message for warning in policies.warnings] == [
        'rule "WAS150" is now called "WAS101"; write that',
        'rule "WAS151" is gone; remove it',
    ]
    assert policies.effective("a", {}).action("WAS101", Action.DENY) is Action.AUDIT
    assert list(policies.policy.spec.rules) == ["WAS101"]


def test_an_old_rule_id_beside_its_new_one_is_a_contradiction() -> None:
    (found,) = faults("spec: {rules: {WAS150: {action: Audit}, WAS101: {action: Deny}}}")

    assert '"WAS150" is now called "WAS101", which is given as well; keep one of them' in found


def test_an_old_rule_id_in_an_override_and_in_an_exemption() -> None:
    policies = load("spec: {overrides: [{name: o, scope: {namespaces: [a]}, rules: {WAS150: {action: Warn}}}]}")
    assert policies.effective("a", {}).action("WAS101", Action.DENY) is Action.WARN

    policies = load(exemption(rules="[WAS150, WAS151]"))
    assert policies.policy.spec.exemptions[0].rules == ("WAS101",)


def test_without_a_catalogue_rule_ids_are_not_looked_up() -> None:
    parse_policies([("p.yaml", (HEAD + "spec: {rules: {WAS999: {action: Deny}}}").encode())])


def test_a_pools_amount_that_is_no_quantity_is_refused_by_line() -> None:
    spec = """\
        spec:
          cluster:
            nodePools:
            - name: p
              allocatable: {cpu: "8", memory: lots}
        """
    assert ["p.yaml:8" in found and "memory" in found for found in faults(spec)] == [True], faults(spec)
