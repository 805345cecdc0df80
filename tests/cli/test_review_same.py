"""One engine: `muster review` and the webhook say the same of every fixture."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.cases import NAMESPACE, NOW, Case, judge, load_cases
from webhook.cli.review import review_manifests
from webhook.facts.model import Phase
from webhook.policy.load import LoadedPolicies
from webhook.policy.model import Policy
from webhook.rules.catalogue import BY_ID
from webhook.sources.manifests import read_text

CASES = [
    case
    for case in load_cases()
    if case.phase is Phase.VALIDATING and case.operation == "CREATE" and "review_differs" not in case.header
]


def reviewed(case: Case) -> list[tuple[str, str, str]]:
    """(rule, action, field) of the case's object, as `review --complete` gives them."""
    documents = [*case.surroundings, case.new]
    manifests = read_text("---\n".join(json.dumps(document) + "\n" for document in documents).encode(), "set.yaml")
    policies = LoadedPolicies(Policy.model_validate(case.policy))
    result = review_manifests(
        manifests,
        policies,
        policy_name="test",
        namespace=NAMESPACE,
        user=case.user,
        complete=True,
        inventory=case.inventory,
        clock=lambda: NOW,
    )
    entry = result.entries[-1]
    assert entry.line == manifests[-1].line
    return sorted(
        (v.rule, str(v.action), v.field) for v in entry.verdict.violations if not BY_ID[v.rule].META.review_only
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_review_and_webhook_agree(case: Case) -> None:
    """Rules that only review has aside, and findings that a complete set makes stronger, nothing differs."""
    webhook = sorted((v.rule, str(v.action), v.field) for v in judge(case).violations)

    offline = reviewed(case)

    stronger = {(rule, field) for rule, action, field in offline if action == "Deny"}
    expected = [(r, "Deny" if (r, f) in stronger and r in COMPLETE_SET_PROVES else a, f) for r, a, f in webhook]
    assert offline == sorted(expected)


# A webhook can never know that no other object will bring the missing Pods or the missing group; a complete set can.
COMPLETE_SET_PROVES = {"WAS102", "WAS206"}


def test_the_corpus_is_yaml() -> None:
    """Guards the harness: every fixture parses as two documents with another reader, too."""
    for case in load_cases():
        assert len(list(yaml.safe_load_all(case.path.read_text()))) == 2
