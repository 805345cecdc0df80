"""Hypothesis strategies for the objects of the tests. A new field that an adapter reads belongs in here too."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from webhook.objects.kinds import KINDS, Kind

Raw = dict[str, Any]

names = st.sampled_from(["train", "leader", "worker", "a", "long-" * 13, "with.dots", ""])
counts = st.one_of(st.integers(0, 9), st.sampled_from([-1, 2**31 - 1, 2**63 - 1]))
quantities = st.one_of(
    st.integers(0, 16),
    st.sampled_from(["1", "500m", "1Gi", "1.5", "0", "100u", "1n", "3e2", "2Ti", ".5"]),
    st.builds("{}{}".format, st.integers(0, 10**6), st.sampled_from(["", "m", "k", "Ki", "Mi", "Gi"])),
)
resource_names = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "rdma/ib", "hugepages-2Mi", "ephemeral-storage"])
resource_lists = st.dictionaries(resource_names, quantities, max_size=4)

# Values that the readers of command lines and annotations look at; anything else is only noise to them.
command_words = st.sampled_from(
    [
        "torchrun", "--nnodes=2:4", "--nnodes", "4", "--nproc-per-node=8", "--nproc_per_node", "gpu", "--standalone",
        "python", "-m", "torch.distributed.run", "train.py", "mpirun", "-np", "-n", "8", "--oversubscribe", "--host",
        "h:4", "sh", "bash", "-c", "-lc", "torchrun --nnodes=$N train.py", "mpirun -np 4 'x", "$(WORLD_SIZE)", "$$", "accelerate",
        "launch", "--num_machines", "--num_processes", "deepspeed", "--hostfile", "", "=", "-", "--", ":", "WORLD_SIZE=8 torchrun",
    ]
)  # fmt: skip
written_annotations = st.dictionaries(
    st.sampled_from(
        [
            "muster.dev/barrier",
            "muster.dev/checkpoint-interval",
            "muster.dev/expected-run-time",
            "scheduling.k8s.io/group-template-name",
        ]
    ),
    st.sampled_from(["8", "4..8", "8..4", "", "30m", "1h30m", "leaf", "x"]),
    max_size=3,
)
env_names = st.sampled_from(["WORLD_SIZE", "NNODES", "PET_NNODES", "NUM_PROCESSES", "COORDINATOR_ADDRESS", "N"])
env_values = st.sampled_from(["8", "2:4", "$(N)", "", "x", "0", "$$(N)"])

_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "parallelism": counts,
    "completions": counts,
    "replicas": counts,
    "size": counts,
    "min_count": counts,
    "min_group_count": counts,
    "requests": resource_lists,
    "limits": resource_lists,
    "overhead": resource_lists,
    "command": st.lists(command_words, max_size=7),
    "args": st.lists(command_words, max_size=7),
    "annotations": written_annotations,
    "env": st.lists(
        st.one_of(
            st.builds(lambda name, value: {"name": name, "value": value}, env_names, env_values),
            st.builds(lambda name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, env_names),
        ),
        max_size=3,
    ),
    "startup_policy_order": st.sampled_from(["InOrder", "AnyOrder", "New"]),
    "startup_policy": st.sampled_from(["LeaderReady", "LeaderCreated", "New"]),
    "pod_management_policy": st.sampled_from(["OrderedReady", "Parallel", "New"]),
    "managed_by": st.sampled_from(["kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller", "other.example.com/x"]),
    "restart_policy": st.sampled_from(["Always", "Never"]),
}  # fmt: skip


def objects_of(kind: Kind, *, depth: int = 9) -> st.SearchStrategy[Raw]:
    """Any JSON object that reads as the kind's typed struct: fields left out, null where the API allows it, unknown
    fields beside the known ones."""
    return _struct(kind.type, depth, startup=kind.kind)


def planned_objects() -> st.SearchStrategy[tuple[Kind, Raw]]:
    """Objects of every kind that has an adapter."""
    kinds = [kind for kind in KINDS if kind.planned]
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), objects_of(kind)))


@st.composite
def _struct(draw: st.DrawFn, struct: type[msgspec.Struct], depth: int, startup: str = "") -> Raw:
    result: Raw = {}
    for info in msgspec.structs.fields(struct):
        if depth <= 0 or not draw(_PRESENT):
            continue
        if info.name == "startup_policy" and startup == "JobSet":
            value = draw(_of_type(info.type, depth - 1))
        elif info.name in _BY_FIELD and not (info.name == "startup_policy" and _holds_struct(info.type)):
            value = draw(_BY_FIELD[info.name])
        else:
            value = draw(_of_type(info.type, depth - 1))
        result[info.encode_name] = value
    if draw(_RARELY):
        result["newerField"] = draw(_JSON)
    return result


def _of_type(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([_of_type(part, depth) for part in typing.get_args(kind)])
    if origin is tuple:
        return st.lists(_of_type(typing.get_args(kind)[0], depth), max_size=2)
    if origin is dict:
        return st.dictionaries(names, _of_type(typing.get_args(kind)[1], depth), max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind, depth)
    return _PLAIN[kind]


def _holds_struct(kind: Any) -> bool:
    parts = typing.get_args(kind) or (kind,)
    return any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in parts)


_PRESENT = st.sampled_from([True, True, False])
_RARELY = st.sampled_from([False, False, False, True])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: names,
    int: counts,
    float: st.floats(0, 10, allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
    Any: _JSON,
}


# ---- Pods that a real API server would take -----------------------------------------------------------------------
def containers(sidecars: bool = False) -> st.SearchStrategy[Raw]:
    # The API refuses hugepages whose request differs from the limit, so they are asked for in limits alone.
    requests = resource_lists.map(lambda amounts: {key: amounts[key] for key in amounts if "hugepages" not in key})
    resources = st.fixed_dictionaries({}, optional={"requests": requests, "limits": resource_lists})
    optional: dict[str, st.SearchStrategy[Any]] = {"resources": resources}
    if sidecars:
        optional["restartPolicy"] = st.just("Always")
    return st.fixed_dictionaries({"name": st.just("c"), "image": st.just("pause:3.10")}, optional=optional)


def pod_specs() -> st.SearchStrategy[Raw]:
    """Specs with containers, init containers, sidecars, pod-level resources and overhead."""
    pod_level = st.fixed_dictionaries({}, optional={"requests": resource_lists, "limits": resource_lists})
    return st.fixed_dictionaries(
        {"containers": st.lists(containers(), min_size=1, max_size=3)},
        optional={
            "initContainers": st.lists(containers(sidecars=True), max_size=4),
            "resources": pod_level,
            "overhead": resource_lists,
        },
    )
