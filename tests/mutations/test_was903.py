"""WAS903: disruptionMode all for gangs with a fixed barrier."""

from __future__ import annotations

import pytest

from tests.builders import Job, job, pod_group
from tests.mutations.support import Raw, changed, mutate, mutate_twice

FIELD = "/spec/scheduling/disruptionMode"


def fixed() -> Job:
    return job().parallelism(4).completions(4).gang().command("torchrun", "--nnodes=4", "train.py")


def test_a_fixed_size_gets_all() -> None:
    """Losing one of four Pods of torchrun --nnodes=4 stops the other three."""
    result = mutate_twice(fixed().dict(), "WAS903")

    assert result.patch == [{"op": "add", "path": FIELD, "value": {"all": {}}}]
    assert len(result.notes) == 1
    assert "--nnodes" in result.notes[0]
    assert "[WAS903]" in result.notes[0]


def test_the_annotation_counts() -> None:
    """muster.dev/barrier overrules what the command says."""
    annotated = job().parallelism(4).completions(4).gang().barrier("4").dict()

    assert changed(mutate_twice(annotated, "WAS903")) == {FIELD: {"all": {}}}


@pytest.mark.parametrize(
    "raw",
    [
        fixed().disruption("single").dict(),
        fixed().disruption("all").dict(),
        job().parallelism(4).completions(4).gang().command("torchrun", "--nnodes=1:4", "train.py").dict(),
        job().parallelism(4).completions(4).gang().dict(),
        fixed().parallelism(8).completions(8).dict(),
        fixed().basic().dict(),
        fixed().unset("spec.scheduling").dict(),
        job().parallelism(1).completions(1).gang().barrier("1").dict(),
        job().parallelism(4).completions(4).gang().env_config_map("WORLD_SIZE", "settings", "size").dict(),
        pod_group().gang(4).barrier("4").dict(),
    ],
    ids=[
        "single is written",
        "all is written",
        "elastic",
        "nothing says how large",
        "more Pods than the application needs",
        "basic, where the API refuses all",
        "no spec.scheduling",
        "one Pod",
        "the size is in a ConfigMap",
        "a PodGroup, where single is filled in already",
    ],
)
def test_left_alone(raw: Raw) -> None:
    """What is not certain is not written."""
    assert changed(mutate(raw, "WAS903")) == {}


def test_min_count_is_never_written() -> None:
    """Upstream's default follows parallelism; a computed number would not (R16)."""
    result = mutate_twice(fixed().dict(), "WAS903")

    assert result.obj["spec"]["scheduling"]["schedulingPolicy"] == {"gang": {}}
