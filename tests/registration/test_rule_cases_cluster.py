"""What a rule has something to say about must reach Muster: every deny case of the rules, against the registration
rendered from the case's own policy, on a real API server."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator

import pytest

from tests.cluster.client import object_path
from tests.cluster.cluster import Cluster
from tests.registration.counting import CountingWebhook, registered, wait_until_called
from tests.support.cases import Case, load_cases
from webhook.policy.model import Policy
from webhook.registration.render import Target, render_webhook_configurations

# Ordinary objects, which never reach Muster: what a rule could say of them is for `muster review` and the audit.
ORDINARY = {
    ("WAS116", "LeaderWorkerSet"): "no group, and hugepages are no guarded resource",
    ("WAS124", "CronJob"): "no group, and a class of no tier: a fault of any cluster, not a trap of 1.37",
    ("WAS124", "JobSet"): "the same",
}


def cases() -> list[Case]:
    found = [case for case in load_cases() if not case.allow and case.operation == "CREATE"]
    return [case for case in found if case.not_at_apiserver is None and not case.header.get("subresource")]


def ordinary(case: Case) -> bool:
    return (case.rule, case.obj["kind"]) in ORDINARY


@contextlib.contextmanager
def priority_classes(cluster: Cluster, case: Case) -> Iterator[None]:
    """Those of the case: without them the API server refuses the object before any webhook is asked."""
    classes = [raw for raw in case.surroundings if raw["kind"] == "PriorityClass"]
    made = [object_path(raw) for raw in classes if cluster.api.create(raw).ok]
    yield
    for path in made:
        cluster.api.delete(path).expect()


def test_what_a_rule_finds_reaches_muster(
    control_plane: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--cluster") != "local":
        pytest.skip("the webhook listens on 127.0.0.1, which only a local API server reaches")
    control_plane.install_crds("jobset", "lws", extended=True)
    generation_by_policy: dict[str, str] = {}
    for case in cases():
        generation_by_policy.setdefault(json.dumps(case.policy, sort_keys=True), secrets.token_hex(4))
    passed_by: list[str] = []
    refused: list[str] = []
    reached_count = 0
    with CountingWebhook() as webhook, contextlib.ExitStack() as stack:
        for text, generation in generation_by_policy.items():
            target = Target(client=webhook.url(generation), ca_bundle=webhook.ca_bundle, name=f"muster-{generation}")
            configurations = render_webhook_configurations(Policy.model_validate(json.loads(text)), target)
            stack.enter_context(registered(control_plane, configurations))
        for generation in generation_by_policy.values():
            wait_until_called(control_plane, webhook, generation, namespace)
        for case in cases():
            generation = generation_by_policy[json.dumps(case.policy, sort_keys=True)]
            obj = case.new
            if obj["metadata"].get("namespace"):  # not cluster-scoped
                obj["metadata"]["namespace"] = namespace
            groups = (*(case.user.groups or ()), "system:masters")
            webhook.forget()
            with priority_classes(control_plane, case):
                answer = control_plane.api_as(case.user.username, groups).create(obj, namespace, dryRun="All")
            seen = {entry.path for entry in webhook.seen(generation)}
            if not answer.ok:
                refused.append(f"{case}: {answer.body.get('message')}")
            elif not any(path.startswith("/validate/") for path in seen) and not ordinary(case):
                passed_by.append(f"{case}: reached {seen or 'nothing'}")
            else:
                reached_count += 1

    assert passed_by == []
    assert reached_count > len(refused), refused
