"""The effective request of a Pod, against the cases that schedulers of the field got wrong."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.builders import IMAGE, WithPods, pod
from tests.strategies import Raw, pod_specs
from webhook.objects import core
from webhook.objects.fieldpath import SPEC
from webhook.objects.quantity import Quantity
from webhook.objects.read import read
from webhook.plan.requests import EffectiveRequest, effective_request, is_extended

GPU = "nvidia.com/gpu"


def request_of(built: WithPods, **overhead: str) -> EffectiveRequest:
    return effective_request(built.typed().spec, SPEC, overhead=dict(overhead) or None)


def amount(built: WithPods, resource: str = GPU) -> str:
    return str(request_of(built).amounts[resource])


def test_r54_a_sidecar_counts_beside_the_application() -> None:
    assert amount(pod().sidecar("proxy", **{GPU: "1"}).gpu(7)) == "8"
    assert amount(pod().sidecar("proxy", **{GPU: "1"}).gpu(8)) == "9"


def test_r55_plain_init_containers_run_one_after_another() -> None:
    three = pod().init("a", **{GPU: "8"}).init("b", **{GPU: "8"}).init("c", **{GPU: "8"}).gpu(8)

    assert amount(three) == "8"


def test_r55_an_init_container_runs_beside_the_sidecars_that_started_before_it() -> None:
    interleaved = pod().init("a", **{GPU: "1"}).sidecar("proxy", **{GPU: "1"}).init("b", **{GPU: "2"}).gpu(1)

    assert amount(interleaved) == "3"


def test_a_sidecar_that_starts_later_does_not_count_for_an_init_container_before_it() -> None:
    assert amount(pod().init("a", **{GPU: "5"}).sidecar("proxy", **{GPU: "2"}).gpu(1)) == "5"


def test_r60_a_limit_alone_is_a_request() -> None:
    assert amount(pod().limits(**{GPU: "2"})) == "2"


def test_a_written_request_wins_over_the_limit_even_if_it_is_zero() -> None:
    built = pod().requests(cpu="0").limits(cpu="4", memory="1Gi")

    assert request_of(built).amounts == {"cpu": Quantity.parse(0), "memory": Quantity.parse("1Gi")}


def test_containers_are_summed_exactly_and_rounded_only_after_the_sum() -> None:
    third = {"name": "more", "image": IMAGE, "resources": {"requests": {"memory": "100m"}}}
    built = pod().requests(memory="400m").more_containers(third, {**third, "name": "most"})

    assert request_of(built).amounts["memory"].value() == 1


def test_amounts_finer_than_thousandths_are_rounded_up_before_the_sum_as_the_api_server_stores_them() -> None:
    second = {"name": "more", "image": IMAGE, "resources": {"requests": {"cpu": "100u"}}}

    assert str(request_of(pod().requests(cpu="100u").more_containers(second)).amounts["cpu"]) == "2m"


def test_pod_level_requests_replace_the_sum_of_cpu_and_memory_but_of_nothing_else() -> None:
    built = pod().requests(cpu="1", memory="1Gi").gpu(8)
    built.pod_resources(requests={"cpu": "16", "hugepages-2Mi": "4Mi", GPU: "1"})

    amounts = {name: str(quantity) for name, quantity in request_of(built).amounts.items()}
    assert amounts == {"cpu": "16", "memory": "1073741824", GPU: "8", "hugepages-2Mi": "4194304"}


def test_a_pod_level_limit_becomes_the_request_only_where_no_container_asks() -> None:
    built = pod().requests(cpu="1").pod_resources(limits={"cpu": "16", "memory": "2Gi"})

    assert {name: str(quantity) for name, quantity in request_of(built).amounts.items()} == {
        "cpu": "1",
        "memory": str(2 * 2**30),
    }


def test_r59_overhead_of_the_pod_comes_on_top() -> None:
    built = pod().requests(cpu="93").overhead("kata", cpu="4", memory="8Gi")

    assert amount(built, "cpu") == "97"
    assert amount(built, "memory") == str(8 * 2**30)


def test_r59_a_template_has_no_overhead_yet_so_the_runtime_class_is_asked() -> None:
    assert str(request_of(pod().requests(cpu="93"), cpu="4").amounts["cpu"]) == "97"


def test_what_is_no_quantity_is_left_out_and_named() -> None:
    result = request_of(pod().requests(cpu="1").limits(**{GPU: "${GPUS}", "memory": "1Gi"}))

    assert set(result.amounts) == {"cpu", "memory"}
    assert [str(item.path) for item in result.unreadable] == ["spec.containers[0].resources.limits[nvidia.com/gpu]"]


@pytest.mark.parametrize(
    ("resource", "extended"),
    [
        (GPU, True), ("rdma/ib", True), ("cpu", False), ("hugepages-2Mi", False), ("kubernetes.io/x", False),
        ("attachable.kubernetes.io/x", False), ("requests.nvidia.com/gpu", False),
    ],
)  # fmt: skip
def test_tells_devices_from_what_a_node_always_has(resource: str, extended: bool) -> None:
    assert is_extended(resource) is extended


@given(spec=pod_specs())
def test_a_pod_never_asks_for_less_than_one_of_its_containers(spec: Raw) -> None:
    spec.pop("resources", None)
    typed = read(spec, core.PodSpec)

    whole = effective_request(typed, SPEC).amounts

    for container in (*(typed.containers or ()), *(typed.init_containers or ())):
        alone = effective_request(core.PodSpec(containers=(container,)), SPEC).amounts
        assert all(whole[name] >= quantity for name, quantity in alone.items())


@given(spec=pod_specs())
def test_filling_requests_in_twice_changes_nothing(spec: Raw) -> None:
    """The webhook sees a Pod that the API server has filled in already; the plan of a template is the same."""
    once = effective_request(read(spec, core.PodSpec), SPEC).amounts
    filled = {**spec, "containers": [_filled(container) for container in spec["containers"]]}

    assert effective_request(read(filled, core.PodSpec), SPEC).amounts == once


def _filled(container: Raw) -> Raw:
    resources = container.get("resources", {})
    requests = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {**container, "resources": {**resources, "requests": requests}}
