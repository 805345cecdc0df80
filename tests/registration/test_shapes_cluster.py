"""Which objects reach Muster, counted on a real API server: the expressions are CEL, and only kube-apiserver knows CEL."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator

import pytest

from tests.cluster.client import MERGE_PATCH, STRATEGIC_PATCH, ApiClient, object_path
from tests.cluster.cluster import Cluster
from tests.registration import shapes
from tests.registration.counting import CountingWebhook, pod_group, registered, wait_until_called
from tests.registration.shapes import OTHER_CLASS, TIER_CLASS, JsonObject, Shape
from webhook.policy.match import glob_matches
from webhook.policy.model import Policy
from webhook.registration.expressions import matches_any
from webhook.registration.render import Target, render_webhook_configurations

CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NAMESPACE = "registration-shapes"


def policy(**spec: object) -> Policy:
    tiers = [{"name": "gold", "priorityClasses": [TIER_CLASS, "it's-odd"]}]
    return Policy.model_validate(
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "test"},
            "spec": {"tiers": tiers, **spec},
        }
    )


class Registration:
    """One rendered policy on the API server, and who was called."""

    def __init__(self, cluster: Cluster, webhook: CountingWebhook, generation: str) -> None:
        self.cluster = cluster
        self._webhook = webhook
        self._generation = generation

    def entries_called(self, shape: JsonObject, user: str = "admin", namespace: str = NAMESPACE) -> list[str]:
        """The paths of the entries that a dry-run creation reaches."""
        self._webhook.forget()
        self._api(user).create(shape, namespace, dryRun="All").expect()
        return self._called(user)

    def patches(self, path: str, patch: JsonObject, **options: str) -> list[str]:
        """The same for a patch by the admin. The API server may call more than once: it retries after a conflict."""
        self._webhook.forget()
        content_type = STRATEGIC_PATCH if path.startswith("/api/v1/") else MERGE_PATCH
        stored = self.cluster.api.patch(path, patch, content_type, **options).expect()
        called = sorted(set(self._called("admin")))
        # The API server first tries a change on what its watch cache has, and asks webhooks about that: the next one
        # would be judged on the object as it was.
        self.cluster.wait_for(
            lambda: self._cached_version(path) >= int(stored["metadata"]["resourceVersion"]), 30, path
        )
        return called

    def _cached_version(self, path: str) -> float:
        cached = self.cluster.api.get(path, resourceVersion="0")
        return math.inf if cached.status == 404 else int(cached.expect()["metadata"]["resourceVersion"])

    def deletes(self, path: str, user: str, **options: str | int) -> list[str]:
        self._webhook.forget()
        self._api(user).delete(path, **options).expect()
        return self._called(user)

    def _api(self, user: str) -> ApiClient:
        return self.cluster.api_as(user, () if user == "admin" else ("system:masters",))

    def _called(self, user: str) -> list[str]:
        """By this user: controllers work in between."""
        return sorted(seen.path for seen in self._webhook.seen(self._generation) if seen.user == user)

    def wrong(self, shapes: Iterable[Shape], user: str, entry: str) -> list[str]:
        """The titles of the shapes that reach something else than they should."""
        faults = []
        for shape in shapes:
            expected = [entry] if shape.reaches else ["/validate/traps"] if shape.trap else []
            actual = self.entries_called(shape.obj, user)
            if actual != expected:
                faults.append(f"{shape.obj['kind']}: {shape.title}: reached {actual}")
        return faults


@pytest.fixture(scope="module")
def cluster(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The control plane with a namespace, two PriorityClasses and the CRDs."""
    if request.config.getoption("--cluster") != "local":
        pytest.skip("the webhook listens on 127.0.0.1, which only a local API server reaches")
    api = control_plane.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).expect(201, 409)
    for name, value in ((TIER_CLASS, 1000), (OTHER_CLASS, 10)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        api.create({**body, "value": value}).expect(201, 409)
    control_plane.install_crds("jobset", "lws", extended=True)
    yield control_plane
    control_plane.delete_namespace(NAMESPACE)
    for name in (TIER_CLASS, OTHER_CLASS):
        api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}").expect(200, 404)


@pytest.fixture(scope="module")
def webhook() -> Iterator[CountingWebhook]:
    with CountingWebhook() as server:
        yield server


@pytest.fixture
def register(cluster: Cluster, webhook: CountingWebhook) -> Iterator[object]:
    """Renders a policy, registers it, and waits until the API server calls it."""
    stacks = []

    def make(policy: Policy) -> Registration:
        generation = secrets.token_hex(4)
        target = Target(client=webhook.url(generation), ca_bundle=webhook.ca_bundle, name=f"muster-{generation}")
        manager = registered(cluster, render_webhook_configurations(policy, target))
        manager.__enter__()
        stacks.append(manager)
        wait_until_called(cluster, webhook, generation, NAMESPACE)
        return Registration(cluster, webhook, generation)

    yield make
    for manager in stacks:
        manager.__exit__(None, None, None)


PEOPLE = ("admin", "/validate/submit")
CONTROLLERS = (CONTROLLER, "/validate/controllers")


def test_only_what_is_worth_a_look_reaches_exactly_one_entry(register) -> None:
    registration = register(policy())
    built_in = [
        *shapes.pods(),
        *shapes.jobs(traps=True),
        *shapes.cron_jobs(),
        *shapes.replicated(),
        *shapes.always(),
        *shapes.priority_classes(),
        *shapes.others(),
    ]

    wrong = {user: registration.wrong(built_in, user, entry) for user, entry in (PEOPLE, CONTROLLERS)}

    assert wrong == {"admin": [], CONTROLLER: []}


@pytest.mark.parametrize("extended", [False, True], ids=["published CRDs", "CRDs that know the WAS fields"])
def test_job_sets_and_leader_worker_sets(register, cluster: Cluster, extended: bool) -> None:
    cluster.install_crds("jobset", "lws", extended=extended)
    registration = register(policy())
    custom = [*shapes.job_sets(extended=extended), *shapes.leader_worker_sets(extended=extended)]

    assert registration.wrong(custom, *PEOPLE) == []


def test_a_policy_that_says_that_jobs_get_no_groups_lets_the_traps_of_jobs_pass_by(register) -> None:
    registration = register(policy(cluster={"featureGates": {"GenericWorkload": False}}))

    assert registration.wrong(shapes.jobs(traps=False), *PEOPLE) == []


def test_a_policy_that_says_that_groups_have_no_preemption_policy_lets_every_class_pass_by(register) -> None:
    registration = register(policy(cluster={"featureGates": {"PodGroupPreemptionPolicy": False}}))

    for shape in shapes.priority_classes():
        assert registration.entries_called(shape.obj) == [], shape.title


def test_a_class_reaches_muster_when_an_update_makes_it_the_default_that_never_preempts(
    register, cluster: Cluster
) -> None:
    """By dry runs: stored for a moment, such a class would stop every Job of the tests beside this one."""
    registration = register(policy())
    name = f"polite-{secrets.token_hex(4)}"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    cluster.api.create({**body, "value": 5, "preemptionPolicy": "Never"}).expect()
    path = object_path(body)
    try:
        assert registration.patches(path, {"globalDefault": True}, dryRun="All") == ["/validate/traps"]
        assert registration.patches(path, {"description": "waits for its turn"}) == []
        assert registration.deletes(path, "admin", dryRun="All") == []
    finally:
        cluster.api.delete(path).expect()


def test_a_mutating_entry_sees_creations_before_names_are_made_and_only_where_a_mutation_is_on(register) -> None:
    """Everything the validating entry sees, and the same narrow conditions, with no name yet."""
    registration = register(policy(overrides=[{"name": "o", "scope": {}, "mutations": {"WAS901": True}}]))

    assert registration.entries_called(pod_group("p")) == ["/mutate", "/validate/submit"]
    nameless = {**pod_group("p"), "metadata": {"generateName": "p-"}}
    assert registration.entries_called(nameless) == ["/mutate", "/validate/submit"]
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": shapes.pod_spec()}
    assert registration.entries_called(plain) == []


def test_an_update_is_looked_at_when_something_that_is_judged_changed(register, namespace: str) -> None:
    registration = register(policy())
    cluster = registration.cluster
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gpu"}, "spec": {}}
    body["spec"] = {
        "suspend": True,
        "template": {"spec": shapes.pod_spec(containers=[shapes.container(resources=shapes.GPU)])},
    }
    cluster.api.create(body, namespace).expect()
    path = object_path(body, namespace)

    assert registration.patches(path, {"spec": {"parallelism": 3}}) == ["/validate/submit"]
    assert registration.patches(path, {"metadata": {"labels": {"a": "b"}}}) == ["/validate/submit"]
    assert registration.patches(path, {"metadata": {"finalizers": ["example.com/hold"]}}) == []
    assert registration.patches(path, {"spec": {"parallelism": 3}}) == [], "nothing changed"
    assert registration.patches(f"{path}/status", {"status": {"ready": 0}}) == [], "a subresource"
    cpu = [shapes.container(resources=shapes.CPU)]
    assert registration.patches(path, {"spec": {"template": {"spec": {"containers": cpu}}}}) == ["/validate/submit"], (
        "it was worth a look before"
    )
    assert registration.patches(path, {"spec": {"parallelism": 4}}) == [], "ordinary now"


def test_an_object_that_is_going_and_what_the_garbage_collector_takes_is_left_alone(register, namespace: str) -> None:
    registration = register(policy())
    cluster = registration.cluster
    group = pod_group("going")
    group["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.api.create(group, namespace).expect()
    path = object_path(group, namespace)

    collector = "system:serviceaccount:kube-system:generic-garbage-collector"
    assert registration.deletes(path, collector, dryRun="All") == []
    assert registration.deletes(path, "system:serviceaccount:kube-system:namespace-controller", dryRun="All") == []
    assert registration.deletes(path, CONTROLLER, dryRun="All") == ["/validate/controllers"]
    assert registration.deletes(path, "admin") == ["/validate/submit"]
    # It has a deletionTimestamp now: giving up the finalizers must work whatever happens to Muster.
    assert registration.patches(path, {"metadata": {"finalizers": None}}) == []


def test_pods_are_looked_at_when_they_are_made_only(register, namespace: str) -> None:
    registration = register(policy())
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu"}, "spec": {}}
    pod["spec"] = shapes.pod_spec(containers=[shapes.container(resources=shapes.GPU)])
    registration.cluster.api.create(pod, namespace).expect()
    path = object_path(pod, namespace)

    assert registration.patches(path, {"metadata": {"labels": {"a": "b"}}}) == []
    assert registration.patches(f"{path}/status", {"status": {"phase": "Running"}}) == []
    assert registration.deletes(path, "admin", gracePeriodSeconds=0) == []


@pytest.mark.parametrize("excluded", ["kube-system", "kube-public", "kube-node-lease", "muster-system", "gpu-operator"])
def test_system_and_own_namespaces_never_reach_muster(register, cluster: Cluster, excluded: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": excluded}}
    made_here = cluster.api.create(body).status == 201
    registration = register(policy())

    for shape in (*shapes.pods(), *shapes.jobs(traps=True), *shapes.always()):
        assert registration.entries_called(shape.obj, namespace=excluded) == [], shape.title
    if made_here:
        cluster.delete_namespace(excluded)


def test_the_largest_objects_cost_less_cel_than_the_api_server_allows(register) -> None:
    """A condition whose budget runs out is an error, and an error with failurePolicy Fail refuses the object."""
    registration = register(policy())

    for obj in (*shapes.large(), *shapes.large_job_sets()):
        registration.entries_called(obj)  # raises ApiError where it is refused


# -- globs --------------------------------------------------------------------------------------------------------
GLOBS = (
    "*", "alice", "ali*", "*ce", "*li*", "a*e", "a*a", "**", "a**e", "*a*b*", "a.c", "a*.*z", "x\\y", "it's", "a*[b]*c",
    "system:serviceaccount:kube-system:*-controller", "ü*", "a+*(b)*{c}^$|?", "*\t*",
)  # fmt: skip
NAMES = (
    "alice", "ali", "ce", "a", "aa", "aba", "ae", "abc", "a.c", "a.xz", "axz", "x\\y", "it's", "a[b]c", "a1[b]2c", "ab",
    "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:kube-system:controller",
    "system:serviceaccount:kube-system:-controller", "über", "a+1(b)2{c}^$|?", "xaxbx", "bob",
)  # fmt: skip


def test_globs_mean_the_same_in_cel_as_in_the_policy(cluster: Cluster, webhook: CountingWebhook) -> None:
    generation = secrets.token_hex(4)
    target = Target(client=webhook.url(generation), ca_bundle=webhook.ca_bundle)
    template = render_webhook_configurations(policy(), target)[0]["webhooks"][0]
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    webhooks = []
    for index, glob in enumerate(GLOBS):
        conditions = [{"name": "glob", "expression": matches_any("request.userInfo.username", [glob])}]
        config = {**template["clientConfig"], "url": webhook.url(generation) + f"/{index}"}
        entry = {**template, "name": f"glob-{index}.muster.dev", "rules": rules, "matchConditions": conditions}
        webhooks.append({**entry, "clientConfig": config})
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"globs-{generation}"},
        "webhooks": webhooks,
    }
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

    def called_for(name: str) -> set[str]:
        webhook.forget()
        # Headers are written as Latin-1 and read as UTF-8.
        user = cluster.api.acting_as(name.encode().decode("latin-1"), ("system:masters",))
        user.create(config_map, NAMESPACE, dryRun="All").expect()
        user.close()
        # Controllers make ConfigMaps, too: in each new namespace one.
        return {GLOBS[int(seen.path.removeprefix("/"))] for seen in webhook.seen(generation) if seen.user == name}

    with registered(cluster, [configuration]):
        cluster.wait_for(lambda: called_for("alice"), 30, "the API server to call the webhook")
        actual = {name: called_for(name) for name in NAMES}

    assert actual == {name: {glob for glob in GLOBS if glob_matches(glob, name)} for name in NAMES}
