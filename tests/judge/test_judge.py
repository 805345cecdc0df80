"""The engine against the real kube-scheduler: it may be unsure, it may be greedy, "never" may not be wrong."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cluster.controlplane import ControlPlane, ControlPlaneOptions
from tests.judge.agreement import DOCUMENT, Agreement
from tests.judge.engine import FEASIBLE, NEVER, UNKNOWN, answer, answers, denials
from tests.judge.generate import generate
from tests.judge.pairs import Pair
from tests.judge.scheduler import Judge, RefusedError, options
from tests.judge.shrink import shrink

CASES = Path(__file__).parent / "cases"
# Rounds of the scheduler before a plan counts as not placed. It draws lots between equal nodes and orders a group's Pods
# by their attempts, so a second round may find what the first one missed.
ROUNDS = {NEVER: 2, FEASIBLE: 3, UNKNOWN: 1}
# Of drawn pairs, at most this share may be objects that the API server refuses: they prove nothing.
REFUSED_SHARE_MAX = 0.05

Start = Callable[[ControlPlaneOptions], ControlPlane]


def seed() -> str:
    return os.environ.get("MUSTERTEST_JUDGE_SEED") or secrets.token_hex(4)


def recorded() -> list[Path]:
    return sorted(CASES.glob("*.yaml"))


def test_drawn_pairs(start_control_plane: Start) -> None:
    """A fresh hundred each time."""
    run(start_control_plane, seed(), 100)


@pytest.mark.prove
@pytest.mark.timeout(5400)
def test_drawn_pairs_recorded(start_control_plane: Start) -> None:
    """At least a thousand, with the table in docs/."""
    drawn = seed()
    agreement = run(start_control_plane, drawn, int(os.environ.get("MUSTERTEST_JUDGE_PAIRS", "1200")))

    assert agreement.pair_count >= 1000
    DOCUMENT.write_text(agreement.document(drawn, datetime.now(UTC).date().isoformat(), ROUNDS))


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_recorded_pair(path: Path, judge: Judge) -> None:
    """What once was wrong, and what is easily got wrong, stays right."""
    document = YAML(typ="safe", pure=True).load(path.read_text())
    expected = document.pop("expected")
    pair = Pair.of(document)

    words = answers(pair)
    outcome = judge.run(pair, max(ROUNDS[word] for word in words))

    assert list(outcome.placed) == [placed for _, placed in expected]
    # The engine may come to know more than it did, never less.
    for word, (known, placed) in zip(words, expected, strict=True):
        assert known in (word, UNKNOWN)
        assert not (word == NEVER and placed)


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """One control plane for the recorded pairs."""
    if request.config.getoption("--cluster") != "local":
        pytest.skip("starts a control plane with options of its own: --cluster=local")
    with ControlPlane(options(directory=tmp_path_factory.mktemp("judge"))) as control_plane:
        found = Judge(control_plane)
        found.start()
        yield found
        found.close()


def run(start_control_plane: Start, drawn: str, pair_count: int) -> Agreement:
    """Raises AssertionError at the first false "never", after shrinking and keeping it."""
    print(f"\nseed {drawn} (MUSTERTEST_JUDGE_SEED)")
    judge = Judge(start_control_plane(options()))
    judge.start()
    agreement = Agreement()
    try:
        for index in range(pair_count):
            pair = generate(drawn, index, answer)
            words = answers(pair)
            try:
                outcome = judge.run(pair, max(ROUNDS[word] for word in words))
            except RefusedError:
                agreement.refused += 1
                continue
            agreement.add(pair, words, outcome.placed)
            if is_false_never(words, outcome.placed):
                raise AssertionError(f"a false never (seed {drawn}/{index}), kept as {keep(judge, pair)}")
            false = [one for one in denials(pair) if outcome.has_placed(one)]
            agreement.denied += len(denials(pair))
            assert not false, f"Muster denies what was placed (seed {drawn}/{index}): {false}"
    finally:
        judge.close()
        print(agreement.line())
    assert agreement.refused <= REFUSED_SHARE_MAX * pair_count
    return agreement


def is_false_never(words: tuple[str, ...], placed: tuple[bool, ...]) -> bool:
    return any(word == NEVER and is_placed for word, is_placed in zip(words, placed, strict=True))


def keep(judge: Judge, pair: Pair) -> Path:
    """The smallest pair with the fault, as a file that every later run replays."""

    def still(smaller: Pair) -> bool:
        words = answers(smaller)
        if NEVER not in words:
            return False
        try:
            return is_false_never(words, judge.run(smaller, 1).placed)
        except RefusedError:
            return False

    smallest = replace(shrink(pair, still), why="the engine said never and the scheduler placed it")
    expected = [["feasible", True]] * len(answers(smallest))
    path = CASES / f"false-never-{pair.seed.replace('/', '-')}.yaml"
    yaml = YAML()
    with path.open("w") as file:
        yaml.dump({**_plain(smallest.document()), "expected": expected}, file)
    print(path.read_text())
    return path


def _plain(value: object) -> object:
    """Tuples as lists, which YAML knows."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
