"""The daemon lives through what a seed decides, and is at every step what it must be. SPEC 17.

`make simulate SEEDS=10000` lives more of them. A failing life prints its last steps and how to live just it again.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.disk import SimulatedDisk
from tests.simulation.ledger import UndecidedWrite
from tests.simulation.life import LifeFailure
from tests.simulation.seeds import OPERATIONS, live
from tests.simulation.sweep import CALLS_MAX, MODES, live_a_day
from tests.support.power_loss import PROJECT

LIVES = 30  # so many that they take about 15 s
RANGE = 5
FIRST = 1_000_000  # other seeds than those that the bench begins with
SWEEP_STEP = 61  # of the calls of a day every so-manieth is tried here; `make simulate` tries all

_done: set[str] = set()


@pytest.mark.parametrize("first", range(FIRST, FIRST + LIVES, RANGE))
def test_a_life_of_failures_loses_nothing_doubles_nothing_and_hides_nothing(first: int) -> None:
    for seed in range(first, first + RANGE):
        _done.update(live(seed).did)


def test_whatever_can_happen_happens_in_some_life() -> None:
    seed = FIRST + LIVES
    while missing := {operation.name for operation in OPERATIONS} - _done:
        assert seed < FIRST + 3 * LIVES, f"in no life: {missing}"
        _done.update(live(seed).did)
        seed += 1


def test_a_seed_gives_the_same_life_each_time() -> None:
    seeds = range(FIRST, FIRST + RANGE)
    lives, again = map(live, seeds), map(live, seeds)
    digests = []
    for one, other in zip(lives, again, strict=True):
        assert one.log == other.log
        assert one.digest == other.digest
        digests.append(one.digest)
    assert len(set(digests)) == len(seeds)


def test_a_seed_gives_the_same_life_in_another_process() -> None:
    """Nothing in it goes by the order of a set, or by an address."""
    command = [sys.executable, "-m", "tests.bench.bench_simulation"]
    environ = {**os.environ, "SEED": str(FIRST), "PYTHONHASHSEED": "7"}
    reported = subprocess.run(
        command, env=environ, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False
    )
    assert reported.stdout.splitlines()[:-1] == live(FIRST).log, reported.stderr


@pytest.mark.parametrize("name", MODES)
def test_a_day_on_a_disk_that_fails_at_some_call_ends_well(name: str) -> None:
    begin = 1 + list(MODES).index(name) * 3  # so that the modes do not all try the same calls
    calls = undecided = 0
    for call in range(begin, CALLS_MAX, SWEEP_STEP):
        try:
            if not live_a_day(MODES[name], call):
                break
        except UndecidedWrite:  # a disk that is broken for good leaves every outcome unknown
            undecided += 1
        calls += 1
    assert undecided <= (3 if name == "broken for good" else 0)
    assert calls > 3, "the disk hardly ever failed"


def test_a_disk_that_drops_what_it_says_it_wrote_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SimulatedDisk.append

    def forget(disk: SimulatedDisk, fd: int, data: bytes) -> None:
        append(disk, fd, data if disk.calls % 5 else b"\n")

    monkeypatch.setattr(SimulatedDisk, "append", forget)
    assert _failures(range(FIRST, FIRST + RANGE)) > 0


def test_a_database_whose_commits_do_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = SimulatedDisk.commit

    def forget(disk: SimulatedDisk, transaction: object) -> None:
        if disk.calls % 7:
            commit(disk, transaction)  # type: ignore[arg-type]
        else:
            transaction.abort()  # type: ignore[attr-defined]

    monkeypatch.setattr(SimulatedDisk, "commit", forget)
    assert _failures(range(FIRST, FIRST + RANGE)) > 0


def _failures(seeds: range) -> int:
    failed = 0
    for seed in seeds:
        try:
            live(seed)
        except LifeFailure:
            failed += 1
    return failed
