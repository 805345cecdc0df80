"""Promise 1 on a real control plane: what the registration costs a cluster whose Muster works, and one whose is dead."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from tests.cluster.client import object_path
from tests.cluster.cluster import Cluster
from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.cluster.processes import free_ports
from tests.registration import shapes
from tests.registration.counting import CountingWebhook, pod_group, registered, wait_until_called
from tests.registration.shapes import JsonObject
from webhook.policy.load import default_policies
from webhook.registration.render import Target, render_webhook_configurations

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def job(name: str, parallelism: int = 2, **spec: object) -> JsonObject:
    body = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": shapes.pod_spec()}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def gang_job(name: str) -> JsonObject:
    return job(name, scheduling={"schedulingPolicy": {"gang": {}}})


def replicated(kind: str, name: str, **spec: object) -> JsonObject:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": shapes.pod_spec(restartPolicy="Always")}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def wait_for_bound(cluster: Cluster, namespace: str, selector: str, pod_count: int) -> None:
    cluster.wait_for(
        lambda: len(cluster.bound_pods(namespace, selector)) == pod_count, 60, f"{pod_count} bound Pods of {selector}"
    )


@pytest.fixture
def stock(start_control_plane: Callable[[ControlPlaneOptions], ControlPlane]) -> ControlPlane:
    """A control plane of its own with every WAS gate on and two nodes: these tests break what others share."""
    cluster = start_control_plane(ControlPlaneOptions())
    cluster.create_nodes(2)
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "plain-class"}}
    cluster.api.create({**body, "value": 10}).expect()
    return cluster


def test_what_the_job_controller_makes_for_a_plain_job_reaches_the_entry_that_may_fail_only(
    stock: ControlPlane,
) -> None:
    namespace = stock.new_namespace()
    generation = secrets.token_hex(4)
    with CountingWebhook() as webhook:
        target = Target(client=webhook.url(generation), ca_bundle=webhook.ca_bundle)
        with registered(stock, render_webhook_configurations(default_policies().policy, target)):
            wait_until_called(stock, webhook, generation, namespace)
            webhook.forget()

            stock.api.create(job("plain"), namespace).expect()
            wait_for_bound(stock, namespace, "job-name=plain", 2)
            stock.api.create(gang_job("gang"), namespace).expect()
            wait_for_bound(stock, namespace, "job-name=gang", 2)
            ordinary = [replicated("Deployment", "web", replicas=2), replicated("StatefulSet", "db", serviceName="db")]
            for obj in ordinary:
                stock.api.create(obj, namespace).expect()
            wait_for_bound(stock, namespace, "app=web", 2)
            wait_for_bound(stock, namespace, "app=db", 1)

            seen = webhook.seen(generation)

    by_job_controller = {
        (entry.path, entry.operation, entry.resource) for entry in seen if entry.user == JOB_CONTROLLER
    }
    by_others = [
        (entry.path, entry.operation, entry.resource, entry.name) for entry in seen if entry.user != JOB_CONTROLLER
    ]
    made = {("/validate/controllers", "CREATE", resource) for resource in ("workloads", "podgroups", "pods")}
    assert by_job_controller == made
    assert by_others == [("/validate/submit", "CREATE", "jobs", "gang")]
    assert {entry.sub_resource for entry in seen} == {""}


def test_with_muster_dead_only_what_it_would_have_judged_is_refused(stock: ControlPlane) -> None:
    namespace = stock.new_namespace()
    stock.api.create(gang_job("runs"), namespace).expect()
    wait_for_bound(stock, namespace, "job-name=runs", 2)
    dead = Target(client=f"https://127.0.0.1:{free_ports(1)[0]}", failure_policy="Fail")
    with registered(stock, render_webhook_configurations(default_policies().policy, dead)):
        wait_until_refused(stock, namespace)

        ordinary_work_goes_on(stock, namespace)
        what_runs_goes_on(stock, namespace)
        system_namespaces_are_free(stock)
        stock.restart("kube-apiserver")
        stock.restart("kube-controller-manager")
        stock.restart("kube-scheduler")
        a_namespace_full_of_groups_goes_away(stock)
        ordinary_work_goes_on(stock, stock.new_namespace())

        refused = stock.api.create(gang_job("new"), namespace)
        assert refused.status == 500
        assert 'failed calling webhook "submit.muster.dev"' in refused.body["message"]


def wait_until_refused(cluster: Cluster, namespace: str) -> None:
    cluster.wait_for(
        lambda: not cluster.api.create(pod_group("probe"), namespace, dryRun="All").ok,
        30,
        "the dead entry to be called",
    )


def with_class(obj: JsonObject) -> JsonObject:
    """Nobody knows without asking whether a class works for groups."""
    obj["spec"]["template"]["spec"]["priorityClassName"] = "plain-class"
    return obj


def ordinary_work_goes_on(cluster: Cluster, namespace: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": {"app": "pod"}}}
    schedule = {"schedule": "* * * * *", "jobTemplate": {"spec": job("x")["spec"]}}
    ordinary = [
        {**pod, "spec": shapes.pod_spec()},
        job("plain"),
        with_class(job("with-class")),
        job("a-name-that-is-longer-than-the-group-of-a-job-may-have-in-1-37"),
        replicated("Deployment", "web", replicas=2),
        replicated("StatefulSet", "db", serviceName="db"),
        replicated("DaemonSet", "agent"),
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": schedule},
    ]
    for obj in ordinary:
        cluster.api.create(obj, namespace).expect()
    wait_for_bound(cluster, namespace, "app=pod", 1)
    wait_for_bound(cluster, namespace, "job-name=plain", 2)
    wait_for_bound(cluster, namespace, "job-name=with-class", 2)
    wait_for_bound(cluster, namespace, "app=web", 2)
    wait_for_bound(cluster, namespace, "app=db", 1)
    wait_for_bound(cluster, namespace, "app=agent", 2)
    plain = object_path(job("plain"), namespace)
    cluster.api.patch(plain, {"spec": {"suspend": True}}).expect()
    cluster.api.delete(plain, propagationPolicy="Foreground").expect()


def what_runs_goes_on(cluster: Cluster, namespace: str) -> None:
    """A member of a running gang is made anew, and the gang ends."""
    lost = cluster.pods(namespace, "job-name=runs")[0]["metadata"]["name"]
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{lost}", gracePeriodSeconds=0).expect()
    cluster.wait_for(
        lambda: lost not in {pod["metadata"]["name"] for pod in cluster.pods(namespace, "job-name=runs")},
        30,
        "the Pod to go",
    )
    wait_for_bound(cluster, namespace, "job-name=runs", 2)
    runs = object_path(gang_job("runs"), namespace)
    cluster.api.delete(runs, propagationPolicy="Foreground").expect()
    for pod in cluster.pods(namespace, "job-name=runs"):
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        cluster.api.delete(path, gracePeriodSeconds=0).expect(200, 404)
    cluster.wait_for(lambda: cluster.api.get(runs).status == 404, 60, "the gang to be gone, groups included")


def system_namespaces_are_free(cluster: Cluster) -> None:
    gpu = shapes.pod_spec(containers=[shapes.container(resources=shapes.GPU)])
    for namespace in ("kube-system", "kube-public", "kube-node-lease", "muster-system", "gpu-operator"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        cluster.api.create(body).expect(201, 409)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "device-plugin"}, "spec": gpu}
        cluster.api.create(pod, namespace).expect()


def a_namespace_full_of_groups_goes_away(cluster: Cluster) -> None:
    """Made by a trusted controller, since people cannot make any now."""
    namespace = cluster.new_namespace()
    controller = cluster.api_as(JOB_CONTROLLER, ("system:masters",))
    controller.create(pod_group("left"), namespace).expect()
    cluster.delete_namespace(namespace)
    cluster.wait_for(
        lambda: cluster.api.get(f"/api/v1/namespaces/{namespace}").status == 404, 90, "the namespace to be gone"
    )
