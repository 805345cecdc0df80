"""`muster review` as a command: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.builders import job
from webhook.cli.main import app

IMPOSSIBLE = json.dumps(job("sweep").parallelism(8).completions(4).gang().dict())
POSSIBLE = json.dumps(job("fine").parallelism(2).completions(2).gang().dict())
BROKEN = "kind: Job\nspec: {\n"
JOINS = json.dumps(job("joins").scheduling_group("train").dict())


def run(*words: str, given: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, ["review", *words], input=given)
    return result.exit_code, result.stdout


@pytest.mark.parametrize("order", [(IMPOSSIBLE, BROKEN, POSSIBLE), (BROKEN, POSSIBLE, IMPOSSIBLE)])
def test_a_broken_document_hides_no_verdict(tmp_path: Path, order: tuple[str, ...]) -> None:
    """The others are judged, the fault is named with file and line, and exit 2 says that not all was seen."""
    file = tmp_path / "set.yaml"
    file.write_text("\n---\n".join(order))

    code, said = run(str(file), "--policy", "strict")

    line = "\n---\n".join(order).split(BROKEN)[0].count("\n") + BROKEN.count("\n") + 2
    assert code == 2
    assert f"{file}:{line}: cannot be read: not YAML" in said
    assert "only this part of the file is not judged" in said
    assert "Job team-a/sweep: DENIED" in said
    assert "[WAS101]" in said
    assert "2 objects judged" in said
    assert "1 place unreadable, so this is no pass (exit 2)" in said


def test_a_file_that_cannot_be_opened_has_no_line(tmp_path: Path) -> None:
    """Nothing stands at line 1 of it, and nothing of it was judged."""
    missing = tmp_path / "nope.yaml"
    (tmp_path / "job.json").write_text(POSSIBLE)

    code, said = run(str(missing), str(tmp_path / "job.json"))
    in_json = json.loads(run(str(missing), "-o", "json")[1])

    assert code == 2
    assert said.startswith(f"{missing}: cannot be read: No such file or directory\n1 object judged")
    assert [(one["file"], one["line"]) for one in in_json["unreadable"]] == [(str(missing), None)]


def test_a_broken_document_in_json_output() -> None:
    """Programs get both lists, and the same exit."""
    code, said = run("-", "-o", "json", "-p", "strict", given=f"{IMPOSSIBLE}\n---\n{BROKEN}")

    document = json.loads(said)
    assert code == 2
    assert [(one["name"], one["allowed"]) for one in document["objects"]] == [("sweep", False)]
    assert [(one["file"], one["line"]) for one in document["unreadable"]] == [("(standard input)", 5)]


def test_a_set_with_a_broken_document_is_not_complete(tmp_path: Path) -> None:
    """What is missing may stand in the broken part: nothing is denied because of it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"
        "spec: {cluster: {featureGates: {GenericWorkload: true}}, rules: {WAS206: {action: Deny}}}\n"
    )
    whole = run("-", "--complete", "-p", str(policy), given=JOINS)
    broken = run("-", "--complete", "-p", str(policy), given=f"{JOINS}\n---\n{BROKEN}")

    assert (whole[0], "WAS206" in whole[1]) == (1, True)
    assert (broken[0], "WAS206" in broken[1]) == (2, False)
    words = ["review", "-", "--complete", "-p", str(policy)]
    noted = [CliRunner().invoke(app, words, input=text).stderr for text in (JOINS, f"{JOINS}\n---\n{BROKEN}")]
    assert ["--complete counts for nothing" in text for text in noted] == [False, True]


@pytest.mark.parametrize(
    ("api_version", "kind", "fault"),
    [
        ("batch/v1", "job", 'there is no kind "job" in batch/v1; write "Job"'),
        (
            "scheduling.k8s.io/v1beta1",
            "Podgroup",
            'there is no kind "Podgroup" in scheduling.k8s.io/v1beta1; write "PodGroup"',
        ),
        ("batch/v1", "JobSet", "there is no JobSet in batch/v1; write apiVersion: jobset.x-k8s.io/v1alpha2"),
        ("v1", "Deployment", "there is no Deployment in v1; write apiVersion: apps/v1"),
    ],
)
def test_a_kind_that_no_api_server_has_is_not_passed_over(api_version: str, kind: str, fault: str) -> None:
    """Green for a gang that nobody judged would be a lie."""
    code, said = run("-", given=json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}))

    assert code == 2
    assert f"(standard input):1: cannot be read: {fault}" in said


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Service"), ("batch.volcano.sh/v1alpha1", "Job"), ("kueue.x-k8s.io/v1beta1", "Workload"), ("v1", "Node")],
)
def test_kinds_of_others_are_passed_over(api_version: str, kind: str) -> None:
    code, said = run("-", given=json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}))

    assert code == 0
    assert f"passed over: 1 {kind}" in said


def test_the_gates_that_lower_a_denial_are_named_and_no_others(tmp_path: Path) -> None:
    """Six names where one is meant, or a hint below a warning that no gate would make a denial, are noise."""
    newer = json.dumps({"apiVersion": "batch/v2", "kind": "Job", "metadata": {"name": "newer"}, "spec": {}})
    warns = tmp_path / "policy.yaml"
    warns.write_text(
        "apiVersion: muster.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {WAS101: {action: Warn}}}\n"
    )

    lowered = run("-", given=IMPOSSIBLE)[1]

    hint = 'some of these only warn because policy "default" does not declare cluster.featureGates '
    assert f"{hint}GenericWorkload: a cluster where they are on would deny more" in lowered
    assert "only warn" not in run("-", given=newer)[1]
    assert "only warn" not in run("-", "-p", str(warns), given=IMPOSSIBLE)[1]


def test_a_chart_is_told_to_be_rendered(tmp_path: Path) -> None:
    """The templates of a chart are no manifests yet."""
    (tmp_path / "job.yaml").write_text("metadata:\n  name: {{ .Release.Name }}\n")

    code, said = run(str(tmp_path))

    assert code == 2
    assert "this is a Helm template: render it first (helm template ... | muster review -)" in said


def test_a_chart_in_a_folder_is_one_line(tmp_path: Path) -> None:
    """Its templates, values and subcharts are no manifests; what stands beside it is judged."""
    for name in ("app/Chart.yaml", "app/values.yaml", "app/templates/job.yaml", "app/charts/db/Chart.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("name: {{ .Release.Name }}\n")
    (tmp_path / "job.json").write_text(POSSIBLE)

    code, said = run(str(tmp_path))

    chart = tmp_path / "app"
    assert code == 2
    assert (
        f"{chart}: cannot be read: is a Helm chart: render it first (helm template {chart} | muster review -)" in said
    )
    assert said.count("cannot be read") == 1
    assert "1 object judged" in said


def test_a_kustomization_is_told_to_be_rendered(tmp_path: Path) -> None:
    """What it refers to is judged as it stands, which may not be what is applied."""
    (tmp_path / "kustomization.yaml").write_text("resources: [job.json]\n")
    (tmp_path / "job.json").write_text(POSSIBLE)

    code, said = run(str(tmp_path))

    assert code == 2
    assert f"is a kustomization: render it first (kubectl kustomize {tmp_path} | muster review -)" in said
    assert "1 object judged" in said


POLICY_WITH_TIER = """apiVersion: muster.dev/v1alpha1
kind: Policy
metadata: {name: p}
spec: {tiers: [{name: gold, priorityClasses: [train-gold]}]}
"""
TIER_QUOTA = """apiVersion: muster.dev/v1alpha1
kind: TierQuota
metadata: {name: most}
spec: {tier: TIER, hard: {pods: 100}}
"""


@pytest.mark.parametrize(("tier", "said"), [("gold", ""), ("glod", 'warning: TierQuota "most" limits nothing')])
def test_a_quota_of_no_tier_is_warned_of(tmp_path: Path, tier: str, said: str) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY_WITH_TIER)
    (tmp_path / "quota.yaml").write_text(TIER_QUOTA.replace("TIER", tier))
    (tmp_path / "job.json").write_text(json.dumps(job("train").dict()))
    words = ["job.json", "--policy", "policy.yaml", "--quota", "quota.yaml"]
    words = [str(tmp_path / word) if "." in word else word for word in words]
    result = CliRunner().invoke(app, ["review", *words])
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(said) if said else result.stderr == ""


@pytest.mark.parametrize(
    ("hard", "said"),
    [
        ("{nvidia.com/gpu: 8, cpu: 500m, hugepages-2Mi: 2, gangs: 3, largest-gang: 64}", ""),
        ("{cpus: 4}", 'spec.hard["cpus"]: must be cpu, memory, ephemeral-storage, pods, gangs, largest-gang, '),
        ("{cpus: 4}", "hugepages-..., or have a domain as nvidia.com/gpu has; did you mean cpu?"),
        ("{requests.cpu: 4}", "without limits., requests. or count/"),
        ("{a/b/c: 4}", "no resource has such a name"),
        ("{nvidia.com/gpu: -1}", "-1 must be 0 or more"),
        ("{nvidia.com/gpu: 500m}", "500m must be a whole number"),
        ("{nvidia.com/gpu: many}", 'spec.hard["nvidia.com/gpu"]: '),
        ("{}", "spec.hard must limit something"),
        ("{cpu: 1.5}", '1.5 must be quoted: "1.5"'),
        ('{cpu: "1.5", memory: 1.5Gi}', ""),
        ("{pods: 1000m}", "1000m must be a whole number"),
        ('{pods: " 1"}', "no space around it"),
        ("{pods: '" + "0" * 41 + "'}", "at most 40 characters"),
        ("{" + ", ".join(f"a/b{n}: 1" for n in range(33)) + "}", "limits 33 resources, more than 32"),
        ("{pods: 1}, namespaces: [1]", "spec.namespaces must be a list of names"),
        ("{pods: 1}, namespaces: abc", "spec.namespaces must be a list of names"),
        ("{pods: 1}}\nmetadata: 1\nx: {", "a TierQuota whose metadata is no object"),
        ("{pods: 1}}\nmetadata: {name: q, generation: 1e400}\nx: {", 'TierQuota "q" cannot be read'),
    ],
)
def test_a_quota_that_the_crd_refuses_is_unreadable(tmp_path: Path, hard: str, said: str) -> None:
    text = TIER_QUOTA.replace("TIER", "gold").replace("{pods: 100}", hard)
    if "\nmetadata" in hard:
        text = text.replace("metadata: {name: most}\n", "")
    (tmp_path / "quota.yaml").write_text(text)
    (tmp_path / "policy.yaml").write_text(POLICY_WITH_TIER)
    (tmp_path / "job.json").write_text(json.dumps(job("train").dict()))

    words = [str(tmp_path / name) for name in ("job.json", "policy.yaml", "quota.yaml")]
    result = CliRunner().invoke(app, ["review", words[0], "--policy", words[1], "--quota", words[2]])

    assert result.exit_code == (2 if said else 0), result.output
    assert said in result.output


def test_a_quota_file_without_quota_is_wrong_and_an_empty_list_is_not(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job("train").dict()))
    exit_code, output = run(str(path), "--quota", str(path))
    assert exit_code == 2
    assert "holds no TierQuota" in output
    none = tmp_path / "none.yaml"
    none.write_text("apiVersion: v1\nkind: List\nitems: []\n")  # kubectl get tierquotas -o yaml, where there are none
    assert run(str(path), "--quota", str(none))[0] == 0


def test_a_policy_that_is_no_file_is_answered_with_the_names(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job("train").dict()))
    result = CliRunner().invoke(app, ["review", str(path), "-p", "stric"])
    assert result.exit_code == 2
    assert "baseline, strict, staging-dry-run" in result.stderr
