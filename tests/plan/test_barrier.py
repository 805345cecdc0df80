"""The application's own size, as people write it."""

from __future__ import annotations

import pytest

from tests.builders import IMAGE, Job, WithPods, job, jobset, pod
from webhook.plan.annotations import PodRange
from webhook.plan.barrier import Barrier, BarrierKind, BarrierUnknown, read_barrier

PODS, PROCESSES, EITHER = BarrierKind.PODS, BarrierKind.PROCESSES, BarrierKind.EITHER


def read(built: WithPods) -> Barrier | BarrierUnknown | None:
    return read_barrier(tuple(built.plan().all_pod_sets()), built.typed().metadata)


def known(built: WithPods) -> Barrier:
    barrier = read(built)
    assert isinstance(barrier, Barrier), barrier
    return barrier


def unknown(built: WithPods) -> BarrierUnknown:
    barrier = read(built)
    assert isinstance(barrier, BarrierUnknown), barrier
    return barrier


def gang(pods: int = 4) -> Job:
    return job().parallelism(pods).completions(pods).gang()


def script(text: str) -> Job:
    return gang().command("/bin/bash", "-c", text)


# ---- annotation -------------------------------------------------------------------------------------------------
def test_the_annotation_overrules_everything_else() -> None:
    barrier = known(gang().barrier("4..8").env("WORLD_SIZE", "16").command("torchrun", "--nnodes=2", "train.py"))

    assert (barrier.kind, barrier.minimum, barrier.maximum) == (PODS, 4, 8)
    assert str(barrier.path) == "metadata.annotations[muster.dev/barrier]"


def test_the_annotation_of_the_template_is_nearer_than_that_of_the_object() -> None:
    barrier = known(gang().barrier("8").template_annotation("muster.dev/barrier", "4"))

    assert (barrier.minimum, str(barrier.path)) == (4, "spec.template.metadata.annotations[muster.dev/barrier]")


def test_an_annotation_of_one_pod_is_kept_since_a_person_wrote_it() -> None:
    assert known(gang().barrier("1")).is_fixed


@pytest.mark.parametrize("text", ["", "x", "0", "8..4", "4..", "4-8", "-1", "1e3", "8 pods"])
def test_an_annotation_that_cannot_be_read_is_unknown_and_says_what_to_write(text: str) -> None:
    assert "must" in unknown(gang().barrier(text)).reason


def test_a_bare_pod_reads_its_own_annotation() -> None:
    assert known(pod().barrier(" 4 .. 8 ")).maximum == 8


def test_templates_that_contradict_each_other_are_unknown() -> None:
    one, other = (job().template_annotation("muster.dev/barrier", text) for text in ("4", "8"))
    built = jobset().role("a", one).role("b", other)

    barrier = read_barrier(tuple(built.plan().all_pod_sets()), built.typed().metadata)

    assert isinstance(barrier, BarrierUnknown)
    assert [size.minimum for size in barrier.sizes] == [4, 8]


# ---- torchrun -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "minimum", "maximum"),
    [
        (("torchrun", "--nnodes=1:4", "train.py"), 1, 4),
        (("torchrun", "--nnodes", "4", "train.py"), 4, 4),
        (("/opt/conda/bin/torchrun", "--max-restarts=3", "--nnodes=4", "train.py"), 4, 4),
        (("python", "-m", "torch.distributed.run", "--nnodes=2:4", "train.py"), 2, 4),
        (("python3.11", "-u", "-m", "torch.distributed.launch", "--nnodes=3", "train.py"), 3, 3),
        (("torchrun", "--nnodes=4", "train.py", "--nnodes=9"), 4, 4),
        (("torchrun", "--nnodes=4", "-m", "trainer", "--nnodes=9"), 4, 4),
        (("torchrun", "--nnodes=2", "--nnodes=4", "train.py"), 4, 4),
        (("numactl", "--all", "torchrun", "--nnodes=4", "/srv/train"), 4, 4),
    ],
)
def test_r05_torchrun_says_how_many_nodes(words: tuple[str, ...], minimum: int, maximum: int) -> None:
    barrier = known(gang().command(*words))

    assert (barrier.kind, barrier.minimum, barrier.maximum) == (PODS, minimum, maximum)


def test_r05_pet_nnodes_is_the_same_information() -> None:
    barrier = known(gang().env("PET_NNODES", "2:4"))

    assert (barrier.kind, barrier.minimum, barrier.maximum, barrier.is_fixed) == (PODS, 2, 4, False)
    assert barrier.text == "PET_NNODES=2:4"


@pytest.mark.parametrize("pods", [1, 2, 3, 4])
def test_r05_an_elastic_application_runs_on_any_number_in_its_range(pods: int) -> None:
    assert known(gang().command("torchrun", "--nnodes=1:4", "train.py")).fits(pods) is True


def test_the_path_is_that_of_the_word() -> None:
    barrier = known(gang().command("torchrun").args("--nproc-per-node=8", "--nnodes", "4", "train.py"))

    assert str(barrier.path) == "spec.template.spec.containers[0].args[2]"
    assert barrier.processes_per_pod == (8,)


@pytest.mark.parametrize("words", [("torchrun", "--standalone", "--nnodes=4", "t.py"), ("torchrun", "--nnodes=1", "t.py"), ("torchrun", "t.py")])  # fmt: skip
def test_an_application_of_one_pod_waits_for_nobody(words: tuple[str, ...]) -> None:
    assert read(gang().command(*words)) is None


@pytest.mark.parametrize("value", ["auto", "4:2", "0", "", "four", "4,5"])
def test_a_number_of_nodes_that_is_no_number_is_unknown(value: str) -> None:
    assert "--nnodes" in unknown(gang().command("torchrun", f"--nnodes={value}", "train.py")).reason


# ---- WORLD_SIZE -----------------------------------------------------------------------------------------------------
def world(size: str, *, pods: int = 2, gpus: int = 4) -> Barrier:
    return known(gang(pods).gpu(gpus).env("WORLD_SIZE", size))


def test_r07_world_size_may_count_pods_or_processes() -> None:
    assert (world("2").kind, world("2").processes_per_pod) == (EITHER, (4,))
    assert world("2").reading_for(2) == PodRange(2, 2)
    assert world("8").reading_for(2) == PodRange(2, 2)


def test_r07_a_world_that_is_neither_pods_nor_processes_does_not_fit() -> None:
    assert world("16").fits(2) is False
    assert world("16").in_pods() == (PodRange(16, 16), PodRange(4, 4))


def test_r07_a_world_of_one_pod_may_be_one_application_in_each_pod() -> None:
    assert world("4").fits(2) is None


def test_without_devices_the_processes_of_a_pod_are_not_known() -> None:
    barrier = known(gang(2).env("WORLD_SIZE", "16"))

    assert barrier.processes_per_pod is None
    assert (barrier.fits(16), barrier.fits(2)) == (True, None)


def test_devices_of_a_claim_are_not_counted() -> None:
    built = gang(2).gpu(4).pod_claim("nic", template="nic").env("WORLD_SIZE", "16")

    assert known(built).fits(2) is None


def test_a_request_that_cannot_be_read_leaves_processes_unknown() -> None:
    assert known(gang(2).limits(**{"nvidia.com/gpu": "${GPUS}"}).env("WORLD_SIZE", "16")).fits(2) is None


@pytest.mark.parametrize(("name", "value", "per_pod"), [("PET_NPROC_PER_NODE", "8", (8,)), ("NPROC_PER_NODE", "2", (2,)), ("LOCAL_WORLD_SIZE", "gpu", (4,)), ("LOCAL_WORLD_SIZE", "x", None)])  # fmt: skip
def test_processes_of_a_pod_may_be_said(name: str, value: str, per_pod: tuple[int, ...] | None) -> None:
    assert known(gang(2).gpu(4).env("WORLD_SIZE", "16").env(name, value)).processes_per_pod == per_pod


def test_processes_of_a_pod_that_come_from_elsewhere_are_not_known() -> None:
    built = gang(2).gpu(4).env("WORLD_SIZE", "16").env_field("LOCAL_WORLD_SIZE", "metadata.name")

    assert known(built).processes_per_pod is None


# ---- where a value comes from ---------------------------------------------------------------------------------------
def test_r07_a_value_from_elsewhere_is_unknown() -> None:
    field = unknown(gang().env_field("WORLD_SIZE", "metadata.annotations['size']"))
    config = unknown(gang().env_config_map("NNODES", "settings", "nodes"))

    assert (field.reason, str(field.path)) == (
        "WORLD_SIZE comes from a fieldRef",
        "spec.template.spec.containers[0].env[0].valueFrom",
    )
    assert config.reason == "NNODES comes from a configMapKeyRef"


def test_a_variable_of_the_same_container_is_filled_in_as_the_kubelet_does() -> None:
    assert known(gang().env("NODES", "4").env("NNODES", "$(NODES)")).minimum == 4
    assert known(gang().env("NODES", "4").command("torchrun", "--nnodes=$(NODES)", "train.py")).minimum == 4


@pytest.mark.parametrize(
    "built",
    [
        gang().env("NNODES", "$(NODES)"),
        gang().env("NNODES", "$(NODES)").env("NODES", "4"),  # the kubelet knows only what stands before
        gang().env_field("NODES", "metadata.name").env("NNODES", "$(NODES)"),
        gang().env_from_config_map("settings").command("torchrun", "--nnodes=$(NODES)", "train.py"),
        gang().command("torchrun", "--nnodes=$NODES", "train.py"),
        gang().env("NNODES", "$$(NODES)"),
        gang().env("WORLD_SIZE", "all"),
    ],
)
def test_r07_a_reference_that_the_object_does_not_resolve_is_unknown(built: Job) -> None:
    assert unknown(built).reason


def test_of_two_entries_with_one_name_the_later_wins() -> None:
    assert known(gang().env("NNODES", "2").env("NNODES", "4")).minimum == 4


@pytest.mark.parametrize("built", [gang(), gang().env("NNODES", ""), gang().env("WORLD_SIZE", "1"), gang().env_from_config_map("settings"), gang().command("sleep", "8"), gang().command("torchrun")])  # fmt: skip
def test_where_nothing_is_said_there_is_no_barrier(built: Job) -> None:
    assert read(built) is None


# ---- shell ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nnodes=4 train.py",
        "set -euo pipefail\nexport HOST=$(hostname -i)\ntorchrun --nnodes 4 --rdzv-endpoint=$HOST:29400 train.py",
        "pip install -r r.txt && exec torchrun \\\n  --nnodes=4 \\\n  train.py --lr 0.1 | tee log",
        "# once: torchrun --nnodes=9 don't\ntorchrun --nnodes=4 train.py # --nnodes=8",
        "if [ -f x ]; then torchrun --nnodes=4 a.py; else torchrun --nnodes=4 b.py; fi",
        "NNODES=4 ./run.sh",
        "export NNODES=4; ./run.sh",
        "env FOO=1 NNODES='4' ./run.sh",
    ],
)
def test_a_shell_text_is_read_as_the_shell_would(text: str) -> None:
    barrier = known(script(text))

    assert (barrier.kind, barrier.minimum, barrier.maximum) == (PODS, 4, 4)
    assert str(barrier.path) == "spec.template.spec.containers[0].command[2]"


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nnodes=$WORLD_SIZE train.py",
        "torchrun --nnodes=${NODES:-4} train.py",
        "torchrun --nnodes `cat nodes` train.py",
        "torchrun --nnodes=$(wc -l < hosts) train.py",
        "torchrun --nnodes='4 train.py",
        "NNODES=$SLURM_NNODES ./run.sh",
        "if x; then torchrun --nnodes=2 a.py; else torchrun --nnodes=4 a.py; fi",
        "torchrun --nnodes=4 train.py;" + " " * 20_000,
    ],
)
def test_a_shell_text_with_variables_is_unknown_and_never_guessed(text: str) -> None:
    assert unknown(script(text)).reason


@pytest.mark.parametrize("text", ["echo 'it", "sleep $FOREVER", "./train --nnodes=4", "echo mpirun", ""])
def test_a_shell_text_without_launcher_says_nothing(text: str) -> None:
    assert read(script(text)) is None


@pytest.mark.parametrize(
    "built",
    [
        gang().command("bash", "-euo", "pipefail", "-c", "torchrun --nnodes=4 t.py"),
        gang().command("sh").args("-c", "torchrun --nnodes=4 t.py"),
        gang().args("-c", "torchrun --nnodes=4 t.py"),
        gang().command("/usr/bin/env", "bash", "-lc", "torchrun --nnodes=4 t.py"),
    ],
)
def test_a_shell_is_found_however_it_is_called(built: Job) -> None:
    assert known(built).minimum == 4


def test_a_script_file_is_not_in_the_object() -> None:
    assert read(gang().command("bash", "run.sh", "-c", "torchrun --nnodes=4")) is None


# ---- MPI ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [
        ("mpirun", "-np", "4", "python", "train.py", "-n", "9"),
        ("mpirun", "-n", "4", "/srv/train"),
        ("mpiexec", "--np", "4", "./train"),
        ("mpirun", "--np=4", "./train"),
        ("horovodrun", "-np", "4", "python", "train.py"),
        ("mpirun", "--allow-run-as-root", "-bind-to", "none", "-np", "4", "-x", "PATH", "train"),
        ("mpirun", "--hostfile", "/etc/mpi/hostfile", "-n", "4", "train"),
    ],
)
def test_r08_m12_mpirun_counts_processes(words: tuple[str, ...]) -> None:
    barrier = known(pod().gpu(8).command(*words))

    assert (barrier.kind, barrier.minimum, barrier.maximum) == (PROCESSES, 4, 4)
    assert (barrier.processes_per_pod, barrier.in_pods(), barrier.fits(2)) == (None, (), None)


@pytest.mark.parametrize(
    "words",
    [
        ("mpirun", "-np", "4", "--oversubscribe", "train"),
        ("mpirun", "-np", "4", "-oversubscribe", "train"),
        ("mpirun", "--map-by", ":OVERSUBSCRIBE", "-np", "4", "train"),
        ("mpirun", "--map-by=slot:oversubscribe", "-np", "4", "train"),
        ("mpirun", "-np", "4", "--host", "a:2,b:2", "train"),
        ("horovodrun", "-np", "4", "-H", "a:2,b:2", "python", "train.py"),
        ("mpirun", "-np", "1", "master", ":", "-np", "3", "worker"),
        ("mpirun", "-np", "$(N)", "train"),
        ("mpirun", "-np", "all", "train"),
    ],
)
def test_r08_processes_placed_by_hand_are_unknown(words: tuple[str, ...]) -> None:
    assert unknown(pod().command(*words)).reason


@pytest.mark.parametrize("words", [("mpirun", "./train", "-n", "5"), ("mpirun", "-np"), ("mpirun",), ("mpirun", "--host", "a:2", "./train")])  # fmt: skip
def test_mpirun_without_a_number_says_nothing(words: tuple[str, ...]) -> None:
    assert read(pod().command(*words)) is None


def test_mpirun_that_starts_torchrun_is_read_twice() -> None:
    barrier = known(gang().command("mpirun", "-np", "4", "torchrun", "--nnodes=4", "--nproc-per-node=1", "train.py"))

    assert (barrier.kind, barrier.minimum) == (PODS, 4)


# ---- accelerate, deepspeed, JAX -----------------------------------------------------------------------------------
def test_accelerate_says_machines_and_the_total_of_processes() -> None:
    words = ("accelerate", "launch", "--num_machines", "4", "--num_processes=32", "train.py")

    barrier = known(gang().command(*words))

    assert (barrier.kind, barrier.minimum, barrier.processes_per_pod) == (PODS, 4, (8,))


def test_accelerate_with_processes_alone_counts_processes() -> None:
    barrier = known(gang().command("python", "-m", "accelerate.commands.launch", "--num-processes=32", "train.py"))

    assert (barrier.kind, barrier.minimum) == (PROCESSES, 32)


@pytest.mark.parametrize("words", [("accelerate", "launch", "--config_file", "c.yaml", "t.py"), ("deepspeed", "--hostfile=/h", "t.py"), ("deepspeed", "-H", "/h", "t.py")])  # fmt: skip
def test_what_stands_in_a_file_is_unknown(words: tuple[str, ...]) -> None:
    assert "file" in unknown(gang().command(*words)).reason


def test_deepspeed_says_nodes_even_beside_a_hostfile() -> None:
    barrier = known(gang().command("deepspeed", "--hostfile", "/h", "--num_nodes", "4", "--num_gpus=8", "train.py"))

    assert (barrier.kind, barrier.minimum, barrier.processes_per_pod) == (PODS, 4, (8,))


@pytest.mark.parametrize("words", [("deepspeed", "train.py"), ("accelerate", "launch", "train.py")])
def test_a_launcher_without_numbers_says_nothing(words: tuple[str, ...]) -> None:
    assert read(gang().command(*words)) is None


@pytest.mark.parametrize(
    "built",
    [
        gang().env("JAX_NUM_PROCESSES", "4"),
        gang().env("NUM_PROCESSES", "4").env("COORDINATOR_ADDRESS", "a:1"),
        gang().env("NUM_PROCESSES", "4").env_field("JAX_COORDINATOR_ADDRESS", "metadata.name"),
        gang().command("python", "train.py", "--num_processes=4", "--coordinator_address=a:1"),
        gang().env("JAX_PROCESS_ID", "0").command("python", "train.py", "--num-processes", "4"),
    ],
)
def test_jax_counts_processes_which_are_pods_as_a_rule(built: Job) -> None:
    barrier = known(built)

    assert (barrier.kind, barrier.minimum, barrier.fits(4)) == (EITHER, 4, True)


@pytest.mark.parametrize("built", [gang().env("NUM_PROCESSES", "16"), gang().command("python", "tokenize.py", "--num_processes=16")])  # fmt: skip
def test_processes_of_a_tool_are_not_the_application(built: Job) -> None:
    assert read(built) is None


# ---- several places -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "built",
    [
        gang().env("WORLD_SIZE", "4").command("torchrun", "--nnodes=4", "train.py"),
        gang().gpu(8).env("WORLD_SIZE", "32").command("torchrun", "--nnodes=4", "train.py"),
        gang().env("WORLD_SIZE", "32").command("torchrun", "--nnodes=4", "--nproc-per-node=8", "train.py"),
        gang().env("NNODES", "4").env("PET_NNODES", "4"),
        gang().env("NNODES", "4").env("WORLD_SIZE", "64"),
        gang().env_field("WORLD_SIZE", "metadata.name").command("torchrun", "--nnodes=4", "train.py"),
    ],
)
def test_places_that_agree_give_the_number_of_pods(built: Job) -> None:
    barrier = known(built)

    assert (barrier.kind, barrier.minimum, barrier.maximum) == (PODS, 4, 4)


@pytest.mark.parametrize(
    "built",
    [
        gang().env("PET_NNODES", "2").command("torchrun", "--nnodes=4", "train.py"),
        gang().env("NNODES", "4").env("WORLD_SIZE", "2"),
        gang().env("NNODES", "4").env("WORLD_SIZE", "6"),
        gang().gpu(8).env("NNODES", "4").env("WORLD_SIZE", "16"),
        gang().env("PET_NNODES", "2:4").env("WORLD_SIZE", "4"),
        gang().command("accelerate", "launch", "--num_machines=4", "--num_processes=6", "train.py"),
    ],
)
def test_places_that_contradict_each_other_are_unknown_and_all_named(built: Job) -> None:
    barrier = unknown(built)

    assert len(barrier.sizes) == 2
    assert all(size.text in barrier.reason and str(size.path) in barrier.reason for size in barrier.sizes)


def test_of_many_contradictions_a_few_are_named() -> None:
    barrier = unknown(script("; ".join(f"torchrun --nnodes={count} a.py" for count in range(2, 200))))

    assert len(barrier.sizes) == 198
    assert barrier.reason.endswith("and 194 more")


def test_all_containers_and_roles_are_read_together() -> None:
    second = {"name": "more", "image": IMAGE, "env": [{"name": "NNODES", "value": "4"}]}
    built = jobset().role("leader", job()).role("worker", job().more_containers(second))

    barrier = read_barrier(tuple(built.plan().all_pod_sets()), built.typed().metadata)

    assert isinstance(barrier, Barrier)
    assert str(barrier.path) == "spec.replicatedJobs[1].template.spec.template.spec.containers[1].env[0].value"


def test_no_pods_say_nothing() -> None:
    assert read_barrier((), job().typed().metadata) is None
